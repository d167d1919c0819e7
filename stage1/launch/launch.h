/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The launcher's own parts; nothing here is for other rooms. */

#include <signal.h>

#include "stage1/app-status.h"
#include "stage1/launch-config.h"
#include "stage1/launch-protocol.h"

/* A health check that runs, and what it wrote. */
#define CHECK_OUTPUT_MAX 1024U
typedef struct LaunchCheck {
        uint64_t timeout_usec;
        int read_fd, write_fd; /* of a pipe */
        char output[CHECK_OUTPUT_MAX + 1];
        size_t n_output;
} LaunchCheck;

/* Numbers that stand behind the app's name on the command line; see ready.c. */
typedef struct LaunchNumbers {
        uint64_t first, max;       /* of a delay, in microseconds */
        uint64_t timeout, retries; /* of a health check */
        uint64_t act;              /* whether something is to be done about an unhealthy app */
        uint64_t interval, start_period, start_interval;
        uint64_t starts; /* in a row, after which we give up an app that systemd would not; 0: none */
        bool extend, tell, leave, orderly, always, notify;
} LaunchNumbers;

/* What stage0 answered, and what the launcher holds while it works. */
typedef struct Launch {
        LaunchPhase phase;
        const char *app;
        LaunchConfig config;
        char *metadata_url, *terminal_type;
        unsigned modules;            /* LAUNCH_APPARMOR and so on */
        uint64_t processes;          /* what RLIMIT_NPROC is to be, or 0 */
        int root_fd, pts_fd, dev_fd; /* detached mounts */
        int *volume_fds;
        size_t n_volumes;
        bool has_credentials;
        int credentials_fd;    /* where they are mounted, until they are given to the app's user */
        int notify_fd;         /* a mount of the socket by which the app tells that it is ready, or -EBADF */
        char *identity;        /* who the app is in this execution, if that is known: see identity_find() */
        char *shared_identity; /* APP_IDENTITY_MAX bytes, where a handler tells it, or NULL */
        int status_fd;         /* the directory of records */
        AppStatus status;      /* what the app's record says, once "running" is written */
        char *record;          /* the record itself, mapped from then on */
        int stdin_fd;          /* what is read; -EBADF: nothing */
        int stdout_fd, stderr_fd; /* pipes to stage0 */
        bool terminal;            /* the first two are a terminal, which is to be the controlling one */
        char **socket_names;      /* of the sockets from descriptor 3 on, */
        size_t n_sockets;         /* which are the app's main process' alone */
        int parent_fd;            /* breaks when who started us dies, and we are to die then; or -EBADF */
        int link_fd;              /* main: the connection to stage0, closed by the exec; or -EBADF */
        bool notify;              /* the socket is at LAUNCH_NOTIFY_PATH */
        LaunchCheck *check;       /* of a health check, or NULL */
        bool interrupted;         /* we were to end while we waited for a handler or a check */
} Launch;

#define LAUNCH_NULL                                                                                         \
        ((Launch){.credentials_fd = -EBADF,                                                                 \
                  .notify_fd = -EBADF,                                                                      \
                  .root_fd = -EBADF,                                                                        \
                  .pts_fd = -EBADF,                                                                         \
                  .dev_fd = -EBADF,                                                                         \
                  .status_fd = -EBADF,                                                                      \
                  .stdin_fd = -EBADF,                                                                       \
                  .stdout_fd = -EBADF,                                                                      \
                  .stderr_fd = -EBADF,                                                                      \
                  .parent_fd = -EBADF,                                                                      \
                  .link_fd = -EBADF})

/* Failures inside the launcher carry the cause that goes into the record. */
typedef struct Failure {
        AppCause cause;
        Error error;
} Failure;

int failure_set(Failure *f, AppCause cause, int code, const char *format, ...) _printf_(4, 5);
int failure_set_errno(Failure *f, AppCause cause, int code, const char *format, ...) _printf_(4, 5);

/* request.c: asks stage0 for what belongs to the app. STREAMS are lent. */
int launch_request(Launch *l, const int streams[static _LAUNCH_STREAM_MAX], Failure *f);
/* Waits until stage0 has passed on everything that processes of the app wrote so far. EXIT_STATUS: how it
 * ended; -1: it has not, or that was told before. */
int launch_flush(Launch *l, int exit_status);
/* sockets.c: takes what systemd has passed, before a descriptor of our own is opened; compares it with what
 * the launch file says; and puts it where the app expects it, with the variables that say so. */
int sockets_take(Launch *l, Failure *f);
int sockets_check(const Launch *l, Failure *f);
int sockets_arrange(Launch *l, char ***environment, Failure *f);
/* Tells stage0 what became of the app: LAUNCH_READY, … */
int launch_tell(Launch *l, LaunchPhase what);
/* Whether the app has told that it is ready: the answer comes over the socket that is returned, and is the
 * result of launch_await_end(): 0, or with NOW -EAGAIN. */
int launch_await_begin(Launch *l, bool now);
int launch_await_end(int sock);
/* streams.c: connections to the journal for standard output and standard error. */
int launch_open_streams(Launch *l, int ret[static _LAUNCH_STREAM_MAX], Failure *f);
/* root.c: builds the app's root in a mount namespace of its own and makes it the root directory. */
int launch_enter_root(Launch *l, Failure *f);

/* targets.c: opens PATH, made if it is missing, in the root at ROOT_FD, and mounts MOUNT_FD there. */
int target_mount(int root_fd, int mount_fd, const char *path);
int target_attach(int mount_fd, int target_fd);
/* All volumes of the app, once it is sure that none of them gets into the way of another, of /dev, or of
 * /proc, which is mounted as PROC_FD. */
