/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of exec*.c share. */

#include "stage0/control/control.h"
#include "stage0/supervisor/exec/exec.h"
#include "stage1/enter-protocol.h"
#include "stage1/launch-config.h"

/* --- exec-launcher.c ----------------------------------------------------------------------------------- */

/* Opens the launcher that is installed now: after an upgrade it may not fit this program. */
int launcher_open(int *ret_fd, Error *e);
/* A sealed copy in memory, which can only be executed. */
int launcher_copy(int source, int *ret_fd);
/* Starts "launch enter" from it. *RET_SOCKET is the other end of its ENTER_SOCKET. It is killed when this
 * process ends. */
int launcher_start(int program, pid_t *ret_pid, int *ret_socket);

/* --- exec-cgroup.c ------------------------------------------------------------------------------------- */

typedef struct ExecCgroup {
        int app_fd; /* cgroup of the app, in the v2 hierarchy */
        int fd;     /* the one in it */
        char name[32];
} ExecCgroup;

#define EXEC_CGROUP_NULL ((ExecCgroup){.app_fd = -EBADF, .fd = -EBADF})
/* Makes a cgroup for command ID below that of the app. -ESRCH: the app has just ended. */
int exec_cgroup_make(Pod *p, const char *app, uint64_t id, ExecCgroup *ret);
/* Kills all processes in it. */
int exec_cgroup_kill(const ExecCgroup *c);
/* Removes it; with MOVE its processes go to the app's cgroup. -EBUSY: there are processes. */
int exec_cgroup_remove(const ExecCgroup *c, bool move);
void exec_cgroup_done(ExecCgroup *c);

/* --- exec-request.c ------------------------------------------------------------------------------------ */

/* Makes the launch file of an app that of a command. */
int exec_change_config(LaunchConfig *c, const ExecOptions *o);
/* The request for the launcher, but for the process of the app, and its launch file. */
int exec_make_request(Pod *p, const PodApp *app, const ExecOptions *o, EnterRequest *ret, int *ret_file_fd,
                      Error *e);
