/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* journal-mark.c: lines for journald, and back. */

#include "basic/basic.h"

/* One stream of an app; zero at first. */
typedef struct JournalMarker {
        size_t column; /* bytes of the entry that was begun */
        uint32_t last; /* its last bytes */
} JournalMarker;

/* Adds to OUT the data with marks where journald would change it. */
void journal_mark(JournalMarker *m, const char *data, size_t size, Text *out);
/* The same for the end of a stream, whose last line may have no line break. */
void journal_mark_end(JournalMarker *m, Text *out);
/* The size of the data of an entry without the mark that it may have at its end. */
size_t journal_unmarked_size(const char *data, size_t size);
