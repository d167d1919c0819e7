/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/host/: the resources of a running pod on this host besides its processes: cgroups, a scope unit, the
 * records in its directory, and sockets there. The supervisor, which runs the pod, and the commands that inspect
 * or control it share this code. */

#include <sys/ioctl.h>
#include <systemd/sd-bus.h>

#include "prepare/prepare.h"
#include "schema/settings.h"
#include "stage0/network/network.h"
#include "stage1/stage1.h"

/* --- cgroup-places.c: cgroups of processes ------------------------------------------------------------- */

/* Directories of cgroups, one per hierarchy. */
typedef struct Cgroups {
        char **paths;
        char *unified; /* the one of cgroup v2 among them */
} Cgroups;

void cgroups_done(Cgroups *c);

/* Opens the "cgroup.procs" of this process in the hierarchy of version 2, for writing. */
int cgroup_open_own(void);

/* --- cgroup-unit.c: subdividing delegated units -------------------------------------------------------- */

/* Prepares the unit of the host's systemd that this process was started in for a pod, for
 * PodPlace.keep_unit: all processes in it, including this one, are moved to its cgroup CGROUP_SUPERVISOR.
 * -ENOSYS: systemd is not the host's init; -EPERM: the unit is not delegated (Delegate=). */
int unit_keep(Error *e);

/* --- cgroup.c: a cgroup for the pod -------------------------------------------------------------------- */

/* The place of the pod on a host with systemd. */
typedef struct PodPlace {
        bool keep_unit; /* in the current unit, after unit_keep(); else in a scope of its own */
        /* The caller leaves its own cgroup, too, so that the end of the session or unit that it was started
         * from does not end the pod. */
        bool along;
        /* The connection for the request of a scope, over which systemd also requests the end of the pod
         * before it stops the scope; NULL: there is no such request. */
        sd_bus *bus;
        /* What ends the wait for the host's systemd (-EINTR), or NULL. */
        const struct NetworkStop *stop;
} PodPlace;

/* Checks PodConfig.cgroup_parent for this host. -EINVAL. */
int cgroup_parent_check(const char *parent, Error *e);
/* Creates cgroups for P, recorded in the pod directory, so that gc finds them, and moves process PID
 * there. */
int pod_cgroup_create(Pod *p, pid_t pid, const PodPlace *place, Cgroups *ret, Error *e);
/* Moves the process PID to the supervisor's cgroup of P; PodPlace.along does so with this one when the cgroups are created. */
int pod_cgroup_move(const Pod *p, const Cgroups *c, pid_t pid, Error *e);
/* Whether the cgroup of P is below a cgroup that another program has made, and not a part of a unit of the host's systemd. */
bool pod_cgroup_is_below_parent(const Pod *p);
/* Kills all processes in the recorded cgroups of P and removes them. Succeeds if none are recorded. */
int pod_cgroup_remove(Pod *p, Error *e);
int pod_cgroup_kill(Pod *p, Error *e);
/* Whether one of its cgroups is there. */
bool pod_cgroup_is_left(Pod *p);
/* Waits until the host's systemd has released the scope of P, which has no processes any more: it does so by
 * itself, with a delay. systemd removes the same cgroups as pod_cgroup_remove(); if this race makes it leave
 * the scope's cgroup behind, it is requested to stop the scope, and the rest is removed. Does nothing if
 * there is no scope. Must not be called by processes in it. */
void pod_cgroup_wait_for_scope(Pod *p);
/* The pod's own directory in the v2 hierarchy. -ENOENT: it has none. */
int pod_cgroup_unified(Pod *p, char **ret);
/* The same in the hierarchy of version 1 that has the pids controller. -ENOENT: there is none. */
int pod_cgroup_pids_v1(Pod *p, char **ret);
/* Creates the cgroup PATH, if it is missing, and moves PID there. */
int cgroup_put(const char *path, pid_t pid);
/* The unit of the host's systemd that a running pod is in. -ENOENT: it is in none. */
int pod_cgroup_host_unit(Pod *p, char **ret);

