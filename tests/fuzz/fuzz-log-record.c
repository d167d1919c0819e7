/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of log files, which may be written by other programs, and the output of an app converted to
 * records: the first byte is the size of the pieces in which it arrives. Every record that is written is
 * read back unchanged. */

#include "stage0/report/report-internal.h"
#include "stage0/supervisor/streams/forwarder-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_parser(const char *data, size_t size)
{
        char *copy = malloc(size + 1); /* of the exact size, so that sanitizers detect reads beyond it */
        JournalLine l;

        if (copy && size > 0)
                memcpy(copy, data, size);
        char *exact = realloc(copy, size > 0 ? size : 1);
        if (exact && log_record_parse(exact, size, &l) >= 0 &&
            (l.data < exact || l.data + l.size != exact + size || l.time_usec > UINT64_C(1) << 60))
                abort();
        free(exact ?: copy);
}

static void fuzz_formatter(size_t chunk, const char *data, size_t size)
{
        const struct timespec now = {.tv_sec = 1475713029, .tv_nsec = 669794202};
        _cleanup_text_ Text records = {}, text = {};
        LogFormatter f = {};

        for (size_t i = 0; i < size; i += chunk)
                log_format_add(&f, &now, data + i, MIN(chunk, size - i), &records);
        log_format_end(&f, &now, &records);
        for (const char *p = records.data, *end = p ? p + records.size : NULL; p < end;) {
                const char *newline = memchr(p, '\n', (size_t) (end - p));
                JournalLine l;
                if (!newline || newline + 1 - p > (ssize_t) LOG_RECORD_MAX ||
                    log_record_parse(p, (size_t) (newline - p), &l) < 0)
                        abort();
                text_add_bytes(&text, l.data, l.size);
                text_add_bytes(&text, "\n", !l.partial);
                p = newline + 1;
        }
        if (text.size < size || (size > 0 && memcmp(text.data, data, size) != 0) || text.size > size + 1)
                abort();
        text_done(&f.rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0)
                return 0;
        fuzz_parser((const char *) data + 1, size - 1);
        fuzz_formatter(1 + data[0] * (size_t) 100, (const char *) data + 1, size - 1);
        return 0;
}
