/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the process that runs a pod is made of. */

#include <signal.h>

#include "library/libsystemd.h"
#include "metadata/metadata.h"
#include "stage0/report/report.h"
#include "stage0/run/run.h"
#include "stage1/launch-protocol.h"

/* --- names.c: /etc/hostname, /etc/hosts and /etc/resolv.conf of apps ----------------------------------- */

typedef enum NameFile { NAME_HOSTNAME, NAME_HOSTS, NAME_RESOLV_CONF, _NAME_FILE_MAX } NameFile;

const char *name_file_path(NameFile f); /* "/etc/hosts" */

typedef struct NameFiles {
        char *text[_NAME_FILE_MAX]; /* NULL: none is made */
        bool asked[_NAME_FILE_MAX]; /* by the user: it takes the place of what an image brings */
} NameFiles;

void name_files_done(NameFiles *f);
/* For a pod whose networks are up; in the host's mounts. */
int name_files_make(Pod *p, NameFiles *ret, Error *e);
/* Pure. What a resolver file says; of its servers with REACHABLE only those that are not the host's own
 * loopback and that can be meant from elsewhere. Lines that are not understood are passed over. */
int resolv_conf_parse(const char *text, bool reachable, NetworkDns *ret);
/* Pure. NULL: there is nothing to say. */
int resolv_conf_format(const NetworkDns *d, char **ret);

/* --- mounts.c: roots and volumes of apps as mounts of stage0's own namespace --------------------------- */

typedef struct PodMounts PodMounts;

/* The caller must have a mount namespace of its own by then. */
int pod_mounts_new(Pod *p, PodMounts **ret, Error *e);
/* What processes of apps need besides: /dev, and credentials. These are only here from then on, and not in
 * the pod directory any more: for who runs the pod alone, not for who looks at its files. */
int pod_mounts_equip(PodMounts *m, Error *e);
PodMounts *pod_mounts_free(PodMounts *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodMounts *, pod_mounts_free);
/* What is to be in the files of names of the apps whose overlays are made from now on; without it, nothing.
 * The pod's networks are up. */
int pod_mounts_make_names(PodMounts *m, Error *e);
/* Makes the overlay of APP, if it is not there yet; with FRESH one that nothing was written to. */
int pod_mounts_prepare_app(PodMounts *m, const PodApp *app, bool fresh, Error *e);
#define RETIRED_UPPER "upper.old"
/* Puts aside what the last execution of APP has written: RETIRED_UPPER in the directory of which a
 * descriptor is returned. -ENOENT: there is nothing to put aside, or it is done when the next one gets its
 * root. Until then the app has none. */
int pod_mounts_retire_app(PodMounts *m, const PodApp *app);
/* Takes over what APP alone needs, which was added while the pod runs: its credentials, and (NOTIFY) a place for the
 * socket by which it tells that it is ready. */
int pod_mounts_take_app(PodMounts *m, const PodApp *app, bool notify, Error *e);
/* Unmounts all that is mounted for the app of that name alone, which has no process any more. */
void pod_mounts_remove_app(PodMounts *m, const char *name);
/* Detached mounts for one process of APP, in the order of the launch protocol from LAUNCH_FD_ROOT on. */
int pod_mounts_clone_app(PodMounts *m, const PodApp *app, int *ret_fds, size_t *ret_n, bool *ret_credentials,
                         Error *e);
/* mounts-dev.c: the null device in the /dev of apps. */
int pod_mounts_open_null(const PodMounts *m);
/* mounts-notify.c: a new socket, bound where only APP is to send to it. */
int pod_mounts_open_notify(PodMounts *m, const PodApp *app);
/* A detached mount of the file that it is bound to. */
int pod_mounts_clone_notify(PodMounts *m, const PodApp *app);
/* A mount namespace of our own into which the host's mounts and unmounts still come, but from which none
 * goes out. */
int mount_namespace_unshare(Error *e);

/* --- sockets-passed.c ---------------------------------------------------------------------------------- */

void passed_socket_done(PassedSocket *s);
/* Fills in what the socket itself knows. The error says what is wrong with "it". */
int socket_describe(PassedSocket *s, Error *e);

/* --- sockets-assign.c: which socket is for which port -------------------------------------------------- */

typedef struct PodSockets PodSockets;

/* Assigns the sockets of PASSED, which it takes, to ports of the pod. *RET is NULL if there is nothing to
 * do. -EADDRNOTAVAIL, -ENOTUNIQ, -EADDRINUSE, -EPROTOTYPE, naming socket and port: they do not fit. */
int pod_sockets_new(const Pod *p, PassedSockets *passed, PodSockets **ret, Error *e);
PodSockets *pod_sockets_free(PodSockets *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodSockets *, pod_sockets_free);
/* What sockets.c needs to know. */
typedef struct SocketTarget {
        const PodApp *app;
        const Port *port; /* one that starts the app */
        size_t n;         /* sockets for it */
} SocketTarget;

