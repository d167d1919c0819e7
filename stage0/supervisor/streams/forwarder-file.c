/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Output of apps, to log files of the host.
 *
 * The file of an app is opened before the pod starts, and anew on request, so that it can be renamed and a
 * new one made. It has to be a regular file: a symbolic link, FIFO or device in its place is refused. It is
 * only appended to: existing content, by an earlier start of the app or another pod, stays.
 *
 * The records of all that was read from an app at once are written by one call; only whole records are left
 * in the file. What cannot be written, as on a full disk or beyond the limit of the file's size, is dropped
 * and counted: neither the app nor the pod waits or ends. The journal, even if the app's lines do not go
 * there, has a line about it; `status` has the counts. */

#include <sys/resource.h>
#include <sys/stat.h>

#include "stage0/supervisor/streams/forwarder-internal.h"

#define TAIL_SIZE (4U * LOG_RECORD_MAX)

/* --- Opening ------------------------------------------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
        static const struct {
                mode_t type;
                const char *name;
        } kinds[] = {{S_IFLNK, "a symbolic link"},    {S_IFDIR, "a directory"},    {S_IFIFO, "a FIFO"},
                     {S_IFCHR, "a character device"}, {S_IFBLK, "a block device"}, {S_IFSOCK, "a socket"}};

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if ((mode & S_IFMT) == kinds[i].type)
                        return kinds[i].name;
        return "no regular file";
}

/* The type of the file is checked before it is opened: opening a device or a FIFO has effects of its own. */
static int open_existing(const char *path, const char **ret_kind)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode)) {
                *ret_kind = kind_of(st.st_mode);
                return -EBADF;
        }
        return fd_reopen(fd, O_WRONLY | O_APPEND | O_NONBLOCK);
}

static int open_file(const char *path, const char **ret_kind)
{
        for (unsigned i = 0;; i++) {
                int fd = open_existing(path, ret_kind);
                if (fd != -ENOENT)
                        return fd;
                fd = open(path,
                          O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
                                          O_CLOEXEC,
                          0640);
                if (fd >= 0 || errno != EEXIST || i >= 10) /* created or removed meanwhile */
                        return fd < 0 ? -errno : fd;
        }
}

/* A write beyond the limit of this process would end it. */
static uint64_t size_limit(const AppLog *l)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
                return l->file.max_size;
        return MIN(l->file.max_size, (uint64_t) limit.rlim_cur);
}

static int log_open(AppLog *l, Error *e)
{
        const char *kind = NULL;

        int fd = open_file(l->file.path, &kind);
        if (kind)
                return error_set(e, -EBADF, "Cannot write the log of app %s to %s: it is %s", l->app,
                                 l->file.path, kind);
        if (fd < 0) {
                int r = error_set_errno(e, fd, "Cannot write the log of app %s to %s", l->app, l->file.path);
                return fd == -ENOENT ? error_hint(e, r,
                                                  "The directory has to be there; only the file is created.")
                                     : r;
        }
        safe_close(l->fd);
        l->fd = fd;
        l->limit = size_limit(l);
        l->reported = l->torn = false;
        return 0;
}

/* An earlier pod, or a replaced app, may have left a line without an end. */
static void look_at_end(AppLog *l)
{
        _cleanup_free_ char *text = malloc(TAIL_SIZE);
        struct stat st;

        if (!text || l->file.format != LOG_FORMAT_CRI || fstat(l->fd, &st) < 0 || st.st_size == 0)
                return;
        _cleanup_close_ int fd = fd_reopen(l->fd, O_RDONLY | O_NONBLOCK);
        ssize_t n = fd < 0 ? -1 : pread(fd, text, TAIL_SIZE, MAX(st.st_size - (off_t) TAIL_SIZE, (off_t) 0));
        for (char *line = text, *end; n > 0 && (end = memchr(line, '\n', (size_t) (text + n - line)));
             line = end + 1)
                log_format_note_open(line, (size_t) (end - line), l->left_open);
}

int forwarder_log_new(const char *app, const AppSettings *settings, AppLog **ret, Error *e)
{
        _cleanup_(forwarder_log_freep) AppLog *l = calloc(1, sizeof(AppLog));

        if (!l)
                return error_oom(e);
        *l = (AppLog){.app = app, .target = settings->log, .file = settings->log_file, .fd = -EBADF};
        if (l->file.path) {
                l->file.path = strdup(l->file.path);
                int r = l->file.path ? log_open(l, e) : error_oom(e);
                if (r < 0)
                        return r;
                look_at_end(l);
        }
        *ret = TAKE_PTR(l);
        return 0;
}

AppLog *forwarder_log_free(AppLog *l)
{
        if (!l)
                return NULL;
        safe_close(l->fd);
        free(l->file.path);
        free(l);
        return NULL;
}

int forwarders_reopen(Forwarders *all, const char *app, Error *e)
{
        size_t n = 0;
        int r = 0;

        FOREACH_APP(a, all->apps)
        {
                AppLog *l = a->log;
                if (!l->file.path || (app && !streq(a->name, app)))
                        continue;
                int k = log_open(l, r < 0 ? NULL : e);
                r = r < 0 ? r : k;
                n++;
        }
        if (n > 0)
                return r;
        return app ? error_set(e, -ENODATA, "App %s has no log file", app)
                   : error_set(e, -ENODATA, "No app of pod %s has a log file", pod_display_name(all->pod));
}