/* --- features.c: features of the host for isolators ---------------------------------------------------- */

/* The features of the host for P: while it runs, the actual ones; else those that a pod would have, with
 * KEEP_UNIT in the current unit, after unit_keep(). */
int pod_features(Pod *p, bool keep_unit, HostFeatures *ret);
/* The flags of H for launchers: LAUNCH_APPARMOR and so on. */
uint32_t security_modules(const HostFeatures *h);
/* The capabilities that bound every app of P: bit n is capability n. They are fixed when P is prepared, and apps that are added
 * or removed later do not change them. To be called after stage1_load_libraries(). */
uint64_t pod_capabilities(const Pod *p);
/* Refuses isolators that are not available on this host and that P must not run without; see
 * stage1_isolators_check(). */
int pod_isolators_check(Pod *p, Error *e);
/* The disks ("8:0") that the pod's own files and its host volumes are on, the former first. -ENODEV: its own
 * files are on no known disk. */
int pod_disks(const Pod *p, char ***ret);

/* --- mount.c, userns.c: mounts as descriptors ---------------------------------------------------------- */

/* A detached clone of the mount at PATH in DIR_FD, or of DIR_FD itself if PATH is empty. */
int mount_clone(int dir_fd, const char *path, bool recursive);
/* Attaches a detached mount at NAME in DIR_FD. */
int mount_attach(int mount_fd, int dir_fd, const char *name);
struct mount_attr;
int mount_set_attributes(int mount_fd, const struct mount_attr *attr, bool recursive);
/* Makes a detached mount id-mapped by the user namespace. */
int mount_map_owners(int mount_fd, int userns_fd, bool recursive);
/* A new file system of that TYPE, as a detached mount. OPTIONS are pairs of names and values. */
int mount_new(const char *type, const char *const *options, unsigned attributes, int *ret_fd);

/* A user namespace that maps COUNT users from 0 on to UID_BASE…, held by the descriptor: for id-mapped mounts. */
int userns_open(uint32_t uid_base, uint32_t count, int *ret_fd, Error *e);
/* The same for some users of the host, mapped to uids of a pod whose range begins at UID_BASE. */
int userns_open_ranges(const IdRange *ranges, size_t n, uint32_t uid_base, int *ret_fd, Error *e);

/* Refuses a store whose file system has no id-mapped mounts, which the roots of apps with users of their own consist of. It is tried
 * once in a boot of the host; what else may keep a pod from having them is reported when it starts. */
int store_check_id_mapped(Store *s, Error *e);
/* The error R of mount_map_owners() for WHAT of the store. */
int refuse_id_mapped(Store *s, int r, const char *what, Error *e);

/* --- volumes.c: host volumes and named volumes --------------------------------------------------------- */

/* A detached mount of the source of host volume V, with owners mapped according to its settings. USERNS_FD:
 * for the pod's range, -EBADF: it has none; RANGES_FD: for the ranges of the settings, if there are any.
 * *RET_MAPPED: whether owners inside and outside match. In the host's mount namespace, as it checks how the mount propagates. */
int volume_mount_host(const Volume *v, const VolumeSettings *s, int userns_fd, int ranges_fd,
                      bool *ret_mapped, Error *e);
bool volume_is_recursive(const Volume *v);
/* Mounts the host volumes of P from FIRST on, which are being prepared, as a check. WARNINGS gets a line for each whose owners
 * cannot be mapped, unless that was requested. */
int pod_volumes_check(const Pod *p, size_t first, char ***warnings, Error *e);
/* A detached mount of the named volume that V, with these settings, is. USERNS_FD as above: if owners cannot be
 * mapped, that is an error. */
int volume_mount_named(const Store *s, const Volume *v, const VolumeSettings *settings, int userns_fd,
                       Error *e);
/* Mounts all named volumes of P, which is being prepared, from the index FIRST on, as a check. They exist. */
int pod_named_volumes_check(const Pod *p, size_t first, Error *e);

/* --- scope.c: where systemd is the host's init --------------------------------------------------------- */

