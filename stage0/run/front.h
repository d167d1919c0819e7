/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* front.c: the process that our caller sees while a pod runs in the foreground, and what it shares with the
 * one that runs the pod. */

#include "stage0/run/inputs.h"

typedef struct Front {
        const char *app; /* what our standard input goes to; NULL: nothing */
        AppInput kind;
        int in_fd, socket; /* for inputs_add_front() */
        int report_fd;     /* where it is told how the pod has ended; -EBADF once the caller has left */
} Front;

/* report.c: what a process tells the one that started it to run a pod. */
/* Runs the pod and ends. FRONT may be NULL; READY_FD as supervise_pod() has it. */
_noreturn_ void report_run(Pod *p, const RunOptions *o, PodSockets *sockets, int ready_fd, int report_fd,
                           Front *front);
/* Waits for that. 1: the pod is up (or goes on without us); 0: *RET is its exit status. -ECHILD: no report
 * came. */
int report_read(Pod *p, int fd, int *ret_status, Error *e);

/* Whether there has to be such a process at all: somebody can stop us by a terminal, or an app reads what
 * we read. */
bool front_is_needed(Pod *p);
/* As run_pod(). */
int front_run(Pod *p, const RunOptions *o, PodSockets *sockets, bool *ret_left, Error *e);
