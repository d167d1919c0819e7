/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lines of a pod from its own journal and from that of the host, in the order of their times.
 *
 * Each journal has a reader. Only what is in one journal alone is read from it, so that no line is shown twice. The last N
 * lines of both together are found by reading twice: first to learn the time of the first of them.
 */

#include "stage0/report/report-internal.h"

static int open_readers(LogSources *s, Pod *p, const JournalQuery *q, bool pod, Error *e)
{
        JournalQuery own = *q;
        int r = 0;

        own.n_host_apps = 0;
        if (pod)
                r = journal_reader_new(p, &own, &s->readers[s->n++], e);
        if (r >= 0 && q->n_host_apps > 0)
                r = journal_reader_new(p, q, &s->readers[s->n++], e);
        return r;
}

void log_sources_done(LogSources *s)
{
        for (size_t i = 0; i < s->n; i++)
                journal_reader_free(s->readers[i]);
        *s = (LogSources){};
}

int log_sources_next(LogSources *s, JournalLine *ret, Error *e)
{
        for (;;) {
                size_t first = s->n;

                for (size_t i = 0; i < s->n; i++) {
                        int r = s->has_head[i] ? 1 : journal_reader_next(s->readers[i], &s->heads[i], e);
                        if (r < 0)
                                return r;
                        s->has_head[i] = r > 0;
                        if (r > 0 && (first == s->n || s->heads[i].time_usec < s->heads[first].time_usec))
                                first = i;
                }
                if (first == s->n)
                        return 0;
                s->has_head[first] = false;
                if (s->skip == 0) {
                        *ret = s->heads[first];
                        return 1;
                }
                s->skip--;
        }
}

int log_sources_wait(LogSources *s, int end_fd, int timeout_msec, Error *e)
{
        struct pollfd fds[ELEMENTSOF(s->readers) * JOURNAL_READER_POLL + 1];
        nfds_t n = 0;

        for (size_t i = 0; i < s->n; i++, n += JOURNAL_READER_POLL)
                journal_reader_poll(s->readers[i], fds + n);
        fds[n++] = (struct pollfd){.fd = end_fd > 0 ? end_fd : -EBADF, .events = POLLIN};
        int r = poll(fds, n, timeout_msec);
        if (r < 0 && errno != EINTR)
                return error_set_errno(e, -errno, "Cannot wait for the output of the apps");
        if (r <= 0 && timeout_msec > 0)
                return 0;
        r = 0;
        for (size_t i = 0; r >= 0 && i < s->n; i++)
                r = journal_reader_refresh(s->readers[i], e);
        return r;
}

/* --- The last lines ------------------------------------------------------------------------------------ */

static int add_time(uint64_t **times, size_t *n, uint64_t usec)
{
        if ((*n & (*n - 1)) == 0) { /* the capacity is a power of two */
                uint64_t *grown = reallocarray(*times, *n == 0 ? 1 : *n * 2, sizeof(uint64_t));
                if (!grown)
                        return -ENOMEM;
                *times = grown;
        }
        (*times)[(*n)++] = usec;
        return 0;
}

static char **find_stream(char **l, const char *stream)
{
        while (l && *l && !streq(*l, stream))
                l++;
        return l && *l ? l : NULL;
}

/* True if L begins a line. *OPEN lists the streams whose last line continues. */
static int begins_line(char ***open, const JournalLine *l)
{
        _cleanup_free_ char *stream = NULL;

        if (xasprintf(&stream, "%d%s", l->error, l->app) < 0)
                return -ENOMEM;
        char **found = find_stream(*open, stream);
        if (!found && l->continues && strv_extend(open, stream) < 0)
                return -ENOMEM;
        if (found && !l->continues) { /* moves the last stream into the gap */
                size_t n = strv_length(*open);
                free(*found);
                *found = (*open)[n - 1];
                (*open)[n - 1] = NULL;
        }
        return !found;
}

/* Each time is shifted left by one bit; the low bit is set if the record begins a line. */
static int read_times(Pod *p, const JournalQuery *q, uint64_t **times, size_t *n, Error *e)
{
        _cleanup_strv_free_ char **open = NULL;
        LogSources s = {};
        JournalLine l;
        int r = open_readers(&s, p, q, true, e);

        while (r >= 0 && (r = log_sources_next(&s, &l, e)) > 0) {
                r = begins_line(&open, &l);
                if (r < 0 || add_time(times, n, l.time_usec << 1 | (uint64_t) r) < 0)
                        r = error_oom(e);
        }
        log_sources_done(&s);
        return r;
}

/* Extends Q to all lines since the first of the last Q->lines. *RET_SKIP lines with the same time precede it. */
static int find_begin(Pod *p, JournalQuery *q, uint64_t *ret_skip, Error *e)
{
        _cleanup_free_ uint64_t *times = NULL;
        JournalQuery once = *q;
        size_t n = 0;

        once.follow = false;
        int r = read_times(p, &once, &times, &n, e);
        if (r < 0)
                return r;
        *ret_skip = 0;
        for (uint64_t lines = q->lines; n > 0 && lines > 0;)
                lines -= times[--n] & 1;
        if (n > 0) {
                q->since_usec = times[n] >> 1;
                while (*ret_skip < n && times[n - *ret_skip - 1] >> 1 == q->since_usec)
                        (*ret_skip)++;
        }
        q->lines = UINT64_MAX;
        return 0;
}

int log_sources_open(LogSources *s, Pod *p, const JournalQuery *q, bool pod, Error *e)
{
        JournalQuery query = *q;
        int r = 0;

        if (pod && q->n_host_apps > 0 && q->lines > 0 && q->lines != UINT64_MAX)
                r = find_begin(p, &query, &s->skip, e);
        return r < 0 ? r : open_readers(s, p, &query, pod, e);
}
