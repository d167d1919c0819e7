/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/api/: operations on running pods and their apps, as a client of the Varlink interface
 * org.acnspawn.Pod that the supervisor of each pod serves (stage0/supervisor/interface/interface.c).
 *
 * Functions return 0 or a negative errno with a message that names the pod and, where one is concerned, the
 * app. They do not print, exit, or keep state outside of the connection. They can be called from any thread,
 * one at a time for each connection. A wait ends with the operation of the pod's store (-EINTR, -ETIME).
 *
 * A supervisor has 30 s to reply (-ETIMEDOUT). Functions that wait for the end of an app or pod say so; they
 * first check that the supervisor replies at all, and then wait without limit.
 *
 * Errors of all functions on a connection:
 *
 *     -ENOENT        the pod has no app of this name; the hint has its apps
 *     -EBUSY         the pod is paused
 *     -EAGAIN        the pod's systemd cannot be reached yet, after some seconds
 *     -ESHUTDOWN     the pod is about to end: nothing is started any more
 *     -EIO           systemd's job has failed; the hint says why, if that is known
 *     -EOPNOTSUPP    the pod is run by an earlier version of acnspawn, which cannot do this
 *     -ECONNRESET    the pod has ended, or its supervisor has */

#include <sys/ioctl.h>

#include "stage0/host/host.h"

/* --- Connections (connection.c) ------------------------------------------------------------------------ */

typedef struct AcnPod AcnPod;

/* Connects to the interface of a running pod, which has to stay open as long as the connection. If the pod
 * has just been started, waits up to a second for its interface. -ESRCH: the pod is not running, or not any
 * more; -EOPNOTSUPP: it is run by a version of acnspawn that had no interface. Any call over it: -EXFULL, as many calls wait there
 * as can. */
int acn_connect(Pod *p, AcnPod **ret, Error *e);
/* Disconnects. NULL is fine; returns NULL. */
AcnPod *acn_disconnect(AcnPod *a);
DEFINE_TRIVIAL_CLEANUP_FUNC(AcnPod *, acn_disconnect);

/* --- Descriptions (describe.c) ------------------------------------------------------------------------- */

typedef enum AcnAppState {
        ACN_APP_CREATED, /* it was not started yet */
        ACN_APP_STARTING,
        ACN_APP_RUNNING,
        ACN_APP_STOPPING,
        ACN_APP_EXITED,
        ACN_APP_REMOVING,
        ACN_APP_REMOVED, /* in events: it was removed from the pod */
        _ACN_APP_STATE_MAX,
} AcnAppState;

typedef enum AcnPodState {
        ACN_POD_RUNNING,
        ACN_POD_PAUSED,
        ACN_POD_STOPPING,
        ACN_POD_EXITED,
        _ACN_POD_STATE_MAX,
} AcnPodState;

/* "created", …; "running", … */
const char *acn_app_state_to_string(AcnAppState s);
const char *acn_pod_state_to_string(AcnPodState s);

/* Strings are owned, and NULL if unknown. Times are in microseconds since the epoch, 0 if unknown. */
typedef struct AcnApp {
        char *name, *image, *image_id;
        AcnAppState state;
        uint64_t starts, started_usec, ended_usec;
        bool tells_readiness, ready;
        char *health; /* "starting", "healthy", "unhealthy"; NULL: without a check, or not running */
        /* Of an app that has exited. The first is the status as container engines report it: 128 + the
         * number of the signal, or 125 to 127 if the program could not be executed. */
        int exit_code, exit_status; /* exit_status is -1 if it was killed by a signal */
        int signal;                 /* 0: none */
        char *cause, *message;
        char *task, *reason; /* as schedulers have it: "RUNNING"; of a supervisor of this version */
} AcnApp;

typedef struct AcnDescription {
        char *uuid, *name, *exit_policy;
        AcnPodState state;
        AcnApp *apps;
        size_t n_apps;
        uint64_t sequence; /* of the last event */
} AcnDescription;

void acn_app_done(AcnApp *a);
/* Reads an app as a supervisor describes it in a reply or an event; acn_app_done() frees *RET. -EBADMSG, -ENOMEM. */
int acn_app_read(json_object *o, AcnApp *ret);
void acn_description_done(AcnDescription *d);
/* The current state of the pod; acn_description_done() frees *RET. */
int acn_describe(AcnPod *a, AcnDescription *ret, Error *e);

