/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes text of images, apps and servers harmless for a terminal.
 *
 * A terminal interprets control characters as commands: to move the cursor, to change what was printed
 * before, to answer with input, to set titles and the clipboard. Unicode's format characters change the
 * order in which a line is displayed, or are invisible, so that two names look the same. Both become visible
 * escapes: \x1b for a byte, \u202e for a character.
 *
 * Names, labels and messages are escaped as a whole (text_escape_for_terminal()). Output of apps is
 * processed as a stream (Neutralizer); there newlines and tabs are kept, colours optionally, and also the
 * joiners that some scripts and emoji need.
 */

#include "basic/basic.h"

/* --- Characters ---------------------------------------------------------------------------------------- */

typedef struct Range {
        uint32_t first, last;
} Range;

/* RANGES are in ascending order. */
static bool in_ranges(const Range *ranges, size_t n, uint32_t c)
{
        for (size_t i = 0; i < n && c >= ranges[i].first; i++)
                if (c <= ranges[i].last)
                        return true;
        return false;
}

/* Characters that change the order of a line, or begin a new one, at any position. */
static bool is_reordering(uint32_t c)
{
        static const Range ranges[] = {
                        {0x61c, 0x61c},   /* Arabic letter mark */
                        {0x2028, 0x202e}, /* separators of lines and paragraphs, embeddings and overrides */
                        {0x2066, 0x206f}, /* isolates, deprecated formats */
                        {0xfff9, 0xfffb}, /* interlinear annotations */
                        {0xe0000, 0xe0fff},
        };

        return in_ranges(ranges, ELEMENTSOF(ranges), c);
}

/* Invisible characters: the default ignorable code points of Unicode, and other blank characters that are
 * not spaces. */
