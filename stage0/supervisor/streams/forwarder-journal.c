/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Output of apps, to the journals of their pod and of the host, and on its way there to the log file of the app.
 *
 * Output that the journal does not accept at once is buffered, and the app's pipe is not read until the buffer is empty. A
 * journal that accepts nothing for a long time is given up, because an app must not depend on it. Time in which the pod, and
 * with it its journal, is paused does not count. Of endless output only a part is stored (forwarder-bound.c). */

#include <sys/epoll.h>
#include <sys/socket.h>

#include "stage0/supervisor/streams/forwarder-internal.h"

#define JOURNAL_TIMEOUT_USEC UINT64_C(10000000)

/* The number of bytes written; all of them if the stream has no reader any more. */
static size_t send_to_journal(Forwarder *p, const char *data, size_t size)
{
        size_t done = 0;

        while (p->journal_fd >= 0 && done < size) {
                ssize_t n = send(p->journal_fd, data + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return done;
                if (n < 0) /* journald has ended; the app continues */
                        p->journal_fd = safe_close(p->journal_fd);
                else
                        done += (size_t) n;
        }
        return size;
}

static void on_journal_timeout(void *userdata)
{
        Forwarder *p = userdata;

        log_warning("The journal of the pod accepts no data: output of app %s is not stored from now on",
                    p->app->name);
        p->journal_source = sd_event_source_disable_unref(p->journal_source);
        p->journal_fd = safe_close(p->journal_fd);
        forwarder_resume(p);
}

static int arm_timer(Forwarder *p)
{
        if (p->timer)
                return pod_timer_set(p->timer, JOURNAL_TIMEOUT_USEC);
        return pod_timer_new(p->all->apps->pause, p->all->event, JOURNAL_TIMEOUT_USEC, on_journal_timeout, p,
                             &p->timer);
}

static int on_journal_writable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Forwarder *p = userdata;
        size_t n = send_to_journal(p, p->pending.data, p->pending.size);

        if (n >= p->pending.size) {
                forwarder_resume(p);
                return 0;
        }
        if (n > 0) {
                memmove(p->pending.data, p->pending.data + n, p->pending.size - n);
                p->pending.size -= n;
                (void) arm_timer(p);
        }
        return 0;
}

static int wait_for_journal(Forwarder *p)
{
        if (p->journal_source)
                return 0;
        int r = sd_event_add_io(p->all->event, &p->journal_source, p->journal_fd, EPOLLOUT,
                                on_journal_writable, p);
        return r < 0 ? r : arm_timer(p);
}

static void write_bytes(Forwarder *p, const char *data, size_t size)
{
        size_t done = p->pending.size > 0 ? 0 : send_to_journal(p, data, size);

        if (p->journal_fd < 0 || done == size)
                return;
        text_add_bytes(&p->pending, data + done, size - done);
        if (!p->pending.failed && wait_for_journal(p) >= 0)
                return;
        p->journal_source = sd_event_source_disable_unref(p->journal_source);
        p->timer = pod_timer_free(p->timer);
        p->journal_fd = safe_close(p->journal_fd);
        text_done(&p->pending);
}

/* As journald changes nothing of it. */
static void write_marked(Forwarder *p)
{
        if (!p->marked.failed && p->marked.size > 0)
                write_bytes(p, p->marked.data, p->marked.size);
        if (p->marked.failed)
                text_done(&p->marked);
        p->marked.size = 0;
}

static void write_some(Forwarder *p, const char *data, size_t size)
{
        journal_mark(&p->marker, data, size, &p->marked);
        write_marked(p);
        p->journal_begun = data[size - 1] != '\n';
        if (p->journal_begun || p->message.size == 0)
                return;
        if (!p->message.failed)
                write_bytes(p, p->message.data, p->message.size);
        text_done(&p->message);
}

void forwarder_report_in_journal(Forwarder *p, const char *line)
{
        text_addf(&p->message, "%s\n", line);
        if (p->journal_begun || p->message.failed)
                return;
        write_bytes(p, p->message.data, p->message.size);
        text_done(&p->message);
}

static void write_to_journals(Forwarder *p, const char *data, size_t size)
{
        if (!p->log || log_target_has_pod(p->log->target))
                write_some(p, data, size);
        forwarder_write_to_host(p, data, size);
}

static void store(Forwarder *p, const char *data, size_t size)
{
        _cleanup_text_ Text t = {};

        if (size == 0)
                return;
        forwarder_write_to_file(p, data, size);
        if (p->log && p->log->target == LOG_TARGET_NONE)
                return;
        if (forwarder_bound_admits(p, data, size)) {
                write_to_journals(p, data, size);
                return;
        }
        forwarder_bound_filter(p, data, size, &t);
        if (t.size > 0 && !t.failed)
                write_to_journals(p, t.data, t.size);
}

/* A terminal ends lines with two characters, of which the journal and its readers expect one. DATA is
 * changed. */
static void write_lines(Forwarder *p, char *data, size_t size)
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

void forwarder_store(Forwarder *p, char *data, size_t size)
{
        if (p->terminal)
                write_lines(p, data, size);
        else
                store(p, data, size);
}

void forwarder_end_storing(Forwarder *p)
{
        _cleanup_text_ Text t = {};

        forwarder_end_file(p);
        forwarder_bound_end(p, &t);
        if (p->message.size > 0 && p->journal_begun)
                text_add(&t, "\n");
        if (t.size > 0 && !t.failed && p->journal_fd >= 0)
                write_some(p, t.data, t.size);
        journal_mark_end(&p->marker, &p->marked);
        write_marked(p);
        forwarder_end_host(p);
}
