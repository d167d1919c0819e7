/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lines for journald, which changes them: it leaves out empty lines, and cuts blanks and carriage returns at the ends of lines and of
 * the pieces that it makes of long lines. So such a line gets a mark behind it, which is no blank for journald and nothing to
 * see where a journal is shown: U+200B, ZERO WIDTH SPACE. Readers of ours remove one mark at the end of each entry; a line that
 * ends with a mark itself gets another one.
 *
 * Where journald would end a piece by itself, it is ended with a mark before. */

#include "stage0/report/journal-mark.h"

#define MARK "\xe2\x80\x8b"
#define MARK_SIZE 3U
#define MARK_BYTES 0xe2808bU
#define PIECE_MAX 49152U /* LineMax= of journald */

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

static void add_mark(JournalMarker *m, Text *out)
{
        text_add_bytes(out, MARK, MARK_SIZE);
        m->last = 0;
        m->column = 0;
}

/* SIZE bytes without a line break, and which fit into the piece. */
static void add_bytes(JournalMarker *m, const char *data, size_t size, Text *out)
{
        text_add_bytes(out, data, size);
        m->column += size;
        for (size_t i = size > MARK_SIZE ? size - MARK_SIZE : 0; i < size; i++)
                m->last = m->last << 8 | (unsigned char) data[i];
}

static bool needs_mark(const JournalMarker *m)
{
        return is_blank((char) (m->last & 0xff)) || (m->last & 0xffffff) == MARK_BYTES;
}

static void add_part(JournalMarker *m, const char *data, size_t size, Text *out)
{
        while (size > 0) {
                size_t n = MIN(size, PIECE_MAX - MARK_SIZE - m->column);

                add_bytes(m, data, n, out);
                if (m->column == PIECE_MAX - MARK_SIZE)
                        add_mark(m, out);
                data += n;
                size -= n;
        }
}

/* The first line feed or NUL, both of which end a line for journald; or the end. */
static size_t part_size(const char *data, size_t size)
{
        const char *newline = memchr(data, '\n', size);
        size_t n = newline ? (size_t) (newline - data) : size;
        const char *nul = memchr(data, 0, n);

        return nul ? (size_t) (nul - data) : n;
}

void journal_mark(JournalMarker *m, const char *data, size_t size, Text *out)
{
        while (size > 0) {
                size_t n = part_size(data, size);

                add_part(m, data, n, out);
                if (n == size)
                        return;
                if (m->column == 0 || needs_mark(m))
                        add_mark(m, out);
                text_add_bytes(out, data + n, 1);
                m->column = 0;
                m->last = 0;
                data += n + 1;
                size -= n + 1;
        }
}

void journal_mark_end(JournalMarker *m, Text *out)
{
        if (m->column > 0 && needs_mark(m))
                add_mark(m, out);
}

size_t journal_unmarked_size(const char *data, size_t size)
{
        return size >= MARK_SIZE && memcmp(data + size - MARK_SIZE, MARK, MARK_SIZE) == 0 ? size - MARK_SIZE
                                                                                          : size;
}
