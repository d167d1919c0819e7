/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Internal header of the launcher; not for use by other folders. */

#include <signal.h>

#include "stage1/app-status.h"
#include "stage1/launch-config.h"
#include "stage1/launch-protocol.h"

/* The cgroup of a health check (check-cgroup.c), and its parent. */
typedef struct CheckCgroup {
        int fd, parent_fd;
} CheckCgroup;

#define CHECK_CGROUP_NULL ((CheckCgroup){.fd = -EBADF, .parent_fd = -EBADF})

/* A running health check, and its output. */
#define CHECK_OUTPUT_MAX 1024U
typedef struct LaunchCheck {
        uint64_t timeout_usec;
        CheckCgroup cgroup;
        int read_fd, write_fd; /* of a pipe */
        char output[CHECK_OUTPUT_MAX + 1];
        size_t n_output;
} LaunchCheck;

/* Parameters that follow the app's name on the command line; see ready.c. */
typedef struct LaunchNumbers {
        uint64_t timeout; /* of a health check; 0: there is none */
        uint64_t interval, start_period, start_interval;
        bool extend, notify;
        const char *pid; /* see Launch */
} LaunchNumbers;

/* The reply of stage0, and the state of the launcher. */
typedef struct Launch {
        LaunchPhase phase;
        const char *app;
        const char *pid; /* the pid namespace, a LAUNCH_PID_… word; NULL: that of the pod */
        LaunchConfig config;
        char *metadata_url, *terminal_type;
        unsigned modules;            /* LAUNCH_APPARMOR and so on */
        uint64_t processes;          /* value for RLIMIT_NPROC, or 0 */
        int root_fd, pts_fd, dev_fd; /* detached mounts */
        int maker_fd; /* the root, writable: mount points are made in it if root_fd is read-only; or -EBADF */
        int *volume_fds;
        size_t n_volumes;
        bool has_credentials;
        int credentials_fd;       /* the mounted credentials, until they are given to the app's user */
        int notify_fd;            /* a mount of the socket by which the app notifies readiness, or -EBADF */
        char *identity;           /* user and groups of the app in this execution, if known: see
                                   * identity_find() */
        char *shared_identity;    /* APP_IDENTITY_MAX bytes, in which a handler returns it, or NULL */
        LaunchReport *report;     /* main: memory that is shared with the supervisor */
        int stdin_fd;             /* standard input; -EBADF: none */
        int stdout_fd, stderr_fd; /* pipes to stage0 */
        bool terminal;            /* stdin and stdout are a terminal, to become the controlling terminal */
        int *socket_fds;          /* sockets by which connections start the app, */
        char **socket_names;      /* and the names of their ports: only the app's main process gets them */
        size_t n_sockets;
        int parent_fd;      /* pipe that is closed when the starting process dies, which ends this one;
                                   * or -EBADF */
        int link_fd;        /* main: the connection to stage0, closed by the exec; or -EBADF */
        bool joined;        /* "enter": this process is in the namespaces of the running app already */
        bool notify;        /* the socket is at LAUNCH_NOTIFY_PATH */
        LaunchCheck *check; /* for a health check, or NULL */
        bool interrupted;   /* a signal to end arrived while waiting for a handler or a check */
} Launch;

#define LAUNCH_NULL                                                                                         \
        ((Launch){.credentials_fd = -EBADF,                                                                 \
                  .notify_fd = -EBADF,                                                                      \
                  .root_fd = -EBADF,                                                                        \
                  .maker_fd = -EBADF,                                                                       \
                  .pts_fd = -EBADF,                                                                         \
                  .dev_fd = -EBADF,                                                                         \
                  .stdin_fd = -EBADF,                                                                       \
                  .stdout_fd = -EBADF,                                                                      \
                  .stderr_fd = -EBADF,                                                                      \
                  .parent_fd = -EBADF,                                                                      \
                  .link_fd = -EBADF})

/* Failures of the launcher include the cause for the app's status. */
typedef struct Failure {
        AppCause cause;
        Error error;
} Failure;

int failure_set(Failure *f, AppCause cause, int code, const char *format, ...) _printf_(4, 5);
int failure_set_errno(Failure *f, AppCause cause, int code, const char *format, ...) _printf_(4, 5);

/* request.c: requests the app's file, root and mounts from stage0. STREAMS stay owned by the caller. */
int launch_request(Launch *l, const int streams[static _LAUNCH_STREAM_MAX], Failure *f);
/* Sends E, whose app and version are filled in here, and returns the supervisor's answer. */
int launch_send_event(Launch *l, LaunchEvent *e);
/* Asks WHAT, which is one of the phases without descriptors. RET_VALUE, which may be NULL, is that of the reply. */
int launch_ask(Launch *l, LaunchPhase what, uint64_t *ret_value);
/* The same for questions that are not answered at once: the reply comes over the returned socket, and is the result of
 * launch_ask_end(). */
