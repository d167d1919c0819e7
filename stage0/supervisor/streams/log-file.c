/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The log file of an app on the host, and its records. Only child processes of the supervisor call this: a file system that does
 * not answer blocks them, and nothing else (log-writer.c).
 *
 * The file is opened before the app starts, and anew on request, so that it can be renamed and a new one made. It has to be a
 * regular file: a symbolic link, FIFO or device in its place is refused. It is only appended to: existing content, by an earlier
 * start of the app or another pod, stays.
 *
 * The records of messages that have come at once are written by one call; only whole records are left in the file. What cannot
 * be written, as on a full disk or beyond the limit of the file's size, is dropped and counted: neither the app nor the pod
 * waits or ends. */

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "stage0/host/host.h"
#include "stage0/supervisor/streams/log-file.h"

#define TAIL_SIZE (4U * LOG_RECORD_MAX)
#define RECORDS_MAX (1U << 18) /* bytes after which records are written although more messages have come */
#define RECORDS_KEPT_MAX (1U << 19)
#define CHECK_MSEC 5000

typedef struct LogStream {
        struct LogStream *next;
        uint32_t number;
        LogFormatter formatter;
        bool file_open; /* the last record of this stream in the file was a part of a line */
        bool file_gap;  /* the rest of that line was dropped */
} LogStream;

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
static int open_existing(const char *path, mode_t *ret_type)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode)) {
                *ret_type = st.st_mode & S_IFMT;
                return -EBADF;
        }
        return fd_reopen(fd, O_WRONLY | O_APPEND | O_NONBLOCK);
}

