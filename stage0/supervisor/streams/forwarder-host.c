/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What apps write, to the journal of the host: a record for each line, with the fields that tell where it is from.
 *
 * The supervisor of a service is in its unit, and so the lines are found by `journalctl -u`. A level "<N>" at the beginning
 * of a line sets the priority of the record and is removed from its message, as systemd does with the standard output of a
 * service. A field of its own stores the level, because `acnspawn logs` shows every byte that was written.
 */

#include <syslog.h>

#include "stage0/supervisor/streams/forwarder-internal.h"

#define HOST_LINE_MAX 49152U /* bytes; a longer line is cut, as journald does it */
#define HOST_SYNC_MSEC 1000U /* how long the end of a pod waits for the journal */

static bool has_host(const Forwarders *all, const AppLog *l, bool error)
{
        int target = l ? l->target : LOG_TARGET_AUTO;

        return target == LOG_TARGET_JOURNAL || target == LOG_TARGET_BOTH ||
               (target == LOG_TARGET_AUTO && all->journal_streams[error]);
}

void forwarder_open_host(Forwarder *p)
{
        p->to_host = has_host(p->all, p->log, p->error);
}

static const char *image_of(const AppInstance *app)
{
        return app->manifest->image_name ?: app->manifest->image_id;
}

void forwarders_report(Forwarders *all, const AppInstance *app, HostRecord *r)
{
        bool used = all->journal_streams[0] || all->journal_streams[1];

        FOREACH_APP(a, all->apps)
        used |= has_host(all, a->log, false);
        if (!used)
                return;
        r->app = app ? app->name : NULL;
        r->image = app ? image_of(app) : NULL;
        (void) host_journal_send(all->host_journal, r);
}

void forwarders_sync_host(Forwarders *all)
{
        host_journal_sync(all->host_journal, HOST_SYNC_MSEC);
}

/* Removes the level from the line; RET is its text, or empty. */
static int read_priority(const char **line, size_t *size, char ret[static 4])
{
        const char *s = *line;

        ret[0] = 0;
        if (*size < 3 || s[0] != '<' || s[1] < '0' || s[1] > '7' || s[2] != '>')
                return LOG_INFO;
        snprintf(ret, 4, "<%c>", s[1]);
        *line += 3;
        *size -= 3;
        return s[1] - '0';
}

static int send_line(Forwarder *p, const char *line, size_t size, const char *line_break)
{
        HostRecord r = {.app = p->app->name,
                        .image = image_of(p->app),
                        .stream = p->error ? "stderr" : "stdout",
                        .line_break = line_break,
                        .priority = p->host_priority,
                        .exit_status = -1};
        char level[4] = "";

        if (!p->host_goes_on) /* only the beginning of a line can have a level */
                r.priority = read_priority(&line, &size, level);
        p->host_priority = r.priority;
        r.level = level[0] ? level : NULL;
        r.message = line;
        r.size = size;
        return host_journal_send(p->all->host_journal, &r);
}

/* Whole lines, and at the END the beginning of one. */
static void send_lines(Forwarder *p, bool end)
{
        Text *t = &p->host_lines;
        size_t done = 0;

        p->host_full = false;
        while (done < t->size) {
                size_t seen = MIN(t->size - done, (size_t) HOST_LINE_MAX);
                const char *line = t->data + done, *newline = memchr(line, '\n', seen);

                if (!newline && seen < HOST_LINE_MAX && !end)
                        break;
                size_t n = newline ? (size_t) (newline - line) : seen;
                const char *line_break = newline ? NULL : seen < HOST_LINE_MAX ? "eof" : "line-max";
                if (send_line(p, line, n, line_break) == -EAGAIN) {
                        p->host_full = true;
                        break;
                }
                p->host_goes_on = !newline && seen == HOST_LINE_MAX;
                done += n + (newline ? 1 : 0);
        }
        t->size -= done;
        memmove(t->data, t->data + done, t->size);
}

void forwarder_write_to_host(Forwarder *p, const char *data, size_t size)
{
        if (!p->to_host)
                return;
        text_add_bytes(&p->host_lines, data, size);
        if (p->host_lines.failed) {
                text_done(&p->host_lines);
                return;
        }
        if (!p->host_full)
                send_lines(p, false);
}

bool forwarder_resume_host(Forwarder *p)
{
        send_lines(p, p->ended);
        return !p->host_full;
}

void forwarder_end_host(Forwarder *p)
{
        if (p->to_host && !p->host_full && p->host_lines.size > 0)
                send_lines(p, true);
}
