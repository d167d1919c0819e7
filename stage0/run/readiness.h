/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* readiness.c: which apps of a pod are up. */

#include "stage0/run/app-table.h"

typedef struct Readiness Readiness;

/* CHANGED is called from EVENT's loop when the launcher of APP has gone: the app was executed, or not. */
int readiness_new(Pod *p, AppTable *apps, sd_event *event, void (*changed)(void *userdata, AppInstance *app),
                  void *userdata, Readiness **ret, Error *e);
Readiness *readiness_free(Readiness *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(Readiness *, readiness_free);
/* An app that is added, or removed, while the pod runs. The start of the pod does not wait for it. */
int readiness_add_app(Readiness *r, AppInstance *app);
void readiness_remove_app(AppInstance *app);
/* The launcher of APP at the other end of FD, which is lent, has all it needs to execute the app. */
void readiness_launched(Readiness *r, AppInstance *app, int fd);
/* WHAT a launcher says of APP: LAUNCH_READY and so on, or LAUNCH_FLUSH: its processes have ended. */
void readiness_told(Readiness *r, AppInstance *app, LaunchPhase what);
/* Whether any app says when it is ready, or has a health check that does. */
bool readiness_is_used(const Readiness *r);
/* Whether the pod still waits for one of those. */
bool readiness_waits_for_word(const Readiness *r);
/* Whether the pod is up: every app that starts with it is ready, or has failed and the pod goes on without
 * it. */
bool readiness_is_settled(const Readiness *r);
/* Whether every app that starts with the pod has become ready. */
bool readiness_is_complete(const Readiness *r);
/* Which apps are not ready, and why, in one line; "" if all are. */
int readiness_describe(Readiness *r, char **ret);
/* "2 of 3 apps are ready" */
int readiness_summary(const Readiness *r, char **ret);
