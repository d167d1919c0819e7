/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ports that are forwarded: the connections of one client, each with a channel for its data and one for its errors.
 *
 * A connection is made by a process of its own, as that may have to enter a namespace, and to wait; it passes the socket here.
 * Bytes are passed on as sockets take them, with little in memory: while much is waiting for the client nothing is read from
 * any socket, and while much is waiting for the sockets, altogether, nothing is read from the client. The protocols have no
 * windows for each connection, so one that does not take its data stops the others, too. */

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "cri/streaming/streaming-internal.h"

#define CHUNK_SIZE 32768U
#define OPEN_USEC (30 * UINT64_C(1000000)) /* in which the client opens the second stream of a connection */
#define OPEN_CHECK_MSEC 1000
#define IDLE_MSEC (4 * 3600 * 1000) /* without a byte either way */
#define KEPT_SIZE_MAX 65536U        /* of an empty buffer */
#define MESSAGE_MAX 512U

typedef enum State {
        FREE,
        OPENING, /* its second stream is missing */
        CONNECTING,
        CONNECTED,
        ENDED,
} State;

typedef struct Forwarded {
        State state;
        uint16_t port;
        unsigned opened;     /* channels, as bits */
        uint64_t begin_usec; /* of OPENING */
        int fd;              /* the socket; of CONNECTING: that of the process */
        pid_t pid;           /* of CONNECTING */
        Buffer input;        /* from the client */
        bool input_ended, input_done, output_done;
} Forwarded;

typedef struct Forward {
        Transport *transport;
        const ForwardHandler *handler;
        Forwarded list[FORWARDS_MAX];
        unsigned first; /* in the next round, for the sake of fairness */
} Forward;

/* What the process that connects reports, with the socket if there is no message. */
typedef struct Report {
        char message[MESSAGE_MAX];
} Report;

static unsigned channel_of(const Forward *f, const Forwarded *x, unsigned kind)
{
        return 2 * (unsigned) (x - f->list) + kind;
}

static int end_channel(Forward *f, const Forwarded *x, unsigned kind)
{
        Transport *t = f->transport;

        return t->protocol->ops->end(t->protocol, channel_of(f, x, kind), &t->out.text);
}

static int send_on(Forward *f, const Forwarded *x, unsigned kind, const void *data, size_t n)
{
        Transport *t = f->transport;

        return t->protocol->ops->send(t->protocol, channel_of(f, x, kind), data, n, &t->out.text);
}

/* --- The end of a connection --------------------------------------------------------------------------- */

static void stop_process(Forwarded *x)
{
        if (x->pid <= 0)
                return;
        (void) kill(x->pid, SIGKILL);
        while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        x->pid = 0;
}

/* A process that connects another one has copies of the socket. */
static void release(Forwarded *x)
{
        if (x->state == CONNECTED)
                (void) shutdown(x->fd, SHUT_RDWR);
        stop_process(x);
        x->fd = safe_close(x->fd);
        buffer_done(&x->input);
        x->state = ENDED;
}

static int finish(Forward *f, Forwarded *x)
{
        release(x);
        int r = end_channel(f, x, FORWARD_DATA);
        return r < 0 ? r : end_channel(f, x, FORWARD_ERROR);
}

static int fail(Forward *f, Forwarded *x, const char *message)
{
        int r = send_on(f, x, FORWARD_ERROR, message, strlen(message));

        return r < 0 ? r : finish(f, x);
}

/* --- Connecting ---------------------------------------------------------------------------------------- */

static _noreturn_ void connect_in_process(const Forward *f, uint16_t port, int fd)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Report report = {};
        int socket_fd = -EBADF;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        int r = f->handler->connect(port, f->handler->userdata, &socket_fd, &e);
        if (r < 0)
                snprintf(report.message, sizeof(report.message), "%s", e.message ?: strerror(-r));
        _exit(send_fds(fd, &report, sizeof(report), &socket_fd, r < 0 ? 0 : 1) < 0);
}

