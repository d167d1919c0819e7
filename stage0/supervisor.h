/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The parts that together run a pod; shared by the sources of stage0/ and nobody else. */

#include <signal.h>
#include <systemd/sd-event.h>

#include "metadata/metadata.h"
#include "stage0/stage0.h"
#include "stage1/launch-protocol.h"

/* --- cgroup.c: a cgroup for the pod -------------------------------------------------------------------- */

/* Directories made for the pod, one per hierarchy; the list is kept in the pod directory, so that gc finds
 * them. */
typedef struct PodCgroup {
        char **paths;
        char *unified; /* the one of cgroup v2 among them */
} PodCgroup;

void pod_cgroup_done(PodCgroup *c);
/* Makes the directories for POD, records them before, and puts process PID, which has no other use for the
 * cgroup it is in, there. ALONG: on a host with systemd the caller leaves its own cgroup, too, and the end
 * of the session or unit that it was started from is not the pod's end. */
int pod_cgroup_create(Pod *p, pid_t pid, bool along, PodCgroup *ret, Error *e);
/* Kills whatever is in the recorded cgroups of POD and removes them. Nothing recorded: success. */
int pod_cgroup_remove(Pod *p, Error *e);
int pod_cgroup_kill(Pod *p, Error *e);
/* What POD really has, while it runs. -ENOENT: it has no cgroup. */
int pod_cgroup_features(Pod *p, HostFeatures *ret);

/* --- scope.c: where systemd is the host's init --------------------------------------------------------- */

/* Moves process PID into a new scope unit of its own, which is delegated to us. */
int pod_scope_start(const Pod *p, pid_t pid, Error *e);
/* Whatever is in it is killed. Success if there is none. Not for processes that are in it. */
int pod_scope_stop(const Pod *p, Error *e);

/* --- userns.c ------------------------------------------------------------------------------------------ */

/* A user namespace that maps 0…65535 to UID_BASE…, held by the descriptor: for id-mapped mounts. */
int userns_open(uint32_t uid_base, int *ret_fd, Error *e);

/* --- mounts.c: roots and volumes of apps as mounts of stage0's own namespace --------------------------- */

typedef struct PodMounts PodMounts;

/* The caller must have a mount namespace of its own by then. */
int pod_mounts_new(Pod *p, PodMounts **ret, Error *e);
PodMounts *pod_mounts_free(PodMounts *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodMounts *, pod_mounts_free);
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
/* The name by which nspawn knows the pod; also its host name, if none was asked for. */
int pod_machine_name(const Pod *p, char **ret);
int pod_hostname(const Pod *p, char **ret);

/* --- programs.c ---------------------------------------------------------------------------------------- */

/* Where one of our own helper programs is: in $ACNSPAWN_LIBEXECDIR if that is set; else beside us in the
 * build tree, or where it was installed. */
int helper_program_path(const char *name, char **ret, Error *e);

/* --- runtime.c: what is known of a running pod, kept in its directory ---------------------------------- */

typedef struct PodRuntime {
        pid_t supervisor, nspawn, leader;
        uint64_t started_usec;
} PodRuntime;

int pod_runtime_write(Pod *p, const PodRuntime *r);
int pod_runtime_read(Pod *p, PodRuntime *ret); /* -ENOENT */

typedef struct PodResult {
        int exit_status;
        uint64_t started_usec, ended_usec;
} PodResult;

int pod_result_write(Pod *p, const PodResult *r);
int pod_result_read(Pod *p, PodResult *ret); /* -ENOENT */

/* --- app-statuses.c: records of all apps --------------------------------------------------------------- */

/* The record of every app of the pod, in the order of the manifest. With ENDED, what an app could not record
 * itself is filled in: the pod is over. *RET is an array of p->manifest->n_apps. */
int pod_read_statuses(Pod *p, bool ended, AppStatus **ret);
void app_statuses_free(AppStatus *l, size_t n);
/* The same for records that were read before the pod was over; what is filled in is recorded, too. */
int pod_finish_statuses(Pod *p, AppStatus *l);
/* The pod's exit status: that of the app whose end decided about the pod's, 0 if all ended well. */
int pod_exit_status(ExitPolicy policy, const AppStatus *l, size_t n);

/* --- journal.c: what apps wrote ------------------------------------------------------------------------ */

typedef struct JournalReader JournalReader;
typedef struct JournalLine {
        const char *app;
        const char *data;
        size_t size;
        bool error;   /* came from standard error */
        char end[1];  /* what it ended with: a newline or NUL */
        bool partial; /* it did not end: there is no END */
        uint64_t time_usec;
} JournalLine;

int journal_reader_new(Pod *p, JournalReader **ret, Error *e);
JournalReader *journal_reader_free(JournalReader *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(JournalReader *, journal_reader_free);
/* Only lines of this app; NULL: of all. */
int journal_reader_set_app(JournalReader *r, const char *app);
/* Moves so that at most N lines are left to be read. */
int journal_reader_skip_to_last(JournalReader *r, uint64_t n);
int journal_reader_fd(JournalReader *r);
/* To be called when the descriptor is readable. */
int journal_reader_process(JournalReader *r);
/* The next line, valid until the next call. 1: there is one, 0: not now. */
int journal_reader_next(JournalReader *r, JournalLine *ret);

/* output.c: lines to standard output and standard error. */
typedef struct OutputOptions {
        bool prefix, json;
} OutputOptions;
/* What is to be printed of a line. */
int output_format(const JournalLine *l, const OutputOptions *o, Text *t);
int output_line(const JournalLine *l, const OutputOptions *o);
/* Prints everything that can be read now. */
int output_all(JournalReader *r, const OutputOptions *o);

/* --- supervisor.c -------------------------------------------------------------------------------------- */

/* Starts the pod (already in the state running) and stays with it until it has ended. READY_FD gets one byte
 * once the pod is up, or is closed; -EBADF: nobody waits. Returns the pod's exit status. */
int supervise_pod(Pod *p, const RunOptions *o, int ready_fd, Error *e);

/* --- control.c: how other processes talk to the one that runs a pod ------------------------------------ */

typedef enum ControlOp { CONTROL_STOP, CONTROL_KILL } ControlOp;
int control_listen(Pod *p, int *ret_fd, Error *e);
int control_send(Pod *p, ControlOp op, Error *e);
int control_receive(int listen_fd, ControlOp *ret);

/* A listening SOCK_SEQPACKET socket NAME in the directory DIR_FD, mode 0600, however long the directory's
 * path is. */
int socket_listen_at(int dir_fd, const char *name, int *ret_fd);
int socket_connect_at(int dir_fd, const char *name, int *ret_fd);
