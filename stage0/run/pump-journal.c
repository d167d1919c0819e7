/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What apps write, to the journal of their pod, and on its way there to the log file of the app.
 *
 * What the journal does not take at once is kept, and nothing more is read from the app until it has. A
 * journal that takes nothing for long is given up: the app goes on, as an app must not depend on it. Of what
 * an app writes without end, only a part is stored (pump-bound.c).
 */

#include <sys/epoll.h>
#include <sys/socket.h>

#include "stage0/run/pump-internal.h"

#define JOURNAL_TIMEOUT_USEC UINT64_C(10000000)

/* How much of it went; all of it if nobody is there to take it. */
static size_t send_to_journal(Pump *p, const char *data, size_t size)
{
        size_t done = 0;

        while (p->journal_fd >= 0 && done < size) {
                ssize_t n = send(p->journal_fd, data + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return done;
                if (n < 0) /* journald is gone: the app must not be */
                        p->journal_fd = safe_close(p->journal_fd);
                else
                        done += (size_t) n;
        }
        return size;
}

static int on_journal_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
        Pump *p = userdata;

        log_warning("The journal of the pod takes nothing: what app %s writes from here on is not kept",
                    p->app->name);
        p->journal_source = sd_event_source_disable_unref(p->journal_source);
        p->journal_fd = safe_close(p->journal_fd);
        pump_resume(p);
        return 0;
}

static int arm_timer(Pump *p)
{
        if (p->timer)
                return sd_event_source_set_time_relative(p->timer, JOURNAL_TIMEOUT_USEC);
        return sd_event_add_time_relative(p->all->event, &p->timer, CLOCK_MONOTONIC, JOURNAL_TIMEOUT_USEC, 0,
                                          on_journal_timeout, p);
}

static int on_journal_writable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Pump *p = userdata;
        size_t n = send_to_journal(p, p->pending.data, p->pending.size);

        if (n >= p->pending.size) {
                pump_resume(p);
                return 0;
        }
        if (n > 0) {
                memmove(p->pending.data, p->pending.data + n, p->pending.size - n);
                p->pending.size -= n;
                (void) arm_timer(p);
        }
        return 0;
}

static int wait_for_journal(Pump *p)
{
        if (p->journal_source)
                return 0;
        int r = sd_event_add_io(p->all->event, &p->journal_source, p->journal_fd, EPOLLOUT,
                                on_journal_writable, p);
        return r < 0 ? r : arm_timer(p);
}

static void write_bytes(Pump *p, const char *data, size_t size)
{
        size_t done = p->pending.size > 0 ? 0 : send_to_journal(p, data, size);

        if (p->journal_fd < 0 || done == size)
                return;
        text_add_bytes(&p->pending, data + done, size - done);
        if (!p->pending.failed && wait_for_journal(p) >= 0)
                return;
        p->journal_source = sd_event_source_disable_unref(p->journal_source);
        p->timer = sd_event_source_disable_unref(p->timer);
        p->journal_fd = safe_close(p->journal_fd);
        text_done(&p->pending);
}

static void write_some(Pump *p, const char *data, size_t size)
{
        write_bytes(p, data, size);
        p->journal_begun = data[size - 1] != '\n';
        if (p->journal_begun || p->message.size == 0)
                return;
        if (!p->message.failed)
                write_bytes(p, p->message.data, p->message.size);
        text_done(&p->message);
}

void pump_report_in_journal(Pump *p, const char *line)
{
        text_addf(&p->message, "%s\n", line);
        if (p->journal_begun || p->message.failed)
                return;
        write_bytes(p, p->message.data, p->message.size);
        text_done(&p->message);
}

static void store(Pump *p, const char *data, size_t size)
{
        _cleanup_text_ Text t = {};

        if (size == 0)
                return;
        pump_write_to_file(p, data, size);
        if (p->log && !p->log->journal)
                return;
        if (pump_bound_admits(p, data, size)) {
                write_some(p, data, size);
                return;
        }
        pump_bound_filter(p, data, size, &t);
        if (t.size > 0 && !t.failed)
                write_some(p, t.data, t.size);
}

/* A terminal ends lines with two characters, of which the journal, and who reads it, wants one. DATA is
 * changed. */
static void write_lines(Pump *p, char *data, size_t size)
{
        size_t n = 0;

        if (p->held_return && data[0] != '\n')
                store(p, "\r", 1);
        p->held_return = size > 0 && data[size - 1] == '\r';
        for (size_t i = 0; i < size; i++)
                if (data[i] != '\r' || (i + 1 < size && data[i + 1] != '\n'))
                        data[n++] = data[i];
        store(p, data, n);
}

void pump_store(Pump *p, char *data, size_t size)
{
        if (p->terminal)
                write_lines(p, data, size);
        else
                store(p, data, size);
}

void pump_end_storing(Pump *p)
{
        _cleanup_text_ Text t = {};

        pump_end_file(p);
        pump_bound_end(p, &t);
        if (p->message.size > 0 && p->journal_begun)
                text_add(&t, "\n");
        if (t.size > 0 && !t.failed && p->journal_fd >= 0)
                write_some(p, t.data, t.size);
}
