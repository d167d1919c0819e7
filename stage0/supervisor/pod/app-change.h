/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the files that change the set of apps of a running pod. */

#include "stage0/supervisor/pod/supervisor-internal.h"

typedef enum ChangeKind {
        CHANGE_ADDS,
        CHANGE_LAUNCHES, /* a group of apps */
        CHANGE_REPLACES,
        CHANGE_REMOVES,
} ChangeKind;

typedef enum ChangeStep {
        STEP_WAITS,   /* queued, or follows the launch of another group */
        STEP_IS_MADE, /* the current change: the first of the queue */
        STEP_STARTS,  /* the apps of its group start; other changes are made meanwhile */
        STEP_STARTED, /* the starts have ended: queued again, to be concluded */
        _CHANGE_STEP_MAX,
} ChangeStep;

/* Of a change that launches a group of apps: see supervisor-group.c. */
typedef enum GroupState {
        GROUP_IS_PREPARED, /* by a process, or waits for its turn: nothing of it is in the pod */
        GROUP_IS_DROPPED,  /* the same, and it was cancelled */
        GROUP_STARTS,      /* its apps */
        GROUP_FAILS,       /* the starts that have not ended are cancelled */
        GROUP_IS_RECORDED, /* all apps were started: the manifest is written */
        GROUP_IS_UNDONE,   /* the apps are removed, the last one first */
        GROUP_IS_DONE,
        _GROUP_STATE_MAX,
} GroupState;

struct AppChange {
        AppChange *next;
        Supervisor *supervisor;
        ChangeKind kind;
        ChangeStep step;
        AppChange *followers; /* of a launch: changes of its apps, which continue after it */
        const void *caller; /* of a launch: it is undone when the caller disconnects; NULL: no caller waits */
        json_object *request; /* of an app to be added, as AddApp() has it, or replaced, as ReplaceApp(); NULL: one is removed */
        char *name;         /* of an app to be removed, or replaced */
        bool stops;         /* the former is stopped first, if it is up, */
        uint64_t kill_usec; /* and killed after that time; UINT64_MAX: after its own */
        uint64_t nested_number; /* of the app to be added, or the first of a group, if it is nested under another one */
        AppInstance *stopping; /* of those to be removed: systemd stops it */
        unsigned n_stops;      /* how often it was stopped, and went on */
        AppChangeFunction function;
        GroupFunction group_function; /* instead, of a group of apps, as LaunchGroup() has it */
        void *userdata;
        /* while it is made */
        pid_t pid;
        int sock;
        sd_event_source *io, *timer;
        PodTimer *kill_timer; /* kills an app that is being stopped for its removal */
        Text answer;
        void (*prepared)(AppChange *c);
        sd_bus_slot *slot;
        char **units;   /* that systemd is to unload, one after the other */
        unsigned tries; /* how often systemd was asked whether they are still loaded */
        void (*unloaded)(AppChange *c, bool done);
        AppInstance *added; /* is in the pod, and not in the manifest on disk yet */
        char **warnings;    /* about it */
        char **gone;        /* directories of what is not in the manifest any more, while that is written */
        AppInstance *refused; /* an app that cannot be removed, after others that were nested under it */
        Error refusal;        /* why */
        void (*saved)(AppChange *c, int r, const Error *e);
        struct Replacement *replacement;
        bool orphaned, superseded; /* the caller has disconnected; another replacement of the app is queued */
        struct Group *group;
        GroupState group_state;
        bool waits, abandoned; /* for a job, a start, or the disk, whose end frees it once it is abandoned */
        void (*job_done)(AppChange *c, int r, const char *result);
        void (*resume)(AppChange *c); /* goes on with it when the connection to the pod's systemd is there again; or NULL */
};

/* --- supervisor-apps.c --------------------------------------------------------------------------------- */

