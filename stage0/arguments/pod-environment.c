/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Variables from files. There are two formats, by the option:
 *
 * --env-file=: as podman and docker read theirs. All that follows NAME= on a line is the value, also quotes and
 * blanks at its end; blanks before the name, empty lines and those that begin with # are ignored. NAME alone takes
 * the value from acnspawn's environment and is left out if there is none, NAME* takes all variables that begin so.
 *
 * --environment-file=: as EnvironmentFile= of units, see systemd.exec(5). Values may be quoted, in parts, and over
 * several lines; backslashes escape; blanks around a value are no part of it, and lines that begin with # or ; are
 * comments. Other than there, NAME alone takes the value from acnspawn's environment, and mistakes are errors.
 *
 * Nothing is expanded in either. Values may be any bytes but NUL. A name with blanks, such as that of "export A=1", is an error, as
 * it is for podman and docker; systemd ignores such lines.
 */

#include "stage0/arguments/pod-values.h"

#define ENVIRONMENT_FILE_MAX (1024U * 1024U)
#define BLANKS " \t\r"
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

typedef struct Reader {
        const Option *option;
        const char *file;
        unsigned line; /* number of the line that the variable begins on */
        PairList *list;
} Reader;

static int refuse(const Reader *x, const char *reason, Error *e)
{
        return option_invalid(x->option, x->file, e, "line %u: %s", x->line, reason);
}

static int add(const Reader *x, const char *name, const char *value, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;

        if (environment_name_check(name, &reason) < 0)
                return refuse(x, reason.message, e);
        return pair_list_set(x->list, name, value) < 0 ? error_oom(e) : 0;
}

/* Of what stands in a file of systemd's form: a name with blanks is that of a script, as "export A", which systemd passes over. */
static int add_named(const Reader *x, const char *name, const char *value, Error *e)
{
        return strpbrk(name, BLANKS) ? refuse(x, "a name of a variable has no blanks", e)
                                     : add(x, name, value, e);
}

/* --- As podman and docker -------------------------------------------------------------------------------- */

static int add_all_that_begin_with(const Reader *x, const char *prefix, size_t n, Error *e)
{
        int r = 0;

        for (char *const *v = environ; r >= 0 && *v; v++) {
                const char *equals = strchr(*v, '=');
                if (!equals || strncmp(*v, prefix, n) != 0 || equals < *v + n)
                        continue;
                _cleanup_free_ char *name = strndup(*v, (size_t) (equals - *v));
                r = name ? add(x, name, equals + 1, e) : error_oom(e);
        }
        return r;
}

static int take_line(const Reader *x, char *s, Error *e)
{
        s += strspn(s, " \t");
        if (!*s || *s == '#')
                return 0;
        char *equals = strchr(s, '=');
        if (equals) {
                *equals = 0;
                return add(x, s, equals + 1, e);
        }
        size_t n = strlen(s);
        if (s[n - 1] == '*')
                return add_all_that_begin_with(x, s, n - 1, e);
        const char *value = getenv(s);
        return value ? add(x, s, value, e) : 0;
}

static int read_plain(Reader *x, char *text, Error *e)
{
        int r = 0;

        for (char *s = text, *end; r >= 0 && s; s = end) {
                end = strchr(s, '\n');
                if (end) {
                        if (end > s && end[-1] == '\r')
                                end[-1] = 0;
                        *end++ = 0;
                }
                x->line++;
                r = take_line(x, s, e);
        }
        return r;
}

/* --- As systemd ------------------------------------------------------------------------------------------ */

/* Copies a quoted part, of which *S is the quote, to *TO. False: its end is missing. */
static bool copy_quoted(char **s, char **to)
{
        char quote = *(*s)++;

        for (; **s && **s != quote; (*s)++) {
                if (quote == '"' && **s == '\\' && (*s)[1]) {
                        char c = *++*s;
                        if (c == '\n')
                                continue;
                        if (!strchr("\"\\`$", c))
                                *(*to)++ = '\\';
                }
                *(*to)++ = **s;
        }
        return *(*s)++ == quote;
}

