/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of the process that reads a journal, which may be compromised: the parser does not read beyond
 * them, and accepted records are within their bounds. */

#include "stage0/report/journal-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sum;

static void look_at(const char *p, size_t n)
{
        for (size_t i = 0; i < n; i++)
                sum += (unsigned char) p[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        /* A copy of the exact size, so that sanitizers detect reads beyond it. */
        char *copy = malloc(size ?: 1);
        size_t at = 0;
        JournalRecord r;
        ssize_t n;

        if (!copy)
                return 0;
        memcpy(copy, data, size);
        while ((n = journal_record_parse(copy + at, size - at, &r)) > 0) {
                if (r.kind >= _JOURNAL_RECORD_KIND_MAX || r.app_size > JOURNAL_APP_MAX ||
                    r.data_size > JOURNAL_MESSAGE_MAX || r.code > 0 || (size_t) n > size - at)
                        abort();
                if (r.kind != JOURNAL_LINE && r.app_size + r.data_size > 0)
                        abort();
                look_at(r.app, r.app_size);
                look_at(r.data, r.data_size);
                at += (size_t) n;
        }
        free(copy);
        return 0;
}