static int open_file(const char *path, mode_t *ret_type)
{
        for (unsigned i = 0;; i++) {
                int fd = open_existing(path, ret_type);
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
static uint64_t size_limit(const LogFile *l)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
                return l->settings.max_size;
        return MIN(l->settings.max_size, (uint64_t) limit.rlim_cur);
}

/* An earlier pod, or a replaced app, may have left a line without an end, and a process that was killed a part of a record. */
static void read_end(LogFile *l)
{
        _cleanup_free_ char *text = malloc(TAIL_SIZE);
        struct stat st;

        if (!text || fstat(l->fd, &st) < 0 || st.st_size == 0)
                return;
        _cleanup_close_ int fd = fd_reopen(l->fd, O_RDONLY | O_NONBLOCK);
        ssize_t n = fd < 0 ? -1 : pread(fd, text, TAIL_SIZE, MAX(st.st_size - (off_t) TAIL_SIZE, (off_t) 0));
        l->torn = n > 0 && text[n - 1] != '\n';
        for (char *line = text, *end; n > 0 && l->settings.format == LOG_FORMAT_CRI &&
                                      (end = memchr(line, '\n', (size_t) (text + n - line)));
             line = end + 1)
                log_format_note_open(line, (size_t) (end - line), l->left_open);
}

int log_file_open(LogFile *l, mode_t *ret_type)
{
        mode_t type = 0;
        bool first = l->fd < 0;

        log_file_write(l);
        int fd = open_file(l->settings.path, &type);
        if (fd < 0) {
                *ret_type = type;
                l->open_error = fd;
                return fd;
        }
        safe_close(l->fd);
        l->fd = fd;
        l->limit = size_limit(l);
        l->torn = false;
        if (first)
                read_end(l);
        return 0;
}

int log_file_error(const char *app, const char *path, int r, mode_t type, Error *e)
{
        if (type != 0)
                return error_set(e, r, "Cannot write the log of app %s to %s: it is %s", app, path,
                                 kind_of(type));
        if (r == -ETIME) {
                r = error_set(e, r, "Cannot write the log of app %s to %s: its file system does not answer",
                              app, path);
                return error_hint(e, r, "Once it answers, try it again.");
        }
        if (r == -ECHILD) {
                r = error_set(e, r,
                              "Cannot write the log of app %s to %s: the process that opens it ended without an answer",
                              app, path);
                return error_hint(e, r, "Try it again when the host is less busy.");
        }
        r = error_set_errno(e, r, "Cannot write the log of app %s to %s", app, path);
        return r == -ENOENT ? error_hint(e, r, "The directory has to be there; only the file is created.")
                            : r;
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
static size_t append(LogFile *l, const char *data, size_t size, int *ret_error)
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
static size_t room_in(const LogFile *l, size_t size)
{
        struct stat st;

        if (l->fd < 0)
                return 0;
        if (l->limit == UINT64_MAX || fstat(l->fd, &st) < 0)
                return size;
        uint64_t used = (uint64_t) st.st_size;
        return used < l->limit ? (size_t) MIN((uint64_t) size, l->limit - used) : 0;
}

static void drop(LogFile *l, LogStream *s, const char *records, size_t size, int code)
{
        uint64_t lines = 0, bytes = 0;

        log_format_count(l->settings.format, records, size, &lines, &bytes);
        s->file_gap = true;
        l->dropped(l->userdata, s->formatter.error, lines, bytes, code);
}

static void write_records(LogFile *l, LogStream *s)
{
        const Text *records = &l->records;
        int code = records->failed ? -ENOMEM : l->fd < 0 ? l->open_error : -EFBIG;
        size_t size = records->failed ? 0 : records->size, done = room_in(l, size);

        if (done < size)
                done = whole_lines(records->data, done);
        if (done > 0)
                done = append(l, records->data, done, &code);
        if (done > 0)
                s->file_open = log_format_is_open(l->settings.format, records->data, done);
        s->file_gap &= done < l->ours;
        done = MAX(done, l->ours);
        if (done < records->size || records->failed)
                drop(l, s, records->data + done, records->size - done, code);
}

void log_file_write(LogFile *l)
{
        if (l->records.size > 0 || l->records.failed)
                write_records(l, l->last);
        l->ours = l->records.size = 0;
        if (l->records.failed || l->records.allocated > RECORDS_KEPT_MAX)
                text_done(&l->records);
}

/* After dropped records a reader must find the start of the next record and the next line. */
static void end_broken_record(LogFile *l, LogStream *s, const struct timespec *now)
{
        LogFormatter f = {.format = l->settings.format, .error = s->formatter.error, .open = true};

        if (l->torn)
                text_add(&l->records, "\n");
        if ((s->file_gap && s->file_open) || l->left_open[f.error])
                log_format_end(&f, now, &l->records);
        l->left_open[f.error] = false;
        l->ours = l->records.size;
}

static LogStream *find_stream(LogFile *l, const LogMessage *m)
{
        LogStream *s = l->streams;

        while (s && s->number != m->stream)
                s = s->next;
        if (s || !(s = calloc(1, sizeof(LogStream))))
                return s;
        s->next = l->streams;
        s->number = m->stream;
        s->formatter = (LogFormatter){.format = l->settings.format, .error = m->error};
        return l->streams = s;
}

static void end_stream(LogFile *l, LogStream *s, const struct timespec *now)
{
        LogStream **i = &l->streams;

        l->last = s;
        log_format_finish(&s->formatter, now, &l->records);
        log_file_write(l);
        l->left_open[s->formatter.error] = l->settings.format == LOG_FORMAT_CRI && s->file_open;
        while (*i != s)
                i = &(*i)->next;
        *i = s->next;
        text_done(&s->formatter.rest);
        l->last = NULL;
        free(s);
}

/* Records of one stream are collected. Those of another one are written first: each stream has its own gaps. */
void log_file_take(LogFile *l, const LogMessage *m, const char *data)
{
        LogStream *s = find_stream(l, m);

        if (!s) {
                l->dropped(l->userdata, m->error, 0, m->size, -ENOMEM);
                return;
        }
        if (l->last != s)
                log_file_write(l);
        l->last = s;
        if (l->records.size == 0 && (m->size > 0 || s->formatter.rest.size > 0))
                end_broken_record(l, s, &m->time);
        if (m->step == LOG_ADD)
                log_format_add(&s->formatter, &m->time, data, m->size, &l->records);
        else if (m->step == LOG_FLUSH)
                log_format_flush(&s->formatter, &m->time, &l->records);
        else if (m->step == LOG_END)
                end_stream(l, s, &m->time);
        if (l->records.size >= RECORDS_MAX || l->records.failed)
                log_file_write(l);
}

size_t log_file_unwritten(const LogFile *l)
{
        size_t n = 0;

        for (const LogStream *s = l->streams; s; s = s->next)
                n += s->formatter.rest.size;
        return n;
}

void log_file_done(LogFile *l)
{
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        log_file_write(l);
        while (l->streams)
                end_stream(l, l->streams, &now);
        text_done(&l->records);
        l->fd = safe_close(l->fd);
}

/* --- Before an app is added ------------------------------------------------------------------------------ */

typedef struct Found {
        int r;
        mode_t type;
} Found;

static _noreturn_ void check_child(const char *path, const MountNamespace *host, int fd, pid_t parent)
{
        int kept[] = {fd, host->fd, host->root_fd};
        Found found = {};

        (void) prctl(PR_SET_NAME, "check-log");
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
                _exit(1);
        int r = process_leave_streams();
        if (r >= 0)
                r = fds_close_others(kept, ELEMENTSOF(kept));
        if (r >= 0)
                r = mount_namespace_return(host);
        int file = r < 0 ? r : open_file(path, &found.type);
        if (file >= 0 && close(file) < 0)
                file = -errno;
        found.r = MIN(file, 0);
        _exit(write(fd, &found, sizeof(found)) != (ssize_t) sizeof(found));
}

/* The process ends with this one if it does not answer. */
int log_file_check(const char *app, const LogFileSettings *settings, const MountNamespace *host, Error *e)
{
        Found found = {.r = -ETIME};
        pid_t parent = getpid();
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set_errno(e, -errno, "Cannot make a pipe");
        pid_t pid = fork();
        if (pid == 0)
                check_child(settings->path, host, fds[1], parent);
        int r = pid < 0 ? -errno : 0;
        safe_close(fds[1]);
        struct pollfd p = {.fd = fds[0], .events = POLLIN};
        while (pid > 0 && (r = poll(&p, 1, CHECK_MSEC)) < 0 && errno == EINTR)
                ;
        if (r > 0 && read(fds[0], &found, sizeof(found)) != (ssize_t) sizeof(found))
                found.r = -ECHILD;
        safe_close(fds[0]);
        if (pid > 0)
                (void) process_leave(pid, r > 0 ? 1000 : 0);
        if (pid < 0)
                return error_set_errno(e, r, "Cannot fork");
        return found.r < 0 ? log_file_error(app, settings->path, found.r, found.type, e) : 0;
}
