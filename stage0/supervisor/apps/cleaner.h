/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* cleaner.c: removes what an app has written, in a child, so that the supervisor never waits for a file system. */

#include "stage0/supervisor/apps/app-table.h"

typedef struct Cleaner Cleaner;

/* DONE is called when the removal for APP has ended. */
int cleaner_new(sd_event *event, void (*done)(void *userdata, AppInstance *app), void *userdata,
                Cleaner **ret);
Cleaner *cleaner_free(Cleaner *all);
DEFINE_TRIVIAL_CLEANUP_FUNC(Cleaner *, cleaner_free);
bool cleaner_is_at(const Cleaner *all, const AppInstance *app);
/* Aborts the removal for APP; DONE is not called. */
void cleaner_forget(Cleaner *all, const AppInstance *app);
/* Removes NAME in DIR_FD, which belongs to APP. If no child can be started it is removed at once, DONE is
 * not called, and the return value is negative. */
int cleaner_begin(Cleaner *all, AppInstance *app, int dir_fd, const char *name);
