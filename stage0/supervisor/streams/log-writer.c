/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that writes the log file of an app.
 *
 * The file system of a log file may hang (NFS without its server, a full SAN). So only this child process opens, writes and closes the
 * file; the supervisor sends it the output and its time over a socket, and the process makes the records (log-file.c). What
 * the socket does not take is queued here; when the queue is full, the app is not read, and has to wait as with a full pipe.
 *
 * Each log file has a process of its own, as a file system that hangs must not hold the logs of apps whose files are elsewhere, and
 * which file system has a file cannot be asked without asking that file system. The process has no descriptor of the supervisor, and
 * leaves its mount namespace: it blocks nothing that the pod leaves behind.
 *
 * Such a process takes 0.15 ms of the supervisor when it is started, while the pod's systemd boots; it has 0.2 MiB of its own while
 * the app is quiet, and at most 0.9 in a flood. A pod without log files has none. In a flood it writes once in a millisecond. To splice the
 * app's pipe to it costs more than to copy: the supervisor keeps up with an app, and reads about 8 KiB at a time.
 *
 * When the supervisor dies, the process reads the end of the socket after all that was sent; it writes that and ends. When the
 * process is killed, another one is started. How much it had written is in memory that both share: the difference may be lost. */

#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/host/host.h"
#include "stage0/supervisor/apps/left-process.h"
#include "stage0/supervisor/streams/buffered-writer.h"
#include "stage0/supervisor/streams/log-writer.h"

#define INPUT_SIZE (4U * LOG_DATA_MAX)
#define BATCH_USEC UINT64_C(1000) /* between two writes of little at least */
#define IDLE_MSEC 1000            /* after which memory is returned */
#define MMAP_MIN 65536            /* larger buffers are returned to the kernel when they are freed */
#define AFTER_MSEC 10000
#define RESTART_USEC UINT64_C(1000000) /* between two starts at least */
#define END_USEC UINT64_C(10000)       /* the wait of log_writer_wait_for_end() */

struct LogWriter {
        LogWriterOptions options;
        pid_t pid; /* 0: there is no process */
        int pid_fd, sock;
        BufferedWriter *queue;
        sd_event_source *replies, *end, *timer;
        LogReply reply; /* of which N_REPLY bytes were received */
        size_t n_reply;
        uint64_t numbered, answered;
        uint64_t sent, *written; /* bytes of output; the latter is shared with the process */
        uint64_t started_usec;
        uint64_t hung_usec;    /* since when its file system is taken to hang; 0: it is not */
        uint64_t hung_written; /* what was written by then */
        bool unsynced;         /* something was added since a message with a number */
        bool closed;           /* the process has closed the socket: it ends */
        bool failed;           /* the last attempt to start it again */
        bool finishes;
        uint64_t left, left_usec; /* then: what was unwritten, and since when it was not less */
};

/* --- The process --------------------------------------------------------------------------------------- */

typedef struct Child {
        int sock;
        uint64_t *written;
        uint64_t taken;
        LogFile file;
} Child;

/* Without a supervisor the answer is of no use. */
static void reply(const Child *c, const LogReply *r)
{
        (void) send(c->sock, r, sizeof(*r), MSG_NOSIGNAL);
}

static void on_dropped(void *userdata, bool error, uint64_t lines, uint64_t bytes, int code)
{
        reply(userdata, &(LogReply){.kind = LOG_DROPPED,
                                    .error = error,
                                    .lines = lines,
                                    .bytes = bytes,
                                    .code = code});
}

static void write_taken(Child *c)
{
        log_file_write(&c->file);
        __atomic_store_n(c->written, c->taken - log_file_unwritten(&c->file), __ATOMIC_RELEASE);
}

static void take(Child *c, const LogMessage *m, const char *data)
{
        LogReply r = {.kind = LOG_ANSWERED, .step = m->step, .number = m->number};
        mode_t type = 0;

        if (m->step <= LOG_END) {
                c->taken += m->size;
                log_file_take(&c->file, m, data);
        } else if (m->step == LOG_REOPEN)
                r.code = log_file_open(&c->file, &type);
        if (m->number == 0)
                return;
        write_taken(c);
        r.type = type;
        reply(c, &r);
}

/* Returns how many bytes of INPUT were whole messages. */
static size_t take_all(Child *c, const char *input, size_t size)
{
        size_t used = 0;
        LogMessage m;

        while (size - used >= sizeof(m)) {
                memcpy(&m, input + used, sizeof(m));
                if (m.size > LOG_DATA_MAX || m.step >= _LOG_STEP_MAX)
                        _exit(2);
                if (size - used < sizeof(m) + m.size)
                        break;
                take(c, &m, input + used + sizeof(m));
                used += sizeof(m) + m.size;
        }
        write_taken(c);
        return used;
}