/* --- Writing ------------------------------------------------------------------------------------------- */

/* How many bytes of DATA are whole lines. */
static size_t whole_lines(const char *data, size_t size)
{
        const char *newline = memrchr(data, '\n', size);

        return newline ? (size_t) (newline - data) + 1 : 0;
}

/* Takes the part of a record, which is the last SIZE bytes that we wrote, out of the file. */
static int truncate_by(int fd, size_t size)
{
        off_t end = lseek(fd, 0, SEEK_CUR);
        struct stat st;

        if (end < (off_t) size || fstat(fd, &st) < 0 || st.st_size != end)
                return -EBUSY;
        return ftruncate(fd, end - (off_t) size) < 0 ? -errno : 0;
}

/* The number of bytes of DATA that are in the file: whole records unless it is all. *RET_ERROR: why it is
 * not more. */
static size_t append(AppLog *l, const char *data, size_t size, int *ret_error)
{
        size_t done = 0;

        while (done < size) {
                ssize_t n = write(l->fd, data + done, size - done);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        *ret_error = n < 0 ? -errno : -EIO;
                        break;
                }
                done += (size_t) n;
        }
        if (done == size) {
                l->torn = false;
                return done;
        }
        size_t whole = whole_lines(data, done);
        if (done > 0)
                l->torn = done > whole && truncate_by(l->fd, done - whole) < 0;
        return whole;
}

/* How much of SIZE bytes the limits allow. */
static size_t room_in(const AppLog *l, size_t size)
{
        struct stat st;

        if (l->limit == UINT64_MAX || fstat(l->fd, &st) < 0)
                return size;
        uint64_t used = (uint64_t) st.st_size;
        return used < l->limit ? (size_t) MIN((uint64_t) size, l->limit - used) : 0;
}

static void report(Forwarder *p, int error)
{
        _cleanup_free_ char *line = NULL;
        AppLog *l = p->log;

        if (l->reported)
                return;
        l->reported = true;
        log_warning("The log file %s of app %s takes no more: %s. Lines are dropped.", l->file.path, l->app,
                    strerror(-error));
        if (xasprintf(&line,
                      "acnspawn: the log file %s of app %s takes no more: %s. Lines are dropped; "
                      "'acnspawn status' says how many.",
                      l->file.path, l->app, strerror(-error)) >= 0)
                forwarder_report_in_journal(p, line);
}

static void drop(Forwarder *p, const char *records, size_t size, int error)
{
        uint64_t lines = 0, bytes = 0;
        AppLog *l = p->log;

        log_format_count(l->file.format, records, size, &lines, &bytes);
        l->lines += lines;
        l->bytes += bytes;
        l->changed = p->file_gap = true;
        report(p, error);
        forwarder_bounds_record(p->all, false);
}

/* The first OURS bytes are a line of acnspawn, not of the app. */
static void write_records(Forwarder *p, const Text *records, size_t ours)
{
        AppLog *l = p->log;
        int error = records->failed ? -ENOMEM : -EFBIG;
        size_t size = records->failed ? 0 : records->size, done = room_in(l, size);

        if (done < size)
                done = whole_lines(records->data, done);
        if (done > 0)
                done = append(l, records->data, done, &error);
        if (done > 0)
                p->file_open = log_format_is_open(l->file.format, records->data, done);
        p->file_gap &= done < ours;
        done = MAX(done, ours);
        if (done < records->size || records->failed)
                drop(p, records->data + done, records->size - done, error);
}

/* After dropped records a reader must find the start of the next record and the next line. */
static void end_broken_record(Forwarder *p, const struct timespec *now, Text *records)
{
        LogFormatter f = {.format = p->log->file.format, .error = p->error, .open = true};

        if (p->log->torn)
                text_add(records, "\n");
        if ((p->file_gap && p->file_open) || p->log->left_open[p->error])
                log_format_end(&f, now, records);
}

typedef enum Step { ADD, FLUSH, END } Step;

static void write_step(Forwarder *p, Step step, const char *data, size_t size)
{
        Text *records = &p->all->records;
        LogFormatter *f = &p->formatter;
        struct timespec now;

        if (!p->log || p->log->fd < 0)
                return;
        (void) clock_gettime(CLOCK_REALTIME, &now);
        if (step == ADD) {
                end_broken_record(p, &now, records);
                p->log->left_open[p->error] = false;
        }
        size_t ours = records->size;
        if (step == ADD)
                log_format_add(f, &now, data, size, records);
        else if (step == FLUSH)
                log_format_flush(f, &now, records);
        else
                log_format_finish(f, &now, records);
        if (records->size > ours || records->failed)
                write_records(p, records, ours);
        if (step == END)
                p->log->left_open[p->error] = p->log->file.format == LOG_FORMAT_CRI && p->file_open;
        records->size = 0;
        if (records->failed)
                text_done(records);
}

void forwarder_write_to_file(Forwarder *p, const char *data, size_t size)
{
        write_step(p, ADD, data, size);
}

void forwarder_flush_file(Forwarder *p)
{
        write_step(p, FLUSH, NULL, 0);
}

void forwarder_end_file(Forwarder *p)
{
        write_step(p, END, NULL, 0);
}