static int start_process(Forward *f, Forwarded *x)
{
        int fds[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return -errno;
        x->pid = fork();
        if (x->pid == 0)
                connect_in_process(f, x->port, fds[1]);
        int r = x->pid < 0 ? -errno : 0;
        safe_close(fds[1]);
        x->fd = fds[0];
        x->state = CONNECTING;
        return r;
}

static int begin(Forward *f, Forwarded *x)
{
        int r = start_process(f, x);

        return r < 0 ? fail(f, x, "Cannot start a process that connects to the port") : 0;
}

static int take_socket(Forward *f, Forwarded *x)
{
        Report report = {.message = "The process that connects to the port has failed"};
        const int on = 1;
        size_t n_fds = 0;
        int fd = -EBADF;

        ssize_t n = recv_fds(x->fd, &report, sizeof(report), &fd, 1, &n_fds);
        if (n == -EAGAIN)
                return 0;
        report.message[sizeof(report.message) - 1] = 0;
        x->fd = safe_close(x->fd);
        stop_process(x);
        if (n != (ssize_t) sizeof(report) || n_fds != 1)
                return fail(f, x, report.message);
        x->fd = fd;
        x->state = CONNECTED;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return fd_set_nonblocking(fd);
}

/* --- From the client ----------------------------------------------------------------------------------- */

static int on_opened(void *userdata, unsigned c, uint16_t port)
{
        Forward *f = userdata;
        Forwarded *x = &f->list[c / 2];

        if (x->state == FREE || x->state == ENDED)
                *x = (Forwarded){.state = OPENING,
                                 .port = port,
                                 .fd = -EBADF,
                                 .begin_usec = now_usec(CLOCK_MONOTONIC)};
        x->opened |= 1U << c % 2;
        return x->state == OPENING && x->opened == 3 ? begin(f, x) : 0;
}

static int on_data(void *userdata, unsigned c, const uint8_t *data, size_t n)
{
        Forwarded *x = &((Forward *) userdata)->list[c / 2];

        if (c % 2 != FORWARD_DATA || x->state == FREE || x->state == ENDED || x->input_ended ||
            x->input_done)
                return 0;
        text_add_bytes(&x->input.text, data, n);
        return x->input.text.failed ? -ENOMEM : 0;
}

static int on_ended(void *userdata, unsigned c)
{
        if (c % 2 == FORWARD_DATA)
                ((Forward *) userdata)->list[c / 2].input_ended = true;
        return 0;
}

static int on_reset(void *userdata, unsigned c)
{
        Forward *f = userdata;
        Forwarded *x = &f->list[c / 2];

        return c % 2 != FORWARD_DATA || x->state == FREE || x->state == ENDED ? 0 : finish(f, x);
}

static int on_closed(void *userdata)
{
        ((Forward *) userdata)->transport->gone = true;
        return 0;
}

/* --- Sockets ------------------------------------------------------------------------------------------- */

static int end_output(Forward *f, Forwarded *x)
{
        if (f->transport->protocol->implicit) /* which has no ends of channels */
                return finish(f, x);
        x->output_done = true;
        int r = end_channel(f, x, FORWARD_DATA);
        /* Some clients wait for this before they end the data that they send. */
        return r < 0 ? r : end_channel(f, x, FORWARD_ERROR);
}

static int read_socket(Forward *f, Forwarded *x)
{
        char chunk[CHUNK_SIZE], message[MESSAGE_MAX];
        ssize_t n = recv(x->fd, chunk, sizeof(chunk), 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n > 0)
                return send_on(f, x, FORWARD_DATA, chunk, (size_t) n);
        if (n == 0)
                return end_output(f, x);
        snprintf(message, sizeof(message), "The connection to port %u has failed: %s", x->port,
                 strerror(errno));
        return fail(f, x, message);
}

/* What a socket does not take any more is dropped. */
static void write_socket(Forwarded *x)
{
        if (buffer_flush(&x->input, x->fd, true) < 0)
                x->input_done = true;
        else if (buffer_waiting(&x->input) > 0)
                return;
        if (x->input_done || x->input.text.allocated > KEPT_SIZE_MAX)
                buffer_done(&x->input);
        if (x->input_ended && !x->input_done) {
                (void) shutdown(x->fd, SHUT_WR);
                x->input_done = true;
        }
}

static int pass_on(Forward *f, Forwarded *x, const struct pollfd *p)
{
        int r = 0;

        if (x->state == CONNECTING && p->revents)
                r = take_socket(f, x);
        else if (x->state == CONNECTED && p->revents & (POLLERR | POLLHUP) && x->output_done)
                x->input_done = true;
        else if (x->state == CONNECTED && p->revents & (POLLIN | POLLERR | POLLHUP) && !x->output_done &&
                 buffer_waiting(&f->transport->out) < WAITING_MAX)
                r = read_socket(f, x);
        if (r < 0 || x->state != CONNECTED)
                return r;
        write_socket(x);
        return x->input_done && x->output_done ? finish(f, x) : 0;
}

/* --- Altogether ---------------------------------------------------------------------------------------- */

enum { POLL_CLIENT, POLL_HANDLER, POLL_LIST, _POLL_MAX = POLL_LIST + FORWARDS_MAX };

static size_t waiting_for_sockets(const Forward *f)
{
        size_t n = 0;

        for (size_t i = 0; i < FORWARDS_MAX; i++)
                n += buffer_waiting(&f->list[i].input);
        return n;
}

/* A socket is left out when nothing is to be done with it, as its end would be reported all the time. */
static struct pollfd poll_for(const Forward *f, const Forwarded *x)
{
        struct pollfd p = {.fd = x->fd};

        if (x->state != CONNECTED)
                return (struct pollfd){.fd = x->state == CONNECTING ? x->fd : -1, .events = POLLIN};
        if (!x->output_done && buffer_waiting(&f->transport->out) < WAITING_MAX)
                p.events |= POLLIN;
        if (buffer_waiting(&x->input) > 0)
                p.events |= POLLOUT;
        if (p.events == 0 && !x->output_done)
                p.fd = -1;
        return p;
}

/* Frames of clients are answered in part, so that their number is limited as well. */
static void fill_poll(const Forward *f, struct pollfd fds[static _POLL_MAX])
{
        const Transport *t = f->transport;
        size_t out = buffer_waiting(&t->out);

        fds[POLL_CLIENT] = transport_poll(t, out < 2 * (size_t) WAITING_MAX &&
                                                             waiting_for_sockets(f) < WAITING_MAX);
        fds[POLL_HANDLER] = (struct pollfd){.fd = f->handler->fd, .events = POLLIN};
        for (size_t i = 0; i < FORWARDS_MAX; i++)
                fds[POLL_LIST + i] = poll_for(f, &f->list[i]);
}

static int check_opening(Forward *f, bool *ret)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        int r = 0;

        *ret = false;
        for (size_t i = 0; r >= 0 && i < FORWARDS_MAX; i++) {
                Forwarded *x = &f->list[i];
                if (x->state == OPENING && now - x->begin_usec >= OPEN_USEC)
                        r = fail(f, x,
                                 "The connection has only one stream: it needs one for data, and one for errors");
                *ret = *ret || x->state == OPENING;
        }
        return r;
}

