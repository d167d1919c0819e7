/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* notices.c: keeps the notification socket of each app (sd_notify(3)), and reads it. */

#include "stage0/supervisor/launchers/admission.h"

typedef struct Notices Notices;

/* ADMISSION is lent: it knows the apps' main processes. */
int notices_new(Pod *p, AppTable *apps, sd_event *event, Admission *admission, Notices **ret, Error *e);
Notices *notices_free(Notices *n); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(Notices *, notices_free);
/* An app that is added, or removed, while the pod runs. */
int notices_add_app(Notices *n, AppInstance *app);
void notices_remove_app(AppInstance *app);
/* The pod's PID 1, to which status texts are passed on. */
void notices_set_leader(Notices *n, pid_t leader);

/* An execution of APP begins: earlier messages do not count. 1: *RET_FD is a detached mount of the app's
 * socket; 0: it has none. */
int notices_begin(PodMounts *m, AppInstance *app, int *ret_fd, Error *e);
/* The execution is over. */
void notices_end(AppInstance *app);
/* Gives APP, and the apps nested under it, USEC from now to stop, even if their units allow less. */
void notices_extend_stop(AppInstance *app, uint64_t usec);
/* A launcher of APP begins with PHASE: the time-out of its unit begins anew. */
void notices_begin_phase(AppInstance *app, LaunchPhase phase);
/* The pod's systemd reports what the unit of APP does. */
void notices_set_activity(AppInstance *app, UnitLife life, UnitActivity activity);
/* The processes of the pod are frozen, or continue: apps and their handlers have the time after that which they had left. */
void notices_set_frozen(Notices *n, bool frozen);
/* The pod's systemd may be executing itself again: units that are up keep the time-outs that they have by extensions. */
void notices_extend_again(Notices *n);
/* True if APP has reported in this execution that it is ready. Reads the messages that it has sent so far. */
bool notices_is_ready(AppInstance *app);
/* A launcher, at the other end of SOCK, asks whether APP has reported that it is ready. 1: it has. 0: it has
 * not; with WAIT, ANSWER is called with a copy of SOCK once it has. */
int notices_await(AppInstance *app, int sock, bool wait, void (*answer)(int sock));
