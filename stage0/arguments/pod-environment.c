/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Variables from files, in the format common to systemd's EnvironmentFile= and others: NAME=VALUE on a line,
 * the value in quotes or not, without expansion. Empty lines and those that begin with # or ; are ignored. A
 * name alone takes the value from acnspawn's environment, as with --environment=.
 */

#include "stage0/arguments/pod-values.h"

#define ENVIRONMENT_FILE_MAX (1024U * 1024U)

typedef struct Line {
        const Option *option;
        const char *file;
        unsigned number;
        PairList *list;
} Line;

static int refuse(const Line *l, const char *reason, Error *e)
{
        return option_invalid(l->option, l->file, e, "line %u: %s", l->number, reason);
}

/* NULL: unterminated quote. */
static char *unquote(char *s)
{
        size_t n = strlen(s);

        if (*s != '"' && *s != '\'')
                return s;
        if (n < 2 || s[n - 1] != *s)
                return NULL;
        s[n - 1] = 0;
        return s + 1;
}

static int take_pair(const Line *l, char *name, char *equals, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        const char *value;

        if (equals)
                *equals = 0;
        if (environment_name_check(name, &reason) < 0)
                return refuse(l, reason.message, e);
        value = equals ? unquote(equals + 1) : getenv(name);
        if (!value)
                return refuse(l,
                              equals ? "the quote is not terminated"
                                     : "no value given, and the variable is not set in the environment",
                              e);
        return pair_list_set(l->list, name, value) < 0 ? error_oom(e) : 0;
}

static int take_line(const Line *l, char *s, Error *e)
{
        static const char blanks[] = " \t\r";

        s += strspn(s, blanks);
        for (size_t n = strlen(s); n > 0 && strchr(blanks, s[n - 1]); n--)
                s[n - 1] = 0;
        return !*s || *s == '#' || *s == ';' ? 0 : take_pair(l, s, strchr(s, '='), e);
}

static int take_lines(const Option *o, const char *file, char *text, PairList *list, Error *e)
{
        Line l = {.option = o, .file = file, .list = list};
        int r = 0;

        for (char *s = text, *end; r >= 0 && s; s = end) {
                end = strchr(s, '\n');
                if (end)
                        *end++ = 0;
                l.number++;
                r = take_line(&l, s, e);
        }
        return r;
}

int option_environment_file(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_close_ int fd = streq(value, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                                   : open(value, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        _cleanup_free_ char *text = malloc(ENVIRONMENT_FILE_MAX + 2);

        if (!text)
                return error_oom(e);
        ssize_t n = fd < 0 ? -errno : loop_read(fd, text, ENVIRONMENT_FILE_MAX + 1);
        if (n < 0)
                return option_invalid(o, value, e, "%s", strerror((int) -n));
        if (n > ENVIRONMENT_FILE_MAX)
                return option_invalid(o, value, e, "it is larger than %u bytes", ENVIRONMENT_FILE_MAX);
        text[n] = 0;
        if (strlen(text) != (size_t) n || !utf8_is_valid(text, (size_t) n))
                return option_invalid(o, value, e, "it is not text");
        return take_lines(o, value, text, target, e);
}
