/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the apps of a pod wrote, read from the pod's journal.
 *
 * The launcher gives every app two streams, one for standard output and one for standard error, which
 * journald tells apart by priority; only root inside the pod can open such streams, so the identifier that
 * they carry is the app's name for sure. journald cuts streams into lines and notes where there was no
 * newline, so that output can be shown byte for byte.
 */

#include <syslog.h>

#include "library/libsystemd.h"
#include "stage0/report/report-internal.h"

struct JournalReader {
        sd_journal *journal;
        char *app;
        uint64_t since_usec, until_usec;
};

JournalReader *journal_reader_free(JournalReader *r)
{
        if (!r)
                return NULL;
        if (r->journal)
                sd_journal_close(r->journal);
        free(r->app);
        free(r);
        return NULL;
}

static int journal_directory(Pod *p, char **ret)
{
        char id[SD_ID128_STRING_MAX];
        _cleanup_free_ char *path = NULL;
        sd_id128_t uuid;

        int r = sd_id128_from_string(p->uuid, &uuid);
        if (r >= 0)
                r = pod_path(p, &path);
        if (r < 0)
                return r;
        return xasprintf(ret, "%s/root/var/log/journal/%s", path, sd_id128_to_string(uuid, id));
}

int journal_reader_new(Pod *p, JournalReader **ret, Error *e)
{
        _cleanup_(journal_reader_freep) JournalReader *reader = calloc(1, sizeof(JournalReader));
        _cleanup_free_ char *path = NULL;

        if (!reader)
                return error_oom(e);
        int r = library_load(&systemd_library, e);
        if (r < 0)
                return r;
        r = journal_directory(p, &path);
        if (r >= 0)
                r = sd_journal_open_directory(&reader->journal, path, 0);
        if (r < 0)
                return error_set_errno(e, r, "Cannot open the journal of pod %s", p->uuid);
        /* Larger than journald's own limit on a line, so that no field is ever cut. */
        (void) sd_journal_set_data_threshold(reader->journal, 0);
        r = sd_journal_add_match(reader->journal, "_TRANSPORT=stdout", 0);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the journal of pod %s", p->uuid);
        *ret = TAKE_PTR(reader);
        return 0;
}

int journal_reader_set_app(JournalReader *r, const char *app)
{
        _cleanup_free_ char *match = NULL;
        int k = xasprintf(&match, "SYSLOG_IDENTIFIER=%s", app);

        return k < 0 ? k : sd_journal_add_match(r->journal, match, 0);
}

int journal_reader_set_range(JournalReader *r, uint64_t since_usec, uint64_t until_usec)
{
        r->since_usec = since_usec;
        r->until_usec = until_usec;
        return since_usec > 0 ? sd_journal_seek_realtime_usec(r->journal, since_usec) : 0;
}

int journal_reader_skip_to_last(JournalReader *r, uint64_t n)
{
        if (n == UINT64_MAX)
                return 0;
        int k = r->until_usec > 0 ? sd_journal_seek_realtime_usec(r->journal, r->until_usec + 1)
                                  : sd_journal_seek_tail(r->journal);
        if (k < 0 || n == 0)
                return k < 0 ? k : sd_journal_previous(r->journal);
        /* One further back than wanted, so that "next" comes to the first of them; at the beginning there is
         * no such entry. */
        k = sd_journal_previous_skip(r->journal, n + 1);
        if (k >= 0 && (uint64_t) k < n + 1)
                return sd_journal_seek_head(r->journal);
        return k;
}

int journal_reader_fd(JournalReader *r)
{
        return sd_journal_get_fd(r->journal);
}

int journal_reader_process(JournalReader *r)
{
        return sd_journal_process(r->journal);
}

/* The value of FIELD in the present entry; NULL if it has none. */
static const char *get_field(sd_journal *j, const char *field, size_t *ret_size)
{
        const void *data;
        size_t size, prefix = strlen(field) + 1;

        if (sd_journal_get_data(j, field, &data, &size) < 0 || size < prefix)
                return NULL;
        *ret_size = size - prefix;
        return (const char *) data + prefix;
}

static bool field_is(sd_journal *j, const char *field, const char *value)
{
        size_t size = 0;
        const char *s = get_field(j, field, &size);

        return s && size == strlen(value) && memcmp(s, value, size) == 0;
}

static int take_app(JournalReader *r)
{
        size_t size = 0;
        const char *s = get_field(r->journal, "SYSLOG_IDENTIFIER", &size);
        char *copy = s ? strndup(s, size) : strdup("");

        if (!copy)
                return -ENOMEM;
        free(r->app);
        r->app = copy;
        return 0;
}

/* The next one of the range. Where the last N of all lines are shown, the first of them may lie before
 * it. */
static int next_entry(JournalReader *r, uint64_t *ret_usec)
{
        int k;

        do {
                k = sd_journal_next(r->journal);
                if (k <= 0)
                        return k;
                (void) sd_journal_get_realtime_usec(r->journal, ret_usec);
        } while (*ret_usec < r->since_usec);
        return r->until_usec > 0 && *ret_usec > r->until_usec ? 0 : 1;
}

int journal_reader_next(JournalReader *r, JournalLine *ret)
{
        JournalLine l = {};
        char err[4];

        int k = next_entry(r, &l.time_usec);
        if (k <= 0)
                return k;
        k = take_app(r);
        if (k < 0)
                return k;
        snprintf(err, sizeof(err), "%d", LOG_ERR);
        l.error = field_is(r->journal, "PRIORITY", err);
        l.partial = field_is(r->journal, "_LINE_BREAK", "eof") ||
                    field_is(r->journal, "_LINE_BREAK", "line-max") ||
                    field_is(r->journal, "_LINE_BREAK", "pid-change");
        l.end[0] = field_is(r->journal, "_LINE_BREAK", "nul") ? 0 : '\n';
        l.app = r->app;
        l.data = get_field(r->journal, "MESSAGE", &l.size) ?: "";
        *ret = l;
        return 1;
}
