/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Showing the log file of an app that does not write to the journal.
 *
 * Records that are older than the pod are those of another pod, and left out; so are malformed lines.
 * Renamed files are not searched, but one that is renamed while it is followed is read to its end before the
 * new one.
 */

#include <sys/stat.h>
#include <time.h>

#include "stage0/report/report-internal.h"

#define CHUNK 65536U
#define RECORD_MAX (1024U * 1024U) /* the maximum that acnspawn writes */
#define FOLLOW_USEC 100000U

typedef struct LogFileReader {
        Pod *pod;
        const char *app;
        const LogFileSettings *file;
        const LogOptions *options;
        const OutputOptions *output;
        uint64_t since_usec;
        uint64_t n, skip; /* lines so far; the first SKIP are not shown */
        bool count;       /* only count them */
        bool open[2];     /* the last record of standard output, or error, does not end its line */
        bool shown[2];    /* that line is shown */
        bool cut[2];      /* the last record before SINCE_USEC does not end its line */
        int fd;
        Text rest; /* of a record */
} LogFileReader;

/* --- Records ------------------------------------------------------------------------------------------- */

static int parse_digits(const char **p, const char *end, size_t n, uint64_t *ret)
{
        uint64_t v = 0;

        for (size_t i = 0; i < n; i++, (*p)++) {
                if (*p >= end || **p < '0' || **p > '9')
                        return -EBADMSG;
                v = v * 10 + (uint64_t) (**p - '0');
        }
        *ret = v;
        return 0;
}

/* "2016-10-06T00:17:09.669794202Z", as acnspawn writes it. */
static int parse_time(const char *p, size_t size, uint64_t *ret_usec)
{
        static const struct {
                size_t digits;
                char end;
        } fields[] = {{4, '-'}, {2, '-'}, {2, 'T'}, {2, ':'}, {2, ':'}, {2, '.'}, {9, 'Z'}};
        uint64_t v[ELEMENTSOF(fields)];
        const char *end = p + size;

        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                if (parse_digits(&p, end, fields[i].digits, &v[i]) < 0 || p >= end || *p++ != fields[i].end)
                        return -EBADMSG;
        struct tm tm = {.tm_year = (int) v[0] - 1900,
                        .tm_mon = (int) v[1] - 1,
                        .tm_mday = (int) v[2],
                        .tm_hour = (int) v[3],
                        .tm_min = (int) v[4],
                        .tm_sec = (int) v[5]};
        time_t t = timegm(&tm);
        if (p != end || t < 0)
                return -EBADMSG;
        *ret_usec = (uint64_t) t * 1000000U + v[6] / 1000U;
        return 0;
}

int log_record_parse(const char *data, size_t size, JournalLine *ret)
{
        const char *space = memchr(data, ' ', size), *end = data + size;
        uint64_t usec;

        if (!space || parse_time(data, (size_t) (space - data), &usec) < 0)
                return -EBADMSG;
        const char *p = space + 1;
        if ((size_t) (end - p) < strlen("stdout F ") || p[6] != ' ' || p[8] != ' ' ||
            (p[7] != 'F' && p[7] != 'P'))
                return -EBADMSG;
        bool error = memcmp(p, "stderr", 6) == 0;
        if (!error && memcmp(p, "stdout", 6) != 0)
                return -EBADMSG;
        *ret = (JournalLine){.data = p + 9,
                             .size = (size_t) (end - p) - 9,
                             .error = error,
                             .end = {'\n'},
                             .partial = p[7] == 'P',
                             .continues = p[7] == 'P',
                             .time_usec = usec};
        return 0;
}

static int show_record(LogFileReader *r, const char *data, size_t size)
{
        JournalLine l = {.data = data, .size = size, .end = {'\n'}};

        if (r->file->format == LOG_FORMAT_CRI) {
                if (log_record_parse(data, size, &l) < 0 ||
                    (r->options->until_usec > 0 && l.time_usec > r->options->until_usec))
                        return 0;
                bool early = l.time_usec < r->since_usec, ends = r->cut[l.error] && !l.continues;
                r->cut[l.error] = early && l.continues;
                if (early || (ends && l.size == 0)) /* ends a line that an earlier start left open */
                        return 0;
        }
        if (!r->open[l.error])
                r->shown[l.error] = ++r->n > r->skip;
        r->open[l.error] = l.continues;
        if (r->count || !r->shown[l.error])
                return 0;
        l.app = r->app;
        return output_line(&l, r->output);
}

/* --- The file ------------------------------------------------------------------------------------------ */

