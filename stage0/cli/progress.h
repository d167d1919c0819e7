/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shows progress of long operations: a line for each item, updated in place on a terminal; elsewhere a line
 * when it begins and one when it has ended. */

#include "stage0/cli/display.h"

typedef enum ProgressState {
        PROGRESS_WORKING,
        PROGRESS_DONE,
        PROGRESS_UNCHANGED, /* there was nothing to do */
        PROGRESS_FAILED,    /* the caller reports the failure */
} ProgressState;

/* One line of it. */
typedef struct ProgressItem {
        char *what;
        const char *phase;                 /* "downloading" */
        uint64_t done, total;              /* bytes; TOTAL 0: unknown */
        uint64_t started_usec, phase_usec; /* CLOCK_MONOTONIC */
        bool announced;                    /* it uses the network */
} ProgressItem;

/* The line for a terminal: name, share, bar, sizes, rate and time left, as much of it as fits. NULL: out of
 * memory. */
char *progress_format(const ProgressItem *i, const Display *d, uint64_t now_usec_monotonic);

typedef struct Progress Progress;

/* FD: the output, stderr. QUIET: no output. */
int progress_new(int fd, bool quiet, Progress **ret);
/* Clears the lines of active items from the terminal. */
Progress *progress_free(Progress *p);
DEFINE_TRIVIAL_CLEANUP_FUNC(Progress *, progress_free);
/* None of these may be called by two threads at once. WHAT and LINE have to be escaped for terminals, PHASE
 * is a constant string. ANNOUNCED items get lines also without a terminal. */
void progress_update(Progress *p, const char *what, const char *phase, uint64_t done, uint64_t total,
                     bool announce);
void progress_end(Progress *p, const char *what, ProgressState state, uint64_t size);
/* The progress of WHAT as shown; NULL: unknown item. For tests. */
const uint64_t *progress_done(Progress *p, const char *what);
/* A separate line, which remains. */
void progress_note(Progress *p, const char *line);
/* Clears the lines until the next update: before messages. */
void progress_clear(Progress *p);
