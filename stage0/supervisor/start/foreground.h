/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What `acnspawn run` and the supervisor that it starts share. */

#include "stage0/supervisor/streams/inputs.h"

/* --- The supervisor's side of its client --------------------------------------------------------------- */

typedef struct ForegroundProxy {
        char *app; /* the peer of the client's standard input; NULL: none */
        AppInput kind;
        int in_fd, socket; /* for inputs_add_front() */
        int report_fd;     /* for the report of the pod's end; -EBADF: there is no client (any more) */
} ForegroundProxy;

#define FOREGROUND_PROXY_NULL ((ForegroundProxy){.in_fd = -EBADF, .socket = -EBADF, .report_fd = -EBADF})
void foreground_done(ForegroundProxy *f);

/* --- run-request.c: the request of a client to its supervisor ------------------------------------------ */

#define RUN_REQUEST_VERSION 1U
#define RUN_REQUEST_SIZE_MAX (1024U * 1024U)

typedef struct RunRequest {
        RunOptions options; /* without its pointer members; SOCKETS are those below */
        PassedSockets sockets;
        LogLevel log_level;
        bool by_uuid; /* the user named the pod by its UUID, so messages do */
        pid_t client; /* 0: there is none */
        int pod_fd;   /* the pod directory, which carries the lock; -EBADF: the pod is not locked yet */
        ForegroundProxy front;
} RunRequest;

#define RUN_REQUEST_NULL                                                                                    \
        ((RunRequest){.options = {.ready_timeout_usec = UINT64_MAX, .start_wait_usec = UINT64_MAX},         \
                      .log_level = LOG_LEVEL_INFO,                                                          \
                      .pod_fd = -EBADF,                                                                     \
                      .front = FOREGROUND_PROXY_NULL})
void run_request_done(RunRequest *q);
/* Pure. The request as JSON; descriptors are numbers as the supervisor will have them. */
int run_request_format(const RunRequest *q, char **ret);
/* The descriptors in *RET are open, close on exec, and RET's. -EPROTONOSUPPORT: the version, or an option,
 * is not known; -EINVAL, -EBADMSG, -EBADF: it is not a request, or not a sound one. */
int run_request_parse(const char *text, size_t size, RunRequest *ret, Error *e);

/* --- spawn.c ------------------------------------------------------------------------------------------- */

/* Starts the supervisor of P for the client, which is this process. Descriptors of FRONT, the sockets of O,
 * and the lock of P, if it is held already, are moved to the supervisor. */
int supervisor_spawn(Pod *p, const RunOptions *o, ForegroundProxy *front, pid_t *ret_pid, Error *e);

/* --- report.c: the supervisor's report to its client --------------------------------------------------- */

/* At the end: R is the pod's exit status, or negative with the reason in E. With the exit status E may say
 * why the pod was not up. */
int report_end(int fd, int r, const Error *e);
/* Waits for that. 1: the pod is up (or continues without this process); 0: *RET is its exit status. -ECHILD,
 * without an error: no report came. */
int report_read(Pod *p, int fd, int *ret_status, Error *e);
/* The error for a supervisor PID that has ended without a report: -ECHILD. *RET_SIGNAL, which may be NULL,
 * is the signal that killed it, or 0. */
int report_silence(Pod *p, pid_t pid, int *ret_signal, Error *e);

/* --- foreground.c -------------------------------------------------------------------------------------- */

/* As run_pod(), in the foreground. */
int foreground_run(Pod *p, const RunOptions *o, bool *ret_detached, Error *e);
