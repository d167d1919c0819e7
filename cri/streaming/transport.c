/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The connection of a client, with its protocol: bytes that were received and are not a complete frame yet, and bytes that are
 * to be sent. */

#include <poll.h>
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

int buffer_flush(Buffer *b, int fd, bool is_socket)
{
        while (buffer_waiting(b) > 0) {
                const char *p = b->text.data + b->done;
                ssize_t n = is_socket ? send(fd, p, buffer_waiting(b), MSG_NOSIGNAL)
                                      : write(fd, p, buffer_waiting(b));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        compact(b);
                        return errno == EAGAIN ? 0 : -errno;
                }
                b->done += (size_t) n;
        }
        b->text.size = b->done = 0;
        if (b->text.allocated > WAITING_MAX) /* a large frame was in it */
                buffer_done(b);
        return 0;
}

/* --- The connection ------------------------------------------------------------------------------------ */

int transport_init(Transport *t, int fd, Protocol *p, const uint8_t *rest, size_t n, const Text *out)
{
        *t = (Transport){.fd = fd, .protocol = p};
        if (n > IN_SIZE || !(t->in = malloc(IN_SIZE)))
                return -ENOMEM;
        memcpy(t->in, rest, n);
        t->n_in = n;
        text_add_bytes(&t->out.text, out->data, out->size);
        return t->out.text.failed ? -ENOMEM : fd_set_nonblocking(fd);
}

void transport_done(Transport *t)
{
        safe_close(t->fd);
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
        ssize_t n = recv(t->fd, t->in + t->n_in, MIN((size_t) CHUNK_SIZE, IN_SIZE - t->n_in), 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                t->gone = true;
                return 0;
        }
        t->n_in += (size_t) n;
        return transport_take(t);
}

int transport_flush(Transport *t)
{
        int r = buffer_flush(&t->out, t->fd, true);

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
                struct pollfd p = {.fd = t->fd, .events = POLLIN};

                r = transport_flush(t);
                if (r < 0)
                        break;
                if (buffer_waiting(&t->out) > 0)
                        p.events |= POLLOUT;
                else if (!shut) {
                        (void) shutdown(t->fd, SHUT_WR);
                        shut = true;
                }
                if (poll(&p, 1, (int) ((end - now) / 1000) + 1) > 0 && p.revents & ~POLLOUT) {
                        ssize_t n = recv(t->fd, chunk, sizeof(chunk), 0);
                        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                                break;
                }
        }
        return r;
}
