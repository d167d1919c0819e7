/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of stage0/report/ share: reading the journal of a pod, and printing its lines. */

#include "stage0/report/report.h"

/* --- journal.c: reading what apps wrote ---------------------------------------------------------------- */

typedef struct JournalReader JournalReader;

int journal_reader_new(Pod *p, JournalReader **ret, Error *e);
JournalReader *journal_reader_free(JournalReader *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(JournalReader *, journal_reader_free);
/* Only lines of this app; NULL: of all. */
int journal_reader_set_app(JournalReader *r, const char *app);
/* Only what was written from SINCE to UNTIL, realtime; UNTIL 0: and later. To be called before anything is
 * read. */
int journal_reader_set_range(JournalReader *r, uint64_t since_usec, uint64_t until_usec);
/* Moves so that at most N lines are left to be read. */
int journal_reader_skip_to_last(JournalReader *r, uint64_t n);
int journal_reader_fd(JournalReader *r);
/* To be called when the descriptor is readable. */
int journal_reader_process(JournalReader *r);
/* The next line, valid until the next call. 1: there is one, 0: not now. */
int journal_reader_next(JournalReader *r, JournalLine *ret);

/* --- output.c ------------------------------------------------------------------------------------------ */

/* Prints everything that can be read now. */
int output_all(JournalReader *r, const OutputOptions *o);
