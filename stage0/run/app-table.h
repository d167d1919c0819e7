/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-table.c: the apps of a running pod. */

#include "schema/settings.h"
#include "stage0/run/exit-policy.h"
#include "stage0/run/run-internal.h"

/* One app of a running pod: what every part of the supervisor knows of it. It stays where it is until it is
 * removed. */
typedef struct AppInstance {
        PodApp *manifest; /* of the pod manifest */
        const char *name;
        const App *app;
        AppSettings settings;
        PodUnit *units; /* the first runs the app */
        size_t n_units;
        unsigned n_jobs;        /* calls that wait for a job of it, or for its exec */
        bool executed;          /* its main process is the app, and not the launcher any more */
        bool removing, removed;      /* nothing can be done to it any more */
        char **volumes;              /* of the pod, that came with the app and go with it; NULL: none */
        struct Execution *execution; /* admission.c */
        struct AppNotices *notices;  /* notices.c */
        struct AppWait *wait;        /* readiness.c */
        struct Input *input;         /* inputs.c; NULL: the app reads nothing */
        struct LogBound *bound;      /* pump-bound.c */
        struct AppLog *log;          /* pump-file.c */
} AppInstance;

typedef struct AppTable {
        Pod *pod;
        AppInstance **items;
        size_t n, allocated;
} AppTable;

/* The apps of the pod manifest. */
int app_table_new(Pod *p, AppTable **ret, Error *e);
AppTable *app_table_free(AppTable *t); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(AppTable *, app_table_free);
AppInstance *app_table_find(const AppTable *t, const char *name); /* NULL: there is none */
/* Adds MANIFEST, an app of the pod's manifest. What other parts keep of it is theirs to add, and to free. */
int app_table_add(AppTable *t, PodApp *manifest, AppInstance **ret, Error *e);
/* Removes it from the table, and frees it. The manifest keeps its app. */
void app_table_remove(AppTable *t, AppInstance *a);

/* With an AppInstance * of that name as loop variable. */
#define FOREACH_APP(a, t)                                                                                   \
        for (AppInstance **a##_i = (t)->items, *a; a##_i < (t)->items + (t)->n && (a = *a##_i, true);       \
             a##_i++)
