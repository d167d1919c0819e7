/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A server: its socket, its connections, and its orderly end. */

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "grpc/grpc-internal.h"
#include "library/libsystemd.h"

#define SWEEP_USEC UINT64_C(60000000)

/* The limit of descriptors that this process was started with. */
static struct rlimit given;

/* Processes that are forked here, and so pods, have no other limit than without the server. */
static void restore_limit(void)
{
        (void) setrlimit(RLIMIT_NOFILE, &given);
}

static void raise_limit(struct rlimit *l)
{
        const rlim_t wanted = (rlim_t) GRPC_CONNECTIONS_MAX + GRPC_DESCRIPTORS_BESIDES;
        static bool raised;

        if (raised || l->rlim_cur >= MIN(wanted, l->rlim_max))
                return;
        struct rlimit more = {.rlim_cur = MIN(wanted, l->rlim_max), .rlim_max = l->rlim_max};
        given = *l;
        if (pthread_atfork(NULL, NULL, restore_limit) != 0 || setrlimit(RLIMIT_NOFILE, &more) < 0)
                return;
        raised = true;
        *l = more;
}

/* Clients keep their connections, and a node may have many: what bounds them are the descriptors that this process may have. */
static size_t connections_max(void)
{
        struct rlimit l;

        if (getrlimit(RLIMIT_NOFILE, &l) < 0)
                return GRPC_CONNECTIONS_MAX / 64;
        raise_limit(&l);
        if (l.rlim_cur <= 2 * GRPC_DESCRIPTORS_BESIDES)
                return l.rlim_cur / 2;
        return MIN(l.rlim_cur - GRPC_DESCRIPTORS_BESIDES, (rlim_t) GRPC_CONNECTIONS_MAX);
}

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
                          .connections_max = connections_max(),
                          .idle_usec = GRPC_IDLE_USEC,
                          .fd = -EBADF};
        *ret = s;
        return 0;
}

static void stop_listening(GrpcServer *s)
{
        s->sweep = sd_event_source_disable_unref(s->sweep);
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

/* --- Room for others ----------------------------------------------------------------------------------- */

/* Clients connect again when they have something to ask. */
static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata)
{
        GrpcServer *s = userdata;
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        for (Connection *k = s->connections; k; k = k->next)
                if (connection_is_idle(k) && now - k->used_usec >= s->idle_usec)
                        connection_drain(k);
        int r = sd_event_source_set_time_relative(source, MIN(s->idle_usec + SWEEP_USEC / 60, SWEEP_USEC));
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* At the maximum of connections the server closes the one that has been idle longest. If every connection has a call, the server
 * stops accepting: new clients wait in the backlog, and existing connections are served as before. */
static void make_room(GrpcServer *s)
{
        Connection *oldest = NULL;

        for (Connection *k = s->connections; k; k = k->next)
                if (connection_is_idle(k) && (!oldest || k->used_usec <= oldest->used_usec))
                        oldest = k;
        if (oldest)
                connection_drain(oldest);
        (void) sd_event_source_set_enabled(s->accept, SD_EVENT_OFF);
}

void server_has_room(GrpcServer *s)
{
        if (s->accept && s->n_connections < s->connections_max)
                (void) sd_event_source_set_enabled(s->accept, SD_EVENT_ON);
}

void server_can_make_room(GrpcServer *s)
{
        if (s->accept && s->n_connections >= s->connections_max)
                (void) sd_event_source_set_enabled(s->accept, SD_EVENT_ON);
}

void grpc_server_set_bounds(GrpcServer *s, size_t connections_max, uint64_t idle_usec)
{
        s->connections_max = connections_max;
        s->idle_usec = idle_usec;
        if (s->sweep)
                (void) sd_event_source_set_time_relative(s->sweep, 0);
}

/* --- Connections --------------------------------------------------------------------------------------- */

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        GrpcServer *s = userdata;

        if (s->n_connections >= s->connections_max) {
                make_room(s);
                return 0;
        }
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client >= 0 && connection_new(s, client) < 0)
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
        if (r >= 0)
                r = sd_event_add_time_relative(s->event, &s->sweep, CLOCK_MONOTONIC, s->idle_usec,
                                               SWEEP_USEC, on_sweep, s);
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

void grpc_server_observe(GrpcServer *s, const GrpcObserver *o)
{
        s->observer = *o;
}
