/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets by which connections start an app.
 *
 * The supervisor has opened them, or was passed them, and sends them in the order of the app's ports. The app gets them as
 * sd_listen_fds(3) has it: from descriptor 3 on, with their number, their names and the pid of this process, which the
 * exec keeps, in the environment. Until the last moment they are somewhere else and close-on-exec, so that no other
 * program inherits them. A socket that is not the app's, or a port without a socket, is an error, since the app would
 * wait for connections that never come.
 */

#include "stage1/launch/launch.h"

#define FIRST 3
#define SOCKETS_MAX 1024U

static int bad_packet(const Launch *l, int code, Failure *f)
{
        return failure_set_errno(f, CAUSE_SETUP, code, "Cannot receive the sockets of app %s", l->app);
}

/* The descriptors are of L as soon as they have come, whatever comes with them. */
static int receive_packet(Launch *l, int sock, size_t left, Failure *f)
{
        LaunchSockets packet = {};
        size_t n = 0;

        ssize_t size = recv_fds(sock, &packet, sizeof(packet), l->socket_fds + l->n_sockets,
                                MIN(left, (size_t) LAUNCH_SOCKETS_STEP), &n);
        l->n_sockets += n;
        if (size < 0)
                return bad_packet(l, (int) size, f);
        if (n == 0 || n != packet.n || (size_t) size != LAUNCH_SOCKETS_SIZE(n))
                return bad_packet(l, -EBADMSG, f);
        for (size_t i = 0; i < n; i++) {
                packet.names[i][sizeof(packet.names[i]) - 1] = 0;
                if (strv_extend(&l->socket_names, packet.names[i]) < 0)
                        return bad_packet(l, -ENOMEM, f);
        }
        return 0;
}

int sockets_receive(Launch *l, int sock, size_t n, Failure *f)
{
        if (n > SOCKETS_MAX || l->n_sockets > 0)
                return bad_packet(l, -EBADMSG, f);
        l->socket_fds = calloc(n, sizeof(int));
        if (!l->socket_fds)
                return bad_packet(l, -ENOMEM, f);
        while (l->n_sockets < n) {
                int r = receive_packet(l, sock, n - l->n_sockets, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

static size_t count_name(char *const *l, const char *name)
{
        size_t n = 0;

        STRV_FOREACH (s, l)
                n += streq(*s, name);
        return n;
}

int sockets_check(const Launch *l, Failure *f)
{
        STRV_FOREACH (name, l->socket_names)
                if (!strv_contains(l->config.sockets, *name))
                        return failure_set(f, CAUSE_SETUP, -EBADMSG,
                                           "The pod's supervisor passed a socket for port '%s' to app %s, "
                                           "which has no such port",
                                           *name, l->app);
        STRV_FOREACH (name, l->config.sockets)
                if (count_name(l->socket_names, *name) < count_name(l->config.sockets, *name))
                        return failure_set(f, CAUSE_SETUP, -EBADMSG,
                                           "The pod's supervisor passed %zu sockets for port '%s' to app "
                                           "%s, which expects %zu",
                                           count_name(l->socket_names, *name), *name, l->app,
                                           count_name(l->config.sockets, *name));
        return 0;
}

static int move_beyond(int *fd, int first)
{
        if (*fd < 0 || *fd >= first)
                return 0;
        int moved = fcntl(*fd, F_DUPFD_CLOEXEC, first);
        if (moved < 0)
                return -errno;
        (void) close(*fd);
        *fd = moved;
        return 0;
}

/* What is needed still makes room first. Whatever else has these numbers is closed by it. */
static int move_all(Launch *l)
{
        int n = (int) l->n_sockets;

        int r = move_beyond(&l->link_fd, FIRST + n);
        for (int i = 0; r >= 0 && i < n; i++)
                r = move_beyond(&l->socket_fds[i], FIRST + n);
        if (r < 0)
                return r;
        for (int i = 0; i < n; i++) {
                if (dup2(l->socket_fds[i], FIRST + i) < 0)
                        return -errno;
                (void) close(l->socket_fds[i]);
                l->socket_fds[i] = FIRST + i;
        }
        return 0;
}

int sockets_arrange(Launch *l, char ***environment, Failure *f)
{
        _cleanup_free_ char *joined = NULL;
        size_t n = l->n_sockets;

        if (n == 0)
                return 0;
        int r = move_all(l);
        if (r >= 0)
                r = strv_extendf(environment, "LISTEN_FDS=%zu", n);
        if (r >= 0)
                r = strv_extendf(environment, "LISTEN_PID=%d", (int) getpid());
        if (r >= 0)
                joined = strv_join(l->socket_names, ":");
        if (r >= 0)
                r = joined ? strv_extendf(environment, "LISTEN_FDNAMES=%s", joined) : -ENOMEM;
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot pass the sockets of app %s to it",
                                         l->app)
                     : 0;
}
