/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections to a socket of ours, on which one packet is expected.
 *
 * The loop that answers them has other things to do: it never waits for a caller. A packet that is there when
 * the connection is accepted is answered at once; else the connection is watched, for a short time. Only so
 * many may be silent. When there is one more, the process that holds most of them loses its oldest: a process
 * that connects without end displaces its own connections, and not the one of a launcher that was put aside
 * by the scheduler between its connect() and its send().
 */

#include <sys/socket.h>
#include <sys/syscall.h>

#include "stage0/supervisor/launchers/connections.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define SILENT_MAX 32U
#define PACKET_TIMEOUT_USEC 2000000U

typedef struct Connection Connection;

struct Connection {
        Connection *next;
        Connections *all;
        int fd, peer_fd;
        pid_t pid; /* of the process that has connected */
        sd_event_source *source, *timer;
};

struct Connections {
        sd_event *event;
        sd_event_source *source;
        ConnectionFunction function;
        void *userdata;
        Connection *silent; /* the oldest first */
        size_t n_silent;
};

static Connection *connection_free(Connection *c)
{
        sd_event_source_disable_unref(c->source);
        sd_event_source_disable_unref(c->timer);
        safe_close(c->fd);
        safe_close(c->peer_fd);
        free(c);
        return NULL;
}

static void disconnect(Connection *c)
{
        for (Connection **i = &c->all->silent; *i; i = &(*i)->next)
                if (*i == c) {
                        *i = c->next;
                        c->all->n_silent--;
                        break;
                }
        connection_free(c);
}

Connections *connections_free(Connections *all)
{
        if (!all)
                return NULL;
        while (all->silent)
                disconnect(all->silent);
        sd_event_source_disable_unref(all->source);
        free(all);
        return NULL;
}

static int on_packet(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Connection *c = userdata;

        if (c->all->function(c->all->userdata, fd, c->peer_fd) != -EAGAIN)
                disconnect(c);
        return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
        disconnect(userdata);
        return 0;
}

static int watch(Connection *c)
{
        int r = sd_event_add_io(c->all->event, &c->source, c->fd, EPOLLIN, on_packet, c);

        return r < 0 ? r
                     : sd_event_add_time_relative(c->all->event, &c->timer, CLOCK_MONOTONIC,
                                                  PACKET_TIMEOUT_USEC, 0, on_timeout, c);
}

static pid_t peer_pid(int fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ? 0 : peer.pid;
}

static size_t count_of(const Connections *all, pid_t pid)
{
        size_t n = 0;

        for (const Connection *c = all->silent; c; c = c->next)
                n += c->pid == pid;
        return n;
}

/* The oldest connection of the process that has most of them. */
static Connection *find_displaced(const Connections *all)
{
        Connection *found = all->silent;
        size_t most = 0;

        for (Connection *c = all->silent; c; c = c->next) {
                size_t n = count_of(all, c->pid);
                if (n > most) {
                        most = n;
                        found = c;
                }
        }
        return found;
}

/* Takes over the descriptors, on failure as well. */
static void wait_for_packet(Connections *all, int fd, int peer_fd)
{
        Connection *c = calloc(1, sizeof(Connection)), **last = &all->silent;

        if (!c) {
                safe_close(fd);
                safe_close(peer_fd);
                return;
        }
        *c = (Connection){.all = all, .fd = fd, .peer_fd = peer_fd, .pid = peer_pid(fd)};
        if (watch(c) < 0) {
                connection_free(c);
                return;
        }
        if (all->n_silent >= SILENT_MAX)
                disconnect(find_displaced(all));
        while (*last)
                last = &(*last)->next;
        *last = c;
        all->n_silent++;
}

/* Before Linux 6.5 there is only the number, which is another process's only if the peer has ended, and all
 * numbers were given to others, between its connect() and now. */
static int open_peer(int fd)
{
        int peer_fd = -EBADF;
        struct ucred peer;
        socklen_t size = sizeof(peer_fd);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &peer_fd, &size) >= 0)
                return peer_fd;
        size = sizeof(peer);
        if (errno != ENOPROTOOPT || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return -ESRCH;
        peer_fd = (int) syscall(SYS_pidfd_open, peer.pid, 0);
        return peer_fd < 0 ? -errno : peer_fd;
}

static int on_connection(sd_event_source *source, int listen_fd, uint32_t revents, void *userdata)
{
        _cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        _cleanup_close_ int peer_fd = fd < 0 ? -EBADF : open_peer(fd);
        Connections *all = userdata;

        if (fd >= 0 && all->function(all->userdata, fd, peer_fd) == -EAGAIN)
                wait_for_packet(all, TAKE_FD(fd), TAKE_FD(peer_fd));
        return 0;
}

int connections_new(sd_event *event, int listen_fd, ConnectionFunction function, void *userdata,
                    Connections **ret)
{
        _cleanup_(connections_freep) Connections *all = calloc(1, sizeof(Connections));

        if (!all)
                return -ENOMEM;
        *all = (Connections){.event = event, .function = function, .userdata = userdata};
        int r = sd_event_add_io(event, &all->source, listen_fd, EPOLLIN, on_connection, all);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(all);
        return 0;
}
