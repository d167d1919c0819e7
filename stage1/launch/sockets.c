/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets that systemd passes to an app that it starts for a connection.
 *
 * They come as sd_listen_fds(3) has it: from descriptor 3 on, with their number, their names and the pid of
 * this process in the environment. The exec keeps the pid, so that the app gets the same variables. Until
 * then they are close-on-exec, so that no other program inherits them, and they are sorted in the order of
 * the ports in the manifest: the order in which systemd passes the sockets of several units is not defined.
 * A socket that is not the app's, or a port without a socket, is an error, since the app would wait for
 * connections that never come.
 */

#include "stage1/launch/launch.h"

#define FIRST 3
#define SOCKETS_MAX 1024U

static int bad_count(const Launch *l, const char *what, Failure *f)
{
        return failure_set(f, CAUSE_SETUP, -EBADMSG, "The pod's systemd passed sockets to app %s, but %s",
                           l->app, what);
}

static int read_count(const Launch *l, size_t *ret, Failure *f)
{
        const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
        uint32_t n, p;

        if (!count)
                return 0;
        if (!pid || parse_u32(pid, &p) < 0 || (pid_t) p != getpid())
                return bad_count(l, "for another process", f);
        if (parse_u32(count, &n) < 0 || n > SOCKETS_MAX)
                return bad_count(l, "does not say how many", f);
        *ret = n;
        return 0;
}

int sockets_take(Launch *l, Failure *f)
{
        const char *names = getenv("LISTEN_FDNAMES");
        size_t n = 0;

        int r = read_count(l, &n, f);
        if (r < 0)
                return r;
        for (int fd = FIRST; fd < FIRST + (int) n; fd++)
                if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                        return bad_count(l, "not as many as it says", f);
        if (n > 0 &&
            (!names || strv_split(names, ":", &l->socket_names) < 0 || strv_length(l->socket_names) != n))
                return bad_count(l, "without a name for each", f);
        l->n_sockets = n;
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
                                           "The pod's systemd passed a socket for port '%s' to app %s, "
                                           "which has no such port",
                                           *name, l->app);
        STRV_FOREACH (name, l->config.sockets)
                if (count_name(l->socket_names, *name) < count_name(l->config.sockets, *name))
                        return failure_set(f, CAUSE_SETUP, -EBADMSG,
                                           "The pod's systemd passed %zu sockets for port '%s' to app %s, "
                                           "which expects %zu",
                                           count_name(l->socket_names, *name), *name, l->app,
                                           count_name(l->config.sockets, *name));
        return 0;
}

/* The position of socket I in the sorted order: sockets of earlier ports come first. */
static size_t place_of(const Launch *l, size_t i)
{
        size_t place = 0;

        STRV_FOREACH (name, l->config.sockets) {
                if (streq(*name, l->socket_names[i]))
                        break;
                /* The name of a port range is listed once per port, but all its sockets are counted at
                 * once. */
                if (name == l->config.sockets || !streq(name[-1], *name))
                        place += count_name(l->socket_names, *name);
        }
        for (size_t k = 0; k < i; k++)
                place += streq(l->socket_names[k], l->socket_names[i]);
        return place;
}

/* Moved past the final descriptors first, so that none is overwritten that is still to be moved. */
static int move_all(const Launch *l, int *moved, char **names)
{
        size_t n = l->n_sockets;

        for (size_t i = 0; i < n; i++) {
                size_t place = place_of(l, i);

                moved[place] = fcntl(FIRST + (int) i, F_DUPFD_CLOEXEC, FIRST + (int) n);
                names[place] = l->socket_names[i];
                if (moved[place] < 0)
                        return -errno;
        }
        for (size_t i = 0; i < n; i++)
                if (dup2(moved[i], FIRST + (int) i) < 0)
                        return -errno;
        return 0;
}

int sockets_arrange(Launch *l, char ***environment, Failure *f)
{
        size_t n = l->n_sockets;
        _cleanup_free_ int *moved = calloc(n + 1, sizeof(int));
        _cleanup_free_ char **names = calloc(n + 1, sizeof(char *));
        _cleanup_free_ char *joined = NULL;

        if (n == 0)
                return 0;
        int r = moved && names ? move_all(l, moved, names) : -ENOMEM;
        if (r >= 0)
                r = strv_extendf(environment, "LISTEN_FDS=%zu", n);
        if (r >= 0)
                r = strv_extendf(environment, "LISTEN_PID=%d", (int) getpid());
        if (r >= 0)
                joined = strv_join(names, ":");
        if (r >= 0)
                r = joined ? strv_extendf(environment, "LISTEN_FDNAMES=%s", joined) : -ENOMEM;
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot pass the sockets of app %s to it",
                                         l->app)
                     : 0;
}
