/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of log files: what an app writes to one of its streams, cut into lines.
 *
 * In the format of the Kubernetes Container Runtime Interface a record is
 *
 *     2016-10-06T00:17:09.669794202Z stdout F the text of a line
 *
 * with the time in UTC, always with nine digits, the stream, and F for the end of a line or P for a part of it
 * that goes on in the next record of this stream. A record has at most LOG_RECORD_MAX bytes: readers that have
 * buffers for lines of 16 KiB take it. Between the tag and the newline are the bytes that the app wrote, whatever
 * they are; there is no escaping.
 *
 * Text at the end of a stream without a newline becomes a P record, as in other runtimes, and readers reproduce it as it was
 * written. Readers also join a P record with the next record of its stream, which would be the first line of the next start
 * of the app: an empty F record, written before that line, separates them.
 *
 * In the plain format a record is the text with its newline, and without it if the line goes on.
 */

#include "stage0/supervisor/streams/log-file.h"

#define TIME_SIZE (sizeof("2016-10-06T00:17:09.669794202Z ") - 1)
#define TAG_OFFSET (TIME_SIZE + sizeof("stdout ") - 1)
#define HEADER_SIZE (TAG_OFFSET + sizeof("F ") - 1)
#define TEXT_MAX (LOG_RECORD_MAX - HEADER_SIZE - 1)

/* The prefix of all records that are made at once; the tag is filled in for each. */
typedef struct Header {
        char text[HEADER_SIZE + 1];
} Header;

static void make_header(const LogFormatter *f, const struct timespec *now, Header *ret)
{
        struct tm tm = {};

        ret->text[0] = 0;
        if (f->format != LOG_FORMAT_CRI)
                return;
        (void) gmtime_r(&now->tv_sec, &tm);
        snprintf(ret->text, sizeof(ret->text), "%04u-%02u-%02uT%02u:%02u:%02u.%09uZ %s F ",
                 (unsigned) (tm.tm_year + 1900) % 10000U, (unsigned) (tm.tm_mon + 1) % 100U,
                 (unsigned) tm.tm_mday % 100U, (unsigned) tm.tm_hour % 100U, (unsigned) tm.tm_min % 100U,
                 (unsigned) tm.tm_sec % 100U, (unsigned) now->tv_nsec % 1000000000U,
                 f->error ? "stderr" : "stdout");
}

/* The buffered text, with DATA appended. */
static void add_record(LogFormatter *f, Header *header, const char *data, size_t size, bool full, Text *out)
{
        if (f->format == LOG_FORMAT_CRI) {
                header->text[TAG_OFFSET] = full ? 'F' : 'P';
                text_add_bytes(out, header->text, HEADER_SIZE);
        }
        text_add_bytes(out, f->rest.data, f->rest.size);
        text_add_bytes(out, data, size);
        if (full || f->format == LOG_FORMAT_CRI)
                text_add_bytes(out, "\n", 1);
        f->rest.size = 0;
        f->open = !full;
}

static void keep(LogFormatter *f, const char *data, size_t size, Text *out)
{
        text_add_bytes(&f->rest, data, size);
        if (!f->rest.failed)
                return;
        text_done(&f->rest);
        out->failed = true; /* the record is incomplete */
}

/* A line is cut only when it is known to go on: the newline may be the next byte. */
void log_format_add(LogFormatter *f, const struct timespec *now, const char *data, size_t size, Text *out)
{
        Header header;

        make_header(f, now, &header);
        while (size > 0) {
                size_t room = TEXT_MAX - f->rest.size, seen = MIN(size, room + 1);
                const char *newline = memchr(data, '\n', seen);
                size_t n = newline ? (size_t) (newline - data) : MIN(seen, room);

                if (!newline && seen <= room) {
                        keep(f, data, seen, out);
                        return;
                }
                add_record(f, &header, data, n, newline, out);
                n += newline ? 1 : 0;
                data += n;
                size -= n;
        }
}

void log_format_flush(LogFormatter *f, const struct timespec *now, Text *out)
{
        Header header;

        if (f->rest.size == 0)
                return;
        make_header(f, now, &header);
        add_record(f, &header, NULL, 0, false, out);
}

void log_format_end(LogFormatter *f, const struct timespec *now, Text *out)
{
        Header header;

        if (f->rest.size == 0 && !f->open)
                return;
        make_header(f, now, &header);
        add_record(f, &header, NULL, 0, true, out);
}

void log_format_finish(LogFormatter *f, const struct timespec *now, Text *out)
{
        if (f->format == LOG_FORMAT_CRI)
                log_format_flush(f, now, out);
        else
                log_format_end(f, now, out);
}

void log_format_count(int format, const char *records, size_t size, uint64_t *ret_lines, uint64_t *ret_bytes)
{
        uint64_t lines = 0, bytes = 0;

        while (size > 0) {
                const char *newline = memchr(records, '\n', size);
                size_t n = newline ? (size_t) (newline - records) + 1 : size;
                bool full = format != LOG_FORMAT_CRI ? newline != NULL
                                                     : n > HEADER_SIZE && records[TAG_OFFSET] == 'F';

                lines += full;
                bytes += format != LOG_FORMAT_CRI ? n : n > HEADER_SIZE ? n - HEADER_SIZE - !full : 0;
                records += n;
                size -= n;
        }
        *ret_lines = lines;
        *ret_bytes = bytes;
}

void log_format_note_open(const char *record, size_t size, bool left_open[static 2])
{
        static const char *const streams[] = {"stdout ", "stderr "};

        for (size_t i = 0; i < ELEMENTSOF(streams); i++)
                if (size >= HEADER_SIZE && memcmp(record + TIME_SIZE, streams[i], strlen(streams[i])) == 0)
                        left_open[i] = record[TAG_OFFSET] == 'P';
}

bool log_format_is_open(int format, const char *records, size_t size)
{
        if (size == 0)
                return false;
        if (format != LOG_FORMAT_CRI)
                return records[size - 1] != '\n';
        const char *before = memrchr(records, '\n', size - 1), *last = before ? before + 1 : records;
        return (size_t) (records + size - last) > HEADER_SIZE && last[TAG_OFFSET] == 'P';
}