/* Unquotes the value at *S in its place, and goes to the end of its last line. NULL: the end of a quote is missing. */
static char *take_value(char **s)
{
        char *value = *s, *to = value, *kept = value; /* end of what blanks do not belong to */
        bool begins = true; /* quotes count at the beginning, and after another quote */

        for (; **s && **s != '\n';) {
                if (begins && (**s == '"' || **s == '\'')) {
                        if (!copy_quoted(s, &to))
                                return NULL;
                        kept = to;
                        continue;
                }
                if (begins && strchr(BLANKS, **s)) {
                        (*s)++;
                        continue;
                }
                begins = false;
                if (**s == '\\' && (*s)[1]) {
                        (*s)++;
                        if (**s != '\n')
                                *to++ = **s;
                        (*s)++;
                        kept = to;
                        continue;
                }
                *to++ = **s;
                if (!strchr(BLANKS, **s))
                        kept = to;
                (*s)++;
        }
        *s += **s == '\n';
        *kept = 0;
        return value;
}

static char *cut_blanks_at_end(char *s)
{
        for (size_t n = strlen(s); n > 0 && strchr(BLANKS, s[n - 1]); n--)
                s[n - 1] = 0;
        return s;
}

/* A variable, a comment or an empty line, from *S to the end of its last line. */
static int take_assignment(const Reader *x, char **s, Error *e)
{
        *s += strspn(*s, BLANKS);
        char *name = *s, *end = name + strcspn(name, "=\n");

        if (*name == '#' || *name == ';' || *end != '=') {
                end = name + strcspn(name, "\n");
                *s = end + (*end == '\n');
                *end = 0;
                if (!*cut_blanks_at_end(name) || *name == '#' || *name == ';')
                        return 0;
                const char *inherited = getenv(name);
                return inherited ? add_named(x, name, inherited, e)
                                 : refuse(x,
                                          "no value given, and the variable is not set in the environment",
                                          e);
        }
        *end = 0;
        *s = end + 1;
        const char *value = take_value(s);
        return value ? add_named(x, cut_blanks_at_end(name), value, e)
                     : refuse(x, "the quote is not terminated", e);
}

static unsigned count_lines(const char *from, const char *to)
{
        unsigned n = 0;

        for (; from < to; from++)
                n += *from == '\n';
        return n;
}

static int read_quoted(Reader *x, char *text, Error *e)
{
        _cleanup_free_ char *original = strdup(text); /* the text is changed in its place */
        int r = original ? 0 : error_oom(e);
        char *s = text;

        x->line = 1;
        while (r >= 0 && *s) {
                char *start = s;
                r = take_assignment(x, &s, e);
                x->line += count_lines(original + (start - text), original + (s - text));
        }
        return r;
}

/* --- Options --------------------------------------------------------------------------------------------- */

static int read_file(const Option *o, const char *value, char **ret, Error *e)
{
        _cleanup_close_ int fd = input_open(value, O_RDONLY);
        _cleanup_free_ char *text = malloc(ENVIRONMENT_FILE_MAX + 2);

        if (!text)
                return error_oom(e);
        ssize_t n = fd < 0 ? fd : loop_read(fd, text, ENVIRONMENT_FILE_MAX + 1);
        if (n < 0)
                return option_invalid(o, value, e, "%s", input_problem((int) n));
        if (n > ENVIRONMENT_FILE_MAX)
                return option_invalid(o, value, e, "it is larger than %u bytes", ENVIRONMENT_FILE_MAX);
        text[n] = 0;
        if (strlen(text) != (size_t) n)
                return option_invalid(o, value, e, "it is not text");
        *ret = TAKE_PTR(text);
        return 0;
}

static int read_variables(const Option *o, const char *value, PairList *list,
                          int (*read)(Reader *, char *, Error *), Error *e)
{
        Reader x = {.option = o, .file = value, .list = list};
        _cleanup_free_ char *text = NULL;

        int r = read_file(o, value, &text, e);
        if (r < 0)
                return r;
        const char *rest = startswith(text, BYTE_ORDER_MARK);
        return read(&x, text + (rest ? strlen(BYTE_ORDER_MARK) : 0), e);
}

int option_environment_file(const Option *o, const char *value, void *target, Error *e)
{
        return read_variables(o, value, target, read_quoted, e);
}

int option_env_file(const Option *o, const char *value, void *target, Error *e)
{
        return read_variables(o, value, target, read_plain, e);
}
