/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The state of an app, or how it ended. The supervisor holds it, and keeps a record in status/ of the pod
 * directory. Depends on basic/ alone, since the launcher is linked statically. */

#include "basic/basic.h"

typedef enum AppState {
        APP_WAITING,   /* not started: no record yet */
        APP_PRE_START, /* its pre-start handler runs */
        APP_RUNNING,
        APP_POST_STOP, /* its processes have ended, its post-stop handler runs */
        APP_ENDED,
        _APP_STATE_MAX,
} AppState;

const char *app_state_to_string(AppState s); /* "waiting", "pre-start", "running", "post-stop", "ended" */

/* Why an app ended. Only the first two are the app's own doing. */
typedef enum AppCause {
        CAUSE_NONE,      /* has not ended */
        CAUSE_EXITED,    /* exit_status has its code */
        CAUSE_SIGNAL,    /* signal has the number */
        CAUSE_OOM_KILL,  /* killed by the OOM killer; signal is set as well */
        CAUSE_TIMEOUT,   /* did not end in time after SIGTERM, or did not start in time; signal is set */
        CAUSE_PRE_START, /* the pre-start handler failed, pre_start_* say how; the app never ran */
        CAUSE_COMMAND_NOT_FOUND, /* exec[0] does not exist in the image */
        CAUSE_COMMAND_NOT_EXECUTABLE,
        CAUSE_WORKING_DIRECTORY, /* workingDirectory does not exist */
        CAUSE_USER,              /* user or group is not in the image */
        CAUSE_SETUP,             /* its root or its volumes could not be set up; the message says what
                                  * failed */
        CAUSE_SOCKETS,           /* its sockets failed: no connection can start it any more */
        CAUSE_NOT_STARTED,       /* the pod ended before it could start */
        CAUSE_POD_KILLED,        /* the pod was killed while it ran: its exit status is unknown */
        CAUSE_NOT_READY,         /* it ended, or timed out, before it was ready */
        CAUSE_UNHEALTHY,         /* its health check failed, and it was stopped for that */
        CAUSE_HOST_REBOOTED,     /* the same of the host, which was rebooted or lost power */
        _APP_CAUSE_MAX,
} AppCause;

const char *app_cause_to_string(AppCause c); /* "exited", "signal", "oom-kill", … */

/* How one event handler ended. */
typedef struct HandlerStatus {
        bool ran;
        bool timed_out;
        int exit_status; /* or -1 */
        int signal;      /* or 0 */
} HandlerStatus;

/* For apps that notify readiness themselves or by their health check. */
typedef enum AppReadiness {
        READINESS_NONE, /* readiness is not tracked */
        READINESS_STARTING,
        READINESS_READY,
        _APP_READINESS_MAX,
} AppReadiness;

/* A run of at least this duration counts as successful: it resets the count of consecutive restarts. */
#define RESTART_QUIET_USEC UINT64_C(10000000)

#define APP_RECORD_SIZE_MAX 8192U /* in bytes */

typedef struct AppStatus {
        AppState state;
        AppCause cause;
        int exit_status; /* 0…255, or -1 if it did not exit by itself */
        int signal;      /* number, or 0 */
        bool core_dumped;
        char *message; /* human-readable error; or NULL */
        HandlerStatus pre_start, post_stop;
        uint64_t started_usec, ended_usec; /* realtime; 0: never */
        uint64_t starts;                   /* executions so far, including this one */
        uint64_t consecutive_starts;       /* consecutive starts, including this one, of an app that may be
                                      * restarted; else 0 */
        bool restarting; /* it has ended, and the next start, already counted above, is under
                                      * way */
        AppReadiness readiness;
        char *identity; /* the user and groups it was started as, for the launcher; or NULL */
} AppStatus;

#define APP_IDENTITY_MAX 1024U /* with NUL */

/* Of an app that was never started. */
AppStatus app_status_initial(void);
void app_status_done(AppStatus *s);
#define _cleanup_app_status_ _cleanup_(app_status_done)
/* Reads the record of APP from the directory of records (status/ of a pod directory). Without a record the
 * state is APP_WAITING, and the result success. -EBADMSG, -EFBIG: the file is no record. */
int app_status_read(int status_dir_fd, const char *app, AppStatus *ret);
int app_status_write(int status_dir_fd, const char *app, const AppStatus *s);
/* Reserves the space for both records of APP, unless they exist: they can be written on a full disk then, as long as the app is not
 * removed. */
#define STATUS_RESERVE ".reserve" /* the name of a file of status/, which no app can have */
int app_status_reserve(int status_dir_fd, const char *app, bool has_health);
/* Removes them, and that of a replacement. */
void app_status_remove(int status_dir_fd, const char *app);
/* Of its health check alone. */
void health_status_remove(int status_dir_fd, const char *app);

/* Result of an app's health check, with a record of its own beside the app's. */
typedef enum HealthState {
        HEALTH_STARTING,
        HEALTH_HEALTHY,
        HEALTH_UNHEALTHY,
        _HEALTH_STATE_MAX
} HealthState;
const char *health_state_to_string(HealthState s);

typedef struct HealthStatus {
        HealthState state;
        uint64_t failures;     /* consecutive failures that count */
        uint64_t checked_usec; /* realtime; 0: not yet */
        HandlerStatus last;    /* the last check */
        bool action_sent;      /* the app is ended because of it */
        char *message;         /* output of the last check, or why it could not be run; or NULL */
} HealthStatus;

void health_status_done(HealthStatus *s);
#define _cleanup_health_status_ _cleanup_(health_status_done)
/* -ENOENT: there is none. */
int health_status_read(int status_dir_fd, const char *app, HealthStatus *ret);
int health_status_write(int status_dir_fd, const char *app, const HealthStatus *s);

/* The replacement of an app that is under way: the manifest on disk has the old app until it is concluded. */
typedef struct ReplacementStatus {
        char *image_id, *image_name; /* of the new app; or NULL */
} ReplacementStatus;

void replacement_status_done(ReplacementStatus *s);
/* -ENOENT: the app is not being replaced. */
int replacement_status_read(int status_dir_fd, const char *app, ReplacementStatus *ret);
/* S is NULL: the replacement is over; removes the record. */
int replacement_status_write(int status_dir_fd, const char *app, const ReplacementStatus *s);

/* The exit status as container engines report it: the code; 128 + signal; 127 not found, 126 not executable,
 * 125 not started for another reason. 0 while it has not ended. */
int app_status_to_exit_code(const AppStatus *s);
/* Whether the app counts as failed for the pod. */
bool app_status_failed(const AppStatus *s);
