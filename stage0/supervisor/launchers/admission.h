/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* admission.c: decides whether a process is a launcher of an app, and may have the app's files now. */

#include "stage0/supervisor/apps/app-table.h"

typedef struct Admission Admission;

int admission_new(Pod *p, AppTable *apps, sd_event *event, Admission **ret, Error *e);
Admission *admission_free(Admission *a); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(Admission *, admission_free);

/* An app that is added, or removed, while the pod runs. */
int admission_add_app(AppInstance *app);
void admission_remove_app(AppInstance *app);

/* Whether PID, the process that PID_FD stands for, is a launcher of APP: else -EPERM. */
int admission_check_process(Admission *a, AppInstance *app, pid_t pid, int pid_fd, Error *e);
/* Whether that process may have what belongs to APP for PHASE now. If so, and if that is given out only once in an
 * execution, it counts as given out; else -EALREADY. */
int admission_check_phase(Admission *a, AppInstance *app, LaunchPhase phase, pid_t pid, int pid_fd,
                          Error *e);
/* That process, which is a launcher, waits before APP is started again. */
int admission_begin_delay(AppInstance *app, pid_t pid, int pid_fd);
/* The execution of APP is over: the next one may begin. */
void admission_end(AppInstance *app);
/* The main process of the app, by a descriptor that is lent, and its number; -ESRCH: none is alive. */
int admission_main_process(const AppInstance *app, pid_t *ret_pid);
/* The number of the process that systemd waits for: the main process, the launcher that waits before a restart, or that of a handler,
 * which is the parent of the process that becomes it. -ESRCH: none is alive. */
int admission_awaited_process(const AppInstance *app, pid_t *ret_pid);
/* True if the last launcher of APP runs its post-stop handler. */
bool admission_runs_post_stop(const AppInstance *app);
/* Whether the process is alive that was given something last: the execution goes on. */
bool admission_process_is_alive(const AppInstance *app);
/* How that process has ended, as waitpid(2) has it, and when (realtime; 0: not noticed yet). -ESRCH: it has not, or it is
 * not known which it was; -EOPNOTSUPP: the kernel does not tell. */
int admission_wait_status(const AppInstance *app, int *ret, uint64_t *ret_usec);
/* Whether PID, which is in an app's cgroup, can be its main process. -EPERM: it is a launcher. */
int admission_may_be_main_process(Admission *a, pid_t pid);
/* The main process of APP, which runs, is from now on PID, that of PID_FD. */
int admission_set_main_process(Admission *a, AppInstance *app, pid_t pid, int pid_fd);
