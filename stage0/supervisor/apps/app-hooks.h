/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-hooks.c: programs of the host that are executed for the start of an app; hooks-child.c: in a process of their own. */

#include "schema/hooks.h"
#include "stage0/supervisor/apps/app-table.h"

#define HOOKS_MESSAGE_MAX 1024U

typedef struct AppHooks AppHooks;

/* DONE is called when all hooks of APP have ended: MESSAGE is NULL, or says why they have failed. */
int app_hooks_new(sd_event *event, void (*done)(void *userdata, AppInstance *app, const char *message),
                  void *userdata, AppHooks **ret);
AppHooks *app_hooks_free(AppHooks *all);
DEFINE_TRIVIAL_CLEANUP_FUNC(AppHooks *, app_hooks_free);
/* What hooks are executed with. */
typedef struct HookJob {
        Pod *pod;
        const PodApp *app;
        pid_t pid; /* of the launcher */
        int root_fd, dev_fd;
        const int *volume_fds; /* in the order of the mounts of APP */
} HookJob;
/* Begins to execute the hooks of APP, an app of JOB. The descriptors are lent. */
int app_hooks_begin(AppHooks *all, AppInstance *app, const HookJob *job, Error *e);
/* Kills them; DONE is not called. */
void app_hooks_forget(AppHooks *all, const AppInstance *app);

/* hooks-child.c: executes them, one after the other. Changes the mount namespace of this process. */
int hooks_execute(const HookJob *j, const HookList *l, Error *e);
