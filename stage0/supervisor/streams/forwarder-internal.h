/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the forwarders share: forwarder*.c. */

#include "schema/settings.h"
#include "stage0/report/journal-mark.h"
#include "stage0/supervisor/streams/buffered-writer.h"
#include "stage0/supervisor/streams/forwarder.h"

typedef struct Forwarder Forwarder;
typedef struct Waiter Waiter;

/* The limit of an app's output in the journal; see forwarder-bound.c. */
typedef struct LogBound {
        const char *app;
        uint64_t size, rate;      /* bytes, and bytes a second */
        uint64_t left, last_usec; /* a tenth of SIZE, as it was then */
        uint64_t lines, bytes;    /* that were dropped */
        uint64_t unreported_lines,
                        unreported_bytes; /* those of them that no line in the journal reports yet */
        bool own_size;                    /* set by the app's settings; otherwise a share of the journal */
        bool unbounded, dropping, changed;
} LogBound;

/* One stream of an app as records of its log file; see log-format.c. FORMAT and ERROR are set first, the rest
 * is zero. */
#define LOG_RECORD_MAX 16384U /* bytes of a record, with its newline */
typedef struct LogFormatter {
        int format; /* LogFormat */
        bool error; /* standard error */
        bool open;  /* the last record was a part of a line that is to go on */
        Text rest;  /* bytes of a line that no record was made of yet */
} LogFormatter;

/* Where the output of an app goes; see forwarder-file.c. */
typedef struct AppLog {
        const char *app;
        int target; /* LogTarget */
        LogFileSettings file;
        int fd;                /* of the file; negative: there is none */
        uint64_t limit;        /* bytes that it may have */
        uint64_t lines, bytes; /* that were dropped */
        bool changed;          /* the record of the drop is still to be written */
        bool reported;         /* a message says that lines are dropped */
        bool torn;             /* the file ends within a record */
        bool left_open[2];     /* an earlier execution did not end its last line on stdout, stderr */
} AppLog;

struct Forwarder {
        Forwarder *next;
        Forwarders *all;
        const AppInstance *app;
        bool error, ended;
        bool terminal; /* FD is the master of a terminal */
        bool held_return;
        int read_fd, journal_fd;
        sd_event_source *source, *journal_source;
        PodTimer *timer; /* gives up a journal that accepts nothing */
        Text line;       /* begun, but not yet ended */
        Neutralizer neutralizer;
        Text pending;            /* output that the journal has not accepted yet */
        bool to_host, host_full; /* writes to the host's journal, too; it accepts no more now */
        Text host_lines;         /* output that was not sent there yet */
        bool host_goes_on;       /* the next record there continues a line, with this priority */
        int host_priority;
        LogBound *bound;                  /* NULL: there is none */
        bool in_line, drop_line, dropped; /* of what goes to the journal */
        size_t overdraft;                 /* charged for its line beyond the budget */
        AppLog *log;                      /* NULL: only the journal */
        LogFormatter formatter;
        bool file_open;       /* the last record of this stream in the log file was a part of a line */
        bool file_gap;        /* the rest of that line was dropped */
        JournalMarker marker; /* of what the journal gets */
        Text marked;
        bool journal_begun; /* a line in the journal has no end so far */
        Text message;       /* a line of acnspawn for the journal, to be written after that line */
};

/* A caller that waits for a flush. */
struct Waiter {
        Waiter *next;
        const AppInstance *app;
        int fd;
        void (*flushed)(int fd);
};

struct Forwarders {
        sd_event *event;
        const Pod *pod;
        AppTable *apps;
        Text records;                  /* of a log file, about to be written */
        sd_event_source *record_timer; /* records what was dropped */
        bool record_armed;
        Inputs *inputs; /* attached clients, which get the output as well; or NULL */
        bool show, prefix, raw;
        void (*reader_gone)(void *userdata);
        void *userdata;
        bool hold;                  /* output is held back */
        const char *only;           /* show only this app; or NULL */
        BufferedWriter *writers[2]; /* standard output, standard error */
        bool journal_streams[2]; /* what they are: streams of the host's journal, where nothing is shown */
        HostJournal *host_journal;
        Forwarder *first;
        Waiter *waiters;
        size_t n_waiters;
};

