/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/supervisor/: runs a pod: run_pod() starts the supervisor and is its client; supervise() is the supervisor. */

#include <sys/stat.h>

#include "stage0/control/control.h"

/* --- Sockets that were passed to us (sockets-passed.c; sd_listen_fds(3)) ------------------------------- */

typedef struct PassedSocket {
        int fd;
        int number;    /* the number it was passed by; -1: opened by the supervisor */
        char *name;    /* or NULL or empty */
        int type;      /* SOCK_STREAM and so on */
        bool udp;      /* a datagram socket, also if it is a unix socket */
        uint16_t port; /* 0: a unix socket */
        char *listen;  /* its address in the form of socket units */
        ino_t inode;
        const char *exposed; /* why an app could use it for more than its peers; NULL: it cannot */
} PassedSocket;

typedef struct PassedSockets {
        PassedSocket *items;
        size_t n;
        pid_t foreign_pid; /* LISTEN_PID, if it is another process than the one that takes them, */
        pid_t pid;         /* which is this one */
} PassedSockets;

void passed_sockets_done(PassedSockets *l);
#define _cleanup_passed_sockets_ _cleanup_(passed_sockets_done)
/* Takes over the sockets of LISTEN_FDS and its like, and removes those variables from the environment. To be
 * called before anything else is executed. -EINVAL, -E2BIG, -EBADF, -ENOTSOCK and so on, with the
 * descriptor: it cannot be used by a pod. */
int passed_sockets_take(PassedSockets *ret, Error *e);

/* --- Running a prepared pod (run.c) -------------------------------------------------------------------- */

/* Whether the pod is registered with systemd-machined. */
typedef enum RegisterMode {
        REGISTER_AUTO, /* if possible; a refusal is a warning */
        REGISTER_NO,
        REGISTER_YES, /* the pod does not run without it */
} RegisterMode;

const char *register_mode_to_string(RegisterMode m);
int register_mode_from_string(const char *s); /* "auto", "no", "yes"; -EINVAL */

typedef struct RunOptions {
        PassedSockets *sockets; /* NULL: none; they are taken from it */
        bool detach;
        bool remove;    /* remove the pod once it has ended, if the caller has gone by then */
        bool quiet;     /* do not show the apps' output */
        bool raw;       /* show it as it is, also on a terminal */
        bool strict;    /* refuse to run unless all isolators are enforced */
        bool keep_unit; /* stay in the unit of the host that we were started in, without a scope */
        RegisterMode registration;
        uint64_t ready_timeout_usec; /* the pod is stopped unless it is ready by then; UINT64_MAX: never */
        uint64_t start_wait_usec;    /* detached: how long the caller waits until the apps are executed */
        const char *const *config_dirs; /* as in PrepareOptions */
        DetachKeys detach_keys;         /* in the foreground, on the terminal of an app */
} RunOptions;

/* In the foreground returns when the pod has ended, with the pod's exit status (0…255), or when the user has
 * typed the detach keys (*RET_DETACHED is true then) and the pod goes on. Detached, returns 0 once the pod
 * is up: every app that starts with it was executed, and is ready where it reports that; the supervisor is a
 * separate process. If the pod ends before, returns its exit status, and E says why. -EINTR: a signal came
 * while we waited, and the pod goes on; -ETIMEDOUT: it was not up in time, and goes on. */
int run_pod(Pod *p, const RunOptions *o, bool *ret_detached, Error *e);

/* --- The supervisor, but for its command line (supervise.c) -------------------------------------------- */

/* Runs the prepared pod that REFERENCE names, of the store at DIR, until it has ended. REQUEST_FD has what
 * run_pod() asks for; the client is told how the pod ended, and *RET_TOLD is true. -EBADF: there is no client,
 * and OPTIONS says how the pod is run, in the foreground. Returns its exit status (0…255). */
int supervise(const char *dir, const char *reference, int request_fd, const RunOptions *options,
              Operation *operation, bool *ret_told, Error *e);
