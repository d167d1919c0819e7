/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages of the programs: one line each, on stderr, as stdout is for data.
 *
 * Each line is written by one write(), so that lines of several processes do not mix. Colours appear only on
 * a terminal and follow NO_COLOR and SYSTEMD_COLORS, as in systemd's own tools.
 */

#include <poll.h>

#include "basic/basic.h"

static LogLevel max_level = LOG_LEVEL_INFO;
static bool blocking = true;

static const struct {
        const char *color, *word;
} levels[] = {
                [LOG_LEVEL_NOTICE] = {"", ""},
                [LOG_LEVEL_ERROR] = {"\033[0;1;31m", "Error: "},
                [LOG_LEVEL_WARNING] = {"\033[0;1;38:5:185m", "Warning: "},
                [LOG_LEVEL_INFO] = {"", ""},
                [LOG_LEVEL_DEBUG] = {"\033[0;90m", "Debug: "},
};

void log_set_max_level(LogLevel level)
{
        max_level = level;
}

LogLevel log_max_level(void)
{
        return max_level;
}

void log_set_blocking(bool b)
{
        blocking = b;
}

static bool may_write(void)
{
        struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

        return blocking || poll(&p, 1, 0) != 0;
}

bool colors_enabled(int fd)
{
        const char *s = getenv("SYSTEMD_COLORS");

        if (!isempty(s)) {
                int b = parse_boolean(s);
                return b != 0; /* "16", "256", "truecolor" also mean yes */
        }
        if (!isempty(getenv("NO_COLOR")) || streq(getenv("TERM") ?: "dumb", "dumb"))
                return false;
        return isatty(fd);
}

void log_message(LogLevel level, const char *format, ...)
{
        _cleanup_free_ char *text = NULL, *line = NULL;
        _cleanup_text_ Text safe = {};
        Neutralizer neutralizer = {};
        int saved_errno = errno;
        va_list ap;

        if (level > max_level || !may_write())
                return;

        va_start(ap, format);
        int r = xvasprintf(&text, format, ap);
        va_end(ap);
        if (r < 0)
                return;

        /* Names are escaped where a message is built; this catches omissions. */
        neutralizer_add(&neutralizer, text, strlen(text), &safe);
        neutralizer_end(&neutralizer, &safe);
        bool colors = colors_enabled(STDERR_FILENO) && levels[level].color[0];
        r = asprintf(&line, "%s%s%s%s\n", colors ? levels[level].color : "", levels[level].word,
                     colors ? "\033[0m" : "", safe.failed ? "Out of memory" : safe.data ?: "");
        if (r < 0)
                line = NULL;
        else
                (void) loop_write(STDERR_FILENO, line, (size_t) r);
        errno = saved_errno;
}

void error_print(const Error *e, int code)
{
        if (e && e->message)
                log_error("%s.", e->message);
        else
                log_error("%s.", strerror(code < 0 ? -code : code));
        if (e && e->hint)
                log_info("%s", e->hint);
}
