/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the pumps share: pump*.c. */

#include "schema/settings.h"
#include "stage0/run/outlet.h"
#include "stage0/run/pump.h"

typedef struct Pump Pump;
typedef struct Waiter Waiter;

/* How much of an app's output the journal may have; see pump-bound.c. */
typedef struct LogBound {
        const char *app;
        uint64_t size, rate;                 /* bytes, and bytes a second */
        uint64_t left, last_usec;            /* of SIZE, as it was then */
        uint64_t lines, bytes;               /* that were dropped */
        uint64_t untold_lines, untold_bytes; /* of them those that the journal does not tell of yet */
        bool unbounded, dropping, changed;
} LogBound;

/* One stream of an app as records of its log file; see log-format.c. FORMAT and ERROR are set first, the rest
 * is zero. */
#define LOG_RECORD_MAX 16384U /* bytes of a record, with its newline */
typedef struct LogFormatter {
        int format; /* LogFormat */
        bool error; /* standard error */
        bool open;  /* the last record was a part of a line that is to go on */
        Text rest;  /* of a line, for which there was no record so far */
} LogFormatter;

/* Where the output of an app goes; see pump-file.c. */
typedef struct AppLog {
        const char *app;
        bool journal; /* to the journal of the pod */
        LogFileSettings file;
        int fd;                /* of the file; negative: there is none */
        uint64_t limit;        /* bytes that it may have */
        uint64_t lines, bytes; /* that were dropped */
        bool changed;          /* the record of them is to be written */
        bool reported;         /* a message says that lines are dropped */
        bool torn;             /* the file ends within a record */
} AppLog;

struct Pump {
        Pump *next;
        Pumps *all;
        const AppInstance *app;
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
        AppLog *log;                      /* NULL: only the journal */
        LogFormatter formatter;
        bool file_open;     /* the last record of this stream in the log file was a part of a line */
        bool file_gap;      /* what came after it was dropped */
        bool journal_begun; /* a line in the journal has no end so far */
        Text message;       /* of ours to the journal, for after that line */
};

/* Who asked for a flush that is not done yet. */
struct Waiter {
        Waiter *next;
        const AppInstance *app;
        int fd;
        void (*flushed)(int fd);
};

struct Pumps {
        sd_event *event;
        const Pod *pod;
        AppTable *apps;
        Text records;                  /* of a log file, about to be written */
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

/* pump-journal.c: to the journal and to the log file. DATA is changed. */
void pump_store(Pump *p, char *data, size_t size);
/* Nothing comes any more. */
void pump_end_storing(Pump *p);
/* A line of acnspawn's own among those of the app, not within one of them. */
void pump_report_in_journal(Pump *p, const char *line);

/* log-format.c: adds to OUT the records of DATA, which were written at NOW. */
void log_format_add(LogFormatter *f, const struct timespec *now, const char *data, size_t size, Text *out);
/* Adds what has no newline so far, as a part of its line. */
void log_format_flush(LogFormatter *f, const struct timespec *now, Text *out);
/* The end of the line that was begun, if one was. */
void log_format_end(LogFormatter *f, const struct timespec *now, Text *out);
/* How many lines end in the whole records RECORDS, and how many bytes of the app are in them. */
void log_format_count(int format, const char *records, size_t size, uint64_t *ret_lines,
                      uint64_t *ret_bytes);
/* Whether the last of the whole records RECORDS is a part of a line that is to go on. */
bool log_format_is_open(int format, const char *records, size_t size);

/* pump-file.c: the log of an app, whose file is opened. SETTINGS are lent. */
int pump_log_new(const char *app, const AppSettings *settings, AppLog **ret, Error *e);
AppLog *pump_log_free(AppLog *l); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(AppLog *, pump_log_free);
void pump_write_to_file(Pump *p, const char *data, size_t size);
/* Everything that has come is to be in the file. */
void pump_flush_file(Pump *p);
void pump_end_file(Pump *p);

/* pump-bound.c: of an app of P, which has as many as N_APPS of them. */
int pump_bound_new(const Pod *p, const char *app, const AppSettings *s, size_t n_apps, LogBound **ret);
/* Whether all of DATA may be stored, which it is then. */
bool pump_bound_admits(Pump *p, const char *data, size_t size);
/* Adds to OUT what is to be stored of DATA. */
void pump_bound_filter(Pump *p, const char *data, size_t size, Text *out);
/* Adds what is to be said at the end. */
void pump_bound_end(Pump *p, Text *out);
/* Writes down what was dropped, from log files, too, for "status"; not too often, unless AT_END. */
void pump_bounds_record(Pumps *all, bool at_end);

/* pump-show.c */
void pump_show(Pump *p, const char *data, size_t size);
/* The beginning of a line that has no end. */
void pump_show_rest(Pump *p);
void pumps_stop_showing(Pumps *all, int r);
/* Whether what it would show cannot be shown now. */
bool pump_must_wait(const Pump *p);
