/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A server: its socket, its connections, and its orderly end. */

#include <sys/epoll.h>
#include <sys/socket.h>

#include "grpc/grpc-internal.h"
#include "library/libsystemd.h"

int grpc_server_new(sd_event *event, const GrpcMethod *methods, size_t n_methods, void *userdata,
                    GrpcServer **ret, Error *e)
{
        GrpcServer *s = calloc(1, sizeof(GrpcServer));

        if (!s)
                return error_oom(e);
        *s = (GrpcServer){.event = event,
                          .methods = methods,
                          .n_methods = n_methods,
                          .userdata = userdata,
                          .fd = -EBADF};
        *ret = s;
        return 0;
}

static void stop_listening(GrpcServer *s)
{
        s->accept = sd_event_source_disable_unref(s->accept);
        s->fd = safe_close(s->fd);
}

GrpcServer *grpc_server_free(GrpcServer *s)
{
        if (!s)
                return NULL;
        s->drained = NULL;
        stop_listening(s);
        while (s->connections)
                connection_free(s->connections);
        free(s);
        return NULL;
}

/* With as many connections as allowed, others wait to be accepted, and are closed. */
static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        GrpcServer *s = userdata;

        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client >= 0 && (s->n_connections >= GRPC_CONNECTIONS_MAX || connection_new(s, client) < 0))
                safe_close(client);
        return 0;
}

int grpc_server_listen(GrpcServer *s, int fd, Error *e)
{
        s->fd = fd;
        if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
                return error_set_errno(e, -errno, "Cannot use the socket");
        int r = sd_event_add_io(s->event, &s->accept, fd, EPOLLIN, on_connection, s);
        /* Without descriptors left it would be called again and again. */
        if (r >= 0)
                r = sd_event_source_set_ratelimit(s->accept, 1000000, 1000);
        return r < 0 ? error_set_errno(e, r, "Cannot watch the socket") : 0;
}

int grpc_server_connect(GrpcServer *s, int fd, Error *e)
{
        int r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : connection_new(s, fd);

        if (r >= 0)
                return 0;
        safe_close(fd);
        return error_set_errno(e, r, "Cannot serve a connection");
}

void grpc_server_drain(GrpcServer *s, void (*drained)(void *userdata), void *userdata)
{
        s->draining = true;
        stop_listening(s);
        for (Connection *k = s->connections; k; k = k->next)
                connection_drain(k);
        if (s->n_connections == 0) {
                drained(userdata);
                return;
        }
        s->drained = drained;
        s->drained_userdata = userdata;
}

size_t grpc_server_connections(const GrpcServer *s)
{
        return s->n_connections;
}