/* The name of the scope unit of a pod. */
int pod_scope_name(const Pod *p, char **ret);
/* The longest time that a stop in order may take with the settings of the apps; UINT64_MAX: no limit. */
uint64_t pod_stop_timeout(const Pod *p);
/* Whether this process is in that unit of the host. */
bool unit_is_own(const char *unit);

/* --- job.c: jobs of the host's systemd, or a pod's ----------------------------------------------------- */

#define SYSTEMD_NAME "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

/* Sends CALL and waits for its reply, until END_USEC (CLOCK_MONOTONIC; -ETIME) or until STOP (or NULL) is requested (-EINTR). ERROR is
 * filled in if the call itself fails. */
int systemd_call(sd_bus *bus, sd_bus_message *call, uint64_t end_usec, const struct NetworkStop *stop,
                 sd_bus_message **ret_reply, sd_bus_error *error);
/* The same with a call of the manager that returns a job, and waits until the job has ended. *RET_RESULT, to be freed: the result
 * reported by systemd, "done" on success. */
int systemd_run_job(sd_bus *bus, sd_bus_message *call, uint64_t end_usec, const struct NetworkStop *stop,
                    char **ret_result, sd_bus_error *error);

/* --- host-systemd.c ------------------------------------------------------------------------------------ */

/* Whether the host is being rebooted or powered off, in order. */
bool host_is_shutting_down(void);
/* Restart= of the unit UNIT of the host, to be freed; NULL: it is not a service, or that is not known. */
char *host_unit_restart(const char *unit);

/* --- machine-name.c ------------------------------------------------------------------------------------ */

/* The machine name of the pod; also its default host name. */
int pod_machine_name(const Pod *p, char **ret);
int pod_hostname(const Pod *p, char **ret);

/* --- runtime.c: records of a running pod in its directory ---------------------------------------------- */

typedef struct PodRuntime {
        pid_t supervisor, nspawn, leader; /* PIDs on the host; the pod's PID 1 is 0 until it is known */
        uint64_t started_usec;            /* since the epoch, as all of these */
} PodRuntime;

int pod_runtime_write(Pod *p, const PodRuntime *r);
int pod_runtime_read(Pod *p, PodRuntime *ret); /* -ENOENT */

typedef struct PodResult {
        int exit_status;
        uint64_t started_usec, ended_usec;
        bool at_shutdown; /* the host's systemd has ended the pod, on its way to a reboot or power-off */
} PodResult;

/* Makes these and the records of apps, empty, before P is started: they are written on a full disk, too. Can be repeated. */
int pod_reserve_records(const Pod *p, Error *e);
int pod_result_write(Pod *p, const PodResult *r);
int pod_result_read(Pod *p, PodResult *ret); /* -ENOENT */

/* The address of the pod's metadata service, with the pod's secret in it. */
int pod_metadata_url_write(Pod *p, const char *url);
int pod_metadata_url_read(Pod *p, char **ret); /* -ENOENT */

/* --- served-sockets.c: sockets passed to the pod ------------------------------------------------------- */

/* All strings are owned. */
typedef struct ServedSocket {
        char *app, *port; /* the app and its port that it serves */
        char *type;       /* "tcp", "udp", or of a unix socket "stream", "datagram", "seqpacket" */
        char *address;    /* in the format of socket units */
        char *name;       /* its name as passed; NULL: none */
        char *exposed;    /* why its app can use it for more than its peers; NULL: it cannot */
} ServedSocket;

void served_sockets_free(ServedSocket *l, size_t n);
int served_sockets_write(Pod *p, const ServedSocket *l, size_t n);
int served_sockets_read(Pod *p, ServedSocket **ret, size_t *ret_n); /* -ENOENT: there were none */

/* --- drops.c: output that is not in the journal or log files ------------------------------------------- */

typedef struct LogDrops {
        const char *app;                 /* not owned */
        uint64_t lines, bytes;           /* not in the journal */
        uint64_t file_lines, file_bytes; /* not in the app's log file */
} LogDrops;

