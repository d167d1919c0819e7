/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The connection of a client, with its protocol: bytes that were received and are not a complete frame yet, and bytes that are
 * to be sent. */

#include <sys/socket.h>

#include "cri/streaming/streaming-internal.h"

#define CHUNK_SIZE 32768U
#define IN_SIZE (FRAME_SIZE_MAX + 64U)
#define CLOSE_USEC (10 * UINT64_C(1000000)) /* in which the client takes what is left, and closes */

int fd_set_nonblocking(int fd)
{
        int flags = fcntl(fd, F_GETFL);

        return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* --- Buffers ------------------------------------------------------------------------------------------- */

size_t buffer_waiting(const Buffer *b)
{
        return b->text.size - b->done;
}

void buffer_done(Buffer *b)
{
        text_done(&b->text);
        b->done = 0;
}

/* Makes room at the beginning, from time to time. */
static void compact(Buffer *b)
{
        if (b->done < WAITING_MAX)
                return;
        memmove(b->text.data, b->text.data + b->done, buffer_waiting(b));
        b->text.size -= b->done;
        b->done = 0;
}

static ssize_t write_fd(int fd, bool is_socket, const void *p, size_t n)
{
        ssize_t k = is_socket ? send(fd, p, n, MSG_NOSIGNAL) : write(fd, p, n);

        return k < 0 ? -errno : k;
}

/* W, or else FD. */
static int flush(Buffer *b, Wire *w, int fd, bool is_socket)
{
        while (buffer_waiting(b) > 0) {
                const char *p = b->text.data + b->done;
                ssize_t n = w ? wire_send(w, p, buffer_waiting(b))
                              : write_fd(fd, is_socket, p, buffer_waiting(b));
                if (n == -EINTR)
                        continue;
                if (n < 0) {
                        compact(b);
                        return n == -EAGAIN ? 0 : (int) n;
                }
                b->done += (size_t) n;
        }
        b->text.size = b->done = 0;
        if (b->text.allocated > WAITING_MAX) /* a large frame was in it */
                buffer_done(b);
        return 0;
}

int buffer_flush(Buffer *b, int fd, bool is_socket)
{
        return flush(b, NULL, fd, is_socket);
}

int buffer_flush_wire(Buffer *b, Wire *w)
{
        return flush(b, w, -EBADF, true);
}

/* --- The connection ------------------------------------------------------------------------------------ */

/* What TLS has received already is not shown by poll(). */
static int receive_rest(Transport *t)
{
        while (wire_has_data(&t->wire)) {
                ssize_t n = wire_receive(&t->wire, t->in + t->n_in, IN_SIZE - t->n_in);
                if (n <= 0)
                        return n == -EAGAIN ? 0 : -EPIPE;
                t->n_in += (size_t) n;
        }
        return 0;
}

int transport_init(Transport *t, const Wire *w, Protocol *p, const uint8_t *rest, size_t n, const Text *out)
{
        *t = (Transport){.wire = *w, .protocol = p};
        if (n > IN_SIZE || !(t->in = malloc(IN_SIZE)))
                return -ENOMEM;
        memcpy(t->in, rest, n);
        t->n_in = n;
        text_add_bytes(&t->out.text, out->data, out->size);
        return t->out.text.failed ? -ENOMEM : receive_rest(t);
}

void transport_done(Transport *t)
{
        wire_done(&t->wire);
        protocol_free(t->protocol);
        buffer_done(&t->out);
        free(t->in);
}

int transport_take(Transport *t)
{
        ssize_t n = t->protocol->ops->take(t->protocol, t->in, t->n_in, &t->events, &t->out.text);

        if (n < 0)
                return (int) n;
        t->n_in -= (size_t) n;
        memmove(t->in, t->in + n, t->n_in);
        return 0;
}

int transport_receive(Transport *t)
{
        int r = 0;

        do {
                ssize_t n = wire_receive(&t->wire, t->in + t->n_in,
                                         MIN((size_t) CHUNK_SIZE, IN_SIZE - t->n_in));
                if (n == -EAGAIN || n == -EINTR)
                        return 0;
                if (n <= 0) {
                        t->gone = true;
                        return 0;
                }
                t->n_in += (size_t) n;
                r = transport_take(t);
        } while (r >= 0 && wire_has_data(&t->wire));
        return r;
}

struct pollfd transport_poll(const Transport *t, bool receives)
{
        struct pollfd p = {.fd = t->wire.fd, .events = receives ? POLLIN : 0};

        if (buffer_waiting(&t->out) > 0 || t->wire.wants_write)
                p.events |= POLLOUT;
        return p;
}

bool transport_is_readable(const Transport *t, short revents)
{
        return revents & (POLLIN | POLLERR | POLLHUP) || (t->wire.wants_write && revents & POLLOUT);
}

int transport_flush(Transport *t)
{
        int r = buffer_flush_wire(&t->out, &t->wire);

        if (r == -EPIPE || r == -ECONNRESET) {
                t->gone = true;
                return 0;
        }
        return r;
}

int transport_close(Transport *t)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + CLOSE_USEC, now;
        bool shut = false;
        char chunk[4096];
        int r = t->protocol->ops->close(t->protocol, &t->out.text);

        while (r >= 0 && !t->gone && (now = now_usec(CLOCK_MONOTONIC)) < end) {
                r = transport_flush(t);
                if (r < 0)
                        break;
                if (buffer_waiting(&t->out) == 0 && !shut) {
                        wire_end(&t->wire);
                        shut = true;
                }
                struct pollfd p = transport_poll(t, true);
                if (shut)
                        p.events = POLLIN;
                if (poll(&p, 1, (int) ((end - now) / 1000) + 1) > 0 && p.revents & ~POLLOUT) {
                        ssize_t n = wire_receive(&t->wire, chunk, sizeof(chunk));
                        if (n != -EAGAIN && n != -EINTR && n <= 0)
                                break;
                }
        }
        return r;
}
