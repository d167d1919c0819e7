/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writing to a standard stream of ours without ever waiting for whoever reads it.
 *
 * A terminal can be stopped, a pager left alone; the process that runs a pod must go on answering launchers
 * and requests to stop meanwhile. To make the stream itself non-blocking would do so for everybody who
 * shares it, our caller's shell among them. So pipes and terminals are opened once more, which gives a
 * description of our own, and sockets are told with every send. What else a stream can be (a file,
 * /dev/null) never keeps its writer for long.
 */

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "stage0/run/outlet.h"

#define FULL (256U * 1024U)

struct Outlet {
        int fd, own_fd; /* OWN_FD: never blocks; -EBADF if there is no such thing */
        bool is_socket, is_terminal, was_full;
        Text kept;
        size_t gone; /* so much of KEPT is written */
        sd_event_source *source;
        void (*room)(void *userdata);
        void *userdata;
};

Outlet *outlet_free(Outlet *o)
{
        if (!o)
                return NULL;
        sd_event_source_disable_unref(o->source);
        safe_close(o->own_fd);
        text_done(&o->kept);
        free(o);
        return NULL;
}

/* Opening the master of pseudo-terminals would make a new one. */
static bool is_multiplexer(const struct stat *st)
{
        return st->st_rdev == makedev(5, 2);
}

static int open_own(Outlet *o)
{
        char path[64];
        struct stat st;

        if (fstat(o->fd, &st) < 0)
                return -errno;
        o->is_socket = S_ISSOCK(st.st_mode);
        if (o->is_socket)
                return fcntl(o->fd, F_DUPFD_CLOEXEC, 3);
        if (!S_ISFIFO(st.st_mode) && (!isatty(o->fd) || is_multiplexer(&st)))
                return -ENOTSUP;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", o->fd);
        return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* How much was written, 0 if there is no room. */
static ssize_t write_some(Outlet *o, const void *data, size_t size)
{
        ssize_t n;

        do
                n = o->is_socket ? send(o->own_fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                                 : write(o->own_fd, data, size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN ? 0 : -errno;
        return n;
}

static int write_kept(Outlet *o)
{
        while (o->gone < o->kept.size) {
                ssize_t n = write_some(o, o->kept.data + o->gone, o->kept.size - o->gone);
                if (n <= 0)
                        return (int) n;
                o->gone += (size_t) n;
        }
        text_done(&o->kept);
        o->gone = 0;
        return 0;
}

static int on_writable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Outlet *o = userdata;

        /* With nobody to read it, it is thrown away; the next write will fail, too, and tell. */
        if (write_kept(o) < 0) {
                text_done(&o->kept);
                o->gone = 0;
        }
        bool empty = o->kept.size == 0, room = o->was_full && !outlet_is_full(o);
        if (empty)
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (room)
                o->was_full = false;
        if (empty || room)
                o->room(o->userdata); /* who may free us */
        return 0;
}

int outlet_new(sd_event *event, int fd, void (*room)(void *userdata), void *userdata, Outlet **ret)
{
        _cleanup_(outlet_freep) Outlet *o = calloc(1, sizeof(Outlet));

        if (!o)
                return -ENOMEM;
        *o = (Outlet){.fd = fd, .own_fd = -EBADF, .room = room, .userdata = userdata};
        o->own_fd = open_own(o);
        o->is_terminal = isatty(fd);
        if (o->own_fd >= 0) {
                int r = sd_event_add_io(event, &o->source, o->own_fd, EPOLLOUT, on_writable, o);
                if (r >= 0)
                        r = sd_event_source_set_enabled(o->source, SD_EVENT_OFF);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(o);
        return 0;
}

/* What was written of KEPT goes when it is the greater part: so no byte is moved more than once or twice. */
static void compact(Outlet *o)
{
        if (o->gone < FULL / 4 || o->gone < o->kept.size / 2)
                return;
        memmove(o->kept.data, o->kept.data + o->gone, o->kept.size - o->gone);
        o->kept.size -= o->gone;
        o->gone = 0;
}

int outlet_write(Outlet *o, const void *data, size_t size)
{
        const char *p = data;

        if (o->own_fd < 0)
                return loop_write(o->fd, data, size);
        while (size > 0 && o->kept.size == 0) {
                ssize_t n = write_some(o, p, size);
                if (n < 0)
                        return (int) n;
                if (n == 0)
                        break;
                p += n;
                size -= (size_t) n;
        }
        if (size == 0)
                return 0;
        compact(o);
        text_add_bytes(&o->kept, p, size);
        if (o->kept.failed)
                return -ENOMEM;
        o->was_full = o->was_full || outlet_is_full(o);
        return sd_event_source_set_enabled(o->source, SD_EVENT_ON);
}

bool outlet_is_full(const Outlet *o)
{
        return o->kept.size - o->gone >= FULL;
}

bool outlet_is_empty(const Outlet *o)
{
        return o->kept.size == 0;
}

bool outlet_is_terminal(const Outlet *o)
{
        return o->is_terminal;
}

int outlet_finish(Outlet *o, const Operation *operation, int timeout_msec)
{
        while (o->kept.size > 0) {
                int r = write_kept(o);
                if (r < 0)
                        return r;
                r = o->kept.size > 0 ? operation_poll(operation, o->own_fd, POLLOUT, timeout_msec, NULL) : 1;
                if (r == 0)
                        return -ETIME;
                if (r < 0)
                        return r;
        }
        return 0;
}
