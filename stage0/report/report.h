/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/report/: what is known of a pod, and what its apps wrote. What others use of it is in stage0.h. */

#include "stage0/runtime/runtime.h"

/* --- journal.c: what apps wrote ------------------------------------------------------------------------ */

typedef struct JournalReader JournalReader;
typedef struct JournalLine {
        const char *app;
        const char *data;
        size_t size;
        bool error;   /* came from standard error */
        char end[1];  /* what it ended with: a newline or NUL */
        bool partial; /* it did not end: there is no END */
        uint64_t time_usec;
} JournalLine;

int journal_reader_new(Pod *p, JournalReader **ret, Error *e);
JournalReader *journal_reader_free(JournalReader *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(JournalReader *, journal_reader_free);
/* Only lines of this app; NULL: of all. */
int journal_reader_set_app(JournalReader *r, const char *app);
/* Moves so that at most N lines are left to be read. */
int journal_reader_skip_to_last(JournalReader *r, uint64_t n);
int journal_reader_fd(JournalReader *r);
/* To be called when the descriptor is readable. */
int journal_reader_process(JournalReader *r);
/* The next line, valid until the next call. 1: there is one, 0: not now. */
int journal_reader_next(JournalReader *r, JournalLine *ret);

/* output.c: lines to standard output and standard error. */
typedef struct OutputOptions {
        bool prefix, json;
} OutputOptions;
/* What is to be printed of a line. */
int output_format(const JournalLine *l, const OutputOptions *o, Text *t);
int output_line(const JournalLine *l, const OutputOptions *o);
/* Prints everything that can be read now. */
int output_all(JournalReader *r, const OutputOptions *o);
