/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/runtime/: what a running pod has on this host besides its processes: a cgroup, a scope unit,
 * records in its directory, the socket of the process that runs it. Shared by what runs pods and what looks
 * at them or acts on them. */

#include <sys/ioctl.h>
#include <systemd/sd-bus.h>

#include "prepare/prepare.h"
#include "schema/settings.h"
#include "stage0/network/network.h"
#include "stage1/stage1.h"

/* --- cgroup-places.c: where processes are -------------------------------------------------------------- */

/* Directories of cgroups, one per hierarchy. */
typedef struct Cgroups {
        char **paths;
        char *unified; /* the one of cgroup v2 among them */
} Cgroups;

void cgroups_done(Cgroups *c);

/* --- cgroup-unit.c: dividing what systemd has given us ------------------------------------------------- */

/* Makes the unit of the host's systemd that we were started in ready to hold a pod, for PodPlace.keep_unit:
 * all processes in it, us among them, go to its cgroup CGROUP_SUPERVISOR. -ENOSYS: systemd is not the host's
 * init; -EPERM: the unit is not delegated (Delegate=). */
int unit_keep(Error *e);

/* --- cgroup.c: a cgroup for the pod -------------------------------------------------------------------- */

/* Where the pod goes on a host with systemd. */
typedef struct PodPlace {
        bool keep_unit; /* into the unit that we are in, after unit_keep(); else into a scope of its own */
        /* The caller leaves its own cgroup, too, and the end of the session or unit that it was started from
         * is not the pod's end. */
        bool along;
        /* The connection over which systemd is asked for a scope, and over which it asks in turn to end the
         * pod, before it stops the scope; NULL: there is none, and it does not ask. */
        sd_bus *bus;
} PodPlace;

/* Makes directories for P, of which the pod directory keeps a list, so that gc finds them, and puts process
 * PID, which has no other use for the cgroup it is in, there. */
int pod_cgroup_create(Pod *p, pid_t pid, const PodPlace *place, Cgroups *ret, Error *e);
/* What PodPlace.along says, later on. */
int pod_cgroup_go_along(const Cgroups *c, Error *e);
/* Kills whatever is in the recorded cgroups of P and removes them. Nothing recorded: success. */
int pod_cgroup_remove(Pod *p, Error *e);
int pod_cgroup_kill(Pod *p, Error *e);
/* Waits until the host's systemd has let go of the scope of P, in which no processes are left: it does so by
 * itself, but a moment later. systemd removes the same cgroups as pod_cgroup_remove(); if that makes it leave
 * the scope's behind, it is asked to stop the scope, and what is left is removed. Nothing to be done where
 * there is no scope. Not for processes that are in it. */
void pod_cgroup_wait_for_scope(Pod *p);
/* The pod's own directory in the v2 hierarchy. -ENOENT: it has none. */
int pod_cgroup_unified(Pod *p, char **ret);
/* The same in the hierarchy of version 1 that has the pids controller. -ENOENT: there is none. */
int pod_cgroup_pids_v1(Pod *p, char **ret);
/* Makes the cgroup PATH, if it is missing, and puts PID there. */
int cgroup_put(const char *path, pid_t pid);
/* The unit of the host's systemd that a running pod is in. -ENOENT: it is in none. */
int pod_cgroup_host_unit(Pod *p, char **ret);

/* --- features.c: what isolators can rely on ------------------------------------------------------------ */

/* What the host offers to P: while it runs, what it has; else what a pod would have, KEEP_UNIT in the unit
 * that we are in, after unit_keep(). */
int pod_features(Pod *p, bool keep_unit, HostFeatures *ret);
/* What launchers are told of H: LAUNCH_APPARMOR and so on. */
uint32_t security_modules(const HostFeatures *h);
/* Refuses what P cannot have on this host and must not run without; see stage1_isolators_check(). */
int pod_isolators_check(Pod *p, Error *e);
/* The disks ("8:0") that the pod's own files and its host volumes are on, the former first. -ENODEV: its own
 * files are on no disk that is known. */
int pod_disks(const Pod *p, char ***ret);

/* --- mount.c, userns.c: mounts as descriptors ---------------------------------------------------------- */

/* A detached clone of the mount at PATH in DIR_FD, or of DIR_FD itself if PATH is empty. */
int mount_clone(int dir_fd, const char *path, bool recursive);
/* Moves a detached mount to what is at NAME of DIR_FD. */
int mount_attach(int mount_fd, int dir_fd, const char *name);
struct mount_attr;
int mount_set_attributes(int mount_fd, const struct mount_attr *attr, bool recursive);
/* Makes owners on a detached mount those that the user namespace says. */
int mount_map_owners(int mount_fd, int userns_fd, bool recursive);
/* A new file system of that TYPE, as a detached mount. OPTIONS are pairs of names and values. */
int mount_new(const char *type, const char *const *options, unsigned attributes, int *ret_fd);

