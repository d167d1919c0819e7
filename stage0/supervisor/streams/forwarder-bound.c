/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How much of the pod's journal an app may fill.
 *
 * The journal is one for all apps of a pod, and its oldest lines are removed when it is full: an app that
 * writes without end would push out the lines of the others. So each app has a budget of bytes. Each line is
 * charged to it, with the journal's overhead; the budget refills at a constant rate. When it is empty, lines
 * are dropped until it has refilled to a minimum; then a line says how many were dropped.
 *
 * Unless the settings of the app say otherwise, the budgets of all apps are half of the journal, and refill
 * within an hour; they are shared anew when apps come and go. So the last hour of an app's output is kept, however much other apps write. The only app of a
 * pod has no budget: it can only push out its own lines.
 *
 * Output to the foreground and to attached clients is not limited. */

#include <inttypes.h>
#include <sys/statvfs.h>

#include "stage0/supervisor/streams/forwarder-internal.h"

#define LINE_COST 512U                   /* bytes that the journal adds to a line */
#define JOURNAL_SIZE (UINT64_C(1) << 30) /* as journald.conf of the pod has it, on a large disk */
#define BUDGET_MIN (UINT64_C(1) << 20)   /* bytes */
#define REFILL_SECONDS 3600U
#define RESUME_SECONDS 10U   /* the refill over this time is the minimum before lines are stored again */
#define OVERDRAFT_MAX 65536U /* bytes reserved for the rest of a line; a line without an end is cut */
#define RECORD_INTERVAL_USEC UINT64_C(1000000)

/* As journald counts it: not more than a tenth of the file system. */
static uint64_t journal_size(const Pod *p)
{
        struct statvfs fs;

        if (fstatvfs(p->dir_fd, &fs) < 0)
                return JOURNAL_SIZE;
        return MIN(JOURNAL_SIZE, (uint64_t) fs.f_blocks * fs.f_frsize / 10);
}

static LogBound bound_of(const char *app, const AppSettings *s, uint64_t budget)
{
        LogBound b = {
                        .app = app,
                        .size = s->log_size ?: budget,
                        .own_size = s->log_size > 0,
                        .rate = s->log_rate != LOG_RATE_DEFAULT ? s->log_rate : 0,
                        .last_usec = now_usec(CLOCK_MONOTONIC),
        };

        if (s->log_rate == LOG_RATE_DEFAULT)
                b.rate = b.size == UINT64_MAX ? UINT64_MAX : MAX(b.size / REFILL_SECONDS, UINT64_C(1));
        b.left = b.size;
        b.unbounded = b.size == UINT64_MAX || b.rate == UINT64_MAX;
        return b;
}

static uint64_t budget_of(const Pod *p, size_t n_apps)
{
        return n_apps > 1 ? MAX(journal_size(p) / (2 * n_apps), BUDGET_MIN) : UINT64_MAX;
}

int forwarder_bound_new(const Pod *p, const char *app, const AppSettings *s, size_t n_apps, LogBound **ret)
{
        uint64_t budget = budget_of(p, n_apps);
        LogBound *b = malloc(sizeof(LogBound));

        if (!b)
                return -ENOMEM;
        *b = bound_of(app, s, budget);
        *ret = b;
        return 0;
}

/* An app keeps the part of its share that it has used; one that had no limit begins with a full share. */
static void set_share(LogBound *b, const AppSettings *s, uint64_t budget)
{
        LogBound next = bound_of(b->app, s, budget);

        b->left = b->unbounded ? next.left : MIN(b->left, next.size);
        if (b->unbounded)
                b->last_usec = next.last_usec;
        b->size = next.size;
        b->rate = next.rate;
        b->unbounded = next.unbounded;
}

void forwarder_bounds_share(Forwarders *all)
{
        size_t n = 0;

        FOREACH_APP(app, all->apps)
        n += app->bound != NULL;
        uint64_t budget = budget_of(all->pod, n);
        FOREACH_APP(app, all->apps)
        if (app->bound && !app->bound->own_size && app->bound->size != budget)
                set_share(app->bound, &app->settings, budget);
}

/* --- Counting ------------------------------------------------------------------------------------------ */

/* RATE bytes a second, in steps that lose nothing to rounding. */
static void refill(LogBound *b)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), usec = now - b->last_usec, more;

        if (b->left >= b->size || __builtin_mul_overflow(usec, b->rate, &more)) {
                b->left = b->size;
                b->last_usec = now;
                return;
        }
        more /= 1000000U;
        if (more == 0)
                return;
        b->left = MIN(b->size, b->left + more);
        b->last_usec = now;
}

static uint64_t resume_level(const LogBound *b)
{
        return MIN(b->size / 2, MAX(b->rate * RESUME_SECONDS, (uint64_t) LINE_COST * 2));
}

/* How many lines begin in DATA. */
static size_t count_begins(const Forwarder *p, const char *data, size_t size)
{
        size_t n = !p->in_line && size > 0;

        for (const char *c = data, *end = data + size; (c = memchr(c, '\n', (size_t) (end - c)));)
                n += ++c < end;
        return n;
}

/* Whether the line that begins is stored. */
static bool admit(LogBound *b)
{
        b->dropping = b->dropping ? b->left < resume_level(b) : b->left < LINE_COST;
        return !b->dropping;
}

