/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Progress of long operations.
 *
 * On a terminal the lines of active items are at the bottom. They are redrawn in place a few times a second:
 * the cursor moves up by the number of lines, and each is cleared to its end. A completed item gets a final
 * line above them, which remains. No mode of the terminal is changed and the cursor stays visible, so there
 * is nothing to restore, however the process ends. The lines are limited to the size of the terminal, since
 * a line that wraps would occupy two.
 */

#include <poll.h>
#include <sys/ioctl.h>

#include "stage0/cli/progress.h"

#define INTERVAL_USEC 100000U
#define LINES_MAX 16U
#define LABEL_MIN 8U
#define LABEL_MAX 40U
#define BAR_MAX 24U
#define RATE_AFTER_USEC 500000U /* before that, a rate is meaningless */

struct Progress {
        int fd;
        bool quiet;
        Display display;
        ProgressItem *items;
        size_t n, allocated;
        size_t n_shown; /* lines on the terminal now */
        uint64_t drawn_usec;
};

/* --- One line ------------------------------------------------------------------------------------------ */

static char *format_bar(const ProgressItem *i, const Display *d, size_t width)
{
        size_t full = (size_t) ((double) i->done / (double) i->total * (double) width);
        _cleanup_text_ Text t = {};
        char *s;

        for (size_t k = 0; k < width; k++)
                text_add(&t,
                         d->utf8 ? (k < full ? "\xe2\x96\x88" : "\xe2\x96\x91") : (k < full ? "#" : "-"));
        return text_take(&t, &s, NULL) < 0 ? NULL : s;
}

static char *format_sizes(const ProgressItem *i)
{
        _cleanup_free_ char *done = format_size(i->done),
                            *total = i->total > 0 ? format_size(i->total) : NULL;
        char *s;

        if (!done || xasprintf(&s, total ? "%s/%s" : "%s", done, total) < 0)
                return NULL;
        return s;
}

/* "3.2M/s", and the remaining time at this rate. */
static int format_rate(const ProgressItem *i, uint64_t now, char **ret_rate, char **ret_left)
{
        uint64_t passed = now > i->phase_usec ? now - i->phase_usec : 0;

        if (passed < RATE_AFTER_USEC || i->done == 0)
                return 0;
        double rate = (double) i->done * 1e6 / (double) passed;
        _cleanup_free_ char *size = format_size((uint64_t) rate);
        if (!size || xasprintf(ret_rate, "%s/s", size) < 0)
                return -ENOMEM;
        double left = i->total > i->done ? (double) (i->total - i->done) / rate + 0.5 : 0;
        if (left < 1 || left > 360000)
                return 0;
        _cleanup_free_ char *span = format_span((uint64_t) left * 1000000U);
        return !span || xasprintf(ret_left, "%s left", span) < 0 ? -ENOMEM : 0;
}

/* Adds S with a space before it, if there is room besides the label. */
static void add_part(Text *t, size_t *width, size_t columns, const char *s)
{
        size_t w = s ? text_width(s) + 2 : 0;

        if (!s || *width + w + LABEL_MIN > columns)
                return;
        text_addf(t, "  %s", s);
        *width += w;
}

char *progress_format(const ProgressItem *i, const Display *d, uint64_t now)
{
        _cleanup_free_ char *sizes = NULL, *rate = NULL, *left = NULL, *bar = NULL, *label = NULL,
                            *share = NULL;
        size_t columns = d->columns > 0 ? d->columns : SIZE_MAX, width = 0, room;
        bool known = i->total > 0 && i->done <= i->total;
        _cleanup_text_ Text t = {};
        char *line;

        if ((known && xasprintf(&share, "%3u%%", (unsigned) (i->done * 100.0 / i->total)) < 0) ||
            (known && !(bar = format_bar(i, d, BAR_MAX))) || !(sizes = format_sizes(i)) ||
            format_rate(i, now, &rate, &left) < 0)
                return NULL;
        if (!share || columns >= 60)
                add_part(&t, &width, columns, i->phase);
        add_part(&t, &width, columns, share);
        if (columns >= 100)
                add_part(&t, &width, columns, bar);
        if (i->done > 0)
                add_part(&t, &width, columns, sizes);
        add_part(&t, &width, columns, rate);
        add_part(&t, &width, columns, left);
        room = MIN(columns - width, (size_t) LABEL_MAX);
        label = text_ellipsize(i->what, room, d->utf8);
        if (!label || t.failed)
                return NULL;
        size_t pad = columns == SIZE_MAX || text_width(label) > room ? 0 : room - text_width(label);
        return xasprintf(&line, "%s%*s%s", label, width > 0 ? (int) pad : 0, "", t.data ?: "") < 0 ? NULL
                                                                                                   : line;
}

/* --- The terminal -------------------------------------------------------------------------------------- */

/* Never blocks on a stopped terminal: output that cannot be written now would be out of date later. */
static void put(Progress *p, const Text *t)
{
        struct pollfd terminal = {.fd = p->fd, .events = POLLOUT};

        if (!t->failed && t->size > 0 && poll(&terminal, 1, 0) > 0)
                (void) loop_write(p->fd, t->data, t->size);
}