/* --- Apps (apps.c) ------------------------------------------------------------------------------------- */

/* Adds the one app of Q, with IMAGE_ID (or NULL: the image that Q names), which has to be in the store. The
 * app is created, but not started. *RET_NAME is its name, *RET_WARNINGS gets lines for the user; both to be
 * freed. Other errors are those of preparing a pod; then nothing of the app is left. */
int acn_add_app(AcnPod *a, const PodRequest *q, const char *image_id, char **ret_name, char ***ret_warnings,
                Error *e);
/* Adds all apps of Q, each with the image of IMAGE_IDS, which have to be in the store, and starts them together: waits until
 * each of them is executed, and ready if it reports that. *RET_NAMES are their names. After a failure, which names the app,
 * nothing of any of them is left. */
int acn_launch_group(AcnPod *a, const PodRequest *q, const char *const *image_ids, char ***ret_names,
                     char ***ret_warnings, Error *e);
typedef struct AcnReplaceOptions {
        const char *reference; /* the user's name of the image, for later runs of the pod */
        const char *image_id;  /* has to be in the store */
        /* Its one app, with the content of its credentials, is what the app is from now on, with the volumes of mounts
         * that are the same; or NULL: the app's settings, credentials and volumes stay. */
        const PodRequest *definition;
        /* The time within which the new app has to be executed, and ready if it reports that; UINT64_MAX: its own
         * time-out holds. */
        uint64_t ready_timeout_usec;
} AcnReplaceOptions;

/* Replaces an app by one of another image, or with another definition. The new app is prepared before the old
 * one is stopped; if the app runs, the new one is started. *RET_REPLACED: false if the app has this image
 * already, and no definition is given. -ECONNABORTED: it was not executed, or ready, in time, and the old app
 * was put back, as the hint says; -EBUSY: the app is being started, stopped or replaced by another call;
 * others as of acn_add_app(), and nothing was changed. */
int acn_replace_app(AcnPod *a, const char *app, const AcnReplaceOptions *o, bool *ret_replaced,
                    char ***ret_warnings, Error *e);
/* The names of the credentials that differ from those that the app has. -EOPNOTSUPP: the pod's supervisor is too old. */
int acn_compare_credentials(AcnPod *a, const char *app, const CredentialList *l, char ***ret, Error *e);
/* Removes an app that was created or has exited. -EBUSY: it runs; with STOP it is stopped first, as acn_stop_app() does, and
 * connections do not start it meanwhile. */
int acn_remove_app(AcnPod *a, const char *app, bool stop, uint64_t timeout_usec, Error *e);
/* Starts an app that was created or has exited, and waits until it is executed, or ready if it reports that.
 * -EALREADY: it is not in one of these states. */
int acn_start_app(AcnPod *a, const char *app, Error *e);
/* The same of an app that the caller removes if it fails: meanwhile the failure has no effect on the pod, whatever its
 * exit policy. */
int acn_start_app_tentatively(AcnPod *a, const char *app, Error *e);
/* Stops an app in order, kills it if it has not ended after TIMEOUT_USEC (UINT64_MAX: after its own time-out), and waits for
 * its end. 0 as well if it does not run. */
int acn_stop_app(AcnPod *a, const char *app, uint64_t timeout_usec, Error *e);
/* Stops an app in order, if it runs, starts it with a clean root, and waits as acn_start_app(). */
int acn_restart_app(AcnPod *a, const char *app, Error *e);
/* Sends SIGNAL to the main process of an app. -ESRCH: it has none; -EPERM: the process that the pod's
 * systemd considers the main process is not in the app's cgroup. */
int acn_signal_app(AcnPod *a, const char *app, int signal, Error *e);
/* The same to every app that has a main process. -ESRCH: none has. 0 as well if the pod ends by the first signals. */
int acn_signal_apps(AcnPod *a, int signal, Error *e);

/* --- Commands beside apps (exec.c) --------------------------------------------------------------------- */

