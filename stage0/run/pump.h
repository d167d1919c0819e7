/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* pump.c: what apps write, on its way to the journal and to our own output. */

#include "stage0/run/inputs.h"

typedef struct Pumps Pumps;

typedef struct PumpOptions {
        const Pod *pod;
        AppTable *apps;
        bool show;   /* also on our standard output and standard error */
        bool prefix; /* line by line, the app's name in front */
        bool raw;    /* a terminal gets control characters as they are; what is a terminal's always is */
} PumpOptions;

int pumps_new(sd_event *event, const PumpOptions *o, Pumps **ret, Error *e);
/* What is still to be shown is given up; see pumps_show_rest(). */
Pumps *pumps_free(Pumps *all);
DEFINE_TRIVIAL_CLEANUP_FUNC(Pumps *, pumps_free);
/* An app that is added, or removed, while the pod runs. What it has written is stored before it is removed. */
int pumps_add_app(Pumps *all, AppInstance *app, Error *e);
void pumps_remove_app(Pumps *all, AppInstance *app);
/* Makes a pipe for APP that belongs to OWNER, its standard output or (ERROR) standard error; what comes out
 * of it goes to JOURNAL_FD, which is taken over on success. */
int pumps_add(Pumps *all, const AppInstance *app, bool error, int journal_fd, uid_t owner,
              int *ret_write_fd);
/* The same with a terminal, MASTER_FD, which is taken over on success, too, and does not block. */
int pumps_add_terminal(Pumps *all, const AppInstance *app, int journal_fd, int master_fd);
/* Who is attached to an app sees what it writes, too. */
void pumps_set_inputs(Pumps *all, Inputs *inputs);
/* Shows APP alone, as it is. */
void pumps_show_only(Pumps *all, const char *app);
/* Nothing that was to be shown is still kept. */
bool pumps_have_shown(const Pumps *all);
/* While they are held, the apps wait that write more than fits. */
void pumps_hold(Pumps *all, bool hold);
void pumps_show_nothing(Pumps *all);
/* Passes on everything that is in the pipes of APP. Then, which may be at once, FLUSHED is called with FD, a
 * copy of which is kept until then. -EUSERS: too many are waiting for that. */
int pumps_flush(Pumps *all, const AppInstance *app, int fd, void (*flushed)(int fd));
/* Opens the log file of APP, or those of all apps (NULL), anew by its path. Everything read before is in the old
 * file, everything read later goes to the new one. If that fails for an app, it keeps the old file; the others
 * get theirs. -ENODATA: there is no log file. */
int pumps_reopen(Pumps *all, const char *app, Error *e);
/* The pod is over: takes what is left in the pipes, and forgets them. */
void pumps_end(Pumps *all);
/* Waits until everything is shown, as long as it takes whoever reads us. */
void pumps_show_rest(Pumps *all, const Operation *o);
