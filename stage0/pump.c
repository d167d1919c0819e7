/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What apps write, from their pipes to the pod's journal and, in the foreground, to our own standard output
 * and standard error.
 *
 * Every process that the launcher starts has two pipes, whose reading ends are here, and two streams of the
 * journal, which its launcher opened. Bytes go on as they come; for several apps in the foreground they are
 * cut into lines, so that each can have its app's name in front. Before an app counts as ended, its launcher
 * has everything flushed, so that the journal, which ends with the pod, has every line.
 */

#include <sys/ioctl.h>
#include <sys/socket.h>

#include "stage0/pump.h"

#define CHUNK 65536U
#define LINE_MAX_SHOWN 65536U /* a longer line is shown in pieces */
#define JOURNAL_TIMEOUT_SEC 10

typedef struct Pump Pump;

struct Pump {
        Pump *next;
        Pumps *all;
        char *app;
        bool error;
        int read_fd, journal_fd;
        sd_event_source *source;
        Text line; /* begun, but not yet ended */
};

struct Pumps {
        sd_event *event;
        bool show, prefix;
        Pump *first;
};

static Pump *pump_free(Pump *p)
{
        sd_event_source_disable_unref(p->source);
        safe_close(p->read_fd);
        safe_close(p->journal_fd);
        text_done(&p->line);
        free(p->app);
        free(p);
        return NULL;
}

/* --- Showing ------------------------------------------------------------------------------------------- */

static void show_bytes(Pump *p, const void *data, size_t size)
{
        /* Whoever read us has gone: the pod goes on. */
        if (loop_write(p->error ? STDERR_FILENO : STDOUT_FILENO, data, size) < 0)
                p->all->show = false;
}

static void show_line(Pump *p)
{
        const JournalLine l = {
                        .app = p->app,
                        .data = p->line.data ?: "",
                        .size = p->line.size,
                        .error = p->error,
                        .end = {'\n'},
        };

        if (output_line(&l, &(OutputOptions){.prefix = true}) < 0)
                p->all->show = false;
        text_done(&p->line);
}

static void show_lines(Pump *p, const char *data, size_t size)
{
        while (size > 0) {
                const char *newline = memchr(data, '\n', size);
                size_t n = newline ? (size_t) (newline - data) : size;

                text_add_bytes(&p->line, data, n);
                if (newline || p->line.size >= LINE_MAX_SHOWN)
                        show_line(p);
                n += newline ? 1 : 0;
                data += n;
                size -= n;
        }
}

static void show(Pump *p, const char *data, size_t size)
{
        if (!p->all->show)
                return;
        if (p->all->prefix)
                show_lines(p, data, size);
        else
                show_bytes(p, data, size);
}

/* --- Moving
 * --------------------------------------------------------------------------------------------------------
 */

static void write_to_journal(Pump *p, const char *data, size_t size)
{
        while (p->journal_fd >= 0 && size > 0) {
                ssize_t n = send(p->journal_fd, data, size, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) { /* journald is gone, or stuck: the app must not be */
                        p->journal_fd = safe_close(p->journal_fd);
                        return;
                }
                data += n;
                size -= (size_t) n;
        }
}

/* 1: something was moved; 0: nothing is there now; -EPIPE: nothing will ever come again. */
static int move(Pump *p)
{
        static char chunk[CHUNK];
        ssize_t n;

        do
                n = read(p->read_fd, chunk, sizeof(chunk));
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN ? 0 : -EPIPE;
        if (n == 0)
                return -EPIPE;
        write_to_journal(p, chunk, (size_t) n);
        show(p, chunk, (size_t) n);
        return 1;
}

static void finish(Pump *p)
{
        if (p->line.size > 0 && p->all->show)
                show_line(p);
        for (Pump **i = &p->all->first; *i; i = &(*i)->next)
                if (*i == p) {
                        *i = p->next;
                        break;
                }
        pump_free(p);
}

static int on_readable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        if (move(userdata) < 0)
                finish(userdata);
        return 0;
}

/* As much as was in the pipe when it was called: a process that goes on writing does not keep us. */
static void flush_one(Pump *p)
{
        int pending = 0, r = 1;

        if (ioctl(p->read_fd, FIONREAD, &pending) < 0)
                return;
        for (int moved = 0; r > 0 && moved <= pending; moved += (int) CHUNK)
                r = move(p);
        if (r < 0)
                finish(p);
}

void pumps_flush(Pumps *all, const char *app)
{
        Pump *next;

        for (Pump *p = all->first; p; p = next) {
                next = p->next;
                if (!app || streq(p->app, app))
                        flush_one(p);
        }
}

/* --- Making
 * --------------------------------------------------------------------------------------------------------
 */

static int open_pipe(Pump *p, uid_t owner, int *ret_write_fd)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        p->read_fd = fds[0];
        if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 || fchown(fds[1], owner, owner) < 0) {
                int r = -errno;
                safe_close(fds[1]);
                return r;
        }
        *ret_write_fd = fds[1];
        return 0;
}

int pumps_add(Pumps *all, const char *app, bool error, int journal_fd, uid_t owner, int *ret_write_fd)
{
        struct timeval timeout = {.tv_sec = JOURNAL_TIMEOUT_SEC};
        _cleanup_close_ int write_fd = -EBADF;
        Pump *p = calloc(1, sizeof(Pump));

        if (!p)
                return -ENOMEM;
        *p = (Pump){.all = all, .error = error, .read_fd = -EBADF, .journal_fd = -EBADF, .app = strdup(app)};
        int r = p->app ? open_pipe(p, owner, &write_fd) : -ENOMEM;
        if (r >= 0)
                r = sd_event_add_io(all->event, &p->source, p->read_fd, EPOLLIN, on_readable, p);
        if (r < 0) {
                pump_free(p);
                return r;
        }
        (void) setsockopt(journal_fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
        p->journal_fd = journal_fd;
        p->next = all->first;
        all->first = p;
        *ret_write_fd = TAKE_FD(write_fd);
        return 0;
}

int pumps_new(sd_event *event, bool show_output, bool prefix, Pumps **ret)
{
        Pumps *all = calloc(1, sizeof(Pumps));

        if (!all)
                return -ENOMEM;
        *all = (Pumps){.event = event, .show = show_output, .prefix = prefix};
        *ret = all;
        return 0;
}

Pumps *pumps_free(Pumps *all)
{
        if (!all)
                return NULL;
        while (all->first)
                finish(all->first);
        free(all);
        return NULL;
}
