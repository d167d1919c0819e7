/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* admission.c: which process of the pod may have what belongs to an app, and how often. */

#include "stage0/run/app-table.h"

typedef struct Admission Admission;

int admission_new(Pod *p, AppTable *apps, Admission **ret, Error *e);
Admission *admission_free(Admission *a); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(Admission *, admission_free);

/* An app that is added, or removed, while the pod runs. */
int admission_add_app(AppInstance *app);
void admission_remove_app(AppInstance *app);

/* Whether PID, the process that PID_FD stands for, may ask for PHASE of APP now. If so, and if that is given
 * out only once in an execution, it counts as given out. -EPERM: the process is not a launcher of that app;
 * -EALREADY: it has been given out. */
int admission_check(Admission *a, AppInstance *app, LaunchPhase phase, pid_t pid, int pid_fd, Error *e);
/* The execution of APP is over: the next one may begin. */
void admission_end(AppInstance *app);
/* The main process of the app, by a descriptor that is lent, and its number; -ESRCH: none is alive. */
int admission_main_process(const AppInstance *app, pid_t *ret_pid);
/* Whether PID, which is in an app's cgroup, can be its main process. -EPERM: it is a launcher. */
int admission_may_be_main_process(Admission *a, pid_t pid);
/* The main process of APP, which runs, is from now on PID, that of PID_FD. */
int admission_set_main_process(AppInstance *app, pid_t pid, int pid_fd);
