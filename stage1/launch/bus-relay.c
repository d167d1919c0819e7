/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Forwards messages between a client and the pod's systemd.
 *
 * Both directions begin with the handshake, lines of text, which are forwarded unchanged, so that systemd
 * authenticates the client. systemd answers every line of the client with one line, except BEGIN, after
 * which the client sends messages; the point at which systemd starts to send messages is known from the
 * number of lines.
 *
 * The header of each message is read, and checked if the client sent it; then the message is forwarded piece
 * by piece, however long it is, with its descriptors attached to its first byte. So there is never more in
 * memory than a header and a small part of the body. Replies of the bus itself are sent between systemd's
 * messages, one at a time: until one has been sent, nothing more is read from the client.
 *
 * A peer that has begun the handshake or a message has to complete it within the time-out, and a peer to
 * which data is to be sent has to read it within the time-out. Idle connections are not limited.
 */

#include <poll.h>
#include <sys/socket.h>

#include "stage1/launch/bus.h"

#define DATA_MAX (2 * BUS_LOOK_MAX)
#define HANDSHAKE_LINE_MAX 1024U
#define HANDSHAKE_LINES_MAX 32U

typedef struct Direction {
        int from, to;
        bool eof;    /* end of input */
        bool closed; /* the receiving end is closed */
        uint8_t data[DATA_MAX];
        size_t n;
        size_t left; /* of the current line or message, partly in DATA, partly still to come */
        bool drop;   /* discard it */
        int fds[2 * BUS_FDS_MAX];
        size_t n_fds, fds_due; /* the first FDS_DUE belong to the current message, and are sent with its
                                * first byte */
        uint64_t since;        /* when the unfinished line, message or write began; 0: none */
} Direction;

typedef struct Relay {
        Direction up, down; /* from the client to systemd; from systemd to the client */
        unsigned n_lines, lines_due;
        bool up_is_binary, down_is_binary; /* the handshake is over in that direction */
        BusClient client;
        BusWriter answer;
        size_t answered; /* bytes of it that have been sent */
} Relay;

static void relay_freep(Relay **p)
{
        Direction *directions[] = {&(*p)->up, &(*p)->down};

        for (size_t i = 0; i < ELEMENTSOF(directions); i++)
                for (size_t k = 0; k < directions[i]->n_fds; k++)
                        safe_close(directions[i]->fds[k]);
        free(*p);
}

static bool has_answer(const Relay *r)
{
        return r->answer.n > 0;
}

/* --- In and out ---------------------------------------------------------------------------------------- */

static bool can_read(const Direction *d)
{
        return !d->eof && d->n < sizeof(d->data) && d->n_fds <= BUS_FDS_MAX;
}

static int read_some(Direction *d)
{
        size_t n_fds = 0;

        ssize_t k = recv_fds(d->from, d->data + d->n, sizeof(d->data) - d->n, d->fds + d->n_fds,
                             ELEMENTSOF(d->fds) - d->n_fds, &n_fds);
        d->n_fds += n_fds;
        if (k == -EAGAIN)
                return 0;
        d->eof = k <= 0;
        if (k > 0)
                d->n += (size_t) k;
        return k < 0 && k != -ECONNRESET ? (int) k : 0;
}

static void take_fds(Direction *d)
{
        for (size_t i = 0; i < d->fds_due; i++)
                safe_close(d->fds[i]);
        d->n_fds -= d->fds_due;
        memmove(d->fds, d->fds + d->fds_due, d->n_fds * sizeof(int));
        d->fds_due = 0;
}

static void take_bytes(Direction *d, size_t n)
{
        d->n -= n;
        memmove(d->data, d->data + n, d->n);
        d->left -= n;
}

/* The number of bytes sent; 0: the socket is full. */
static ssize_t send_now(int fd, const void *data, size_t n)
{
        ssize_t k;

        do
                k = send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (k < 0 && errno == EINTR);
        return k >= 0 ? k : errno == EAGAIN ? 0 : -errno;
}

