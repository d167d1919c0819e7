/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes to a standard stream of this process without ever waiting for its reader.
 *
 * A terminal can be stopped, and a pager may not read; meanwhile the supervisor must still reply to
 * launchers and serve stop requests. Setting the stream itself to non-blocking mode would do so for all
 * processes that share it, such as the calling shell. So pipes and terminals are reopened, which creates a
 * separate open file description, and sends to sockets use MSG_DONTWAIT. Other kinds of streams (a file,
 * /dev/null) never block for long. */

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include "stage0/supervisor/streams/buffered-writer.h"

#define FULL (256U * 1024U)

struct BufferedWriter {
        int fd, own_fd; /* OWN_FD: never blocks; -EBADF if it could not be reopened */
        bool is_socket, is_terminal, was_full;
        Text kept;
        size_t gone; /* bytes of KEPT that are written */
        sd_event_source *source;
        void (*room)(void *userdata);
        void *userdata;
};

BufferedWriter *buffered_writer_free(BufferedWriter *o)
{
        if (!o)
                return NULL;
        sd_event_source_disable_unref(o->source);
        safe_close(o->own_fd);
        text_done(&o->kept);
        free(o);
        return NULL;
}

/* Opening the master of pseudo-terminals would create a new pair. */
static bool is_multiplexer(const struct stat *st)
{
        return st->st_rdev == makedev(5, 2);
}

static int open_own(BufferedWriter *o)
{
        char path[64];
        struct stat st;

        if (fstat(o->fd, &st) < 0)
                return -errno;
        o->is_socket = S_ISSOCK(st.st_mode);
        if (o->is_socket) {
                int fd = fcntl(o->fd, F_DUPFD_CLOEXEC, 3);
                return fd < 0 ? -errno : fd;
        }
        if (!S_ISFIFO(st.st_mode) && (!isatty(o->fd) || is_multiplexer(&st)))
                return -ENOTSUP;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", o->fd);
        return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* The number of bytes written, 0 if the stream takes no more. */
static ssize_t write_parts(BufferedWriter *o, const struct iovec *parts, size_t n_parts)
{
        const struct msghdr m = {.msg_iov = (struct iovec *) parts, .msg_iovlen = n_parts};
        ssize_t n;

        do
                n = o->is_socket ? sendmsg(o->own_fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL)
                                 : writev(o->own_fd, parts, (int) n_parts);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN ? 0 : -errno;
        return n;
}

static ssize_t write_some(BufferedWriter *o, const void *data, size_t size)
{
        return write_parts(o, &(struct iovec){.iov_base = (void *) data, .iov_len = size}, 1);
}

static int write_kept(BufferedWriter *o)
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
        BufferedWriter *o = userdata;

        /* Without a reader the data is discarded; the next write fails, too, and returns the error. */
        if (write_kept(o) < 0) {
                text_done(&o->kept);
                o->gone = 0;
        }
        bool empty = o->kept.size == 0, room = o->was_full && !buffered_writer_is_full(o);
        if (empty)
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (room)
                o->was_full = false;
        if (empty || room)
                o->room(o->userdata); /* which may free the writer */
        return 0;
}

int buffered_writer_new(sd_event *event, int fd, void (*room)(void *userdata), void *userdata,
                        BufferedWriter **ret)
{
        _cleanup_(buffered_writer_freep) BufferedWriter *o = calloc(1, sizeof(BufferedWriter));

        if (!o)
                return -ENOMEM;
        *o = (BufferedWriter){.fd = fd, .own_fd = -EBADF, .room = room, .userdata = userdata};
        o->own_fd = open_own(o);
        if (o->is_socket && o->own_fd < 0) /* writes to FD itself would block */
                return o->own_fd;
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

/* The written part of KEPT is dropped when it is the greater part: so no byte is moved more than once or
 * twice. */
static void compact(BufferedWriter *o)
{
        if (o->gone < FULL / 4 || o->gone < o->kept.size / 2)
                return;
        memmove(o->kept.data, o->kept.data + o->gone, o->kept.size - o->gone);
        o->kept.size -= o->gone;
        o->gone = 0;
}

static int keep(BufferedWriter *o, const void *data, size_t size)
{
        compact(o);
        text_add_bytes(&o->kept, data, size);
        if (o->kept.failed)
                return -ENOMEM;
        o->was_full = o->was_full || buffered_writer_is_full(o);
        return sd_event_source_set_enabled(o->source, SD_EVENT_ON);
}

int buffered_writer_write(BufferedWriter *o, const void *data, size_t size)
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
        return size > 0 ? keep(o, p, size) : 0;
}

int buffered_writer_write_with_head(BufferedWriter *o, const void *head, size_t head_size, const void *data,
                                    size_t size)
{
        const struct iovec parts[] = {{.iov_base = (void *) head, .iov_len = head_size},
                                      {.iov_base = (void *) data, .iov_len = size}};
        ssize_t n = o->own_fd < 0 || o->kept.size > 0 ? 0 : write_parts(o, parts, ELEMENTSOF(parts));

        if (n < 0)
                return (int) n;
        size_t of_head = MIN((size_t) n, head_size), of_data = (size_t) n - of_head;
        int r = of_head == head_size ? 0
                                     : buffered_writer_write(o, (const char *) head + of_head,
                                                             head_size - of_head);
        return r < 0 || of_data == size
                               ? r
                               : buffered_writer_write(o, (const char *) data + of_data, size - of_data);
}

bool buffered_writer_is_full(const BufferedWriter *o)
{
        return o->kept.size - o->gone >= FULL;
}

bool buffered_writer_is_empty(const BufferedWriter *o)
{
        return o->kept.size == 0;
}

bool buffered_writer_is_terminal(const BufferedWriter *o)
{
        return o->is_terminal;
}

int buffered_writer_finish(BufferedWriter *o, const Operation *operation, int timeout_msec)
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
