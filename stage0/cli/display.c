/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Formats text for display.
 *
 * All output depends on a Display value with the properties of the output device; the terminal is not
 * queried implicitly, so that the same input gives the same text in a test. Times and sizes are formatted as
 * by systemd's tools.
 */

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include "stage0/cli/display.h"

static size_t terminal_columns(int fd)
{
        struct winsize size = {};
        const char *s = getenv("COLUMNS");
        uint64_t n;

        if (s && parse_u64(s, &n) >= 0 && n > 0 && n <= 4096)
                return (size_t) n;
        if (ioctl(fd, TIOCGWINSZ, &size) >= 0 && size.ws_col > 0)
                return size.ws_col;
        return 80;
}

Display display_of(int fd)
{
        bool terminal = isatty(fd);

        return (Display){
                        .terminal = terminal,
                        .colors = colors_enabled(fd),
                        .utf8 = streq(nl_langinfo(CODESET), "UTF-8"),
                        .columns = terminal ? terminal_columns(fd) : 0,
                        .now = now_usec(CLOCK_REALTIME),
        };
}

const char *color_sequence(const Display *d, Color c)
{
        static const char *const sequences[_COLOR_MAX] = {
                        [COLOR_NONE] = "\033[0m",     [COLOR_BOLD] = "\033[0;1;39m",
                        [COLOR_GREY] = "\033[0;90m",  [COLOR_GREEN] = "\033[0;1;32m",
                        [COLOR_RED] = "\033[0;1;31m", [COLOR_YELLOW] = "\033[0;1;38:5:185m",
        };

        return d->colors ? sequences[c] : "";
}

/* --- Width --------------------------------------------------------------------------------------------- */

/* Reads one character of S (a result of text_escape_for_terminal() or a constant: valid UTF-8; a stray byte
 * counts as a character). */
static wchar_t next_character(const char **s)
{
        const unsigned char *p = (const unsigned char *) *s;
        size_t n = p[0] < 0xc0 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
        wchar_t c = n == 1 ? p[0] : p[0] & (0xff >> (n + 1));

        for (size_t i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80) {
                        n = i;
                        break;
                }
                c = c << 6 | (p[i] & 0x3f);
        }
        *s += n;
        return c;
}

/* The tables of widths are those of a UTF-8 locale, independent of the user's. */
static size_t character_width(wchar_t c)
{
        static locale_t utf8;
        static bool tried;

        if (c >= 0x20 && c < 0x7f)
                return 1;
        if (!tried) {
                utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t) 0);
                tried = true;
        }
        if (!utf8)
                return 1;
        locale_t saved = uselocale(utf8);
        int w = wcwidth(c);
        uselocale(saved);
        return w < 0 ? 1 : (size_t) w;
}

size_t text_width(const char *s)
{
        size_t w = 0;

        while (*s)
                w += character_width(next_character(&s));
        return w;
}

/* Skips characters of S, of at most WIDTH columns together. */
static const char *skip_columns(const char *s, size_t width)
{
        for (size_t w = 0; *s;) {
                const char *next = s;

                w += character_width(next_character(&next));
                if (w > width)
                        break;
                s = next;
        }
        return s;
}

/* S without its middle: at most HEAD columns of its beginning and TAIL of its end. */
static char *cut_text(const char *s, size_t head, size_t tail, const char *dots)
{
        const char *end = skip_columns(s, head), *rest = end;
        char *t;

        while (text_width(rest) > tail)
                (void) next_character(&rest);
        return xasprintf(&t, "%.*s%s%s", (int) (end - s), s, dots, rest) < 0 ? NULL : t;
}

static char *ellipsize(const char *s, size_t width, bool utf8, bool middle)
{
        const char *dots = utf8 ? "\xe2\x80\xa6" : "...";

        if (text_width(s) <= width)
                return strdup(s);
        if (width < text_width(dots))
                return strndup(dots, width); /* only the three dots are ever cut, and they are ASCII */
        size_t room = width - text_width(dots), head = middle ? room / 3 : room;
        return cut_text(s, head, room - head, dots);
}

