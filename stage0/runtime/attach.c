/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The packets between the process that runs a pod and the clients that are attached to its apps. Only root
 * can access the socket, as the pod directory. */

#include <sys/socket.h>

#include "stage0/runtime/runtime.h"

#define ATTACH_SOCKET "attach"

int attach_listen(Pod *p, int *ret_fd, Error *e)
{
        int r = socket_listen_at(p->dir_fd, ATTACH_SOCKET, ret_fd);

        return r < 0 ? error_set_errno(e, r, "Cannot create the socket to attach to pod %s",
                                       pod_display_name(p))
                     : 0;
}

int attach_connect(Pod *p, int *ret_fd)
{
        return socket_connect_at(p->dir_fd, ATTACH_SOCKET, SOCK_SEQPACKET, ret_fd);
}

int attach_send(int fd, const AttachMessage *m, const int *fds, size_t n_fds)
{
        return send_fds_now(fd, m, sizeof(*m), fds, n_fds);
}

int attach_receive(int fd, AttachMessage *ret, int *fds, size_t max, size_t *ret_n)
{
        size_t n_fds = 0;
        ssize_t n = recv_fds(fd, ret, sizeof(*ret), fds, max, &n_fds);

        if (n == (ssize_t) sizeof(*ret) && ret->event < _ATTACH_EVENT_MAX) {
                ret->text[sizeof(ret->text) - 1] = 0;
                *ret_n = n_fds;
                return 1;
        }
        for (size_t i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        return n > 0 ? -EBADMSG : (int) n;
}
