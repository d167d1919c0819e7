/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Internal interfaces of the supervisor. */

#include <signal.h>

#include "library/libsystemd.h"
#include "metadata/metadata.h"
#include "stage0/mounts/mounts.h"
#include "stage0/report/report.h"
#include "stage0/supervisor/supervisor.h"
#include "stage1/launch-protocol.h"

/* --- sockets-passed.c ---------------------------------------------------------------------------------- */

void passed_socket_done(PassedSocket *s);
/* Fills in the properties of the socket. Errors refer to the socket as "it". */
int socket_describe(PassedSocket *s, Error *e);

/* --- sockets-assign.c: which socket is for which port -------------------------------------------------- */

typedef struct PodSockets PodSockets;

/* Assigns the sockets of PASSED, which it takes, to ports of the pod. *RET is NULL if there is nothing to
 * do. -EADDRNOTAVAIL, -ENOTUNIQ, -EADDRINUSE, -EPROTOTYPE, naming socket and port: they do not fit. */
int pod_sockets_new(const Pod *p, PassedSockets *passed, PodSockets **ret, Error *e);
/* The socket-activated ports of APP, none of which has a socket yet. */
int pod_sockets_new_app(const PodApp *app, PodSockets **ret);
PodSockets *pod_sockets_free(PodSockets *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodSockets *, pod_sockets_free);
/* The input of sockets.c. */
typedef struct SocketTarget {
        const PodApp *app;
        const Port *port; /* one that starts the app */
        size_t n;         /* the sockets that are assigned to it */
} SocketTarget;

struct PodSockets {
        SocketTarget *targets;
        size_t n_targets;
        PassedSocket *items;
        size_t *target_of; /* per item */
        size_t n, allocated, allocated_targets_of;
};

/* Assigns X to the port TARGET. */
int pod_sockets_add(PodSockets *s, PassedSocket *x, size_t target);
/* Where the port is exposed: at the number of X, or (NULL) at any. NULL: it is not. */
const ExposedPort *socket_find_exposure(const PodManifest *m, const SocketTarget *t, const PassedSocket *x);
/* "3 (tcp 127.0.0.1:80, named 'web')" */
const char *socket_show(const PassedSocket *x, char buffer[static 512]);

/* --- sockets.c: the sockets by which apps of the pod are started --------------------------------------- */

/* The ports of the host that those sockets serve. *RET is to be freed. */
int pod_sockets_served(const PodSockets *s, ServedPort **ret, size_t *ret_n);
/* Opens those that are missing, in the pod's network. LEADER is the pod's PID 1, which only a pod without networks
 * needs for that. OLD, which may be NULL, are the sockets of another version of the app: those that serve the same
 * are used. */
int pod_sockets_open(const Pod *p, pid_t leader, const PodSockets *old, PodSockets *s, Error *e);
/* Determines for passed sockets whether apps of P could use them for more than their peers, according to socket_filter_available()
 * and socket_filter_available_unix(), or errors that occurred later. Returns the number of those that they could. */
size_t pod_sockets_judge(const Pod *p, PodSockets *s, int filter, int unix_filter);
/* Refuses those. */
int pod_sockets_require_filter(const Pod *p, PodSockets *s, Error *e);
/* Adds the networks of passed sockets to LIST, which has N of SOCKET_FILTER_NETWORKS_MAX. -E2BIG: there are more. */
int pod_sockets_networks(const PodSockets *s, uint64_t *list, size_t *n);
/* Moves those for APP out of ALL. */
int pod_sockets_take_app(PodSockets *all, const PodApp *app, PodSockets **ret);
/* Adds to the list which passed socket serves which port. */
int pod_sockets_describe(const PodSockets *s, ServedSocket **list, size_t *n);

/* --- idle.c -------------------------------------------------------------------------------------------- */

typedef struct IdleWatch IdleWatch;

/* *RET is NULL if the pod is to stay up. IDLE is called when its apps have done nothing for the time that
 * its configuration says. */
struct AppTable;
int idle_watch_new(struct AppTable *apps, sd_event *event, void (*idle)(void *userdata), void *userdata,
                   IdleWatch **ret, Error *e);
IdleWatch *idle_watch_free(IdleWatch *w);
DEFINE_TRIVIAL_CLEANUP_FUNC(IdleWatch *, idle_watch_free);
/* Activity in the pod: restarts the timer. USERDATA is an IdleWatch, or NULL. */
void idle_watch_begin(void *userdata);

/* --- host-files.c: the programs of the pod ------------------------------------------------------------- */

/* Mounts the files of the host's systemd and the launcher below ROOT_FD, the root of P, in the caller's
 * mount namespace. *RET_STUB is the stub of libcrypto if NSPAWN_PROGRAM works with it, or NULL. */
int pod_bind_host_files(const Pod *p, int root_fd, char **ret_stub, Error *e);

/* --- nspawn.c: starting systemd-nspawn ----------------------------------------------------------------- */

#define NSPAWN_PROGRAM "/usr/bin/systemd-nspawn"

typedef struct Nspawn {
        pid_t pid;
        int pid_fd;
        int output_fd; /* its output and the pod's console */
        int go_fd;     /* until nspawn_go() */
} Nspawn;

#define NSPAWN_NULL ((Nspawn){.pid_fd = -EBADF, .output_fd = -EBADF, .go_fd = -EBADF})
/* The pod's PID 1, in our pid namespace; 0: it does not exist (yet, or any more). */
pid_t nspawn_leader(const Nspawn *n);

/* It reports to the socket of notify_listen(). The process holds the pod's lock, and dies with the caller.
 * It waits for nspawn_go(), without which it ends. */
int nspawn_start(Pod *p, Nspawn *ret, Error *e);
int nspawn_go(Nspawn *n, Error *e);
void nspawn_done(Nspawn *n);

/* --- report.c ------------------------------------------------------------------------------------------ */

/* Reports to the process at the other end of FD that the pod is up, with TEXT as a warning. */
int report_warning(int fd, const char *text);
/* Reports the error, whatever the state of the pod. */
int report_error(int fd, const Error *e);

/* --- supervisor-caller.c ------------------------------------------------------------------------------- */

/* Unblocks all signals. Pending ones were for the pod, and are dropped. */
void signals_release(void);

/* --- supervisor.c -------------------------------------------------------------------------------------- */

struct ForegroundProxy;

/* Starts the pod (already in the state running) and serves it until it has ended. READY_FD gets one byte
 * once the pod is up, or is closed; -EBADF: no caller waits. SOCKETS may be NULL; what is in them is taken over.
 * FRONT: the client in the foreground, which has started this process, or NULL. Returns the pod's exit status. */
int supervise_pod(Pod *p, const RunOptions *o, PodSockets *sockets, int ready_fd,
                  struct ForegroundProxy *front, Error *e);
