/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the pumps share: pump*.c. */

#include "stage0/run/outlet.h"
#include "stage0/run/pump.h"

typedef struct Pump Pump;
typedef struct Waiter Waiter;

/* How much of an app's output the journal may have; see pump-bound.c. */
typedef struct LogBound {
        const char *app;                     /* NULL: the end of the array */
        uint64_t size, rate;                 /* bytes, and bytes a second */
        uint64_t left, last_usec;            /* of SIZE, as it was then */
        uint64_t lines, bytes;               /* that were dropped */
        uint64_t untold_lines, untold_bytes; /* of them those that the journal does not tell of yet */
        bool unbounded, dropping, changed;
} LogBound;

struct Pump {
        Pump *next;
        Pumps *all;
        char *app;
        bool error, ended;
        bool terminal; /* what is read is the master of one */
        bool held_return;
        int read_fd, journal_fd;
        sd_event_source *source, *journal_source, *timer;
        Text line; /* begun, but not yet ended */
        Neutralizer neutralizer;
        Text pending;                     /* what the journal did not take so far */
        LogBound *bound;                  /* NULL: there is none */
        bool in_line, drop_line, dropped; /* of what goes to the journal */
        size_t overdraft;                 /* what its line has taken beyond the budget */
};

/* Who asked for a flush that is not done yet. */
struct Waiter {
        Waiter *next;
        char *app;
        int fd;
        void (*flushed)(int fd);
};

struct Pumps {
        sd_event *event;
        const Pod *pod;
        LogBound *bounds;
        sd_event_source *record_timer; /* writes down what they drop */
        bool record_armed;
        Inputs *inputs; /* whoever is attached to an app sees it, too; or NULL */
        bool show, prefix, raw;
        bool hold;          /* nothing is to be shown now */
        const char *only;   /* show only this app; or NULL */
        Outlet *outlets[2]; /* standard output, standard error */
        Pump *first;
        Waiter *waiters;
        size_t n_waiters;
};

/* pump.c: nothing is pending any more, for better or worse. P may be freed. */
void pump_resume(Pump *p);

/* pump-journal.c: DATA is changed. */
void pump_write_to_journal(Pump *p, char *data, size_t size);
/* Nothing comes any more. */
void pump_end_journal(Pump *p);

/* pump-bound.c: one for each app, and one without. */
int pump_bounds_new(const Pod *p, LogBound **ret, Error *e);
LogBound *pump_bound_find(LogBound *bounds, const char *app);
/* Whether all of DATA may be stored, which it is then. */
bool pump_bound_admits(Pump *p, const char *data, size_t size);
/* Adds to OUT what is to be stored of DATA. */
void pump_bound_filter(Pump *p, const char *data, size_t size, Text *out);
/* Adds what is to be said at the end. */
void pump_bound_end(Pump *p, Text *out);
/* Writes down what was dropped, for "status"; not too often, unless AT_END. */
void pump_bounds_record(Pumps *all, bool at_end);

/* pump-show.c */
void pump_show(Pump *p, const char *data, size_t size);
/* The beginning of a line that has no end. */
void pump_show_rest(Pump *p);
void pumps_stop_showing(Pumps *all, int r);
/* Whether what it would show cannot be shown now. */
bool pump_must_wait(const Pump *p);