/* Most apps write little, and each of them has such a process. */
static void wait_for_input(Child *c, char *input)
{
        struct pollfd p = {.fd = c->sock, .events = POLLIN};

        if (poll(&p, 1, IDLE_MSEC) != 0)
                return;
        text_done(&c->file.records);
        (void) madvise(input, INPUT_SIZE, MADV_DONTNEED);
}

/* An app that writes without end, in small pieces, would have a write for each of them: waits until the last one is a millisecond ago, and
 * reads what has come by then. */
static size_t collect(const Child *c, char *input, size_t size, uint64_t last_usec)
{
        uint64_t passed = now_usec(CLOCK_MONOTONIC) - last_usec;

        if (size >= LOG_DATA_MAX || passed >= BATCH_USEC)
                return 0;
        const struct timespec wait = {.tv_nsec = (long) (BATCH_USEC - passed) * 1000};
        (void) nanosleep(&wait, NULL);
        ssize_t n = recv(c->sock, input + size, INPUT_SIZE - size, MSG_DONTWAIT);
        return n > 0 ? (size_t) n : 0;
}

static void take_messages(Child *c)
{
        static char input[INPUT_SIZE] __attribute__((aligned(4096)));
        uint64_t last_usec = 0;
        size_t size = 0;

        for (;;) {
                if (size == 0)
                        wait_for_input(c, input);
                ssize_t n = read(c->sock, input + size, sizeof(input) - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                size += (size_t) n;
                size += collect(c, input, size, last_usec);
                last_usec = now_usec(CLOCK_MONOTONIC);
                size_t used = take_all(c, input, size);
                size -= used;
                memmove(input, input + used, size);
        }
}

/* The signals that end the supervisor come to the whole cgroup or process group: this process ends after it. */
static int leave_supervisor(const LogWriterOptions *o, int sock)
{
        MountNamespace host = *o->host;
        int kept[] = {sock, host.fd, host.root_fd, o->after_fd};
        sigset_t all;

        (void) sigfillset(&all);
        (void) sigprocmask(SIG_SETMASK, &all, NULL);
        (void) prctl(PR_SET_NAME, "write-log");
        int r = process_leave_streams();
        if (r >= 0)
                r = fds_close_others(kept, ELEMENTSOF(kept));
        if (r >= 0)
                r = mount_namespace_return(&host);
        if (r >= 0 && chdir("/") < 0)
                r = -errno;
        mount_namespace_done(&host);
        return r;
}

static _noreturn_ void child(const LogWriter *w, int sock)
{
        Child c = {.sock = sock, .written = w->written, .file = LOG_FILE_NULL};
        struct pollfd after = {.fd = w->options.after_fd, .events = POLLIN};

        if (leave_supervisor(&w->options, sock) < 0)
                _exit(1);
        if (after.fd >= 0) {
                while (poll(&after, 1, AFTER_MSEC) < 0 && errno == EINTR)
                        ;
                (void) close(after.fd);
        }
        (void) mallopt(M_MMAP_THRESHOLD, MMAP_MIN);
        c.file.settings = w->options.settings;
        c.file.dropped = on_dropped;
        c.file.userdata = &c;
        take_messages(&c);
        log_file_done(&c.file);
        write_taken(&c);
        _exit(0);
}

/* --- The supervisor's side ------------------------------------------------------------------------------ */

static int start(LogWriter *w);

static uint64_t read_written(const LogWriter *w)
{
        return __atomic_load_n(w->written, __ATOMIC_ACQUIRE);
}

uint64_t log_writer_unwritten(const LogWriter *w)
{
        uint64_t written = read_written(w);

        return w->sent > written ? w->sent - written : 0;
}

uint64_t log_writer_unanswered(const LogWriter *w)
{
        return w->numbered - w->answered;
}

int log_writer_process(const LogWriter *w)
{
        return w->pid_fd;
}

pid_t log_writer_pid(const LogWriter *w)
{
        return w->pid;
}

static void on_message(LogWriter *w)
{
        const LogReply r = w->reply;

        w->hung_usec = 0;
        if (r.kind == LOG_ANSWERED)
                w->answered = MAX(w->answered, r.number);
        w->options.on_reply(w->options.userdata, &r);
}

/* False: the process has closed the socket, as it ends. */
static bool read_replies(LogWriter *w)
{
        while (w->sock >= 0) {
                ssize_t n = recv(w->sock, (char *) &w->reply + w->n_reply, sizeof(LogReply) - w->n_reply,
                                 MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return true;
                if (n <= 0) {
                        w->closed = true;
                        return false;
                }
                w->n_reply += (size_t) n;
                if (w->n_reply < sizeof(LogReply))
                        continue;
                w->n_reply = 0;
                on_message(w);
        }
        return false;
}

static int on_reply(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        LogWriter *w = userdata;

        if (!read_replies(w))
                w->replies = sd_event_source_disable_unref(w->replies); /* see on_process_end() */
        return 0;
}

static void shut_down(LogWriter *w)
{
        if (w->finishes && w->queue && buffered_writer_is_empty(w->queue))
                (void) shutdown(w->sock, SHUT_WR);
}

static void on_room(void *userdata)
{
        LogWriter *w = userdata;

        shut_down(w);
        w->options.on_room(w->options.userdata);
}

static void close_process(LogWriter *w)
{
        w->replies = sd_event_source_disable_unref(w->replies);
        w->end = sd_event_source_disable_unref(w->end);
        w->queue = buffered_writer_free(w->queue);
        w->sock = safe_close(w->sock);
        w->pid_fd = safe_close(w->pid_fd);
        w->n_reply = 0;
        w->closed = false;
}

static int on_restart(sd_event_source *source, uint64_t usec, void *userdata);

static void restart_later(LogWriter *w)
{
        w->timer = sd_event_source_disable_unref(w->timer);
        if (sd_event_add_time_relative(w->options.event, &w->timer, CLOCK_MONOTONIC, RESTART_USEC, 0,
                                       on_restart, w) < 0)
                log_warning("The log file %s is not written any more: out of memory",
                            w->options.settings.path);
}

/* on_room() is called without a process, too: it stops the reading of streams. */
static void restart(LogWriter *w)
{
        bool early = now_usec(CLOCK_MONOTONIC) < w->started_usec + RESTART_USEC;
        int r = early ? 0 : start(w);

        if (r < 0 && !w->failed)
                log_warning("Cannot start the process that writes the log file %s: %s. It is tried again every second",
                            w->options.settings.path, strerror(-r));
        w->failed = r < 0;
        if (early || r < 0)
                restart_later(w);
        w->options.on_room(w->options.userdata);
}

static int on_restart(sd_event_source *source, uint64_t usec, void *userdata)
{
        LogWriter *w = userdata;

        w->timer = sd_event_source_disable_unref(w->timer);
        restart(w);
        return 0;
}

/* What it had not written is reported; output that comes until the next process is there counts as well. */
static int on_process_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        LogWriter *w = userdata;
        pid_t pid = w->pid;

        (void) read_replies(w);
        w->pid = 0;
        leave_process(w->options.event, pid); /* which has ended, unless it is traced */
        close_process(w);
        uint64_t lost = log_writer_unwritten(w);
        if (lost > 0 || !w->finishes) {
                w->sent = *w->written = 0;
                w->options.on_lost(w->options.userdata, lost);
        }
        if (w->finishes)
                w->options.on_end(w->options.userdata);
        else
                restart(w);
        return 0;
}

static int watch(LogWriter *w)
{
        sd_event *event = w->options.event;

        w->pid_fd = (int) syscall(SYS_pidfd_open, w->pid, 0);
        if (w->pid_fd < 0)
                return -errno;
        int r = buffered_writer_new(event, w->sock, on_room, w, &w->queue);
        if (r >= 0)
                r = sd_event_add_io(event, &w->replies, w->sock, EPOLLIN, on_reply, w);
        if (r >= 0)
                r = sd_event_add_io(event, &w->end, w->pid_fd, EPOLLIN, on_process_end, w);
        return r;
}

/* What was added while there was no process is lost. */
static int start(LogWriter *w)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        uint64_t lost = log_writer_unwritten(w);
        w->started_usec = now_usec(CLOCK_MONOTONIC);
        w->pid = fork();
        if (w->pid == 0)
                child(w, pair[1]);
        int r = w->pid < 0 ? -errno : 0;
        safe_close(pair[1]);
        w->sock = pair[0];
        if (r >= 0)
                r = watch(w);
        if (r < 0) {
                pid_t pid = w->pid;
                w->pid = 0;
                close_process(w); /* leave_process() needs a descriptor, and these may be the last ones */
                if (pid > 0) {
                        (void) kill(pid, SIGKILL);
                        leave_process(w->options.event, pid);
                }
                return r;
        }
        w->sent = *w->written = 0;
        w->options.after_fd = -EBADF; /* of the first process alone */
        (void) log_writer_ask(w, (LogMessage){.step = LOG_REOPEN});
        if (lost > 0)
                w->options.on_lost(w->options.userdata, lost);
        return 0;
}

