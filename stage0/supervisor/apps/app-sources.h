/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-sources.c: opens the host's files of an app in a child, so that the supervisor never waits for a file system. */

#include "stage0/supervisor/apps/app-table.h"

typedef struct AppSources AppSources;

/* DONE is called when it is open for APP, or cannot be (SOURCES is NULL then); it takes SOURCES. */
typedef void (*AppSourcesFunction)(void *userdata, AppInstance *app, MountSources *sources, int error,
                                   const Error *e);
int app_sources_new(sd_event *event, AppSourcesFunction done, void *userdata, AppSources **ret);
AppSources *app_sources_free(AppSources *all);
DEFINE_TRIVIAL_CLEANUP_FUNC(AppSources *, app_sources_free);
bool app_sources_are_opened(const AppSources *all, const AppInstance *app);
/* Leaves the process for APP behind; DONE is not called. */
void app_sources_forget(AppSources *all, const AppInstance *app);
/* Starts a process that opens what is missing in SOURCES, which are taken if this succeeds. */
int app_sources_begin(AppSources *all, AppInstance *app, PodMounts *m, MountSources *sources);
