/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the pumps share: pump*.c. */

#include "stage0/run/outlet.h"
#include "stage0/run/pump.h"

typedef struct Pump Pump;
typedef struct Waiter Waiter;

struct Pump {
        Pump *next;
        Pumps *all;
        char *app;
        bool error, ended;
        bool terminal; /* what is read is the master of one */
        bool held_return;
        int read_fd, journal_fd;
        sd_event_source *source, *journal_source, *timer;
        Text line;    /* begun, but not yet ended */
        Text pending; /* what the journal did not take so far */
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
        Inputs *inputs; /* whoever is attached to an app sees it, too; or NULL */
        bool show, prefix;
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

/* pump-show.c */
void pump_show(Pump *p, const char *data, size_t size);
/* The beginning of a line that has no end. */
void pump_show_rest(Pump *p);
void pumps_stop_showing(Pumps *all, int r);
/* Whether what it would show cannot be shown now. */
bool pump_must_wait(const Pump *p);