int log_writer_new(const LogWriterOptions *o, LogWriter **ret)
{
        _cleanup_(log_writer_freep) LogWriter *w = calloc(1, sizeof(LogWriter));

        if (!w)
                return -ENOMEM;
        *w = (LogWriter){.options = *o, .pid_fd = -EBADF, .sock = -EBADF};
        w->written = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (w->written == MAP_FAILED) {
                w->written = NULL;
                return -ENOMEM;
        }
        int r = start(w);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(w);
        return 0;
}

LogWriter *log_writer_free(LogWriter *w)
{
        if (!w)
                return NULL;
        if (w->pid > 0) {
                (void) kill(w->pid, SIGKILL);
                (void) waitpid(w->pid, NULL, WNOHANG);
        }
        sd_event_source_disable_unref(w->timer);
        close_process(w);
        if (w->written)
                (void) munmap(w->written, sizeof(uint64_t));
        free(w);
        return NULL;
}

/* A part of a message may have been sent: nothing that follows would be understood. */
static void send_message(LogWriter *w, const LogMessage *m, const void *data)
{
        w->sent += m->size;
        if (w->queue && buffered_writer_write_with_head(w->queue, m, sizeof(*m), data, m->size) == -ENOMEM)
                (void) kill(w->pid, SIGKILL);
}