static bool has_output(const Direction *d)
{
        return d->left > 0 && d->n > 0 && !d->drop && !d->closed;
}

static ssize_t send_first_byte(Direction *d)
{
        int k = send_fds_now(d->to, d->data, 1, d->fds, d->fds_due);

        if (k >= 0)
                take_fds(d);
        return k >= 0 ? 1 : k == -EAGAIN ? 0 : k;
}

/* 1: some data was sent or discarded. */
static int move_some(Direction *d)
{
        size_t n = MIN(d->left, d->n);
        ssize_t k = (ssize_t) n;

        if (has_output(d)) {
                k = d->fds_due > 0 ? send_first_byte(d) : send_now(d->to, d->data, n);
                d->closed = k == -EPIPE || k == -ECONNRESET;
                if (k < 0)
                        return d->closed ? 1 : (int) k;
        }
        if (k > 0)
                take_bytes(d, (size_t) k);
        return k > 0;
}

static bool can_answer(const Relay *r)
{
        return has_answer(r) && r->down_is_binary && r->down.left == 0;
}

/* A reply is sent as a whole, between two messages. */
static int write_answer(Relay *r)
{
        if (!can_answer(r))
                return 0;
        ssize_t k = send_now(r->down.to, r->answer.data + r->answered, r->answer.n - r->answered);
        r->down.closed = k == -EPIPE || k == -ECONNRESET;
        if (k <= 0 && !r->down.closed)
                return (int) k;
        r->answered = r->down.closed ? r->answer.n : r->answered + (size_t) k;
        if (r->answered == r->answer.n)
                r->answer.n = r->answered = 0;
        return 1;
}

/* --- Lines and messages
 * ----------------------------------------------------------------------------------- */

/* The length of the line, with its end; 0: it is incomplete. */
static int next_line(const Direction *d)
{
        const uint8_t *end = memmem(d->data, d->n, "\r\n", 2);
        size_t n = end ? (size_t) (end - d->data) + 2 : d->n;

        if (n > HANDSHAKE_LINE_MAX || d->n_fds > 0)
                return -EBADMSG;
        return end ? (int) n : 0;
}

static int begin_line(Relay *r, Direction *d)
{
        int n = next_line(d);

        if (n <= 0)
                return n;
        d->left = (size_t) n;
        if (d == &r->down)
                r->lines_due--;
        else if (n == 7 && memcmp(d->data, "BEGIN\r\n", 7) == 0)
                r->up_is_binary = true;
        else if (r->n_lines++ < HANDSHAKE_LINES_MAX)
                r->lines_due++;
        else
                return -EBADMSG;
        return 1;
}

static int begin_message(Relay *r, Direction *d)
{
        BusHeader h;
        int k = bus_header_parse(d->data, d->n, &h);

        if (k <= 0)
                return k;
        if (h.n_fds > d->n_fds)
                return -EBADMSG;
        if (d == &r->up) {
                if (d->n < MIN(h.size, BUS_LOOK_MAX))
                        return 0;
                d->drop = bus_driver_judge(&r->client, &h, d->data, d->n, &r->answer) != BUS_PASS;
        }
        d->left = h.size;
        d->fds_due = h.n_fds;
        if (d->drop)
                take_fds(d);
        return 1;
}

/* 1: the next line or message has begun. */
static int begin(Relay *r, Direction *d)
{
        bool messages = d == &r->up ? r->up_is_binary : r->down_is_binary;

        if (d->left > 0 || (messages && has_answer(r)))
                return 0;
        if (d->n == 0)
                return d->n_fds > 0 ? -EBADMSG : 0;
        if (messages)
                return begin_message(r, d);
        if (d == &r->down && r->lines_due == 0)
                return -EBADMSG; /* a line that answers none of the client */
        return begin_line(r, d);
}