typedef struct AcnExecOptions {
        const char *app;
        char *const *argv;         /* NULL, or empty: the shell of the image */
        char *const *environment;  /* NAME=VALUE, added to the app's, or NULL */
        const char *user;          /* USER[:GROUP], a user that the app could become; NULL: the app's */
        const char *directory;     /* absolute; NULL: the app's working directory */
        bool terminal;             /* standard input and output are a new terminal of the app */
        const char *terminal_type; /* its TERM; NULL: "xterm" */
        struct winsize size;       /* its size; zero: unknown */
        int fds[3]; /* the command's ends of pipes; -EBADF: the terminal, for standard error, or /dev/null */
        uint64_t timeout_usec; /* then all its processes are killed; 0, UINT64_MAX: never */
} AcnExecOptions;

typedef struct AcnExecState {
        /* When it is executed: */
        int process_fd;  /* a pidfd of the command */
        int terminal_fd; /* the terminal's master, which does not block; or -EBADF */
        /* When it has ended, or could not be executed: */
        int exit_code; /* 128 + the number of a signal, or 125 to 127 of a failure */
        bool timed_out;
} AcnExecState;

/* Runs a command, which is killed, with all processes that it has started, when the connection ends. The
 * descriptors of O are taken over, also on failure. The connection cannot be used for other calls until the
 * command has ended. -E2BIG: the command is too long. */
int acn_exec(AcnPod *a, AcnExecOptions *o, Error *e);
/* To be polled before acn_exec_next(), acn_attach_next() or acn_logs_wait(); lent. */
int acn_exec_fd(const AcnPod *a);
/* Waits at most TIMEOUT_USEC for the next state of the command. 1: it is executed, and the descriptors in
 * *RET are the caller's; 0: it has ended; -ENOEXEC: it could not be executed, and *RET has its exit code;
 * -ESRCH: the app is not running; -EHOSTUNREACH: the main thread of its main process has ended, though other
 * threads run; -EUSERS: too many commands run in the pod; -ETIMEDOUT: no change. */
int acn_exec_next(AcnPod *a, uint64_t timeout_usec, AcnExecState *ret, Error *e);

/* --- Standard streams of apps (attach.c) ---------------------------------------------------------------- */

typedef struct AcnAttachOptions {
        const char *app;
        struct winsize size; /* of the terminal, if the app has one; zero: not known */
        int fds[3]; /* the supervisor's ends of pipes: the first is read, the others are written; or -EBADF.
                     * Output of a terminal goes to standard output alone */
} AcnAttachOptions;

typedef struct AcnAttachState {
        int64_t id;       /* for acn_resize_terminal(), acn_close_stdin() */
        bool terminal;    /* in the first reply: the app has one */
        uint64_t skipped; /* bytes of output that were dropped, as they were not read in time */
        int exit_code;    /* when the app has ended: as container engines report it; -1: unknown */
} AcnAttachState;

/* Attaches to an app, until it ends or the connection does. Several clients can be attached; the app does
 * not wait for any of them. The descriptors of O are taken over, also on failure. The connection cannot be
 * used for other calls until the app has ended. */
int acn_attach(AcnPod *a, AcnAttachOptions *o, Error *e);
/* Waits at most TIMEOUT_USEC for the next event. 1: the connection is attached (once), or output was
 * dropped; 0: the app has ended, and its output is in the pipes; -ENOTCONN: its standard input is the null
 * device, and one was passed; -EUSERS: too many clients are attached; -ETIMEDOUT: no event. */
int acn_attach_next(AcnPod *a, uint64_t timeout_usec, AcnAttachState *ret, Error *e);
/* For an attached client, by its id, on another connection. Closes the app's standard input, for all
 * attached clients; without this call the end of a client's input does not reach the app. */
int acn_close_stdin(AcnPod *a, int64_t id, Error *e);
/* For an attached client or a command, by its id. */
int acn_resize_terminal(AcnPod *a, int64_t id, const struct winsize *size, Error *e);

/* --- Output of apps (logs.c) ------------------------------------------------------------------------------ */

typedef struct AcnLogOptions {
        const char *app; /* NULL: all */
        bool follow;     /* until the pod has ended */
        bool json; /* a JSON object per line, with timestamp, app, stream and message; else the text, */
        bool timestamps, prefix;         /* preceded by the time and the name of the app */
        uint64_t lines;                  /* number of last lines; UINT64_MAX: all */
        uint64_t since_usec, until_usec; /* realtime, both included; UNTIL 0: to the end */
        int out_fd, err_fd; /* pipes to be written; ERR_FD, for lines of standard error, may be -EBADF: they go to OUT_FD */
} AcnLogOptions;

