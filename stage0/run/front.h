/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What `acnspawn run` and the supervisor that it starts share. */

#include "stage0/run/inputs.h"

/* --- What the supervisor has of its client ------------------------------------------------------------- */

typedef struct Front {
        char *app; /* what the client's standard input goes to; NULL: nothing */
        AppInput kind;
        int in_fd, socket; /* for inputs_add_front() */
        int report_fd; /* where the client is told how the pod has ended; -EBADF: there is no client (any more) */
} Front;

#define FRONT_NULL ((Front){.in_fd = -EBADF, .socket = -EBADF, .report_fd = -EBADF})
void front_done(Front *f);

/* --- run-request.c: what a client asks of a supervisor ------------------------------------------------- */

#define RUN_REQUEST_VERSION 1U
#define RUN_REQUEST_SIZE_MAX (1024U * 1024U)

typedef struct RunRequest {
        RunOptions options; /* without what is a pointer in it; SOCKETS are those below */
        PassedSockets sockets;
        LogLevel log_level;
        bool by_uuid; /* the user knows the pod by its UUID: so do messages */
        pid_t client; /* 0: there is none */
        int pod_fd;   /* the pod directory, which carries the lock; -EBADF: the pod is not locked yet */
        Front front;
} RunRequest;

#define RUN_REQUEST_NULL                                                                                    \
        ((RunRequest){.options = {.ready_timeout_usec = UINT64_MAX, .start_wait_usec = UINT64_MAX},         \
                      .log_level = LOG_LEVEL_INFO,                                                          \
                      .pod_fd = -EBADF,                                                                     \
                      .front = FRONT_NULL})
void run_request_done(RunRequest *q);
/* Pure. The request as JSON; descriptors are numbers as the supervisor will have them. */
int run_request_format(const RunRequest *q, char **ret);
/* The descriptors in *RET are open, close on exec, and RET's. -EPROTONOSUPPORT: the version, or an option,
 * is not known; -EINVAL, -EBADMSG, -EBADF: it is not a request, or not a sound one. */
int run_request_parse(const char *text, size_t size, RunRequest *ret, Error *e);

/* --- spawn.c ------------------------------------------------------------------------------------------- */

/* Starts the supervisor of P for the client that we are. It takes over, and this process loses, what is in
 * FRONT, the sockets of O, and the lock of P, if there is one yet. */
int supervisor_spawn(Pod *p, const RunOptions *o, Front *front, pid_t *ret_pid, Error *e);

/* --- report.c: what the supervisor tells its client ---------------------------------------------------- */

/* At the end: R is the pod's exit status, or negative with the reason in E. With the exit status E may say
 * why the pod was not up. */
int report_end(int fd, int r, const Error *e);
/* Waits for that. 1: the pod is up (or goes on without us); 0: *RET is its exit status. -ECHILD, without an
 * error: no report came. */
int report_read(Pod *p, int fd, int *ret_status, Error *e);
/* What is to be said then of the supervisor PID, which has ended: -ECHILD. *RET_SIGNAL, which may be NULL, is
 * what killed it, or 0. */
int report_silence(Pod *p, pid_t pid, int *ret_signal, Error *e);

/* --- front.c ------------------------------------------------------------------------------------------- */

/* As run_pod(), in the foreground. */
int front_run(Pod *p, const RunOptions *o, bool *ret_left, Error *e);
