/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lower half of the reader of TOML: space, comments, ends of lines, strings and names. */

#include "prepare/registry/toml-internal.h"

int toml_fault(TomlReader *r, const char *format, ...)
{
        _cleanup_free_ char *why = NULL, *shown = NULL;
        va_list ap;

        va_start(ap, format);
        int n = xvasprintf(&why, format, ap);
        va_end(ap);
        if (n < 0)
                return error_oom(r->e);
        shown = text_escape_for_terminal(why);
        if (!shown)
                return error_oom(r->e);
        return error_set(r->e, -EBADMSG, "%s, line %u: %s", r->what, r->line, shown);
}

/* --- Space --------------------------------------------------------------------------------------------- */

void toml_skip_blanks(TomlReader *r)
{
        while (toml_peek(r) == ' ' || toml_peek(r) == '\t')
                r->p++;
}

/* Past a comment, if there is one, up to the end of the line. */
static int skip_comment(TomlReader *r)
{
        if (toml_peek(r) != '#')
                return 0;
        for (; r->p < r->end && *r->p != '\n'; r->p++) {
                unsigned char c = (unsigned char) *r->p;
                bool returns = c == '\r' && r->p + 1 < r->end && r->p[1] == '\n';
                if ((c < 0x20 && c != '\t' && !returns) || c == 0x7f)
                        return toml_fault(r, "control character 0x%02x in a comment", c);
        }
        return 0;
}

/* Past the end of the line. Returns 1 if there was one. */
static int skip_newline(TomlReader *r)
{
        if (toml_peek(r) == '\r' && r->p + 1 < r->end && r->p[1] == '\n')
                r->p++;
        if (toml_peek(r) != '\n')
                return 0;
        r->p++;
        r->line++;
        return 1;
}

/* Past blanks, comments and ends of lines. */
int toml_skip_space(TomlReader *r)
{
        int q;

        do {
                toml_skip_blanks(r);
                q = skip_comment(r);
                if (q < 0)
                        return q;
        } while (skip_newline(r) > 0);
        return 0;
}

int toml_expect_line_end(TomlReader *r)
{
        toml_skip_blanks(r);
        int q = skip_comment(r);
        if (q < 0)
                return q;
        if (skip_newline(r) > 0 || r->p == r->end)
                return 0;
        return toml_fault(r, "'%c' where the line should end", *r->p);
}

int toml_expect(TomlReader *r, char c, const char *where)
{
        if (toml_peek(r) != c || r->p == r->end)
                return toml_fault(r, "'%c' is missing %s", c, where);
        r->p++;
        return 0;
}

/* --- Strings ------------------------------------------------------------------------------------------- */

static int add_unicode(TomlReader *r, size_t digits, Text *t)
{
        uint32_t c = 0;
        char b[4];

        for (size_t i = 0; i < digits; i++, r->p++) {
                const char *all = "0123456789abcdef0123456789ABCDEF", *d = strchr(all, toml_peek(r));
                if (!toml_peek(r) || !d)
                        return toml_fault(r, "an escape \\%c without %zu hex digits",
                                          digits == 4 ? 'u' : 'U', digits);
                c = c << 4 | ((uint32_t) (d - all) & 15);
        }
        if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return toml_fault(r, "an escape that is not a character");
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
        for (size_t i = n - 1; i > 0; i--, c >>= 6)
                b[i] = (char) (0x80 | (c & 0x3f));
        b[0] = (char) (leads[n] | c);
        text_add_bytes(t, b, n);
        return 0;
}

/* Behind a backslash. */
static int read_escape(TomlReader *r, Text *t)
{
        static const char escapes[] = "btnfr\"\\", meanings[] = "\b\t\n\f\r\"\\";
        char c = toml_peek(r);
        const char *found = c ? strchr(escapes, c) : NULL;

        if (r->p < r->end)
                r->p++;
        if (found) {
                text_add_bytes(t, meanings + (found - escapes), 1);
                return 0;
        }
        if (c == 'u' || c == 'U')
                return add_unicode(r, c == 'u' ? 4 : 8, t);
        return toml_fault(r, "an escape that TOML does not have");
}

/* A string in QUOTE, '"' or '\'', at which we are. */
int toml_read_string(TomlReader *r, char **ret)
{
        _cleanup_text_ Text t = {};
        char quote = *r->p++;

        if (r->end - r->p >= 2 && r->p[0] == quote && r->p[1] == quote)
                return toml_fault(r, "strings over several lines are not understood");
        for (;;) {
                unsigned char c = (unsigned char) toml_peek(r);

                if (r->p == r->end || c == '\n' || c == '\r')
                        return toml_fault(r, "the line ends inside of a string");
                if ((c < 0x20 && c != '\t') || c == 0x7f)
                        return toml_fault(r, "control character 0x%02x in a string", c);
                r->p++;
                if (c == (unsigned char) quote)
                        break;
                if (c == '\\' && quote == '"') {
                        int q = read_escape(r, &t);
                        if (q < 0)
                                return q;
                } else
                        text_add_bytes(&t, r->p - 1, 1);
        }
        text_add_bytes(&t, "", 0);
        return text_take(&t, ret, NULL) < 0 ? error_oom(r->e) : 0;
}

/* --- Keys ---------------------------------------------------------------------------------------------- */

static bool is_bare(char c)
{
        return c && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", c);
}

int toml_read_key(TomlReader *r, char **ret)
{
        size_t n = 0;

        if (toml_peek(r) == '"' || toml_peek(r) == '\'')
                return toml_read_string(r, ret);
        while (r->p + n < r->end && is_bare(r->p[n]))
                n++;
        if (n == 0)
                return toml_fault(r, r->p == r->end ? "the text ends where a name is expected"
                                                    : "a name is expected");
        *ret = strndup(r->p, n);
        r->p += n;
        return *ret ? 0 : error_oom(r->e);
}