int pod_drops_write(const Pod *p, const LogDrops *l, size_t n);
/* Of APP; RET->app stays NULL. -ENOENT: nothing was dropped. */
int pod_drops_read(const Pod *p, const char *app, LogDrops *ret);

/* --- app-statuses.c: records of all apps --------------------------------------------------------------- */

/* The directory of the records, which the pod's supervisor writes; -ENOENT: no process has run the pod. */
int pod_open_statuses(const Pod *p);
/* The record of every app of the pod, in the order of the manifest. With ENDED, what is not recorded is filled in:
 * the pod has ended, and its supervisor did not record how. *RET is an array of p->manifest->n_apps. */
int pod_read_statuses(Pod *p, bool ended, AppStatus **ret);
void app_statuses_free(AppStatus *l, size_t n);
/* Completes the status of APP after the end of its pod. An app whose end was not recorded gets CAUSE, which is
 * CAUSE_POD_KILLED or CAUSE_HOST_REBOOTED; an app that a killed pod has not started gets CAUSE_NOT_STARTED. An app that
 * still waited for its first connection has not failed, and keeps its status. Returns true if the status has changed. */
bool app_status_finish(const PodApp *app, AppStatus *s, AppCause cause, uint64_t ended_usec);
/* The exit status of a pod that was killed, where no app determines it. */
#define POD_KILLED_STATUS 125
/* The pod's exit status: that of the app that determines it, 0 if all succeeded. With EXIT_NEVER no app does: it is 0 if
 * the pod was stopped IN_ORDER, however its apps had ended, else POD_KILLED_STATUS. */
int pod_exit_status(ExitPolicy policy, bool in_order, const AppStatus *l, size_t n);

/* --- pod-sockets.c: sockets in the pod directory ------------------------------------------------------- */

/* The notification socket for nspawn: a datagram socket in the pod directory, which apps cannot access. */
#define NOTIFY_SOCKET_NAME "notify"
int notify_listen(Pod *p, int *ret_fd, Error *e);

/* A listening SOCK_SEQPACKET socket NAME in the directory DIR_FD, mode 0600, however long the directory's
 * path is. */
int socket_listen_at(int dir_fd, const char *name, int *ret_fd);
/* The same of TYPE, which does not block and does not listen. */
int socket_bind_at(int dir_fd, const char *name, int type);
/* Connects to a socket of TYPE. -ETIMEDOUT: connections to it are not accepted. */
int socket_connect_at(int dir_fd, const char *name, int type, int *ret_fd);

/* --- programs.c ---------------------------------------------------------------------------------------- */

/* The path of a helper program: in $ACNSPAWN_LIBEXECDIR if that is set; else in the build tree, or where it
 * was installed. */
#define READ_LOGS_PROGRAM "read-logs" /* stage0/read-logs.c */
#define SUPERVISE_PROGRAM "supervise" /* in ACNSPAWN_LIBEXECDIR; stage0/supervise.c */
int helper_program_path(const char *name, char **ret, Error *e);
/* Executes the program argv[0] in a session of its own, with these blocked signals. FDS become its descriptors
 * from number FIRST on; all of them have to be above those numbers. */
int helper_program_spawn(char *const *argv, const sigset_t *mask, int first, const int *fds, size_t n_fds,
                         pid_t *ret_pid, Error *e);

/* --- child.c: work in other namespaces ----------------------------------------------------------------- */

typedef struct ChildWork {
        const char *what; /* "mount the root of app a", for messages */
        /* Runs in the child. *RET_FD and *RET_TEXT (short) are passed to the parent. */
        int (*function)(void *data, int *ret_fd, char **ret_text, Error *e);
        void *data;
        const Operation *operation; /* or NULL */
} ChildWork;

/* Runs the function in a child process, and waits for it. The kernel kills the child if this process ends; the end of the
 * operation kills it, too. RET_FD and RET_TEXT may be NULL. */
