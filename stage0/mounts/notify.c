/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sockets by which apps report that they are ready: files of a small tmpfs, one for each such app. The
 * launcher mounts the app's own socket in its /dev; so what is received there was sent by a process of that
 * app. */

#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

#define DIRECTORY "notify"

static void socket_name(const AppMount *a, char name[static 32])
{
        snprintf(name, 32, "%u", a->index);
}

static int hold_directory(PodMounts *m)
{
        static const char *const options[] = {"mode", "0700", "size", "4k", NULL};
        _cleanup_close_ int fd = -EBADF;

        if (m->has_notify)
                return 0;
        int r = mount_new("tmpfs", options, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &fd);
        if (r >= 0)
                r = pod_mounts_hold(m, fd, DIRECTORY);
        m->has_notify = r >= 0;
        return r;
}

int pod_mounts_open_notify(PodMounts *m, const PodApp *app)
{
        _cleanup_close_ int dir_fd = -EBADF, sock = -EBADF;
        char name[32];

        int r = hold_directory(m);
        if (r < 0)
                return r;
        dir_fd = openat(m->holder_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0)
                return -errno;
        AppMount *a = pod_mounts_know_app(m, app->name);
        if (!a)
                return -ENOMEM;
        socket_name(a, name);
        sock = socket_bind_at(dir_fd, name, SOCK_DGRAM);
        if (sock < 0)
                return sock;
        /* The app's processes may have any uid. */
        return fchmodat(dir_fd, name, 0666, 0) < 0 ? -errno : TAKE_FD(sock);
}

int pod_mounts_clone_notify(PodMounts *m, const PodApp *app)
{
        char name[32], path[64];

        const AppMount *a = pod_mounts_know_app(m, app->name);
        if (!a)
                return -ENOMEM;
        socket_name(a, name);
        snprintf(path, sizeof(path), DIRECTORY "/%s", name);
        _cleanup_close_ int fd = mount_clone(m->holder_fd, path, false);
        int r = fd < 0 ? fd
                       : mount_set_attributes(fd, &(struct mount_attr){.attr_set = MOUNT_ATTR_RDONLY},
                                              false);
        return r < 0 ? r : TAKE_FD(fd);
}
