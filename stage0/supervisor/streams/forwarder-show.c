/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Output of apps to the standard output and standard error of this process, and to attached clients:
 * unchanged, or, of several apps, line by line with the app's name in front. */

#include "stage0/supervisor/streams/forwarder-internal.h"

#define LINE_MAX_SHOWN 65536U /* a longer line is shown in pieces */

/* Stops showing output, before or after the end of the pod. A reader that has gone is for reader_gone()
 * to handle, and an interrupt is not worth a warning. */
void forwarders_stop_showing(Forwarders *all, int r)
{
        if (all->show && r != -EPIPE && r != -ECONNRESET && r != -EINTR)
                log_warning("Output of the apps is not shown any more: %s; 'acnspawn logs' has all of it",
                            strerror(-r));
        bool gone = all->show && (r == -EPIPE || r == -ECONNRESET);
        all->show = false;
        if (gone && all->reader_gone)
                all->reader_gone(all->userdata);
}

static void show_bytes(Forwarder *p, const void *data, size_t size)
{
        int r = buffered_writer_write(p->all->writers[p->error], data, size);

        if (r < 0)
                forwarders_stop_showing(p->all, r);
}

static void show_line(Forwarder *p)
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

static void show_lines(Forwarder *p, const char *data, size_t size)
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

/* The output of an app's terminal is passed on unchanged; control characters in other output must not reach
 * a terminal. */
static bool is_neutral(const Forwarder *p)
{
        return !p->terminal && !p->all->raw && buffered_writer_is_terminal(p->all->writers[p->error]);
}

static void show_neutral(Forwarder *p, const char *data, size_t size)
{
        _cleanup_text_ Text t = {};

        neutralizer_add(&p->neutralizer, data, size, &t);
        if (t.failed)
                forwarders_stop_showing(p->all, -ENOMEM);
        else
                show_bytes(p, t.data, t.size);
}

static bool is_shown(const Forwarder *p)
{
        return p->all->show && !p->all->journal_streams[p->error] &&
               (!p->all->only || streq(p->all->only, p->app->name));
}

/* A terminal in raw mode needs CR before LF, or lines of several apps would become staircases. */
void forwarder_show(Forwarder *p, const char *data, size_t size)
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

void forwarder_show_rest(Forwarder *p)
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

bool forwarder_must_wait(const Forwarder *p)
{
        return is_shown(p) && (p->all->hold || buffered_writer_is_full(p->all->writers[p->error]));
}