int child_run(const ChildWork *w, int *ret_fd, char **ret_text, Error *e);
/* As fork(), but negative errno on failure, with a pipe from the child: *RET_FD is the end of this process, to be written to in the
 * child, and read from in the parent. */
pid_t child_fork_with_pipe(int *ret_fd);

/* --- cgroup-join.c: joining the cgroups of a process of the pod ---------------------------------------- */

/* Opens the file "tasks" of every hierarchy of version 1 in which process PID, of POD, has another cgroup than this
 * process; at most MAX. -ESRCH: the process does not (or no longer) belong to the pod. */
int pod_cgroup_open_process(Pod *p, pid_t pid, int *ret_fds, size_t max, size_t *ret_n);

/* --- process.c: pidfds --------------------------------------------------------------------------------- */

/* Waits for a child that is about to end, and reaps it. Kills it after MSEC milliseconds, and returns false after as many
 * more: SIGKILL does not end a process that waits for a hung file system. The caller then has to reap the child later. */
bool process_leave(pid_t pid, int msec);
/* To be called in such a child: replaces its standard streams by /dev/null, so that readers of the parent's streams see
 * their end. */
int process_leave_streams(void);

/* How a process that has ended, and was reaped, has ended: *RET is a status as of waitpid(2). -EOPNOTSUPP:
 * the kernel (before Linux 6.15) does not report it. */
int process_wait_status(int pid_fd, int *ret);

/* --- cgroup-process.c: finding the app of a process ---------------------------------------------------- */

/* These use a PID, which may be reused at any time: the result is valid if a pidfd that was opened before
 * shows afterwards that the process still exists (process_is_alive()).
 *
 * The path of process PID below the pod's cgroup: "payload/app.slice/…". -ENOENT: it does not belong to the
 * pod; -ESRCH: it does not exist. To be freed. */
int pod_cgroup_of_process(const Pod *p, pid_t pid, char **ret);
/* A pidfd of the process with the PID NUMBER in the pid namespace of LEADER, the pod's PID 1, and *RET_PID,
 * its PID here. -ESRCH: no process of the service of APP has that PID; -ECHILD: it is not a child of
 * LEADER. */
int pod_app_open_process(Pod *p, const char *app, pid_t leader, uint32_t number, pid_t *ret_pid);
/* The number of the process in the pid namespace that it is in itself. */
int process_innermost_number(pid_t pid, uint32_t *ret);
/* The parent of process PID, in this pid namespace; 0: it is in none that is visible here. */
int process_parent(pid_t pid, pid_t *ret);
/* The number here of the child of LEADER, the pod's PID 1, that has NUMBER in its pid namespace; for
 * messages. -ESRCH, -ENOENT: there is none, or the kernel does not report it. */
int pod_find_process(pid_t leader, uint32_t number, pid_t *ret);
/* Whether process PID belongs to APP: to its service, or to one of its health checks. -ESRCH: it does not
 * exist. */
int pod_app_has_process(const Pod *p, const char *app, pid_t pid);

/* --- cgroup-escaped.c: processes that have left the cgroup of their app --------------------------------- */

/* Kills the processes of APP, which has ended, that are in other cgroups of the pod P; does not wait for their ends. ROOT is the device of the app's root, LEADER the pod's PID 1. */
int pod_kill_escaped(Pod *p, const char *app, dev_t root, pid_t leader, size_t *ret_killed);

/* --- freezer.c: pausing a pod -------------------------------------------------------------------------- */

/* Whether the pod is paused. */
bool pod_is_paused(Pod *p);
/* The same for frequent checks: pod_open_freezer() returns a descriptor of the pod's freezer, or a negative errno;
 * freezer_is_frozen() reads it. A pod without a freezer (a negative FD) is not frozen. */
int pod_open_freezer(Pod *p);
bool freezer_is_frozen(int fd);
/* "cgroup.events" of the pod, which signals POLLPRI when the result of freezer_check() may have changed; or a negative
 * errno. */
