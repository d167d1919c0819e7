/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/api/: operations on running pods and their apps, as a client of the Varlink interface org.acnspawn.Pod that the
 * supervisor of each pod serves (stage0/run/interface.c).
 *
 * Functions return 0 or a negative errno with a message that names the pod and, where one is concerned, the app. They do
 * not print, exit, or keep state outside of the connection. They can be called from any thread, one at a time for each
 * connection. A wait ends with the operation of the pod's store (-EINTR, -ETIME).
 *
 * A supervisor has 30 s to answer (-ETIMEDOUT). Functions that wait for the end of something are documented as doing so;
 * they first check that the supervisor answers at all, and then wait without limit.
 *
 * Errors of all functions on a connection:
 *
 *     -ENOENT        the pod has no app of this name; the hint has its apps
 *     -EBUSY         the pod is paused
 *     -EAGAIN        the pod's systemd cannot be reached yet, after some seconds
 *     -ESHUTDOWN     the pod is about to end: nothing is started any more
 *     -EIO           systemd's job has failed; the hint says why, if that is known
 *     -EOPNOTSUPP    the pod is run by an earlier version of acnspawn, which cannot do this
 *     -ECONNRESET    the pod has ended, or its supervisor has
 */

#include <sys/ioctl.h>

#include "stage0/runtime/runtime.h"

/* --- Connections (connection.c) ------------------------------------------------------------------------ */

typedef struct AcnPod AcnPod;

/* Connects to the interface of a running pod, which has to stay as long as the connection. A pod that has only just been
 * started gets a second to offer it. -ESRCH: the pod is not running, or not any more; -EOPNOTSUPP: it is run by a version
 * of acnspawn that had no interface. */
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
        ACN_APP_REMOVED, /* of events: it was removed from the pod */
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

/* Strings are owned, and NULL where nothing is known. Times are in microseconds since the epoch, 0 if there is none. */
typedef struct AcnApp {
        char *name, *image, *image_id;
        AcnAppState state;
        uint64_t starts, started_usec, ended_usec;
        bool tells_readiness, ready;
        /* Of an app that has exited. The first is the status as container engines report it: of a signal 128 + its
         * number, of a program that could not be executed 125 to 127. */
        int exit_code, exit_status; /* the latter -1: it did not exit by itself */
        int signal;                 /* 0: none */
        char *cause, *message;
} AcnApp;

typedef struct AcnDescription {
        char *uuid, *name, *exit_policy;
        AcnPodState state;
        AcnApp *apps;
        size_t n_apps;
        uint64_t sequence; /* of the last event */
} AcnDescription;

void acn_app_done(AcnApp *a);
void acn_description_done(AcnDescription *d);
/* The pod as it is; acn_description_done() frees *RET. */
int acn_describe(AcnPod *a, AcnDescription *ret, Error *e);

/* --- Apps (apps.c) ------------------------------------------------------------------------------------- */

/* Adds the one app of Q, with IMAGE_ID (or NULL: what Q names), which has to be in the store. The app is created. *RET_NAME is
 * its name, *RET_WARNINGS gets lines for the user; both to be freed. Errors besides those above are those of preparing a
 * pod; nothing of the app stays then. */
int acn_add_app(AcnPod *a, const PodRequest *q, const char *image_id, char **ret_name, char ***ret_warnings,
                Error *e);
/* Removes an app that was created or has exited. -EBUSY: it runs. */
int acn_remove_app(AcnPod *a, const char *app, Error *e);
/* Starts an app that was created or has exited, and waits until it is started: executed, or ready if it tells so. -EALREADY:
 * it is not in one of these states. */
int acn_start_app(AcnPod *a, const char *app, Error *e);
/* Stops an app in order, kills it if it has not ended after TIMEOUT_USEC (UINT64_MAX: after its own time-out), and waits for
 * its end. 0 as well if it does not run. */
int acn_stop_app(AcnPod *a, const char *app, uint64_t timeout_usec, Error *e);
/* Stops an app in order, if it runs, starts it with a clean root, and waits as acn_start_app(). */
int acn_restart_app(AcnPod *a, const char *app, Error *e);
/* Sends SIGNAL to the main process of an app. -ESRCH: it has none; -EPERM: what the pod's systemd calls the main process of
 * the app is not in the app's cgroup. */
int acn_signal_app(AcnPod *a, const char *app, int signal, Error *e);
/* The same to every app that has a main process. -ESRCH: none has. 0 as well if the pod ends by the first signals. */
int acn_signal_apps(AcnPod *a, int signal, Error *e);

/* --- Commands beside apps (exec.c) --------------------------------------------------------------------- */