static int pass_all_on(Forward *f, const struct pollfd fds[static _POLL_MAX])
{
        int r = transport_is_readable(f->transport, fds[POLL_CLIENT].revents)
                                ? transport_receive(f->transport)
                                : 0;

        for (unsigned k = 0; r >= 0 && k < FORWARDS_MAX; k++) {
                unsigned i = (f->first + k) % FORWARDS_MAX;
                /* What was polled has ended if the client has opened the connection just now. */
                if (fds[POLL_LIST + i].fd == f->list[i].fd)
                        r = pass_on(f, &f->list[i], &fds[POLL_LIST + i]);
        }
        f->first = (f->first + 1) % FORWARDS_MAX;
        return r < 0 ? r : transport_flush(f->transport);
}

static bool has_connections(const Forward *f)
{
        for (size_t i = 0; i < FORWARDS_MAX; i++)
                if (f->list[i].state != FREE && f->list[i].state != ENDED)
                        return true;
        return false;
}

static int fail_all(Forward *f, const char *message)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < FORWARDS_MAX; i++)
                if (f->list[i].state != FREE && f->list[i].state != ENDED)
                        r = fail(f, &f->list[i], message);
        return r;
}

/* The first two bytes of each channel are its port. */
static int open_requested(Forward *f)
{
        const ForwardHandler *h = f->handler;
        int r = 0;

        for (unsigned i = 0; r >= 0 && i < MIN(h->n_ports, (size_t) FORWARDS_MAX); i++) {
                const uint8_t port[] = {(uint8_t) h->ports[i], (uint8_t) (h->ports[i] >> 8)};

                for (unsigned kind = FORWARD_DATA; r >= 0 && kind <= FORWARD_ERROR; kind++) {
                        r = send_on(f, &f->list[i], kind, port, sizeof(port));
                        if (r >= 0)
                                r = on_opened(f, 2 * i + kind, h->ports[i]);
                }
        }
        return r;
}

static int run(Forward *f)
{
        const Transport *t = f->transport;
        bool opening = false;
        int r = t->protocol->implicit ? open_requested(f) : 0;

        if (r >= 0)
                r = transport_take(f->transport);
        while (r >= 0 && !t->gone && (!t->protocol->implicit || has_connections(f))) {
                struct pollfd fds[_POLL_MAX];

                r = check_opening(f, &opening);
                if (r < 0)
                        break;
                fill_poll(f, fds);
                int n = poll(fds, _POLL_MAX, opening ? OPEN_CHECK_MSEC : IDLE_MSEC);
                if ((n < 0 && errno == EINTR) || (n == 0 && opening))
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ETIMEDOUT;
                if (fds[POLL_HANDLER].revents)
                        return fail_all(f, f->handler->ended);
                r = pass_all_on(f, fds);
        }
        return r < 0 ? r : t->gone ? -EPIPE : 0;
}

int session_forward(Session *s, const ForwardHandler *h)
{
        Forward f = {.transport = session_transport(s), .handler = h};

        f.transport->events = (ProtocolEvents){.opened = on_opened,
                                               .data = on_data,
                                               .ended = on_ended,
                                               .reset = on_reset,
                                               .closed = on_closed,
                                               .userdata = &f};
        int r = run(&f);
        for (size_t i = 0; i < FORWARDS_MAX; i++)
                if (f.list[i].state != FREE && f.list[i].state != ENDED)
                        release(&f.list[i]);
        return r;
}