/* Has the supervisor write output of apps to the pipes, which are taken over, also on failure. The caller
 * reads the other ends; closing the connection ends it. The connection cannot be used for other calls
 * meanwhile. */
int acn_logs(AcnPod *a, AcnLogOptions *o, Error *e);
/* Waits at most TIMEOUT_USEC until everything is in the pipes. -EIO: the output could not be read (to its
 * end); -EUSERS: too many callers read the pod's logs; -ETIMEDOUT: not complete yet. */
int acn_logs_wait(AcnPod *a, uint64_t timeout_usec, Error *e);

/* --- Limits (limits.c) --------------------------------------------------------------------------------- */

/* Changes limits of an app: isolators of its memory, processor time, CPU weight and tasks, which replace the
 * app's own. An isolator of memory or processor time without a limit (has_limit is false) removes that of
 * the app. They are in force, also for later starts of the app, when this returns. -EOPNOTSUPP: this host
 * has no controller for one of them, and nothing was changed; -EINVAL: an isolator is of another type. */
int acn_update_app(AcnPod *a, const char *app, const IsolatorList *limits, Error *e);

/* --- The pod (pod.c) ----------------------------------------------------------------------------------- */

/* Suspends all processes of the pod, or resumes them. 0 as well if the pod is in that state already. */
int acn_pause(AcnPod *a, Error *e);
int acn_resume(AcnPod *a, Error *e);
/* ON_LATE is called once, if an operation has not ended after USEC. CHECKS: first whether the supervisor answers at all. */
typedef struct AcnWaitOptions {
        bool checks;
        uint64_t usec;
        void (*on_late)(void *userdata);
        void *userdata;
} AcnWaitOptions;

/* Stops the pod in order, has the supervisor kill it if it has not ended after TIMEOUT_USEC (0: at once; UINT64_MAX:
 * never), and waits for its end. OPTIONS may be NULL. *RET_KILLED, which may be NULL: whether it was killed. -ETIMEDOUT: the
 * supervisor does not answer, or the pod has not ended well after the time-out. */
int acn_stop(AcnPod *a, uint64_t timeout_usec, const AcnWaitOptions *options, bool *ret_killed, Error *e);
/* Reopens the log file of APP, or those of all apps (NULL), by path. After that nothing more is written to
 * the previous files. */
int acn_reopen_logs(AcnPod *a, const char *app, Error *e);

/* --- Events (monitor.c) -------------------------------------------------------------------------------- */

typedef struct AcnEvent {
        uint64_t sequence;  /* each is one more than the last */
        uint64_t time_usec; /* 0: the supervisor does not report it */
        AcnPodState state;
        AcnApp app;      /* the app after the event; its name is NULL if the event is about the pod alone */
        char *change;    /* "replacing", "replaced", "rolledBack"; NULL: no replacement */
        char *message;   /* why it was rolled back, or NULL */
        int exit_status; /* of a pod that has exited; -1: unknown, or it has not */
} AcnEvent;

void acn_event_done(AcnEvent *v);

/* Starts receiving events: those after event number SINCE, or (UINT64_MAX) those from now on. The connection
 * cannot be used for other calls afterwards. */
int acn_monitor(AcnPod *a, uint64_t since, Error *e);
/* Waits at most TIMEOUT_USEC (UINT64_MAX: without limit) for the next event. 1: *RET, which acn_event_done()
 * frees; 0: the last event was the pod's end. -ETIMEDOUT: no event; -ESTALE: events after SINCE are not kept
 * any more; -EINVAL: there was no event SINCE yet. */
int acn_monitor_next(AcnPod *a, uint64_t timeout_usec, AcnEvent *ret, Error *e);

/* --- Waiting (wait.c) ---------------------------------------------------------------------------------- */

/* Waits until the pod P, or (APPS, NULL-terminated, not empty) until these apps have ended. *RET_STATUS is
 * the exit status of the pod, or the first nonzero one of APPS. -ETIME: TIMEOUT_USEC has expired; -ESRCH:
 * the pod was not run yet; -ENOENT: it has no such app; -ENODATA: it was removed before its status could be
 * read. */
int acn_wait(Pod *p, char *const *apps, uint64_t timeout_usec, int *ret_status, Error *e);
