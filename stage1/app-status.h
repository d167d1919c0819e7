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
} AppStatus;

void app_status_done(AppStatus *s);
#define _cleanup_app_status_ _cleanup_(app_status_done)
/* Reads the record of APP from the directory of records (status/ of a pod directory). No record:
 * APP_WAITING, success. Records come out of the pod: they are read with bounds and checked. */
int app_status_read(int status_dir_fd, const char *app, AppStatus *ret);
int app_status_write(int status_dir_fd, const char *app, const AppStatus *s);
/* A record as it is in the file; and one of any lines, each with its newline. -E2BIG: they do not fit. */
int app_status_format(const AppStatus *s, char ret[static APP_RECORD_SIZE]);
int app_status_seal(const char *lines, char ret[static APP_RECORD_SIZE]);
/* The exit status as container users know it: the code; 128 + signal; 127 not found, 126 not executable, 125
 * otherwise not to be run. 0 while it has not ended. */
int app_status_to_exit_code(const AppStatus *s);
/* Whether the app counts as failed for the pod. */
bool app_status_failed(const AppStatus *s);
