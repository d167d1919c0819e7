/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The socket over which an app launches others, and the token for it. They lie beside the credentials of the app, which
 * no other app sees, and which its launcher gives to its user. An app that is replaced can get new credentials, and then
 * needs a new socket. */

#include <sys/socket.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

static void empty(int dir_fd)
{
        (void) unlinkat(dir_fd, LAUNCH_CONTROL_TOKEN, 0);
        (void) unlinkat(dir_fd, LAUNCH_CONTROL_SOCKET, 0);
}

/* -EEXIST: a credential of the user has such a name. */
static int fill(const PodMounts *m, int dir_fd, const char *token, int *ret)
{
        uid_t owner = pod_root_uid(m->pod);
        _cleanup_close_ int fd = -EBADF;

        int r = write_file_new_at(dir_fd, LAUNCH_CONTROL_TOKEN, token, strlen(token), 0400);
        if (r < 0)
                return r;
        fd = socket_bind_at(dir_fd, LAUNCH_CONTROL_SOCKET, SOCK_STREAM);
        if (fd < 0)
                r = fd;
        else if (fchmodat(dir_fd, LAUNCH_CONTROL_SOCKET, 0600, 0) < 0 ||
                 fchownat(dir_fd, LAUNCH_CONTROL_SOCKET, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
                 fchownat(dir_fd, LAUNCH_CONTROL_TOKEN, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
                 fchown(dir_fd, owner, owner) < 0 || listen(fd, 64) < 0)
                r = -errno;
        if (r < 0) {
                empty(dir_fd);
                return r;
        }
        *ret = TAKE_FD(fd);
        return 1;
}

int pod_mounts_open_control(PodMounts *m, const PodApp *app, const char *token, bool renew, int *ret)
{
        _cleanup_close_ int dir_fd = pod_mounts_open_credentials(m, app);
        struct stat st;

        if (dir_fd < 0)
                return dir_fd;
        if (fstatat(dir_fd, LAUNCH_CONTROL_SOCKET, &st, AT_SYMLINK_NOFOLLOW) >= 0) {
                if (!S_ISSOCK(st.st_mode))
                        return -EEXIST;
                if (!renew)
                        return 0;
                empty(dir_fd);
        } else if (errno != ENOENT)
                return -errno;
        return fill(m, dir_fd, token, ret);
}