int launch_mount_volumes(Launch *l, int root_fd, int proc_fd, Failure *f);

int root_set_read_only(int mount_fd, bool recursive);

/* identity.c: user and group of the manifest, looked up in what is the root directory now. */
typedef struct Identity {
        uid_t uid;
        gid_t gid;
        gid_t *groups; /* supplementary; with their number */
        size_t n_groups, groups_allocated;
        char *home, *shell; /* from the image's passwd, or NULL */
} Identity;
int identity_resolve(const LaunchConfig *c, Identity *ret, Failure *f);
/* The same, and remembers it, for the first process of an execution. For those that come after it what the
 * first one found is what counts: the app may have written to these files since, and is to gain nothing by
 * it. */
int identity_find(Launch *l, Identity *ret, Failure *f);
void identity_done(Identity *id);

/* credentials.c: makes the app's credentials its user's, and read-only. */
int launch_give_credentials(Launch *l, const Identity *id, Failure *f);

/* confine.c: takes the identity and gives up every privilege the app is not to have; then, after all else,
 * system calls. */
int confine_identity(const LaunchConfig *c, const Identity *id, Failure *f);
int confine_system_calls(const LaunchConfig *c, Failure *f);
/* Keeps the process from looking into the processes of other apps. To be called before confine_identity(): it
 * takes CAP_SYS_ADMIN. */
int apply_landlock(const LaunchConfig *c, Failure *f);

/* label.c: the labels that the next exec gives the process. ATTR_FD is /proc/self/attr. */
int label_next_exec(LaunchConfig *c, unsigned modules, int attr_fd, Failure *f);
/* Words that follow "Cannot execute PROGRAM", where a module may be why; "" without a label. */
int label_describe(const LaunchConfig *c, unsigned modules, char **ret);

/* command.c: the executable, found as the app's user in the app's root. */
typedef struct Command {
        char *path;
        char *interpreter; /* of a script, or the loader of a program; or NULL */
        enum { COMMAND_OTHER, COMMAND_ELF, COMMAND_SCRIPT, COMMAND_TEXT } format;
        char **shell_argv; /* for a text without "#!"; the strings are not its own */
        char *label;       /* what it is executed in: label_describe(), or NULL */
} Command;

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
void command_done(Command *c);
int command_find(char *const *argv, char *const *environment, Command *ret, Failure *f);
int command_execute(const Command *c, char *const *argv, char *const *environment,
                    Failure *f); /* returns only on failure */

/* execute.c: environment, working directory, and the exec itself; returns only on failure. */
int launch_execute(Launch *l, char *const *argv, const Identity *id, Failure *f);
/* The labels of the app for the next exec. To be called where /proc is the pod's or the host's, and no name
 * in it a stranger's. */
int launch_choose_label(Launch *l, Failure *f);
/* Everything from the request on to the exec of what the phase is for (the app's exec, or an event handler);
 * returns only on failure. RUNNING is called as root in the app's root, just before privileges are given up;
 * may be NULL. */
int launch_become(Launch *l, int (*running)(Launch *l, Failure *f), Failure *f);

/* handler.c: runs the phase's event handler as a child that is confined as the app is, and waits for it. On
 * the signal that the pod's systemd sends when time is up, the handler is killed and counts as timed out. A
 * handler that could not be started is a failure. */
int launch_run_handler(Launch *l, HandlerStatus *ret, Failure *f);

/* record.c: the app's record, before, while and after it runs. */
int record_pre_start_begin(Launch *l);
int record_pre_start_end(Launch *l, const HandlerStatus *h, const Failure *f);
int record_running(Launch *l, Failure *f);
/* Takes the identity from the record of this execution. */
void record_recall_identity(Launch *l);
/* Nothing can start the app any more. */
int record_sockets_failed(Launch *l);
/* Makes no system calls but for memory if "running" is written: the app's filter may be in force. */
void record_main_failed(Launch *l, const Failure *f);
/* What systemd says of the main process (in SERVICE_RESULT, EXIT_CODE and EXIT_STATUS), put together with
 * what is recorded. TELLS: the app was to become ready. */
void record_main_ended(Launch *l, bool tells, AppStatus *ret);
int record_ready(Launch *l);

/* ready.c: what the launcher does beside an app that starts. -EINVAL: one of ARGUMENTS is unknown. */
int launch_numbers_parse(char *const *arguments, LaunchNumbers *ret);
/* Waits as long as is due before this start; returns our exit status, as the next one does. */
int launch_delay(Launch *l, const LaunchNumbers *n);
/* Waits until the app is ready, as far as a health check decides that, and tells it. */
int launch_ready(Launch *l, const LaunchNumbers *n);
/* Blocks the signals that may be sent to end us, any of which the user can have chosen for the app. */
void launch_block_signals(sigset_t *set);

/* health.c: runs the app's health check once. 1: it succeeded, 0: it failed, -EINTR: we are to end. */
int health_check(Launch *l, uint64_t timeout_usec, HealthStatus *h);
/* Counts a failure, and tells stage0 if that is one too many. */
int health_count(Launch *l, const LaunchNumbers *n, HealthStatus *h);
/* "launch check" */
int health_main(Launch *l, const LaunchNumbers *n);

/* enter.c: runs a command beside an app that runs, confined as the app is; returns our exit status. */
int enter_main(void);

/* shutdown.c: ends the pod, as its process 1; returns the pod's exit status. */
int shutdown_main(char *const *argv);
