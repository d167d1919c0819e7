/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the forwarders share: forwarder*.c. */

#include "schema/settings.h"
#include "stage0/report/journal-mark.h"
#include "stage0/supervisor/streams/buffered-writer.h"
#include "stage0/supervisor/streams/forwarder.h"
#include "stage0/supervisor/streams/log-writer.h"

typedef struct Forwarder Forwarder;
typedef struct Waiter Waiter;
typedef struct Reopening Reopening;

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

/* Where the output of an app goes; see forwarder-file.c. */
typedef struct AppLog {
        struct AppLog *next; /* of those whose app was removed */
        Forwarders *all;
        char *app;
        int target; /* LogTarget */
        LogFileSettings file;
        LogWriter *writer;     /* NULL: there is no file */
        int open_code;         /* why it could not be opened last time, */
        mode_t open_type;      /* or what it is */
        uint32_t n_streams;    /* that were written to the file so far */
        uint64_t lines, bytes; /* that were dropped */
        bool changed;          /* the record of the drop is still to be written */
        bool reported;         /* a message says that lines are dropped */
        bool killed; /* another one that the process was killed, and the next one has not opened the file yet */
} AppLog;

struct Forwarder {
        Forwarder *next;
        Forwarders *all;
        const AppInstance *app;
        bool error, ended;
        bool stored;   /* the end was stored, too */
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
        uint32_t file_stream;             /* its number in the log file; 0: nothing was written */
        uint64_t file_end;                /* the message that ends it there; 0: it was not sent */
        bool file_unflushed;              /* something was written since the last flush */
        JournalMarker marker;             /* of what the journal gets */
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
        bool opens_logs;     /* log files of apps that are added are opened at once */
        MountNamespace host; /* none: this one is the host's */
        AppLog *leaving;     /* of removed apps, whose processes write the rest */
        Reopening *reopenings;
        size_t n_reopenings;
};

/* forwarder.c: the pipe is drained or given up. P may be freed. */
void forwarder_resume(Forwarder *p);
/* Whether its pipe is read may have changed. */
void forwarder_update(Forwarder *p);
/* The stream has ended, and its log file has all of it. P may be freed. */
void forwarder_end_written(Forwarder *p);

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

/* forwarder-file.c: the log of an app, whose file is opened by a process of its own. SETTINGS are lent. */
int forwarder_log_new(Forwarders *all, const char *app, const AppSettings *settings, AppLog **ret, Error *e);
/* Does not wait for what is not written yet. NULL is fine. */
AppLog *forwarder_log_free(AppLog *l);
DEFINE_TRIVIAL_CLEANUP_FUNC(AppLog *, forwarder_log_free);
/* Frees it when all is written. NULL is fine. */
void forwarder_log_leave(AppLog *l);
void forwarder_write_to_file(Forwarder *p, const char *data, size_t size);
/* Everything that was received is to be in the file, and not only whole lines. */
void forwarder_flush_file(Forwarder *p);
void forwarder_end_file(Forwarder *p);
/* True if the end of the stream is not in the file yet. */
bool forwarder_file_is_pending(const Forwarder *p);
/* True if the process of the file takes no more now. */
bool forwarder_file_is_full(const Forwarder *p);
/* True if so much waits for it that no more must be read before the pipe is closed. */
bool forwarder_file_is_flooded(const Forwarder *p);
/* Waits until the files of APP (NULL: of all apps) have everything that was received; for a moment, if their file systems do not answer. */
void forwarders_settle_files(Forwarders *all, const AppInstance *app);
/* The pod has ended: waits for the processes that write files, and kills those that are blocked. */
void forwarders_end_files(Forwarders *all);
void forwarders_free_files(Forwarders *all);

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