int launch_ask_begin(Launch *l, LaunchPhase what);
int launch_ask_end(int sock);
/* For the pod's process 1: waits, for so long, until everything is forwarded that the apps have written. */
void launch_flush_pod(uint64_t timeout_usec);
/* sockets.c: receives N sockets from the supervisor over SOCK; compares them with the launch file; and moves them to the
 * descriptors that the app expects, with the variables of sd_listen_fds(3), when most of the others are not needed any
 * more. */
int sockets_receive(Launch *l, int sock, size_t n, Failure *f);
int sockets_check(const Launch *l, Failure *f);
int sockets_arrange(Launch *l, char ***environment, Failure *f);
/* streams.c: opens connections to the journal for standard output and standard error. */
int launch_open_streams(Launch *l, int ret[static _LAUNCH_STREAM_MAX], Failure *f);
/* processes.c: children of this process will be in the app's pid namespace. */
int launch_enter_processes(Launch *l, Failure *f);
/* Returns in a process of that namespace, which systemd regards as the main one of the service; this one ends. */
int launch_fork_into_processes(Launch *l, Failure *f);
/* "launch processes" */
int processes_main(void);
/* manager.c */
int manager_main(void);
/* proc.c: a detached mount of /proc for the pid namespace of this process, protected as that of the pod. */
int proc_mount(int *ret_fd);
/* Mounts on it what the pod has on its own. */
int proc_protect(int proc_fd);
/* sys.c: a detached mount of /sys for the pod's network, that can be written to; and on such a mount, or another one of /sys, once
 * it is attached, the cgroups of the app. */
int sys_mount(int *ret_fd);
int sys_mount_cgroups(int sys_fd, bool writable);
/* root.c: builds the app's root in a mount namespace of its own and makes it the root directory. */
int launch_enter_root(Launch *l, Failure *f);

/* targets.c: opens PATH, made if it is missing, in the app's root, and mounts MOUNT_FD there. */
int target_mount(const Launch *l, int mount_fd, const char *path);
int target_attach(int mount_fd, int target_fd);
/* Refuses PATH, opened as FD, to be mounted on if it is in a volume that passes on mounts to the host. */
int target_check_private(int root_fd, int fd, const char *path, Failure *f);
/* The volume that takes the place of /dev; SIZE_MAX: there is none. */
size_t launch_dev_volume(const Launch *l);
/* Mounts all other volumes of the app, those that are inside of others after them. None may hide another one, /dev, or
 * /proc, which are mounted as DEV_FD and PROC_FD. */
int launch_mount_volumes(const Launch *l, int proc_fd, int dev_fd, Failure *f);

/* protect.c: what an app cannot read, or cannot write. */
enum { POD_PROC, POD_SYS, _POD_MOUNT_MAX }; /* MOUNTS, as far as paths are found in them */
int root_set_read_only(int mount_fd, bool recursive);
/* A detached copy of the mounts at PATH, which may be "" for FD itself. */
int root_clone_tree(int fd, const char *path);
/* Before volumes are mounted: unless the user has given lists. */
int protect_defaults(const Launch *l, const int mounts[static _POD_MOUNT_MAX], Failure *f);
/* Afterwards: the lists that the user has given. */
int protect_given(const Launch *l, int root_fd, const int mounts[static _POD_MOUNT_MAX], Failure *f);
/* Hides the file or directory TARGET_FD by an empty one that cannot be opened. */
int root_mask(int target_fd);

/* identity.c: user and group of the manifest, looked up in the current root directory. */
typedef struct Identity {
        uid_t uid;
        gid_t gid;
        gid_t *groups; /* supplementary groups; with their number */
        size_t n_groups, groups_allocated;
        char *home, *shell; /* from the image's passwd, or NULL */
} Identity;
int identity_resolve(const LaunchConfig *c, Identity *ret, Failure *f);
/* The same, and stores the result for the first process of an execution. Later processes of that execution
 * use the stored result: the app may have written to these files since, and must not gain anything by it. */
int identity_find(Launch *l, Identity *ret, Failure *f);
void identity_done(Identity *id);

/* credentials.c: makes the app's credentials its user's, and read-only. */
int launch_give_credentials(Launch *l, const Identity *id, Failure *f);

/* confine.c: assumes the identity and drops every privilege that the app must not have; and, as the last
 * step, installs the filter of system calls. */
int confine_identity(const LaunchConfig *c, const Identity *id, Failure *f);
/* The failure for users and groups that the kernel does not know in the pod's user namespace. */
int confine_no_such_id(const Identity *id, Failure *f);
int confine_system_calls(const LaunchConfig *c, Failure *f);
/* Keeps the process from inspecting the processes of other apps. To be called before confine_identity(): it
 * needs CAP_SYS_ADMIN. */
int apply_landlock(const LaunchConfig *c, Failure *f);

