/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The socket: one that systemd passes, or one of our own, which only root can connect to. */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "cri/cri-internal.h"
#include "library/libsystemd.h"

#define FIRST_SOCKET 3 /* sd_listen_fds(3) */
#define BACKLOG 128

static int check_passed(int fd, Error *e)
{
        int domain = 0, type = 0, listens = 0;
        socklen_t size = sizeof(int);

        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0)
                return error_set_errno(e, -errno, "The passed descriptor is not a socket");
        if (domain != AF_UNIX || type != SOCK_STREAM || !listens)
                return error_set(e, -EINVAL, "The passed socket is not a listening Unix stream socket");
        return 0;
}

/* Left behind by a process that was killed: unlike one in use, it refuses connections. The store's lock is held, so no
 * other server of it binds the path meanwhile. */
static int remove_stale(const struct sockaddr_un *address, Error *e)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct stat st;

        if (lstat(address->sun_path, &st) < 0)
                return errno == ENOENT ? 0
                                       : error_set_errno(e, -errno, "Cannot look at '%s'",
                                                         address->sun_path);
        if (!S_ISSOCK(st.st_mode))
                return error_set(e, -EEXIST, "Cannot listen on '%s': there is a file that is not a socket",
                                 address->sun_path);
        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot make a socket");
        if (connect(fd, (const struct sockaddr *) address, sizeof(*address)) == 0 || errno != ECONNREFUSED)
                return error_set(e, -EADDRINUSE, "Cannot listen on '%s': another process does",
                                 address->sun_path);
        return unlink(address->sun_path) < 0 && errno != ENOENT
                               ? error_set_errno(e, -errno, "Cannot replace '%s'", address->sun_path)
                               : 0;
}

static int make_parent(const char *path)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *parent = slash && slash > path ? strndup(path, (size_t) (slash - path)) : NULL;

        return parent && mkdir(parent, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* The mode is set before anyone can connect, as it does not listen yet. */
int cri_socket_listen(const char *path, Error *e)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot make a socket");
        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(e, -ENAMETOOLONG,
                                 "Cannot listen on '%s': the path is longer than %zu bytes", path,
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        int r = remove_stale(&address, e);
        if (r < 0)
                return r;
        r = make_parent(path);
        if (r < 0 || bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0 ||
            chmod(path, 0600) < 0 || listen(fd, BACKLOG) < 0)
                return error_set_errno(e, r < 0 ? r : -errno, "Cannot listen on '%s'", path);
        return TAKE_FD(fd);
}

int cri_socket_open(const char *path, bool *ret_passed, Error *e)
{
        int n = sd_listen_fds(true);

        *ret_passed = n > 0;
        if (n < 0)
                return error_set_errno(e, n, "Cannot take the socket that was passed");
        if (n == 0)
                return cri_socket_listen(path, e);
        if (n > 1)
                return error_set(e, -EINVAL, "%d sockets were passed, and one is needed", n);
        int r = check_passed(FIRST_SOCKET, e);
        return r < 0 ? r : FIRST_SOCKET;
}
