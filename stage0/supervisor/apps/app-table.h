/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-table.c: the apps of a running pod. */

#include "schema/settings.h"
#include "stage0/supervisor/apps/app-check.h"
#include "stage0/supervisor/apps/app-place.h"
#include "stage0/supervisor/apps/app-run.h"
#include "stage0/supervisor/apps/app-sockets.h"
#include "stage0/supervisor/apps/app-stop.h"
#include "stage0/supervisor/apps/exit-policy.h"
#include "stage0/supervisor/apps/pod-pause.h"
#include "stage0/supervisor/run-internal.h"
#include "stage0/supervisor/apps/task-state.h"

struct AppTable;

/* One app of a running pod, shared by all parts of the supervisor. Its address does not change until it is
 * removed. Its states are "place", "stop", "run", "check" and, in the parts that own them, AppWait; each has a table. What else is
 * here are counts, what belongs to an execution, and what is recorded. */
typedef struct AppInstance {
        struct AppTable *table;
        PodApp *manifest; /* of the pod manifest */
        const char *name;
        const App *app;
        AppSettings settings;
        bool writes_cgroups;  /* it may be able to write to the files of its cgroup */
        ino_t bounded_cgroup; /* app-devices.c: its slice, if the number of cgroups below is bounded */
        PodUnit *units;       /* the first runs the app */
        size_t n_units;
        AppSockets *sockets;   /* sockets whose connections start the app; or NULL */
        bool waking;           /* a connection has started the app, and the job is not finished */
        unsigned n_jobs;       /* calls that wait for a job or an exec of the app */
        struct AppCall *start; /* the start that a failing health check ends; or NULL */
        unsigned n_updates;    /* calls that change limits of the app, not recorded yet */
        uint64_t n_updated;    /* recorded changes of its limits */
        dev_t root;       /* device of its root overlay, if its processes can move to other cgroups; or 0 */
        AppPlace place;   /* app-place.c */
        StopReason stop;  /* why it is being stopped, or was: app-stop.c */
        bool fate_spread; /* the failure of this app has stopped its fate group */
        char **volumes;   /* of the pod, that came with the app and go with it; NULL: none */
        AppStatus status; /* this and the next ones: app-life.c */
        CheckState check; /* app-check.c */
        HealthStatus health; /* unless that is CHECK_NONE */
        const PodApp *replaced_by; /* the new app, while "acnspawn status" shows it beside the one of the manifest on disk; or NULL */
        bool is_behind; /* the last status, health or replacement is not on disk: on_retry() writes it */
        /* CLOCK_MONOTONIC: since when all checks have succeeded. 0: the last one has failed */
        uint64_t healthy_usec;
        AppRun run;                  /* app-run.c */
        int report_fd;               /* memory that is shared with the launcher of the app; or -EBADF */
        uint64_t oom_kills;          /* in the app's cgroup before this execution */
        struct Execution *execution; /* admission.c */
        struct ControlApi *
                        control; /* control-api.c; NULL: the app has no control API, or has not started yet */
        struct AppNotices *notices; /* notices.c */
        struct AppWait *wait;       /* readiness.c */
        struct Input *input;        /* inputs.c; NULL: the app reads nothing */
        struct LogBound *bound;     /* forwarder-bound.c */
        struct AppLog *log;         /* forwarder-file.c */
        struct AppDevices *devices; /* app-devices.c; NULL: they are not filtered, or none of it has run */
} AppInstance;

typedef struct AppTable {
        Pod *pod;
        PodPause *pause; /* lent; NULL: timers of apps never stop */
        int status_fd;   /* status/ of the pod directory */
        sd_event *event; /* lent; NULL: records that could not be written are not tried again */
        PodTimer *retry; /* some could not be written; or NULL */
        AppInstance **items;
        size_t n, allocated;
        int spare_fd; /* the records in memory, while not all can be written to STATUS_FD; 0: all can */
} AppTable;

/* The apps of the pod manifest. */
int app_table_new(Pod *p, AppTable **ret, Error *e);
AppTable *app_table_free(AppTable *t); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(AppTable *, app_table_free);
/* NULL: there is none. NAME may be the path of a nested app. */
AppInstance *app_table_find(const AppTable *t, const char *name);
/* True if A is still in the table. */
bool app_table_has(const AppTable *t, const AppInstance *a);
/* The name of the app for users: of a nested one its path. */
const char *app_instance_path(const AppInstance *a);
/* The app that A is nested under; NULL: none. */
AppInstance *app_table_parent(const AppInstance *a);
/* True if the app is up, or a call or a connection is starting it. */
bool app_is_up(const AppInstance *a);
/* True if the app is up and about to end: it is being stopped or restarted, or stops by itself. */
bool app_is_ending(const AppInstance *a);
/* True if A is stopped, or was, by a call, with its parent, its group or its pod: it did not end by itself, and has not failed. */
bool app_was_stopped(const AppInstance *a);
/* The app that A is nested under, if it does not run or is ending, so that A cannot be started; otherwise NULL. */
const AppInstance *app_missing_parent(const AppInstance *a);
/* The last one of the apps that are nested under the app NAME, at any level: nothing is nested under it. NULL: there is none. */
AppInstance *app_table_last_below(const AppTable *t, const char *name);
/* Adds MANIFEST, an app of the pod's manifest. Other parts of the supervisor add and free their own data of
 * it. */
int app_table_add(AppTable *t, PodApp *manifest, AppInstance **ret, Error *e);
/* Makes A, which no other part of the supervisor has data of any more, an instance of MANIFEST. Unchanged on
 * failure. */
int app_table_change(AppInstance *a, PodApp *manifest, Error *e);
/* Removes it from the table and frees it. The app stays in the manifest. */
void app_table_remove(AppTable *t, AppInstance *a);

/* A loop over all apps; the variable is an AppInstance *. */
#define FOREACH_APP(a, t)                                                                                   \
        for (AppInstance **a##_i = (t)->items, *a; a##_i < (t)->items + (t)->n && (a = *a##_i, true);       \
             a##_i++)