int pod_open_freezer_events(Pod *p);
#define FREEZE_TIMEOUT_USEC (10 * UINT64_C(1000000))
/* Starts to freeze, or thaw, all processes of the pod. If they are not done after this time, call pod_freeze_undo(). */
int pod_freeze(Pod *p, bool freeze, Error *e);
/* 1: all processes of the pod are frozen, or (FREEZE is false) thawed. */
int freezer_check(int events_fd, bool freeze);
/* Thaws the pod after a request that was not done in time. Sets an error, -ETIME, that names the processes that were late. */
int pod_freeze_undo(Pod *p, bool freeze, Error *e);
/* For output: the state's name, or "paused". */
const char *pod_shown_state(Pod *p);

/* --- host-limits.c: the limit of the host that caused a failure ---------------------------------------- */

typedef struct HostLimitPlaces {
        const char *proc, *cgroup; /* "/proc", "/sys/fs/cgroup" */
        const char *store;         /* a path on the file system of pods, or NULL */
        uint32_t uid;              /* the pod's root, whose keyrings are counted */
        int (*try_inotify)(void);  /* for tests: nonzero if no instance can be created; NULL: probe */
} HostLimitPlaces;

typedef struct HostLimit {
        char *what;     /* "this host's limit of terminals (kernel.pty.max=4096) is reached" */
        char *remedy;   /* sentences with the command that raises it */
        bool is_filter; /* of system calls: it is there all the time, and not always the reason */
} HostLimit;

void host_limit_done(HostLimit *l);
/* To be called after a failure with the negative errno CODE. 1: this limit is reached; 0: no known one. */
int host_limits_find(const HostLimitPlaces *w, int code, HostLimit *ret);
/* 1: PODS pods without users of their own exceed this limit of the host alone; 0: no known limit. */
int host_limits_check_pods(const HostLimitPlaces *w, uint64_t pods, HostLimit *ret);
/* The negative errno mentioned by the messages in TEXT; 0: none that a limit could cause. */
int host_limits_code(const char *text);
/* Adds the limit that is reached, if there is one, to an error without a hint. Returns CODE. */
int host_limits_hint(const char *store, Error *e, int code);

/* --- inherited.c --------------------------------------------------------------------------------------- */

/* Resets the settings that this process has inherited from its caller, and that all processes of a pod would inherit: priorities,
 * CPU affinity, OOM score, personality. IN_UNIT: keeps them, as the unit of the host that holds the pod has set them. */
void inherited_settings_leave(bool in_unit);

/* --- fuse-connections.c -------------------------------------------------------------------------------- */

/* Aborts the file systems that processes of P, which are all to be killed, serve (FUSE), and that no other process has mounted. Returns their
 * number. */
int pod_abort_file_systems(const Pod *p);

/* --- release.c ----------------------------------------------------------------------------------------- */

/* Kills the processes that a pod has left at its end, and removes its cgroups. */
int pod_release_processes(Pod *p, Error *e);
/* Releases all resources outside its directory that it has left. To be called before the pod is
 * removed. -EBUSY, naming the mount, if a file system is mounted below that directory. Also for
 * store_gc(). */
int pod_release(Pod *p, void *userdata, Error *e);

/* --- host-units.c -------------------------------------------------------------------------------------- */

/* The names and UUIDs of the pods that enabled or loaded units acnspawn@… of the host refer to, and that no file declares:
 * KeptPods.names. CONFIG_DIR as for declared_dirs(). */
int pods_of_units(const char *config_dir, char ***ret, Error *e);

/* --- wait.c -------------------------------------------------------------------------------------------- */

/* Sets the error of an operation that requires a running pod: -ESRCH, with a hint for the pod's state. */
int pod_not_running(const Pod *p, Error *e);
/* -EBUSY: the pod is paused; the hint says how it is resumed. */
int pod_paused(const Pod *p, Error *e);
/* One of the two, unless the pod runs and is not paused. */
int pod_check_running(Pod *p, Error *e);

/* Waits until the pod has ended; TIMEOUT_USEC UINT64_MAX: no timeout. -ETIME: it has not. */
int pod_wait(Pod *p, uint64_t timeout_usec, Error *e);