/* forwarder.c: the pipe is drained or given up. P may be freed. */
void forwarder_resume(Forwarder *p);

/* forwarder-journal.c: to the journal and to the log file. DATA is changed. */
void forwarder_store(Forwarder *p, char *data, size_t size);
/* The stream has ended. */
void forwarder_end_storing(Forwarder *p);
/* A line of acnspawn's own among those of the app, not within one of them. */
void forwarder_report_in_journal(Forwarder *p, const char *line);

/* forwarder-host.c: what goes to the journal of the host. */
void forwarder_open_host(Forwarder *p);
void forwarder_write_to_host(Forwarder *p, const char *data, size_t size);
/* Sends what was not taken before. False: it is not taken now, either. */
bool forwarder_resume_host(Forwarder *p);
/* Nothing comes any more: the last line needs no newline. */
void forwarder_end_host(Forwarder *p);

/* log-format.c: adds to OUT the records of DATA, which were written at NOW. */
void log_format_add(LogFormatter *f, const struct timespec *now, const char *data, size_t size, Text *out);
/* Adds text that has no newline so far, as a part of its line. */
void log_format_flush(LogFormatter *f, const struct timespec *now, Text *out);
/* The end of the line that was begun, if one was. */
void log_format_end(LogFormatter *f, const struct timespec *now, Text *out);
/* The stream has ended, perhaps within a line. */
void log_format_finish(LogFormatter *f, const struct timespec *now, Text *out);
/* How many lines end in the whole records RECORDS, and how many bytes of the app are in them. */
void log_format_count(int format, const char *records, size_t size, uint64_t *ret_lines,
                      uint64_t *ret_bytes);
/* Notes in LEFT_OPEN, for the stream of RECORD (without its newline), whether its line continues. */
void log_format_note_open(const char *record, size_t size, bool left_open[static 2]);
/* Whether the last of the whole records RECORDS is a part of a line that is to go on. */
bool log_format_is_open(int format, const char *records, size_t size);

/* forwarder-file.c: the log of an app, whose file is opened. SETTINGS are lent. */
int forwarder_log_new(const char *app, const AppSettings *settings, AppLog **ret, Error *e);
AppLog *forwarder_log_free(AppLog *l); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(AppLog *, forwarder_log_free);
void forwarder_write_to_file(Forwarder *p, const char *data, size_t size);
/* Flushes everything that was received to the file. */
void forwarder_flush_file(Forwarder *p);
void forwarder_end_file(Forwarder *p);

/* forwarder-bound.c: of an app of P, which has as many as N_APPS of them. */
int forwarder_bound_new(const Pod *p, const char *app, const AppSettings *s, size_t n_apps, LogBound **ret);
/* Computes each app's share of the journal again, after the number of apps has changed. */
void forwarder_bounds_share(Forwarders *all);
/* Whether all of DATA may be stored, which it is then. */
bool forwarder_bound_admits(Forwarder *p, const char *data, size_t size);
/* Adds to OUT the part of DATA that may be stored. */
void forwarder_bound_filter(Forwarder *p, const char *data, size_t size, Text *out);
/* Adds the line about drops, if any, at the end. */
void forwarder_bound_end(Forwarder *p, Text *out);
/* Writes down what was dropped, from log files, too, for "status"; not too often, unless AT_END. */
void forwarder_bounds_record(Forwarders *all, bool at_end);

/* forwarder-show.c */
void forwarder_show(Forwarder *p, const char *data, size_t size);
/* The start of a line whose end was not received yet. */
void forwarder_show_rest(Forwarder *p);
void forwarders_stop_showing(Forwarders *all, int r);
/* Whether the output for this stream cannot be written now. */
bool forwarder_must_wait(const Forwarder *p);