struct PodSockets {
        SocketTarget *targets;
        size_t n_targets;
        PassedSocket *items;
        size_t *target_of; /* for each item */
        size_t n, allocated, allocated_targets_of;
};

/* Takes X, for the port TARGET. */
int pod_sockets_add(PodSockets *s, PassedSocket *x, size_t target);
/* Where the port is exposed: at the number of X, or (NULL) at any. NULL: it is not. */
const ExposedPort *socket_find_exposure(const PodManifest *m, const SocketTarget *t, const PassedSocket *x);
/* "3 (tcp 127.0.0.1:80, named 'web')" */
const char *socket_show(const PassedSocket *x, char buffer[static 512]);

/* --- sockets.c: the sockets by which apps of the pod are started --------------------------------------- */

/* The ports of the host that those sockets serve. *RET is to be freed. */
int pod_sockets_served(const PodSockets *s, ServedPort **ret, size_t *ret_n);
/* Makes those that nobody has passed, in the pod's network, if that is there already. */
int pod_sockets_open(const Pod *p, PodSockets *s, Error *e);
/* Tells the pod's systemd, which is not started yet, where they listen. */
int pod_sockets_write_units(const Pod *p, const PodSockets *s, Error *e);
/* Writes down which of the sockets that were passed serves which port, for "status". */
int pod_sockets_record(Pod *p, const PodSockets *s, Error *e);
size_t pod_sockets_count(const PodSockets *s); /* S may be NULL */
/* Makes them the descriptors from FIRST on, without O_CLOEXEC; whatever has those numbers is closed. */
int pod_sockets_place(const PodSockets *s, int first);
void pod_sockets_close(PodSockets *s);
/* -EADDRNOTAVAIL unless process LEADER has them all. */
int pod_sockets_check(const PodSockets *s, pid_t leader, Error *e);

/* --- idle.c -------------------------------------------------------------------------------------------- */

typedef struct IdleWatch IdleWatch;

/* *RET is NULL if the pod is to stay up. IDLE is called when its apps have done nothing for the time that
 * its configuration says. */
int idle_watch_new(Pod *p, sd_event *event, void (*idle)(void *userdata), void *userdata, IdleWatch **ret,
                   Error *e);
IdleWatch *idle_watch_free(IdleWatch *w);
DEFINE_TRIVIAL_CLEANUP_FUNC(IdleWatch *, idle_watch_free);
/* Something happens in the pod: the time begins (anew). USERDATA is an IdleWatch, or NULL. */
void idle_watch_begin(void *userdata);

/* --- host-files.c: the programs of the pod ------------------------------------------------------------- */

/* Mounts the files of the host's systemd and the launcher below ROOT_FD, the root of P, in the caller's
 * mount namespace. *RET_STUB is the stub of libcrypto if NSPAWN_PROGRAM can do with it, or NULL. */
int pod_bind_host_files(const Pod *p, int root_fd, char **ret_stub, Error *e);

/* --- nspawn.c: starting systemd-nspawn ----------------------------------------------------------------- */

#define NSPAWN_PROGRAM "/usr/bin/systemd-nspawn"

typedef struct Nspawn {
        pid_t pid;
        int pid_fd;
        int output_fd; /* what it prints, and what the pod's console shows */
        int go_fd;     /* until nspawn_go() */
} Nspawn;

#define NSPAWN_NULL ((Nspawn){.pid_fd = -EBADF, .output_fd = -EBADF, .go_fd = -EBADF})
/* The pod's PID 1, by our numbers; 0 if it is not there (yet, or any more). */
pid_t nspawn_leader(const Nspawn *n);

/* It reports to the socket of notify_listen(). The process holds the pod's lock, and dies with the caller.
 * It waits for nspawn_go(), without which it ends. SOCKETS, which may be NULL, are passed to the pod's PID
 * 1. */
int nspawn_start(Pod *p, const PodSockets *sockets, Nspawn *ret, Error *e);
int nspawn_go(Nspawn *n, Error *e);
void nspawn_done(Nspawn *n);

/* --- report.c ------------------------------------------------------------------------------------------ */

/* Tells the process that waits at the other end of FD that the pod is up, but for what TEXT says. */
int report_warning(int fd, const char *text);
/* Tells it the error, whatever becomes of the pod. */
int report_error(int fd, const Error *e);

/* --- supervisor-caller.c ------------------------------------------------------------------------------- */

/* No signal is blocked any more. Those that are pending were for the pod, and are forgotten. */
void signals_release(void);

/* --- supervisor.c -------------------------------------------------------------------------------------- */

struct Front;

/* Starts the pod (already in the state running) and stays with it until it has ended. READY_FD gets one byte
 * once the pod is up, or is closed; -EBADF: nobody waits. SOCKETS may be NULL; their descriptors are closed
 * as soon as the pod has them. FRONT: we are the child of the process that our caller sees, or NULL. Returns
 * the pod's exit status. */
int supervise_pod(Pod *p, const RunOptions *o, PodSockets *sockets, int ready_fd, struct Front *front,
                  Error *e);
