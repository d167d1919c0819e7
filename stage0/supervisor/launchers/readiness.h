/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* readiness.c: which apps of a pod are up. */

#include "stage0/supervisor/apps/app-table.h"

typedef struct Readiness Readiness;

/* CHANGED is called from EVENT's loop when the launcher of APP has gone: the app was executed, or not. */
int readiness_new(Pod *p, AppTable *apps, sd_event *event, void (*changed)(void *userdata, AppInstance *app),
                  void *userdata, Readiness **ret, Error *e);
Readiness *readiness_free(Readiness *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(Readiness *, readiness_free);
/* An app that is added, or removed, while the pod runs. The start of the pod does not wait for it. */
int readiness_add_app(Readiness *r, AppInstance *app);
void readiness_remove_app(AppInstance *app);
/* The launcher of APP at the other end of FD, which is lent, has everything it needs to execute the app. */
void readiness_launched(Readiness *r, AppInstance *app, int fd);
/* Checks now whether the launcher of APP has closed its connection. */
void readiness_settle(AppInstance *app);
/* A launcher, at the other end of SOCK, waits until APP is executed: then ANSWER is called with a copy of SOCK, which is
 * closed if that fails. */
int readiness_await_exec(AppInstance *app, int sock, void (*answer)(int sock));
/* The launcher of APP has reported that the app is ready. */
void readiness_reported(AppInstance *app);
/* An execution of APP has ended. */
void readiness_ended(AppInstance *app);
/* The unit of APP is down, and systemd does not restart it. */
void readiness_down(AppInstance *app);
/* Whether any app reports readiness, or has a health check that does. */
bool readiness_is_used(const Readiness *r);
/* Whether the pod still waits for one of those. */
bool readiness_awaits_reports(const Readiness *r);
/* Whether the pod is up: every app that starts with it is ready, or has failed and the pod goes on without
 * it. */
bool readiness_is_settled(const Readiness *r);
/* Whether every app that starts with the pod has become ready. */
bool readiness_is_complete(const Readiness *r);
/* Which apps are not ready, and why, in one line; "" if all are. */
int readiness_describe(Readiness *r, char **ret);
/* "2 of 3 apps are ready" */
int readiness_summary(const Readiness *r, char **ret);
