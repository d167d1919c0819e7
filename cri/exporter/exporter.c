/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Serves the metrics by HTTP, on a socket or a port of 127.0.0.1.
 *
 * A connection has one request, which asks for /metrics, and one reply; then it is closed. Other processes of the host can connect to a
 * port: so connections are few and short, and the oldest makes way for a new one. The text is made for each request, which takes less
 * than a millisecond; a client that does not read it has it in memory here until its time is over. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "cri/exporter/exporter.h"
#include "library/libsystemd.h"

#define BACKLOG 16
#define RETRY_USEC (5 * UINT64_C(1000000)) /* while it cannot be listened */
#define TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define OK "200 OK"

typedef struct Connection {
        struct Connection *next;
        Exporter *exporter;
        int fd;
        sd_event_source *io, *timer;
        char head[EXPORTER_HEAD_MAX];
        size_t n;
        Text reply;
        size_t n_sent;
} Connection;

struct Exporter {
        CriServer *server;
        int fd;
        const char *where, *path; /* the latter of its socket; NULL: a port */
        sd_event_source *accept, *retry;
        Connection *connections;
        size_t n;
};

/* --- Requests ------------------------------------------------------------------------------------------ */

static bool is_for(const char *head, size_t n, const char *line)
{
        size_t size = strlen(line);

        return n > size && memcmp(head, line, size) == 0 && (head[size] == ' ' || head[size] == '?');
}

const char *exporter_judge(const char *head, size_t n)
{
        if (!memmem(head, n, "\r\n\r\n", 4))
                return n < EXPORTER_HEAD_MAX ? NULL : "431 Request Header Fields Too Large";
        if (is_for(head, n, "GET /metrics"))
                return OK;
        return n > 4 && memcmp(head, "GET ", 4) == 0 ? "404 Not Found" : "405 Method Not Allowed";
}

static void connection_free(Connection *c)
{
        Connection **i = &c->exporter->connections;

        while (*i != c)
                i = &(*i)->next;
        *i = c->next;
        c->exporter->n--;
        sd_event_source_disable_unref(c->io);
        sd_event_source_disable_unref(c->timer);
        safe_close(c->fd);
        text_done(&c->reply);
        free(c);
}

static void make_reply(Connection *c, const char *status)
{
        _cleanup_text_ Text body = {};

        if (streq(status, OK))
                cri_figures_format(c->exporter->server, &body);
        text_addf(&c->reply,
                  "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: " TYPE
                  "\r\nContent-Length: %zu\r\n\r\n",
                  status, body.size);
        if (body.size > 0)
                text_add_bytes(&c->reply, body.data, body.size);
        c->reply.failed |= body.failed;
}

