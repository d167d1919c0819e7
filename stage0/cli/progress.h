/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How work that takes a while is shown to people: a line for each thing that is being worked on, on a
 * terminal kept up to date in place; elsewhere a line when it begins and one when it has ended. */

#include "stage0/cli/display.h"

typedef enum ProgressState {
        PROGRESS_WORKING,
        PROGRESS_DONE,
        PROGRESS_UNCHANGED, /* there was nothing to do */
        PROGRESS_FAILED,    /* whoever failed says so */
} ProgressState;

/* One line of it. */
typedef struct ProgressItem {
        char *what;
        const char *phase;                 /* "downloading" */
        uint64_t done, total;              /* bytes; TOTAL 0: unknown */
        uint64_t started_usec, phase_usec; /* CLOCK_MONOTONIC */
        bool announced;                    /* something came over the network */
} ProgressItem;

/* The line for a terminal: name, share, bar, sizes, rate and time left, as much of it as there is room for.
 * NULL: out of memory. */
char *progress_format(const ProgressItem *i, const Display *d, uint64_t now_usec_monotonic);

typedef struct Progress Progress;

/* FD is where it is shown: stderr. QUIET: nowhere. */
int progress_new(int fd, bool quiet, Progress **ret);
/* Takes the lines off the terminal that are in the works. */
Progress *progress_free(Progress *p);
DEFINE_TRIVIAL_CLEANUP_FUNC(Progress *, progress_free);
/* None of these is for two threads at once. WHAT and LINE are harmless on a terminal, PHASE is a string that
 * stays. Whatever is ANNOUNCED gets lines also where there is no terminal. */
void progress_update(Progress *p, const char *what, const char *phase, uint64_t done, uint64_t total,
                     bool announce);
void progress_end(Progress *p, const char *what, ProgressState state, uint64_t size);
/* How much of WHAT is done, as it is shown; NULL: nothing is known of it. For tests. */
const uint64_t *progress_done(Progress *p, const char *what);
/* A line of its own, which stays. */
void progress_note(Progress *p, const char *line);
/* Takes away what is shown, until something is updated: before messages. */
void progress_clear(Progress *p);
