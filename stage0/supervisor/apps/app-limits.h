/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-limits.c, parameters.c, app-attributes.c: isolators that only the host can apply. They are applied when a launcher
 * requests its app: the launcher waits for the answer, and nothing of the app has run yet. */

#include "stage0/supervisor/run-internal.h"

typedef struct Limits {
        bool parameters_set; /* the pod's kernel parameters are what they are to be */
        bool known;          /* the other members are filled in */
        HostFeatures features;
        char **disks;
        char *pids_v1; /* the pod's cgroup in the hierarchy of version 1 that has this controller, or NULL */
} Limits;

void limits_done(Limits *l);
/* Sets the pod's kernel parameters, once; PID is a process in its namespaces. */
int limits_set_parameters(Limits *l, Pod *p, pid_t pid, Error *e);
/* The process PID, at the other end of SOCK, is to become one of APP. */
int limits_apply(Limits *l, Pod *p, const PodApp *app, int sock, pid_t pid, Error *e);

/* app-tasks.c: the part of limits_apply() that is about processes and threads; and what RLIMIT_NPROC of APP's
 * processes is to be where nothing else limits them, or 0. */
int tasks_apply(const Limits *l, const Pod *p, const PodApp *app, int sock, pid_t pid, Error *e);
uint64_t tasks_by_user(const Limits *l, const PodApp *app);

/* Applies the limit of a running app again after its isolators have changed. */
int tasks_update(Pod *p, const PodApp *app);
/* Removes what tasks_apply() has made for the app of this name, whose processes have ended. */
void tasks_remove(Pod *p, const char *app);

/* app-attributes.c: writes attributes of the cgroup of APP, by the kernel's names: all, or none. *RET_OLD are the values
 * before, which attributes_restore() puts back; it stays empty if the app does not run, or fails. */
int attributes_write(Pod *p, const char *app, const PairList *l, PairList *ret_old, Error *e);
void attributes_restore(Pod *p, const char *app, const PairList *old);
/* The part of limits_apply() that is about huge pages. */
int attributes_apply(const Limits *l, Pod *p, const PodApp *app, Error *e);

/* Whether the launcher at the other end of SOCK is there still. */
bool launcher_is_connected(int sock);

/* parameters.c: sets the pod's kernel parameters in the namespaces of PID. */
int parameters_set(Pod *p, pid_t pid, Error *e);