char *text_ellipsize(const char *s, size_t width, bool utf8)
{
        return ellipsize(s, width, utf8, false);
}

char *text_ellipsize_middle(const char *s, size_t width, bool utf8)
{
        return ellipsize(s, width, utf8, true);
}

void text_wrap(Text *t, const char *s, size_t indent, size_t width)
{
        size_t column = indent;

        while (*s) {
                size_t n = strcspn(s, " ");
                _cleanup_free_ char *word = strndup(s, n);
                size_t w = word ? text_width(word) : n;

                if (column > indent && column + 1 + w > width) {
                        text_addf(t, "\n%*s", (int) indent, "");
                        column = indent;
                } else if (column > indent) {
                        text_add(t, " ");
                        column++;
                }
                text_add_bytes(t, s, n);
                column += w;
                s += n;
                s += strspn(s, " ");
        }
}

/* --- Times and sizes ----------------------------------------------------------------------------------- */

char *format_timestamp(uint64_t usec)
{
        time_t seconds = (time_t) (usec / 1000000);
        char buffer[64];
        struct tm tm;

        if (!localtime_r(&seconds, &tm) ||
            strftime(buffer, sizeof(buffer), "%Y-%m-%d %H:%M:%S %Z", &tm) == 0)
                return strdup("-");

        /* The day of the week in English, as all output: strftime() would depend on the locale. */
        static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
        char *s;
        return xasprintf(&s, "%s %s", days[(unsigned) tm.tm_wday % 7], buffer) < 0 ? NULL : s;
}

static const struct {
        const char *suffix;
        uint64_t usec;
} span_units[] = {
                {"y", 31557600000000ULL}, {"month", 2629800000000ULL},
                {"w", 604800000000ULL},   {"d", 86400000000ULL},
                {"h", 3600000000ULL},     {"min", 60000000ULL},
                {"s", 1000000ULL},        {"ms", 1000ULL},
};

char *format_span(uint64_t usec)
{
        _cleanup_text_ Text t = {};
        unsigned n = 0;
        char *s;

        if (usec == UINT64_MAX)
                return strdup("infinity");
        for (size_t i = 0; i < ELEMENTSOF(span_units) && n < 2; i++) {
                uint64_t k = usec / span_units[i].usec;

                /* Fractions of a second are shown only if there is no larger unit. */
                if (k == 0 || (n > 0 && span_units[i].usec < 1000000))
                        continue;
                text_addf(&t, "%s%" PRIu64 "%s", n > 0 ? " " : "", k, span_units[i].suffix);
                usec -= k * span_units[i].usec;
                n++;
        }
        if (n == 0)
                text_add(&t, "0s");
        return text_take(&t, &s, NULL) < 0 ? NULL : s;
}

char *format_relative(uint64_t usec, uint64_t now)
{
        bool past = usec <= now;
        uint64_t distance = past ? now - usec : usec - now;
        _cleanup_free_ char *span = NULL;
        char *s;

        if (distance < 1000000)
                return strdup("now");
        span = format_span(distance);
        return span && xasprintf(&s, "%s %s", span, past ? "ago" : "left") >= 0 ? s : NULL;
}

char *format_size(uint64_t bytes)
{
        static const char units[] = "BKMGTPE";
        uint64_t whole = bytes, tenths = 0;
        size_t u = 0;
        char *s;

        while (whole >= 1024 && u + 1 < sizeof(units) - 1) {
                tenths = whole % 1024 * 10 / 1024;
                whole /= 1024;
                u++;
        }
        int r = u > 0 ? xasprintf(&s, "%" PRIu64 ".%" PRIu64 "%c", whole, tenths, units[u])
                      : xasprintf(&s, "%" PRIu64 "%c", whole, units[u]);
        return r < 0 ? NULL : s;
}
