/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of stage0/report/: reading the journal of a pod, and printing its lines. */

#include <poll.h>

#include "schema/settings.h"
#include "stage0/report/report.h"

/* --- filter.c ---------------------------------------------------------------------------------------------- */

/* Of APP (or NULL) with the settings S. *RET_DIGEST is set for a profile only. */
FilterKind report_filter(const App *app, const AppSettings *s, char **ret_digest);

/* --- journal.c: reading the output of apps ------------------------------------------------------------- */

typedef struct JournalReader JournalReader;

#define JOURNAL_READER_POLL 2 /* descriptors that it waits for */

typedef struct JournalQuery {
        const char *app;                 /* only lines of this app; NULL: of all */
        uint64_t since_usec, until_usec; /* realtime, both included; UNTIL 0: to the end */
        uint64_t lines;                  /* number of last lines; UINT64_MAX: all */
        bool follow;                     /* journal_reader_refresh() will be called */
        /* These apps, whose output is only in the journal of the host: that is read in place of the pod's. */
        const char *const *host_apps;
        size_t n_host_apps;
        const char *uuid; /* of the pod */
} JournalQuery;

/* With a copy of Q. */
int journal_reader_new(Pod *p, const JournalQuery *q, JournalReader **ret, Error *e);
JournalReader *journal_reader_free(JournalReader *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(JournalReader *, journal_reader_free);
/* The next line, valid until the next call. 1: found, 0: none available now. */
int journal_reader_next(JournalReader *r, JournalLine *ret, Error *e);
/* What poll() shall wait for: that the journal changes, and that the reading process ends. */
void journal_reader_poll(const JournalReader *r, struct pollfd ret[static JOURNAL_READER_POLL]);
/* Looks for what has changed. Then there may be more lines. */
int journal_reader_refresh(JournalReader *r, Error *e);
/* Whether this host has a journal. */
bool journal_of_host_exists(void);

/* --- log-sources.c: the journals of pod and host as one sequence of lines ------------------------------ */

typedef struct LogSources {
        JournalReader *readers[2];
        JournalLine heads[2]; /* read, but not returned yet */
        bool has_head[2];
        size_t n;
        uint64_t skip; /* lines that are not among the last ones */
} LogSources;

/* Reads the journal of the pod if POD, and that of the host for the apps of Q. S is empty. */
int log_sources_open(LogSources *s, Pod *p, const JournalQuery *q, bool pod, Error *e);
void log_sources_done(LogSources *s);
/* As for a single reader. */
int log_sources_next(LogSources *s, JournalLine *ret, Error *e);
/* Waits until a journal has changed, END_FD (0: none) is readable, or TIMEOUT_MSEC are over; with 0 only checks. Then
 * there may be more lines. */
int log_sources_wait(LogSources *s, int end_fd, int timeout_msec, Error *e);

/* --- logs.c -------------------------------------------------------------------------------------------- */

/* Whether following has ended. Waits for up to this time. */
bool logs_have_ended(Pod *p, const LogOptions *o, uint64_t timeout_usec);

/* --- usage.c ------------------------------------------------------------------------------------------- */

/* The memory limit of the pod whose cgroup is at this path, in bytes; UINT64_MAX: none. */
uint64_t usage_memory_limit(const char *pod_path);

/* --- output.c ------------------------------------------------------------------------------------------ */

/* Prints all available lines. */
int output_all(LogSources *s, const OutputOptions *o, Error *e);
/* Prints one line. The prefix is printed once for a line in several records, unless another line comes in between. */
int output_line(const JournalLine *l, const OutputOptions *o);
/* Prints the newline of a line whose continuation has not come. */
int output_end_line(const OutputOptions *o);

/* --- log-file.c ---------------------------------------------------------------------------------------- */

/* Prints the records of the log file F of APP that are of this run of the pod, according to O. */
int log_file_show(Pod *p, const char *app, const LogFileSettings *f, const LogOptions *o,
                  const OutputOptions *output, Error *e);
/* Parses a record in CRI format, without its newline; RET->app is not set. -EBADMSG. */
int log_record_parse(const char *data, size_t size, JournalLine *ret);