/* A user namespace that maps 0…65535 to UID_BASE…, held by the descriptor: for id-mapped mounts. */
int userns_open(uint32_t uid_base, int *ret_fd, Error *e);
/* The same for some users of the host, in numbers of a pod whose range begins at UID_BASE. */
int userns_open_ranges(const IdRange *ranges, size_t n, uint32_t uid_base, int *ret_fd, Error *e);

/* --- volumes.c: what host volumes show ----------------------------------------------------------------- */

/* A detached mount of what host volume V shows, with owners mapped as its settings say. USERNS_FD is the
 * pod's range, -EBADF: it has none; RANGES_FD belongs to the ranges of the settings, if there are any.
 * *RET_MAPPED: whether owners inside and outside agree. */
int volume_mount_host(const Volume *v, const VolumeSettings *s, int userns_fd, int ranges_fd,
                      bool *ret_mapped, Error *e);
bool volume_is_recursive(const Volume *v);
/* Tries that for all host volumes of a pod that is being prepared. WARNINGS gets a line for each on which
 * nobody will own what he owns outside, though nobody asked for that. */
int pod_volumes_check(const Pod *p, char ***warnings, Error *e);

/* --- scope.c: where systemd is the host's init --------------------------------------------------------- */

/* The name of the scope unit of a pod. */
int pod_scope_name(const Pod *p, char **ret);

/* --- job.c: jobs of the host's systemd, or a pod's ----------------------------------------------------- */

#define SYSTEMD_NAME "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

/* Sends CALL, a call of the manager's that is answered with a job, and waits until the job has ended.
 * *RET_RESULT, to be freed, is what systemd says of it: "done" if all went well. TIMEOUT_USEC UINT64_MAX:
 * for as long as it takes; else -ETIME. ERROR is filled in if the call itself fails. */
int systemd_run_job(sd_bus *bus, sd_bus_message *call, uint64_t timeout_usec, char **ret_result,
                    sd_bus_error *error);

/* --- machine-name.c ------------------------------------------------------------------------------------ */

/* The name by which nspawn knows the pod; also its host name, if none was asked for. */
int pod_machine_name(const Pod *p, char **ret);
int pod_hostname(const Pod *p, char **ret);

/* --- runtime.c: what is known of a running pod, kept in its directory ---------------------------------- */

typedef struct PodRuntime {
        pid_t supervisor, nspawn, leader; /* by the host's numbers; the pod's PID 1 is 0 until it is known */
        uint64_t started_usec;            /* since the epoch, as all of these */
} PodRuntime;

int pod_runtime_write(Pod *p, const PodRuntime *r);
int pod_runtime_read(Pod *p, PodRuntime *ret); /* -ENOENT */

typedef struct PodResult {
        int exit_status;
        uint64_t started_usec, ended_usec;
} PodResult;

int pod_result_write(Pod *p, const PodResult *r);
int pod_result_read(Pod *p, PodResult *ret); /* -ENOENT */

/* The address of the pod's metadata service, with the pod's secret in it. */
int pod_metadata_url_write(Pod *p, const char *url);
int pod_metadata_url_read(Pod *p, char **ret); /* -ENOENT */

/* --- served-sockets.c: sockets that the pod was started with ------------------------------------------- */

/* All strings are owned. */
typedef struct ServedSocket {
        char *app, *port; /* which port of which app it serves */
        char *type;       /* "tcp", "udp", or of a unix socket "stream", "datagram", "seqpacket" */
        char *address;    /* as socket units have it */
        char *name;       /* as which it was passed; NULL: it had none */
} ServedSocket;

void served_sockets_free(ServedSocket *l, size_t n);
int served_sockets_write(Pod *p, const ServedSocket *l, size_t n);
int served_sockets_read(Pod *p, ServedSocket **ret, size_t *ret_n); /* -ENOENT: there were none */

/* --- drops.c: what the journal and log files do not have ----------------------------------------------- */

typedef struct LogDrops {
        const char *app;                 /* lent */
        uint64_t lines, bytes;           /* that are not in the journal */
        uint64_t file_lines, file_bytes; /* that are not in the app's log file */
} LogDrops;

int pod_drops_write(const Pod *p, const LogDrops *l, size_t n);
/* Of APP; RET->app stays NULL. -ENOENT: nothing was dropped. */
int pod_drops_read(const Pod *p, const char *app, LogDrops *ret);

