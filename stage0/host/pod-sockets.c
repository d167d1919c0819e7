/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sockets in the pod directory, which only root of the host can access, whatever the length of its path. */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "stage0/host/host.h"

#define CONNECT_SECONDS 30 /* retries while the queue of connections is full */

/* The path of a socket must be short: the directory is named by our descriptor of it. */
static int socket_address(int dir_fd, const char *name, struct sockaddr_un *ret)
{
        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        int n = snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
        return n < 0 || (size_t) n >= sizeof(ret->sun_path) ? -ENAMETOOLONG : 0;
}

int socket_bind_at(int dir_fd, const char *name, int type)
{
        struct sockaddr_un address;
        _cleanup_close_ int fd = -EBADF;

        int r = socket_address(dir_fd, name, &address);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        (void) unlinkat(dir_fd, name, 0);
        if (bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 ||
            fchmodat(dir_fd, name, 0600, 0) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int socket_listen_at(int dir_fd, const char *name, int *ret_fd)
{
        _cleanup_close_ int fd = socket_bind_at(dir_fd, name, SOCK_SEQPACKET);

        if (fd < 0)
                return fd;
        if (listen(fd, 1024) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int socket_connect_at(int dir_fd, const char *name, int type, int *ret_fd)
{
        const struct timeval patience = {.tv_sec = CONNECT_SECONDS};
        struct sockaddr_un address;
        _cleanup_close_ int fd = -EBADF;

        int r = socket_address(dir_fd, name, &address);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
                return -errno;
        if (connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return errno == EAGAIN ? -ETIMEDOUT : -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int notify_listen(Pod *p, int *ret_fd, Error *e)
{
        int r = socket_bind_at(p->dir_fd, NOTIFY_SOCKET_NAME, SOCK_DGRAM);

        if (r < 0)
                return error_set_errno(e, r, "Cannot create the notification socket of pod %s",
                                       pod_display_name(p));
        *ret_fd = r;
        return 0;
}