/* Moves to the first line and clears everything below. */
static void add_erase(Progress *p, Text *t)
{
        if (p->n_shown > 0)
                text_addf(t, "\r\033[%zuA\033[J", p->n_shown);
        p->n_shown = 0;
}

static size_t lines_max(int fd)
{
        struct winsize size = {};

        if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_row < 3)
                return LINES_MAX;
        return MIN((size_t) size.ws_row - 2, (size_t) LINES_MAX);
}

static void add_lines(Progress *p, Text *t, uint64_t now)
{
        size_t max = lines_max(p->fd);
        Display d = display_of(p->fd); /* it may have been resized */

        if (d.columns > 1)
                d.columns--; /* the last column makes some terminals wrap */
        for (size_t i = 0; i < p->n && p->n_shown < max; i++) {
                _cleanup_free_ char *line = progress_format(&p->items[i], &d, now);
                if (!line)
                        continue;
                text_addf(t, "%s\n", line);
                p->n_shown++;
        }
        p->drawn_usec = now;
}

static void draw(Progress *p, bool at_once)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        _cleanup_text_ Text t = {};

        if (p->quiet || !p->display.terminal || (!at_once && now - p->drawn_usec < INTERVAL_USEC))
                return;
        add_erase(p, &t);
        add_lines(p, &t, now);
        put(p, &t);
}

void progress_clear(Progress *p)
{
        _cleanup_text_ Text t = {};

        if (!p)
                return;
        add_erase(p, &t);
        put(p, &t);
}

/* --- Items --------------------------------------------------------------------------------------------- */

int progress_new(int fd, bool quiet, Progress **ret)
{
        Progress *p = calloc(1, sizeof(Progress));

        if (!p)
                return -ENOMEM;
        *p = (Progress){.fd = fd, .quiet = quiet, .display = display_of(fd)};
        const char *term = getenv("TERM");
        if (!term || streq(term, "dumb"))
                p->display.terminal = false; /* it cannot move the cursor up */
        *ret = p;
        return 0;
}

Progress *progress_free(Progress *p)
{
        if (!p)
                return NULL;
        progress_clear(p);
        for (size_t i = 0; i < p->n; i++)
                free(p->items[i].what);
        free(p->items);
        free(p);
        return NULL;
}

static ProgressItem *find(Progress *p, const char *what)
{
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->items[i].what, what))
                        return &p->items[i];
        return NULL;
}

static ProgressItem *add(Progress *p, const char *what, uint64_t now)
{
        char *copy = strdup(what);

        if (!copy || GREEDY_REALLOC(p->items, p->allocated, p->n + 1) < 0) {
                free(copy);
                return NULL;
        }
        p->items[p->n] = (ProgressItem){.what = copy, .started_usec = now};
        return &p->items[p->n++];
}

static void say(Progress *p, const char *line)
{
        _cleanup_text_ Text t = {};

        if (p->quiet)
                return;
        add_erase(p, &t);
        text_addf(&t, "%s\n", line);
        if (p->display.terminal)
                add_lines(p, &t, now_usec(CLOCK_MONOTONIC));
        put(p, &t);
}

void progress_note(Progress *p, const char *line)
{
        say(p, line);
}

void progress_update(Progress *p, const char *what, const char *phase, uint64_t done, uint64_t total,
                     bool announce)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        ProgressItem *i = find(p, what) ?: add(p, what, now);

        if (!i)
                return;
        /* Within a phase the count only grows: a part that is read again is not counted twice. */
        bool begins = i->phase != phase, same = !begins && i->total == total;
        if (begins)
                i->phase_usec = now;
        i->phase = phase;
        i->done = same ? MAX(i->done, done) : done;
        i->total = total;
        if (announce && !i->announced) {
                i->announced = true;
                if (!p->display.terminal) {
                        _cleanup_free_ char *line = NULL;
                        if (xasprintf(&line, "Fetching %s", i->what) >= 0)
                                say(p, line);
                }
        }
        draw(p, begins); /* it may stall */
}

const uint64_t *progress_done(Progress *p, const char *what)
{
        const ProgressItem *i = find(p, what);

        return i ? &i->done : NULL;
}

static char *format_end(const ProgressItem *i, ProgressState state, uint64_t size)
{
        uint64_t passed = now_usec(CLOCK_MONOTONIC) - i->started_usec;
        _cleanup_free_ char *amount = format_size(size);
        char *line;

        if (state == PROGRESS_UNCHANGED)
                return xasprintf(&line, "%s is unchanged", i->what) < 0 ? NULL : line;
        if (!amount ||
            xasprintf(&line, "Fetched %s: %s in %.1fs", i->what, amount, (double) passed / 1e6) < 0)
                return NULL;
        return line;
}

void progress_end(Progress *p, const char *what, ProgressState state, uint64_t size)
{
        ProgressItem *i = find(p, what);

        if (!i)
                return;
        bool told = state != PROGRESS_FAILED && (p->display.terminal || i->announced);
        _cleanup_free_ char *line = told ? format_end(i, state, size) : NULL;
        free(i->what);
        memmove(i, i + 1, (size_t) (&p->items[p->n] - (i + 1)) * sizeof(*i));
        p->n--;
        if (line)
                say(p, line);
        else
                draw(p, true);
}