/* --- app-statuses.c: records of all apps --------------------------------------------------------------- */

/* The record of every app of the pod, in the order of the manifest. With ENDED, what an app could not record
 * itself is filled in: the pod is over. *RET is an array of p->manifest->n_apps. */
int pod_read_statuses(Pod *p, bool ended, AppStatus **ret);
void app_statuses_free(AppStatus *l, size_t n);
/* The same for records that were read before the pod was over; what is filled in is recorded, too. */
int pod_finish_statuses(Pod *p, AppStatus *l);
/* Counts the starts of an app in a row from zero again. */
void app_forget_starts(Pod *p, const PodApp *app);
/* The pod's exit status: that of the app whose end decided about the pod's, 0 if all ended well. */
int pod_exit_status(ExitPolicy policy, const AppStatus *l, size_t n);

/* --- pod-sockets.c: sockets in the pod directory ------------------------------------------------------- */

/* Where nspawn tells how far the pod is: a socket for datagrams in the pod directory, which no app can send
 * to. */
#define NOTIFY_SOCKET_NAME "notify"
int notify_listen(Pod *p, int *ret_fd, Error *e);

/* A listening SOCK_SEQPACKET socket NAME in the directory DIR_FD, mode 0600, however long the directory's
 * path is. */
int socket_listen_at(int dir_fd, const char *name, int *ret_fd);
/* The same of TYPE, which does not block and does not listen. */
int socket_bind_at(int dir_fd, const char *name, int type);
/* Connects to a socket of TYPE. -ETIMEDOUT: those who connect are not accepted. */
int socket_connect_at(int dir_fd, const char *name, int type, int *ret_fd);

/* --- attach.c: how other processes are connected to what an app reads and writes ----------------------- */

/* Packets on a socket in the pod directory, which is there if an app has a standard input. Who wants to be
 * attached sends a request; the answer brings pipes, whose other ends the process that runs the pod has. */
typedef enum AttachEvent {
        ATTACH_REQUEST,  /* to be attached to the app TEXT; SIZE is that of the terminal, or 0 */
        ATTACH_SIZE,     /* the terminal has another size */
        ATTACH_LAST,     /* the end of the pipe is to be the end of the app's standard input */
        ATTACH_LEAVE,    /* of who runs the pod in the foreground: it is to go on without him */
        ATTACH_ACCEPTED, /* descriptors: where to write, where to read standard output and, if that is no
                          * terminal, standard error */
        ATTACH_REFUSED,  /* STATUS is a negative errno, TEXT says why */
        ATTACH_SKIPPED,  /* N bytes of output were left out: they were not read fast enough */
        ATTACH_ESCAPES,  /* to who runs the pod in the foreground: his terminal may have been changed */
        ATTACH_ENDED,    /* the app has ended with the exit status STATUS */
        _ATTACH_EVENT_MAX,
} AttachEvent;

typedef struct AttachMessage {
        uint32_t event;
        int32_t status;
        uint64_t n;
        struct winsize size;
        char text[500]; /* NUL-terminated */
} AttachMessage;

int attach_listen(Pod *p, int *ret_fd, Error *e);
int attach_connect(Pod *p, int *ret_fd);
/* Without waiting. N_FDS descriptors go along. */
int attach_send(int fd, const AttachMessage *m, const int *fds, size_t n_fds);
/* 1: *RET is a message, with at most MAX descriptors; 0: the other side has gone; -EAGAIN: none now. */
int attach_receive(int fd, AttachMessage *ret, int *fds, size_t max, size_t *ret_n);

/* --- programs.c ---------------------------------------------------------------------------------------- */

/* Where one of our own helper programs is: in $ACNSPAWN_LIBEXECDIR if that is set; else beside us in the
 * build tree, or where it was installed. */
#define SUPERVISE_PROGRAM "supervise" /* in ACNSPAWN_LIBEXECDIR; stage0/supervise.c */
int helper_program_path(const char *name, char **ret, Error *e);

/* --- child.c: work in other namespaces ----------------------------------------------------------------- */

typedef struct ChildWork {
        const char *what; /* "mount the root of app a", for messages */
        /* Runs in the child. *RET_FD and *RET_TEXT (short) are handed to the parent. */
        int (*function)(void *data, int *ret_fd, char **ret_text, Error *e);
        void *data;
} ChildWork;

/* Does the work in a child of ours, which dies with us, and waits for it. Being asked to end
 * (interrupt_catch()) ends it, too. RET_FD and RET_TEXT may be NULL. */
int child_run(const ChildWork *w, int *ret_fd, char **ret_text, Error *e);

/* --- cgroup-join.c: going where a process of the pod is ------------------------------------------------ */