static void charge(LogBound *b, uint64_t cost)
{
        b->left -= MIN(b->left, cost);
}

static void drop(LogBound *b, size_t bytes, bool line)
{
        b->bytes += bytes;
        b->lines += line;
        b->unreported_lines += line;
        b->unreported_bytes += bytes;
        b->changed = true;
}

static void add_report(LogBound *b, Text *t)
{
        if (b->unreported_bytes == 0)
                return;
        text_addf(t,
                  "acnspawn: %" PRIu64 " line%s (%" PRIu64 " bytes) of app %s %s not stored: it writes more "
                  "than --log-size= and --log-rate= allow\n",
                  b->unreported_lines, b->unreported_lines == 1 ? "" : "s", b->unreported_bytes, b->app,
                  b->unreported_lines == 1 ? "was" : "were");
        b->unreported_lines = b->unreported_bytes = 0;
}

/* The part SIZE of a line; its end is there if COMPLETE. */
static void take_part(Forwarder *p, const char *data, size_t size, bool complete, Text *out)
{
        LogBound *b = p->bound;

        if (!p->in_line) {
                p->in_line = true;
                p->overdraft = 0;
                p->drop_line = !admit(b);
                if (!p->drop_line) {
                        add_report(b, out);
                        charge(b, LINE_COST);
                }
        } else if (!p->drop_line && p->overdraft > OVERDRAFT_MAX) {
                p->drop_line = b->dropping = true;
                text_add(out, "\n");
        }
        p->dropped |= p->drop_line;
        if (p->drop_line)
                drop(b, size, complete);
        else {
                if (b->left < size)
                        p->overdraft += size - b->left;
                charge(b, size);
                text_add_bytes(out, data, size);
        }
        if (complete)
                p->in_line = p->drop_line = false;
}

bool forwarder_bound_admits(Forwarder *p, const char *data, size_t size)
{
        LogBound *b = p->bound;

        if (!b || b->unbounded)
                return true;
        refill(b);
        uint64_t cost = size + count_begins(p, data, size) * (uint64_t) LINE_COST;
        if (b->dropping || p->drop_line || b->unreported_bytes > 0 || b->left < cost)
                return false;
        charge(b, cost);
        if (size > 0)
                p->in_line = data[size - 1] != '\n';
        return true;
}

void forwarder_bound_filter(Forwarder *p, const char *data, size_t size, Text *out)
{
        while (size > 0) {
                const char *newline = memchr(data, '\n', size);
                size_t n = newline ? (size_t) (newline - data) + 1 : size;

                take_part(p, data, n, newline, out);
                data += n;
                size -= n;
        }
        forwarder_bounds_record(p->all, false);
}

void forwarder_bound_end(Forwarder *p, Text *out)
{
        if (!p->bound)
                return;
        if (p->in_line && p->drop_line)
                drop(p->bound, 0, true);
        p->in_line = p->drop_line = false;
        /* The app's other stream may go on. */
        if (p->dropped)
                add_report(p->bound, out);
}

/* --- The record ---------------------------------------------------------------------------------------- */

static int write_record(Forwarders *all)
{
        _cleanup_free_ LogDrops *drops = calloc(all->apps->n + 1, sizeof(LogDrops));
        size_t n = 0;

        if (!drops)
                return -ENOMEM; /* status does not show it then; the journal does */
        FOREACH_APP(a, all->apps)
        {
                LogBound *b = a->bound;
                AppLog *l = a->log;
                if (!b || !l) /* it is being replaced */
                        continue;
                b->changed = l->changed = false;
                if (b->bytes > 0 || l->bytes > 0)
                        drops[n++] = (LogDrops){.app = a->name,
                                                .lines = b->lines,
                                                .bytes = b->bytes,
                                                .file_lines = l->lines,
                                                .file_bytes = l->bytes};
        }
        return pod_drops_write(all->pod, drops, n);
}

static int arm_record(Forwarders *all);

static int on_record(sd_event_source *source, uint64_t usec, void *userdata)
{
        Forwarders *all = userdata;

        all->record_armed = write_record(all) < 0 && arm_record(all) >= 0;
        return 0;
}

/* The first drop is recorded at once, so that it is visible soon. */
static int arm_record(Forwarders *all)
{
        if (!all->record_timer)
                return sd_event_add_time_relative(all->event, &all->record_timer, CLOCK_MONOTONIC, 0, 0,
                                                  on_record, all);
        int r = sd_event_source_set_time_relative(all->record_timer, RECORD_INTERVAL_USEC);
        return r < 0 ? r : sd_event_source_set_enabled(all->record_timer, SD_EVENT_ONESHOT);
}

void forwarder_bounds_record(Forwarders *all, bool at_end)
{
        bool changed = false;

        FOREACH_APP(a, all->apps)
        changed |= a->bound && a->log && (a->bound->changed || a->log->changed);
        if (at_end && (changed || all->record_armed)) {
                int r = write_record(all);
                if (r < 0)
                        log_warning("The amount of output of pod %s that was dropped cannot be recorded: %s.",
                                    pod_display_name(all->pod), strerror(-r));
        } else if (changed && !all->record_armed)
                all->record_armed = arm_record(all) >= 0;
}