/* label.c: sets the labels for the next exec of the process. ATTR_FD is /proc/self/attr. */
int label_next_exec(LaunchConfig *c, unsigned modules, int attr_fd, Failure *f);
/* Text to follow "Cannot execute PROGRAM", since a security module may be the reason; "" without a label. */
int label_describe(const LaunchConfig *c, unsigned modules, char **ret);

/* command.c: the executable, found as the app's user in the app's root. */
typedef struct Command {
        char *path;
        char *interpreter; /* of a script, or the dynamic loader of a program; or NULL */
        enum { COMMAND_OTHER, COMMAND_ELF, COMMAND_SCRIPT, COMMAND_TEXT } format;
        char **shell_argv; /* for a script without "#!"; the strings are not owned */
        char *label;       /* the label it is executed with: label_describe(), or NULL */
} Command;

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
void command_done(Command *c);
int command_find(char *const *argv, char *const *environment, Command *ret, Failure *f);
int command_execute(const Command *c, char *const *argv, char *const *environment,
                    Failure *f); /* returns only on failure */

/* own-users.c: an app with CAP_SYS_ADMIN gets a user namespace of its own, unless the pod has the host's. */
int own_users_enter(const Launch *l, Failure *f);
/* execute.c: environment, working directory, and the exec itself; returns only on failure. */
int launch_execute(Launch *l, char *const *argv, const Identity *id, Failure *f);
/* Sets the labels of the app for the next exec. To be called while /proc is the pod's or the host's, so that
 * no path in it is untrusted. */
int launch_choose_label(Launch *l, Failure *f);
/* Everything from the request to the exec of the phase's command (the app's exec, or an event handler);
 * returns only on failure. RUNNING is called as root in the app's root, just before privileges are given up;
 * may be NULL. */
int launch_become(Launch *l, int (*running)(Launch *l, Failure *f), Failure *f);

/* handler.c: runs the phase's event handler as a child that is confined as the app is, and waits for it. On
 * the signal that the pod's systemd sends on a time-out, the handler is killed and counts as timed out. A
 * handler that could not be started is a failure. */
int launch_run_handler(Launch *l, HandlerStatus *ret, Failure *f);

/* report.c: reports what has happened to the app. */
int report_map(Launch *l, int fd, Failure *f);
/* The app is about to be executed. */
int report_running(Launch *l, Failure *f);
/* It cannot be. Makes no system calls once report_map() was called: the app's filter may be in force. */
void report_failed(Launch *l, const Failure *f);
/* How the handler H ended; F: it could not be started; or NULL. */
int report_handler(Launch *l, LaunchEventKind kind, const HandlerStatus *h, const Failure *f);
int report_check(Launch *l, const HandlerStatus *h, const char *message, uint64_t number, bool counts);
/* What systemd says of the main process (SERVICE_RESULT, EXIT_CODE and EXIT_STATUS). Returns when everything is
 * forwarded that the app has written. -ECANCELED: the app never ran. */
int report_main_ended(Launch *l);

/* ready.c: delays and readiness of an app that starts. -EINVAL: one of ARGUMENTS is unknown. */
int launch_numbers_parse(char *const *arguments, LaunchNumbers *ret);
/* Waits for the delay before this start; returns the exit status of the process, as does launch_ready(). */
int launch_delay(Launch *l, const LaunchNumbers *n);
/* Waits until the app is ready, by notification or health check, and reports it. */
int launch_ready(Launch *l, const LaunchNumbers *n);
/* Blocks the signals that may be sent to end this process, any of which the user may have chosen for the
 * app. */
void launch_block_signals(sigset_t *set);

/* health.c: runs the app's health check once, and reports it; NUMBER is that of the event. A failure counts from the
 * monotonic time COUNTS_FROM on; *RET_COUNTED, which may be NULL, is whether it would. 1: the check succeeded, 0: it
 * failed, -EINTR: a signal to end this process has arrived, and nothing was reported. */
int health_check(Launch *l, uint64_t timeout_usec, uint64_t number, uint64_t counts_from, bool *ret_counted);
/* check-cgroup.c. check_cgroup_fork() forks a child into the cgroup; check_cgroup_kill() kills all processes in it. */
int check_cgroup_make(CheckCgroup *ret, Failure *f);
pid_t check_cgroup_fork(const CheckCgroup *c);
int check_cgroup_kill(const CheckCgroup *c);
void check_cgroup_done(CheckCgroup *c);
/* The cgroup of process PID, or "self", in the v2 hierarchy, to be freed; NULL: unknown. In v1 hierarchies a process may be
 * in another cgroup: with the pids controller of version 1 each app has one there. */
char *unified_cgroup(const char *pid);
/* "launch check" */
int health_main(Launch *l, const LaunchNumbers *n);

/* enter.c: runs a command beside a running app, confined as the app is; returns the exit status of the
 * process. */
int enter_main(void);

/* shutdown.c: ends the pod, as its process 1; returns the pod's exit status. */
int shutdown_main(char *const *argv);