static void finish(Relay *r, Direction *d)
{
        d->drop = false;
        if (d == &r->up ? r->up_is_binary : r->down_is_binary)
                d->since = 0;
        /* All lines of the handshake have been answered. */
        if (r->up_is_binary && r->lines_due == 0 && r->down.left == 0)
                r->down_is_binary = true;
}

/* Forwards until more input or more room for output is needed. */
static int advance(Relay *r, Direction *d)
{
        int k;

        do {
                k = begin(r, d);
                if (k >= 0 && d->left > 0) {
                        k = move_some(d);
                        if (k > 0 && d->left == 0)
                                finish(r, d);
                }
        } while (k > 0);
        return k;
}

/* --- Time ---------------------------------------------------------------------------------------------- */

static bool is_busy(const Relay *r, const Direction *d)
{
        return d->n > 0 || d->left > 0 || !r->down_is_binary || (d == &r->down && has_answer(r));
}

/* Milliseconds until the first time-out; -1: both directions are idle. */
static int time_left(Relay *r, uint64_t timeout_usec)
{
        Direction *directions[] = {&r->up, &r->down};
        uint64_t now = now_usec(CLOCK_MONOTONIC), first = UINT64_MAX;

        for (size_t i = 0; i < ELEMENTSOF(directions); i++) {
                Direction *d = directions[i];
                if (!is_busy(r, d))
                        d->since = 0;
                else if (d->since == 0)
                        d->since = now;
                if (d->since > 0)
                        first = MIN(first, d->since + timeout_usec);
        }
        return first == UINT64_MAX ? -1 : first <= now ? 0 : (int) ((first - now + 999) / 1000);
}

/* --- The loop ------------------------------------------------------------------------------------------ */

/* A descriptor without requested events is left out: otherwise poll() would report POLLHUP again and
 * again. */
static int wait_for_some(Relay *r, uint64_t timeout_usec)
{
        struct pollfd p[] = {
                        {.fd = r->up.from,
                         .events = (short) ((can_read(&r->up) ? POLLIN : 0) |
                                            (has_output(&r->down) || can_answer(r) ? POLLOUT : 0))},
                        {.fd = r->down.from,
                         .events = (short) ((can_read(&r->down) ? POLLIN : 0) |
                                            (has_output(&r->up) ? POLLOUT : 0))},
        };

        for (size_t i = 0; i < ELEMENTSOF(p); i++)
                if (p[i].events == 0)
                        p[i].fd = -1;
        int k = poll(p, ELEMENTSOF(p), time_left(r, timeout_usec));
        if (k < 0)
                return errno == EINTR ? 0 : -errno;
        if (k == 0)
                return -ETIME;
        if (can_read(&r->up) && p[0].revents & ~POLLOUT)
                k = read_some(&r->up);
        if (k >= 0 && can_read(&r->down) && p[1].revents & ~POLLOUT)
                k = read_some(&r->down);
        return MIN(k, 0);
}

static int work(Relay *r)
{
        int k = advance(r, &r->up);

        if (k >= 0)
                k = advance(r, &r->down);
        if (k >= 0)
                k = write_answer(r);
        return k;
}

/* After one side has closed, what it sent before is still forwarded. */
static bool is_over(const Relay *r)
{
        return (r->up.eof && !has_output(&r->up)) ||
               (r->down.eof && !has_output(&r->down) && !has_answer(r));
}

int bus_relay(int client_fd, int manager_fd, const BusClient *client, uint64_t timeout_usec)
{
        _cleanup_(relay_freep) Relay *r = calloc(1, sizeof(Relay));
        int k;

        if (!r)
                return -ENOMEM;
        r->up.from = r->down.to = client_fd;
        r->up.to = r->down.from = manager_fd;
        r->client = *client;
        for (;;) {
                do
                        k = work(r);
                while (k > 0);
                if (k < 0)
                        break;
                if (is_over(r))
                        return 0;
                k = wait_for_some(r, timeout_usec);
                if (k < 0)
                        break;
        }
        return k;
}