void log_writer_add(LogWriter *w, const LogMessage *m, const void *data)
{
        LogMessage part = *m;
        const char *d = data ?: "";
        size_t left = m->size;

        w->unsynced = true;
        do {
                part.size = (uint32_t) MIN(left, (size_t) LOG_DATA_MAX);
                send_message(w, &part, d);
                d += part.size;
                left -= part.size;
        } while (left > 0);
}

uint64_t log_writer_ask(LogWriter *w, LogMessage m)
{
        m.number = ++w->numbered;
        w->unsynced = false;
        send_message(w, &m, NULL);
        return m.number;
}

bool log_writer_has_answered(const LogWriter *w, uint64_t number)
{
        return w->answered >= number;
}

bool log_writer_is_full(const LogWriter *w)
{
        return !w->queue || buffered_writer_is_full(w->queue);
}

/* Sends and receives what is possible, and waits for more. False: the process has ended. */
static bool exchange(LogWriter *w, uint64_t until)
{
        struct pollfd p[] = {{.events = POLLIN}, {.fd = w->pid_fd, .events = POLLIN}};
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (!w->queue)
                return false;
        (void) buffered_writer_finish(w->queue, NULL, 0);
        if (!buffered_writer_is_empty(w->queue))
                p[0].events |= POLLOUT;
        shut_down(w);
        p[0].fd = w->closed ? -1 : w->sock;
        if (poll(p, ELEMENTSOF(p), now < until ? (int) ((until - now + 999) / 1000) : 0) < 0)
                return errno == EINTR;
        (void) read_replies(w);
        return p[1].revents == 0;
}

bool log_writer_wait(LogWriter *w, uint64_t number, uint64_t deadline)
{
        bool open = true;

        while (open && w->answered < number) {
                open = exchange(w, deadline);
                if (now_usec(CLOCK_MONOTONIC) >= deadline)
                        break;
        }
        return w->answered >= number;
}

void log_writer_sync(LogWriter *w)
{
        if (w->unsynced)
                (void) log_writer_ask(w, (LogMessage){.step = LOG_SYNC});
}

bool log_writer_settle(LogWriter *w, uint64_t deadline)
{
        log_writer_sync(w);
        if (w->hung_usec > 0)
                return false;
        bool settled = log_writer_wait(w, w->numbered, deadline);
        if (!settled) {
                w->hung_usec = now_usec(CLOCK_MONOTONIC);
                w->hung_written = read_written(w);
        }
        return settled;
}

bool log_writer_finish(LogWriter *w)
{
        w->finishes = true;
        w->timer = sd_event_source_disable_unref(w->timer);
        w->left = log_writer_unwritten(w);
        /* A file system that is only slow has taken something since. */
        bool hangs = w->hung_usec > 0 && read_written(w) == w->hung_written;
        w->left_usec = hangs ? w->hung_usec : now_usec(CLOCK_MONOTONIC);
        shut_down(w);
        return w->pid == 0;
}

LogEnd log_writer_wait_for_end(LogWriter *w, uint64_t patience_usec)
{
        if (!exchange(w, now_usec(CLOCK_MONOTONIC) + END_USEC))
                return LOG_ENDED;
        uint64_t left = log_writer_unwritten(w), now = now_usec(CLOCK_MONOTONIC);
        if (left < w->left)
                w->left_usec = now;
        w->left = left;
        return now < w->left_usec + patience_usec ? LOG_ENDS : LOG_GIVEN_UP;
}
