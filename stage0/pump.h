/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* pump.c: what apps write, on its way to the journal and to our own output. */

#include "stage0/supervisor.h"

typedef struct Pumps Pumps;

/* SHOW_OUTPUT: also on our standard output and standard error, with PREFIX line by line, the app's name in front. */
int pumps_new(sd_event *event, bool show_output, bool prefix, Pumps **ret);
Pumps *pumps_free(Pumps *all);
DEFINE_TRIVIAL_CLEANUP_FUNC(Pumps *, pumps_free);
/* Makes a pipe for APP that belongs to OWNER; what comes out of it goes to JOURNAL_FD, which is taken over on success. */
int pumps_add(Pumps *all, const char *app, bool error, int journal_fd, uid_t owner, int *ret_write_fd);
/* Passes on everything that is in the pipes of APP (NULL: of all). */
void pumps_flush(Pumps *all, const char *app);
