/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the process that runs a pod is made of. */

#include <signal.h>

#include "library/libsystemd.h"
#include "metadata/metadata.h"
#include "stage0/report/report.h"
#include "stage0/run/run.h"
#include "stage1/launch-protocol.h"

/* --- names.c: /etc/hostname, /etc/hosts and /etc/resolv.conf of apps ------------------------------------ */

typedef enum NameFile { NAME_HOSTNAME, NAME_HOSTS, NAME_RESOLV_CONF, _NAME_FILE_MAX } NameFile;

const char *name_file_path(NameFile f); /* "/etc/hosts" */

typedef struct NameFiles {
        char *text[_NAME_FILE_MAX];  /* NULL: none is made */
        bool asked[_NAME_FILE_MAX]; /* by the user: it takes the place of what an image brings */
} NameFiles;

void name_files_done(NameFiles *f);
/* For a pod whose networks are up; in the host's mounts. */
int name_files_make(Pod *p, NameFiles *ret, Error *e);
/* Pure. What a resolver file says; of its servers with REACHABLE only those that are not the host's own loopback
 * and that can be meant from elsewhere. Lines that are not understood are passed over. */
int resolv_conf_parse(const char *text, bool reachable, NetworkDns *ret);
/* Pure. NULL: there is nothing to say. */
int resolv_conf_format(const NetworkDns *d, char **ret);

/* --- mounts.c: roots and volumes of apps as mounts of stage0's own namespace --------------------------- */

typedef struct PodMounts PodMounts;

/* The caller must have a mount namespace of its own by then. */
int pod_mounts_new(Pod *p, PodMounts **ret, Error *e);
PodMounts *pod_mounts_free(PodMounts *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodMounts *, pod_mounts_free);
/* What is to be in the files of names of the apps whose overlays are made from now on; without it, nothing. The
 * pod's networks are up. */
int pod_mounts_make_names(PodMounts *m, Error *e);
/* Makes the overlay of APP, if it is not there yet; with FRESH one that nothing was written to. */
int pod_mounts_prepare_app(PodMounts *m, const PodApp *app, bool fresh, Error *e);
/* Detached mounts for one process of APP, in the order of the launch protocol after LAUNCH_FD_FILE. */
int pod_mounts_clone_app(PodMounts *m, const PodApp *app, int *ret_fds, size_t *ret_n, Error *e);
/* A mount namespace of our own into which the host's mounts and unmounts still come, but from which none
 * goes out. */
int mount_namespace_unshare(Error *e);

/* --- nspawn.c: starting systemd-nspawn ----------------------------------------------------------------- */

typedef struct Nspawn {
        pid_t pid;
        int pid_fd;
        int output_fd; /* what it prints, and what the pod's console shows */
        int go_fd;     /* until nspawn_go() */
} Nspawn;

#define NSPAWN_NULL ((Nspawn){.pid_fd = -EBADF, .output_fd = -EBADF, .go_fd = -EBADF})
/* The pod's PID 1, by our numbers; 0 if it is not there (yet, or any more). */
pid_t nspawn_leader(const Nspawn *n);

/* NOTIFY_ADDRESS is the value of NOTIFY_SOCKET for it. The process holds the pod's lock, and dies with the
 * caller. It waits for nspawn_go(), without which it ends. */
int nspawn_start(Pod *p, const char *notify_address, Nspawn *ret, Error *e);
int nspawn_go(Nspawn *n, Error *e);
void nspawn_done(Nspawn *n);

/* --- supervisor.c -------------------------------------------------------------------------------------- */

/* Starts the pod (already in the state running) and stays with it until it has ended. READY_FD gets one byte
 * once the pod is up, or is closed; -EBADF: nobody waits. Returns the pod's exit status. */
int supervise_pod(Pod *p, const RunOptions *o, int ready_fd, Error *e);