static bool is_invisible(uint32_t c)
{
        static const Range ranges[] = {
                        {0xad, 0xad},       {0x34f, 0x34f},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
                        {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2060, 0x2065},   {0x2800, 0x2800},
                        {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
                        {0xfff0, 0xfff8},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
                        {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
        };

        return in_ranges(ranges, ELEMENTSOF(ranges), c);
}

static bool is_control(uint32_t c)
{
        return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Decodes a character of N bytes, as returned by utf8_length(). */
static uint32_t decode(const unsigned char *p, size_t n)
{
        uint32_t c = n == 1 ? p[0] : p[0] & (0x7fU >> n);

        for (size_t i = 1; i < n; i++)
                c = c << 6 | (p[i] & 0x3fU);
        return c;
}

static void add_bytes_escaped(Text *t, const unsigned char *p, size_t n)
{
        for (size_t i = 0; i < n; i++)
                text_addf(t, "\\x%02x", p[i]);
}

static void add_code_escaped(Text *t, uint32_t c)
{
        text_addf(t, c > 0xffff ? "\\U%08x" : "\\u%04x", c);
}

/* --- Whole texts --------------------------------------------------------------------------------------- */

char *text_escape_for_terminal(const char *s)
{
        _cleanup_text_ Text t = {};
        const unsigned char *p = (const unsigned char *) s;
        size_t n = strlen(s);
        char *escaped;

        while (n > 0) {
                size_t k = utf8_length((const char *) p, n);
                uint32_t c = k > 0 ? decode(p, k) : 0;

                if (k == 0 || is_control(c)) {
                        k = k ?: 1;
                        add_bytes_escaped(&t, p, k);
                } else if (is_reordering(c) || is_invisible(c))
                        add_code_escaped(&t, c);
                else
                        text_add_bytes(&t, p, k);
                p += k;
                n -= k;
        }
        return text_take(&t, &escaped, NULL) < 0 ? NULL : escaped;
}

bool text_has_escapes(const char *s, size_t n)
{
        return memchr(s, '\033', n) || memchr(s, '\016', n) || memchr(s, '\233', n);
}

/* Outside of strings JSON is ASCII without control characters other than white space. */
void text_add_json(Text *t, const char *json)
{
        const unsigned char *p = (const unsigned char *) json;
        size_t n = strlen(json);

        while (n > 0) {
                size_t plain = 0;

                while (plain < n && p[plain] < 0x7f)
                        plain++;
                text_add_bytes(t, p, plain);
                p += plain;
                n -= plain;
                size_t k = utf8_length((const char *) p, n);
                uint32_t c = k > 0 ? decode(p, k) : 0;
                if (k > 0 && c > 0xffff && (is_reordering(c) || is_invisible(c)))
                        text_addf(t, "\\u%04x\\u%04x", 0xd7c0U + (c >> 10), 0xdc00U + (c & 0x3ffU));
                else if (k > 0 && (is_control(c) || is_reordering(c) || is_invisible(c)))
                        text_addf(t, "\\u%04x", c);
                else
                        text_add_bytes(t, p, k);
                p += k ?: n > 0;
                n -= k ?: n > 0;
        }
}

/* --- Streams ------------------------------------------------------------------------------------------- */

/* The length of the SGR sequence (colours and other attributes) at P: ESC [ 1 ; 31 m. 0: it is incomplete;
 * -EINVAL: not an SGR sequence. */
static ssize_t sgr_length(const char *p, size_t n)
{
        size_t i = 2;

        if (n > 1 && p[1] != '[')
                return -EINVAL;
        while (i < n && (is_digit(p[i]) || p[i] == ';' || p[i] == ':'))
                i++;
        if (i < n)
                return p[i] == 'm' && i < NEUTRALIZER_HELD_MAX ? (ssize_t) i + 1 : -EINVAL;
        return n < NEUTRALIZER_HELD_MAX ? 0 : -EINVAL;
}

/* The parameter at *P, which ends before END; *P is advanced past it. UINT32_MAX: it is not a plain
 * number. */
static uint32_t next_parameter(const char **p, const char *end)
{
        uint64_t v = 0;
        bool number = true;

        for (; *p < end && **p != ';'; (*p)++)
                if (!is_digit(**p))
                        number = false;
                else if (v < UINT32_MAX)
                        v = v * 10 + (uint64_t) (**p - '0');
        *p += *p < end;
        return number && v < UINT32_MAX ? (uint32_t) v : UINT32_MAX;
}

/* Whether one of the parameters makes text invisible. Those after 38, 48 and 58 are the number of a
 * colour. */
static bool sgr_conceals(const char *p, size_t n)
{
        const char *end = p + n - 1;

        for (p += 2; p < end;) {
                uint32_t v = next_parameter(&p, end);
                if (v == 8)
                        return true;
                if (v != 38 && v != 48 && v != 58)
                        continue;
                v = next_parameter(&p, end);
                if (v != 2 && v != 5) /* terminals interpret other values differently */
                        return true;
                for (unsigned i = v == 2 ? 3 : 1; i > 0 && p < end; i--)
                        (void) next_parameter(&p, end);
        }
        return false;
}

static bool is_reset(const char *p, size_t n)
{
        return n == 3 || (n == 4 && p[2] == '0');
}

/* *RET: the number of bytes of the sequence at P that were consumed. */
static bool take_color(Neutralizer *z, const char *p, size_t n, bool last, Text *out, size_t *ret)
{
        if (!z->colors || *p != '\033')
                return false;
        ssize_t k = sgr_length(p, n);
        if (k < 0 || (k == 0 && last) || (k > 0 && sgr_conceals(p, (size_t) k)))
                return false;
        if (k > 0) {
                text_add_bytes(out, p, (size_t) k);
                z->colored = !is_reset(p, (size_t) k);
        }
        *ret = (size_t) k;
        return true;
}

/* Whether further bytes can complete it to a valid character. */
static bool utf8_is_incomplete(const unsigned char *p, size_t n)
{
        size_t length = p[0] < 0xc2 || p[0] > 0xf4 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

        if (n >= length)
                return false;
        for (size_t i = 1; i < n; i++)
                if ((p[i] & 0xc0) != 0x80)
                        return false;
        return true;
}

static size_t plain_length(const Neutralizer *z, const char *p, size_t n)
{
        size_t i = 0;

        while (i < n && ((p[i] >= 0x20 && p[i] < 0x7f) || p[i] == '\n' || p[i] == '\t' ||
                         (p[i] == '\r' && z->returns)))
                i++;
        return i;
}

/* Processes the character or sequence at P. Returns its length; 0: it is incomplete. */
static size_t take(Neutralizer *z, const char *p, size_t n, bool last, Text *out)
{
        const unsigned char *u = (const unsigned char *) p;
        size_t k = plain_length(z, p, n);

        if (k > 0) {
                text_add_bytes(out, p, k);
                return k;
        }
        if (take_color(z, p, n, last, out, &k))
                return k;
        k = utf8_length(p, n);
        if (k == 0) {
                if (!last && utf8_is_incomplete(u, n))
                        return 0;
                add_bytes_escaped(out, u, 1);
                return 1;
        }
        uint32_t c = decode(u, k);
        if (is_control(c))
                add_bytes_escaped(out, u, k);
        else if (is_reordering(c) || c == 0xfeff)
                add_code_escaped(out, c);
        else
                text_add_bytes(out, p, k);
        return k;
}

static void take_held(Neutralizer *z, bool last, Text *out)
{
        size_t k;

        while (z->n_held > 0 && (k = take(z, z->held, z->n_held, last, out)) > 0) {
                z->n_held -= k;
                memmove(z->held, z->held + k, z->n_held);
        }
}

void neutralizer_add(Neutralizer *z, const char *data, size_t size, Text *out)
{
        size_t k = 1;

        for (; z->n_held > 0 && size > 0; data++, size--) {
                z->held[z->n_held++] = *data;
                take_held(z, false, out);
        }
        if (z->n_held > 0)
                return;
        while (size > 0 && (k = take(z, data, size, false, out)) > 0) {
                data += k;
                size -= k;
        }
        /* An incomplete sequence is always shorter than that. */
        memcpy(z->held, data, size);
        z->n_held = size;
}

void neutralizer_end(Neutralizer *z, Text *out)
{
        take_held(z, true, out);
        if (z->colored)
                text_add(out, "\033[0m");
        z->colored = false;
}