/* False: the connection has ended. */
static bool receive(Connection *c)
{
        ssize_t n = recv(c->fd, c->head + c->n, sizeof(c->head) - c->n, MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        if (n == 0)
                return false;
        c->n += (size_t) n;
        const char *status = exporter_judge(c->head, c->n);
        if (status)
                make_reply(c, status);
        return !c->reply.failed;
}

/* False: it has ended, or all was sent. */
static bool send_reply(Connection *c)
{
        ssize_t n = send(c->fd, c->reply.data + c->n_sent, c->reply.size - c->n_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        c->n_sent += (size_t) n;
        return c->n_sent < c->reply.size;
}

/* What a client has sent beyond its head is read before the end, as the reply would be lost by a reset otherwise. */
static void end(Connection *c)
{
        char rest[4096];

        (void) shutdown(c->fd, SHUT_WR);
        (void) recv(c->fd, rest, sizeof(rest), MSG_DONTWAIT);
        connection_free(c);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Connection *c = userdata;
        bool open = c->reply.size > 0 || receive(c);

        if (open && c->reply.size > 0)
                open = send_reply(c);
        if (!open)
                end(c);
        else if (c->reply.size > 0)
                (void) sd_event_source_set_io_events(source, EPOLLOUT);
        return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
        connection_free(userdata);
        return 0;
}

/* --- Connections --------------------------------------------------------------------------------------- */

static void make_place(Exporter *x)
{
        Connection *oldest = x->connections;

        if (x->n < EXPORTER_CONNECTIONS_MAX)
                return;
        while (oldest->next)
                oldest = oldest->next;
        connection_free(oldest);
}

static int connection_new(Exporter *x, int fd)
{
        Connection *c = calloc(1, sizeof(Connection));

        if (!c) {
                safe_close(fd);
                return -ENOMEM;
        }
        c->exporter = x;
        c->fd = fd;
        c->next = x->connections;
        x->connections = c;
        x->n++;
        int r = sd_event_add_io(x->server->event, &c->io, fd, EPOLLIN, on_io, c);
        if (r >= 0)
                r = sd_event_add_time_relative(x->server->event, &c->timer, CLOCK_MONOTONIC, EXPORTER_USEC,
                                               0, on_timeout, c);
        if (r < 0)
                connection_free(c);
        return r;
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (client < 0)
                return 0;
        make_place(userdata);
        (void) connection_new(userdata, client);
        return 0;
}

/* --- The whole ----------------------------------------------------------------------------------------- */

int exporter_check(const char *where)
{
        uint32_t port;

        return where[0] == '/' || (parse_u32(where, &port) >= 0 && port > 0 && port <= UINT16_MAX) ? 0
                                                                                                   : -EINVAL;
}

static int listen_on_port(const char *where, Error *e)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const int on = 1;
        uint32_t port = 0;

        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot make a socket");
        (void) parse_u32(where, &port);
        a.sin_port = htons((uint16_t) port);
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
                return error_set_errno(e, -errno, "Cannot listen on port %s of 127.0.0.1 for metrics",
                                       where);
        return TAKE_FD(fd);
}

Exporter *exporter_free(Exporter *x)
{
        if (!x)
                return NULL;
        while (x->connections)
                connection_free(x->connections);
        sd_event_source_disable_unref(x->accept);
        sd_event_source_disable_unref(x->retry);
        if (x->path && x->fd >= 0)
                (void) unlink(x->path);
        safe_close(x->fd);
        free(x);
        return NULL;
}

static int try_to_listen(Exporter *x, Error *e)
{
        int r = x->fd = x->path ? cri_socket_listen(x->path, e) : listen_on_port(x->where, e);

        if (r < 0)
                return r;
        r = sd_event_add_io(x->server->event, &x->accept, x->fd, EPOLLIN, on_connection, x);
        /* Without descriptors left it would be called again and again. */
        if (r >= 0)
                r = sd_event_source_set_ratelimit(x->accept, 1000000, 100);
        return r < 0 ? error_set_errno(e, r, "Cannot watch the socket for metrics") : 0;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
        Exporter *x = userdata;

        if (try_to_listen(x, NULL) >= 0) {
                log_info("Metrics are served on %s now.", x->where);
                return 0;
        }
        x->accept = sd_event_source_disable_unref(x->accept);
        x->fd = safe_close(x->fd);
        (void) sd_event_source_set_time_relative(source, RETRY_USEC);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Any process of the host can have taken the port: that must not keep the service from its calls. */
static int listen_later(Exporter *x, const Error *e)
{
        log_warning("Metrics are not served for now: %s.", e->message ?: "out of memory");
        x->accept = sd_event_source_disable_unref(x->accept);
        x->fd = safe_close(x->fd);
        return sd_event_add_time_relative(x->server->event, &x->retry, CLOCK_MONOTONIC, RETRY_USEC, 0,
                                          on_retry, x);
}

int exporter_new(CriServer *s, const char *where, Exporter **ret, Error *e)
{
        _cleanup_error_ Error problem = ERROR_NULL;
        Exporter *x = calloc(1, sizeof(Exporter));

        if (!x)
                return error_oom(e);
        *x = (Exporter){.server = s, .where = where, .path = where[0] == '/' ? where : NULL, .fd = -EBADF};
        int r = try_to_listen(x, &problem);
        if (r < 0)
                r = listen_later(x, &problem);
        if (r < 0) {
                exporter_free(x);
                return error_set_errno(e, r, "Cannot serve metrics");
        }
        *ret = x;
        return 0;
}
