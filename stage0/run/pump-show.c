/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Showing what apps write on our own standard output and standard error, and to whoever is attached to
 * them: as it comes, or of several apps line by line with the app's name in front. */

#include "stage0/run/pump-internal.h"

#define LINE_MAX_SHOWN 65536U /* a longer line is shown in pieces */

/* The pod goes on, or is over. If whoever read us has gone, or has interrupted us, nobody needs to be
 * told. */
void pumps_stop_showing(Pumps *all, int r)
{
        if (all->show && r != -EPIPE && r != -ECONNRESET && r != -EINTR)
                log_warning("What the apps write is not shown any more: %s; 'acnspawn logs' has all of it",
                            strerror(-r));
        all->show = false;
}

static void show_bytes(Pump *p, const void *data, size_t size)
{
        int r = outlet_write(p->all->outlets[p->error], data, size);

        if (r < 0)
                pumps_stop_showing(p->all, r);
}

static void show_line(Pump *p)
{
        const JournalLine l = {
                        .app = p->app->name,
                        .data = p->line.data ?: "",
                        .size = p->line.size,
                        .error = p->error,
                        .end = {'\n'},
        };
        _cleanup_text_ Text t = {};

        if (output_format(&l, &(OutputOptions){.prefix = true, .raw = p->all->raw}, &t) >= 0)
                show_bytes(p, t.data, t.size);
        text_done(&p->line);
}

static void show_lines(Pump *p, const char *data, size_t size)
{
        while (size > 0) {
                const char *newline = memchr(data, '\n', size);
                size_t n = newline ? (size_t) (newline - data) : size;

                text_add_bytes(&p->line, data, n);
                if (newline || p->line.size >= LINE_MAX_SHOWN)
                        show_line(p);
                n += newline ? 1 : 0;
                data += n;
                size -= n;
        }
}

/* What an app has for its terminal is a terminal's; all else must not give it orders. */
static bool is_neutral(const Pump *p)
{
        return !p->terminal && !p->all->raw && outlet_is_terminal(p->all->outlets[p->error]);
}

static void show_neutral(Pump *p, const char *data, size_t size)
{
        _cleanup_text_ Text t = {};

        neutralizer_add(&p->neutralizer, data, size, &t);
        if (t.failed)
                pumps_stop_showing(p->all, -ENOMEM);
        else
                show_bytes(p, t.data, t.size);
}

static bool is_shown(const Pump *p)
{
        return p->all->show && (!p->all->only || streq(p->all->only, p->app->name));
}

/* Nothing comes between us and a terminal: lines of several apps would be staircases on it. */
void pump_show(Pump *p, const char *data, size_t size)
{
        input_show(p->app->input, p->error, data, size);
        if (!is_shown(p))
                return;
        if (p->all->prefix && !p->all->only)
                show_lines(p, data, size);
        else if (is_neutral(p))
                show_neutral(p, data, size);
        else
                show_bytes(p, data, size);
}

void pump_show_rest(Pump *p)
{
        _cleanup_text_ Text t = {};

        if (!is_shown(p))
                return;
        if (p->line.size > 0)
                show_line(p);
        neutralizer_end(&p->neutralizer, &t);
        if (!t.failed && t.size > 0)
                show_bytes(p, t.data, t.size);
}

bool pump_must_wait(const Pump *p)
{
        return is_shown(p) && (p->all->hold || outlet_is_full(p->all->outlets[p->error]));
}
