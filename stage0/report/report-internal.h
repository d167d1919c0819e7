/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of stage0/report/ share: reading the journal of a pod, and printing its lines. */

#include "schema/settings.h"
#include "stage0/report/report.h"

/* --- journal.c: reading what apps wrote ---------------------------------------------------------------- */

typedef struct JournalReader JournalReader;

typedef struct JournalQuery {
        const char *app;                 /* only lines of this one; NULL: of all */
        uint64_t since_usec, until_usec; /* realtime, both included; UNTIL 0: to the end */
        uint64_t lines;                  /* only the last so many; UINT64_MAX: all */
        bool follow;                     /* journal_reader_wait() will be called */
} JournalQuery;

/* Q stays the caller's, for as long as there is a reader. */
int journal_reader_new(Pod *p, const JournalQuery *q, JournalReader **ret, Error *e);
JournalReader *journal_reader_free(JournalReader *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(JournalReader *, journal_reader_free);
/* The next line, valid until the next call. 1: there is one, 0: not now. */
int journal_reader_next(JournalReader *r, JournalLine *ret, Error *e);
/* Waits until something has been written, or TIMEOUT_MSEC are over; with 0, looks whether something has. Then
 * there may be lines again. */
int journal_reader_wait(JournalReader *r, int timeout_msec, Error *e);

/* --- usage.c ------------------------------------------------------------------------------------------- */

/* The memory limit of the pod whose cgroup is at this path, in bytes; UINT64_MAX: none. */
uint64_t usage_memory_limit(const char *pod_path);

/* --- output.c ------------------------------------------------------------------------------------------ */

/* Prints everything that can be read now. */
int output_all(JournalReader *r, const OutputOptions *o, Error *e);
/* Prints one line. */
int output_line(const JournalLine *l, const OutputOptions *o);

/* --- log-file.c ---------------------------------------------------------------------------------------- */

/* Prints the records of the log file F of APP that are of this run of the pod, as O says. */
int log_file_show(Pod *p, const char *app, const LogFileSettings *f, const LogOptions *o,
                  const OutputOptions *output, Error *e);
/* Takes a record in CRI format, without its newline, apart; RET->app is not set. -EBADMSG: it is none. */
int log_record_parse(const char *data, size_t size, JournalLine *ret);
