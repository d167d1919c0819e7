/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How an app is, or how it ended: the record that the launcher keeps in acnspawn/status/ of the pod's root.
 * Depends on basic/ alone, since the launcher is linked statically. */

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
        CAUSE_OOM_KILL,  /* killed for memory; signal is set as well */
        CAUSE_TIMEOUT,   /* did not end in time after SIGTERM, or did not start in time; signal is set */
        CAUSE_PRE_START, /* the pre-start handler failed, pre_start_* say how; the app never ran */
        CAUSE_COMMAND_NOT_FOUND, /* exec[0] is missing in the image */
        CAUSE_COMMAND_NOT_EXECUTABLE,
        CAUSE_WORKING_DIRECTORY, /* workingDirectory is missing */
        CAUSE_USER,              /* user or group is not in the image */
        CAUSE_SETUP,             /* its root or its volumes could not be made; message says what */
        CAUSE_SOCKETS,           /* its sockets were given up: no connection could start it any more */
        CAUSE_NOT_STARTED,       /* the pod ended before it could start */
        CAUSE_POD_KILLED,        /* the pod was killed under it: no status could be taken */
        CAUSE_NOT_READY,         /* it ended, or its time was up, before it was ready */
        CAUSE_UNHEALTHY,         /* its health check failed, and it was ended for that */
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

/* Of apps that tell when they are ready, or whose health check does. */
typedef enum AppReadiness {
        READINESS_NONE, /* there is nothing but that it runs */
        READINESS_STARTING,
        READINESS_READY,
        _APP_READINESS_MAX,
} AppReadiness;

/* A run of at least this counts as a success of its own: what was before it is forgotten when the restarts
 * in a row are counted. */
#define RESTART_QUIET_USEC UINT64_C(10000000)

#define APP_RECORD_SIZE 4096U /* every record's, in bytes */

typedef struct AppStatus {
        AppState state;
        AppCause cause;
        int exit_status; /* 0…255, or -1 if it did not exit by itself */
        int signal;      /* number, or 0 */
        bool core_dumped;
        char *message; /* what went wrong, for people; or NULL */
        HandlerStatus pre_start, post_stop;
        uint64_t started_usec, ended_usec; /* realtime; 0: never */
        uint64_t starts;                   /* executions so far, this one among them */
        uint64_t row; /* starts in a row, with this one, of an app that may be started again; else 0 */
        bool begins;  /* it has ended, and the next start, which ROW counts, has begun */
        AppReadiness readiness;
        char *identity; /* who it was started as, for the launcher; or NULL */
} AppStatus;

#define APP_IDENTITY_MAX 1024U /* with NUL; so that every record fits its size */

void app_status_done(AppStatus *s);
#define _cleanup_app_status_ _cleanup_(app_status_done)
/* Reads the record of APP from the directory of records (status/ of a pod directory). No record:
 * APP_WAITING, success. Records come out of the pod: they are read with bounds and checked. */
int app_status_read(int status_dir_fd, const char *app, AppStatus *ret);
int app_status_write(int status_dir_fd, const char *app, const AppStatus *s);

/* How an app's health check went, in a record of its own beside the app's. */
typedef enum HealthState {
        HEALTH_STARTING,
        HEALTH_HEALTHY,
        HEALTH_UNHEALTHY,
        _HEALTH_STATE_MAX
} HealthState;
const char *health_state_to_string(HealthState s);

typedef struct HealthStatus {
        HealthState state;
        uint64_t failures;     /* in a row, that count */
        uint64_t checked_usec; /* realtime; 0: not yet */
        HandlerStatus last;    /* the last check */
        bool acted;            /* the app was ended for it */
        char *message;         /* what the last check wrote, or why it could not be run; or NULL */
} HealthStatus;

void health_status_done(HealthStatus *s);
#define _cleanup_health_status_ _cleanup_(health_status_done)
/* -ENOENT: there is none. */
int health_status_read(int status_dir_fd, const char *app, HealthStatus *ret);
int health_status_write(int status_dir_fd, const char *app, const HealthStatus *s);

/* A record as it is in the file; and one of any lines, each with its newline. -E2BIG: they do not fit. */
int app_status_format(const AppStatus *s, char ret[static APP_RECORD_SIZE]);
int app_status_seal(const char *lines, char ret[static APP_RECORD_SIZE]);
/* The exit status as container users know it: the code; 128 + signal; 127 not found, 126 not executable, 125
 * otherwise not to be run. 0 while it has not ended. */
int app_status_to_exit_code(const AppStatus *s);
/* Whether the app counts as failed for the pod. */
bool app_status_failed(const AppStatus *s);