/* The apps of C, the current change, start: the changes behind it are made meanwhile. */
void change_step_aside(AppChange *c);
/* The starts of C have ended, in success or failure: C is the next change to be made. */
void change_step_back(AppChange *c);
/* C, the current change, waits until LAUNCH is concluded. */
void change_follow(AppChange *c, AppChange *launch);

/* The first change that IS_IT() says is looked for, wherever it waits; or NULL. */
AppChange *change_find(const Supervisor *s, bool (*is_it)(const AppChange *c, const void *data),
                       const void *data);

/* Has systemd run a job, as manager_link_run(). */
int change_run(AppChange *c, const char *method, const char *unit,
               void (*done)(AppChange *c, int r, const char *result));
/* Whether the pod's systemd can be reached; if not, RESUME is called as soon as it can, unless the pod ends before. */
bool change_reaches_manager(AppChange *c, void (*resume)(AppChange *c));
/* Writes the manifest, durably. THEN is called once, perhaps before this returns. */
void change_save(AppChange *c, void (*then)(AppChange *c, int r, const Error *e));
/* A job or a start that C waited for has ended. Returns whether C is still current; if not, it was freed. */
bool change_resume(AppChange *c);

/* The first of the queue is over. E is what has failed, or has no message. */
void change_finish(AppChange *c, int r, const char *app, char **warnings, Error *e);
/* The app to be removed or replaced; NULL: the pod has no such app any more. */
AppInstance *change_instance(const AppChange *c);
/* Puts what was prepared into the pod, except into its manifest on disk. */
int change_take_over(Supervisor *s, const char *added, AppInstance **ret, Error *e);
/* The reverse, of an app that is down, and has no units any more (discard_app()); sweep_apps() removes its files. */
void change_drop(Supervisor *s, AppInstance *app);
/* Takes over, or takes from the parts of the supervisor, what they keep of APP beside its mounts and the units, which
 * the pod's systemd is told of when they are started. */
int change_know_instance(Supervisor *s, AppInstance *app, Error *e);
void change_forget_instance(Supervisor *s, AppInstance *app);
/* Removes VOLUMES, of which the pod has no use any more, or a directory below "apps", "volumes" or "credentials", which the
 * manifest has not: at once, or when the one on disk has not, either. */
void change_remove_volumes(Supervisor *s, char *const *volumes);
void change_remove_directory(Supervisor *s, const char *path);

/* --- supervisor-prepare.c ------------------------------------------------------------------------------ */

/* Starts a process that prepares the app, or apps. PREPARED is called when it has answered, or ended. */
int change_prepare(AppChange *c, void (*prepared)(AppChange *c));
/* Ends that process. */
void change_end_preparing(AppChange *c);
/* What the process has answered: a part of a manifest, as pod_format_added() has it, to be freed. */
int change_read_answer(const AppChange *c, char **ret_added, char ***warnings, Error *e);

/* --- supervisor-unload.c ------------------------------------------------------------------------------- */

/* Has systemd unload the units of APP, which is down, so that it reads them again when it starts them. THEN is called once,
 * with DONE if it has, unless the call fails. */
int change_unload(AppChange *c, const AppInstance *app, void (*then)(AppChange *c, bool done));

/* --- supervisor-replace.c ------------------------------------------------------------------------------ */

void replace_begin(AppChange *c);
/* The pod ends, or the supervisor does. */
void replace_abandon(AppChange *c);

/* --- supervisor-group.c -------------------------------------------------------------------------------- */

/* The process that prepares the apps has answered, or ended. */
void group_prepared(AppChange *c);
/* The starts have ended, in success or failure, and C is the current change again. */
void group_started(AppChange *c);
/* Cancels the launch C for the reason WHY: its apps are removed. May be called at any step but the last one. */
void group_cancel(AppChange *c, int r, const char *why);
/* True if C launches the app NAME, or an app that NAME is nested under. */
bool group_has(const AppChange *c, const char *name);
/* The names of the apps of the group. */
char *const *group_names(const AppChange *c);
void group_done(AppChange *c);