/* Opens the cgroup.procs of every hierarchy in which process PID, of POD, is not where we are; at most MAX.
 * -ESRCH: the process is not one of the pod's (any more). */
int pod_cgroup_open_process(Pod *p, pid_t pid, int *ret_fds, size_t max, size_t *ret_n);

/* --- process.c: processes held by a descriptor --------------------------------------------------------- */

/* The number of the process that PID_FD stands for, as this process counts. -ESRCH: it has ended, or cannot
 * be seen from here. */
int process_number(int pid_fd, pid_t *ret);
/* A process that has ended, reaped or not, is not; nor is what a negative PID_FD stands for. */
bool process_is_alive(int pid_fd);

/* --- cgroup-process.c: which app a process belongs to --------------------------------------------------- */

/* These look at a number, which may be another process's a moment later: the answer counts if a descriptor
 * of the process that was opened before says afterwards that it is still there (process_is_alive()).
 *
 * Where process PID is below the pod's cgroup: "payload/app.slice/…". -ENOENT: it is not one of the pod's;
 * -ESRCH: there is none. To be freed. */
int pod_cgroup_of_process(const Pod *p, pid_t pid, char **ret);
/* A descriptor (pidfd) of the process that has NUMBER in the pid namespace of LEADER, the pod's PID 1, and *RET_PID,
 * its number here. -ESRCH: no process of the service of APP has that number; -ECHILD: it is no child of
 * LEADER. */
int pod_app_open_process(Pod *p, const char *app, pid_t leader, uint32_t number, pid_t *ret_pid);
/* The number here of the child of LEADER, the pod's PID 1, that has NUMBER in its pid namespace; for messages. -ESRCH,
 * -ENOENT: there is none, or the kernel does not tell. */
int pod_find_process(pid_t leader, uint32_t number, pid_t *ret);
/* Whether process PID is one of APP's: in its service, or in one of its health checks. -ESRCH: there is
 * none. */
int pod_app_has_process(const Pod *p, const char *app, pid_t pid);

/* --- freeze.c: stopping the clock of a whole pod ------------------------------------------------------- */

/* Whether the pod was paused, and not resumed yet. */
bool pod_is_paused(Pod *p);
/* Returns when every process of the pod has stopped, or may go on. -ENOENT: the pod has no cgroup. */
int pod_freeze(Pod *p, bool freeze, Error *e);
/* What people are told: the state's name, or "paused". */
const char *pod_shown_state(Pod *p);

/* --- host-limits.c: which limit of the host is behind a failure ---------------------------------------- */

typedef struct HostLimitPlaces {
        const char *proc, *cgroup; /* "/proc", "/sys/fs/cgroup" */
        const char *store;         /* a path on the file system that pods are on, or NULL */
        uint32_t uid;              /* the pod's root, whose keyrings are counted */
        int (*try_inotify)(void);  /* for tests: nonzero if no instance can be made; NULL: it is tried */
} HostLimitPlaces;

typedef struct HostLimit {
        char *what;   /* "this host's limit of terminals (kernel.pty.max=4096) is reached" */
        char *remedy; /* sentences with the command that lifts it */
} HostLimit;

void host_limit_done(HostLimit *l);
/* After a failure with the negative errno CODE. 1: this limit is reached; 0: none that is known. */
int host_limits_find(const HostLimitPlaces *w, int code, HostLimit *ret);
/* The negative errno that the messages in TEXT speak of; 0: none that a limit could be behind. */
int host_limits_code(const char *text);
/* Adds the limit that is reached, if there is one, to an error without a hint. Returns CODE. */
int host_limits_hint(const char *store, Error *e, int code);

/* --- release.c ----------------------------------------------------------------------------------------- */

/* To be called before a pod is removed. Takes away what a pod that has ended left outside its
 * directory; -EBUSY, naming the mount, if something is mounted below that directory. For store_gc(), too. */
int pod_release(Pod *p, void *userdata, Error *e);

/* --- wait.c -------------------------------------------------------------------------------------------- */

/* -ESRCH: the pod, which is not running, is in the wrong state for what is to be done with it; what can be
 * done is the hint. */
int pod_not_running(const Pod *p, Error *e);
/* -EBUSY: the pod is paused; the hint says how it is resumed. */
int pod_paused(const Pod *p, Error *e);
/* One of the two, unless the pod runs and is not paused. */
int pod_check_running(Pod *p, Error *e);

/* Waits until the pod has ended; TIMEOUT_USEC UINT64_MAX: for ever. -ETIME: it has not. */
int pod_wait(Pod *p, uint64_t timeout_usec, Error *e);