typedef struct AcnExecOptions {
        const char *app;
        char *const *argv;         /* NULL, or empty: the shell of the image */
        char *const *environment;  /* NAME=VALUE, added to the app's, or NULL */
        const char *user;          /* USER[:GROUP] that the app could become; NULL: the app's */
        const char *directory;     /* absolute; NULL: the app's working directory */
        bool terminal;             /* standard input and output are a new terminal of the app, */
        const char *terminal_type; /* TERM of which is this; NULL: "xterm"; */
        struct winsize size;       /* zero: not known */
        int fds[3]; /* the command's ends of pipes that are the (other) streams; or -EBADF: standard error
                                      is on the terminal, if there is one, others are the null device */
        uint64_t timeout_usec; /* after which all that the command has started is killed; 0, UINT64_MAX: never */
} AcnExecOptions;

typedef struct AcnExecState {
        /* Once it is executed: */
        int process_fd;  /* a pidfd of the command */
        int terminal_fd; /* the terminal's master, which does not block; or -EBADF */
        /* Once it has ended, or could not be executed: */
        int exit_code; /* as container engines report it: of a signal 128 + its number, 125 to 127 of a failure */
        bool timed_out;
} AcnExecState;

/* Begins to run a command, which is killed, with all that it has started, when the connection ends. The descriptors of O
 * are taken, also on failure. Nothing else can be done on the connection until it has ended. -E2BIG: the command is too
 * long. */
int acn_exec(AcnPod *a, AcnExecOptions *o, Error *e);
/* To be polled for what acn_exec_next() returns; lent. */
int acn_exec_fd(const AcnPod *a);
/* Waits at most TIMEOUT_USEC for what becomes of it. 1: it is executed, and the descriptors in *RET are the caller's; 0: it
 * has ended; -ENOEXEC: it could not be executed, and *RET has its exit code; -ESRCH: the app is not running;
 * -EHOSTUNREACH: the first thread of its main process has ended, though others go on; -EUSERS: too many commands run in the pod; -ETIMEDOUT: nothing yet. */
int acn_exec_next(AcnPod *a, uint64_t timeout_usec, AcnExecState *ret, Error *e);

/* --- Limits (limits.c) --------------------------------------------------------------------------------- */

/* Changes limits of an app: isolators of its memory, processor time, CPU weight and tasks, which replace the app's own. They are in
 * force, also for later starts of the app, when this returns. -EOPNOTSUPP: this host has no controller for one of them,
 * and nothing was changed; -EINVAL: an isolator is of another type. */
int acn_update_app(AcnPod *a, const char *app, const IsolatorList *limits, Error *e);

/* --- The pod (pod.c) ----------------------------------------------------------------------------------- */

/* Suspends all processes of the pod, or lets them continue. Of a pod that is suspended already, or is not: 0. */
int acn_pause(AcnPod *a, Error *e);
int acn_resume(AcnPod *a, Error *e);
/* Stops the pod in order, has the supervisor kill it if it has not ended after TIMEOUT_USEC (0: at once; UINT64_MAX:
 * never), and waits for its end. *RET_KILLED, which may be NULL: whether it was killed. -ETIMEDOUT: the supervisor does not
 * answer, or the pod has not ended well after the time-out. */
int acn_stop(AcnPod *a, uint64_t timeout_usec, bool *ret_killed, Error *e);
/* Has the log file of APP, or those of all apps (NULL), opened anew. Afterwards nothing more is written to the files that
 * were there before. */
int acn_reopen_logs(AcnPod *a, const char *app, Error *e);

/* --- Events (monitor.c) -------------------------------------------------------------------------------- */

typedef struct AcnEvent {
        uint64_t sequence;  /* each is one more than the last */
        uint64_t time_usec; /* 0: the supervisor does not tell */
        AcnPodState state;
        AcnApp app;      /* as it is from then on; its name is NULL if the event is about the pod alone */
        int exit_status; /* of a pod that has exited; -1: not known, or it has not */
} AcnEvent;

void acn_event_done(AcnEvent *v);

/* Begins to receive events: those after event number SINCE, or (UINT64_MAX) those from now on. Nothing else can be done on
 * the connection afterwards. */
int acn_monitor(AcnPod *a, uint64_t since, Error *e);
/* Waits at most TIMEOUT_USEC (UINT64_MAX: without limit) for the next event. 1: *RET, which acn_event_done() frees; 0: the
 * last was the pod's end. -ETIMEDOUT: none yet; -ESTALE: events after SINCE are not kept any more; -EINVAL: there was no
 * event SINCE yet. */
int acn_monitor_next(AcnPod *a, uint64_t timeout_usec, AcnEvent *ret, Error *e);

/* --- Waiting (wait.c) ---------------------------------------------------------------------------------- */

/* Waits until the pod P, which runs or has ended, has ended, or (APPS, NULL-terminated, not empty) until these apps have.
 * *RET_STATUS is the exit status of the pod, or that of the first of APPS which is not 0. -ETIME: TIMEOUT_USEC is over;
 * -ESRCH: the pod was not run yet; -ENOENT: it has no such app; -ENODATA: it was removed before its status could be
 * read. */
int acn_wait(Pod *p, char *const *apps, uint64_t timeout_usec, int *ret_status, Error *e);