static int open_log(LogFileReader *r, Error *e)
{
        struct stat st;
        int fd = open(r->file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                int k = fd < 0 ? -errno : -EBADF;
                safe_close(fd);
                return k == -EBADF ? error_set(e, k, "The log file %s of app %s is not a regular file",
                                               r->file->path, r->app)
                                   : error_set_errno(e, k, "Cannot read the log file %s of app %s",
                                                     r->file->path, r->app);
        }
        safe_close(r->fd);
        r->fd = fd;
        text_done(&r->rest);
        return 0;
}

static int take_chunk(LogFileReader *r, const char *data, size_t size)
{
        while (size > 0) {
                const char *newline = memchr(data, '\n', size);
                size_t n = newline ? (size_t) (newline - data) : size;

                if (r->rest.size + n <= RECORD_MAX)
                        text_add_bytes(&r->rest, data, n);
                if (r->rest.failed)
                        return -ENOMEM;
                if (!newline)
                        return 0;
                int k = show_record(r, r->rest.data ?: "", r->rest.size);
                if (k < 0)
                        return k;
                r->rest.size = 0;
                data += n + 1;
                size -= n + 1;
        }
        return 0;
}

/* Reads to the current end of the file. */
static int read_all(LogFileReader *r, Error *e)
{
        _cleanup_free_ char *chunk = malloc(CHUNK);

        if (!chunk)
                return error_oom(e);
        for (;;) {
                ssize_t n = read(r->fd, chunk, CHUNK);
                if (n == 0)
                        return 0;
                if (n < 0)
                        return error_set_errno(e, -errno, "Cannot read the log file %s of app %s",
                                               r->file->path, r->app);
                int k = take_chunk(r, chunk, (size_t) n);
                if (k < 0)
                        return error_set_errno(e, k, "Cannot show the output of app %s", r->app);
        }
}

/* To show only the last lines, it counts them first. */
static int read_last(LogFileReader *r, Error *e)
{
        if (r->options->lines != UINT64_MAX) {
                r->count = true;
                int k = read_all(r, e);
                if (k < 0)
                        return k;
                r->skip = r->n > r->options->lines ? r->n - r->options->lines : 0;
                r->n = 0;
                r->count = r->open[0] = r->open[1] = r->cut[0] = r->cut[1] = false;
                r->rest.size = 0;
                if (lseek(r->fd, 0, SEEK_SET) < 0)
                        return error_set_errno(e, -errno, "Cannot read the log file %s of app %s",
                                               r->file->path, r->app);
        }
        int k = read_all(r, e);
        r->skip = 0;
        return k;
}

/* Whether another file is written now, and is not empty: the old one is complete. */
static bool was_replaced(const LogFileReader *r)
{
        struct stat ours, now;

        return fstat(r->fd, &ours) >= 0 && lstat(r->file->path, &now) >= 0 && S_ISREG(now.st_mode) &&
               now.st_size > 0 && (now.st_ino != ours.st_ino || now.st_dev != ours.st_dev);
}

/* Whether the file was truncated. */
static bool was_truncated(const LogFileReader *r)
{
        struct stat st;
        off_t here = lseek(r->fd, 0, SEEK_CUR);

        return here >= 0 && fstat(r->fd, &st) >= 0 && st.st_size < here;
}

static int follow(LogFileReader *r, Error *e)
{
        for (;;) {
                bool ended = logs_have_ended(r->pod, r->options, FOLLOW_USEC);
                bool replaced = was_replaced(r);
                int k = 0;

                if (was_truncated(r) && lseek(r->fd, 0, SEEK_SET) >= 0)
                        r->rest.size = 0;
                k = read_all(r, e);
                if (k < 0)
                        return k;
                if (replaced) {
                        k = open_log(r, e);
                        if (k >= 0)
                                k = read_all(r, e);
                        if (k < 0)
                                return k;
                }
                if (ended)
                        return 0;
        }
}

static uint64_t start_of(Pod *p)
{
        PodRuntime runtime;
        PodResult result;

        if (pod_runtime_read(p, &runtime) >= 0)
                return runtime.started_usec;
        return pod_result_read(p, &result) >= 0 ? result.started_usec : 0;
}

int log_file_show(Pod *p, const char *app, const LogFileSettings *f, const LogOptions *o,
                  const OutputOptions *output, Error *e)
{
        LogFileReader r = {.pod = p, .app = app, .file = f, .options = o, .output = output, .fd = -EBADF};

        if (f->format == LOG_FORMAT_PLAIN &&
            (o->json || o->timestamps || o->since_usec > 0 || o->until_usec > 0))
                return error_set(e, -EOPNOTSUPP,
                                 "The log file %s of app %s has no times: its format is plain", f->path,
                                 app);
        r.since_usec = MAX(o->since_usec, start_of(p));
        int k = open_log(&r, e);
        if (k >= 0)
                k = read_last(&r, e);
        if (k >= 0 && o->follow && p->state == POD_RUNNING)
                k = follow(&r, e);
        safe_close(r.fd);
        text_done(&r.rest);
        return k;
}
