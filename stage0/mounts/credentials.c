/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials of apps while the pod runs: a file system in memory, which the kernel never swaps, for each
 * app that has some. The copy on disk is removed once it is in memory, before any app starts. The launcher
 * mounts it in that app alone, gives it to the app's user, and makes it read-only. */

#include <sys/mount.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif

static void hold_name(const AppMount *a, char name[static 16])
{
        snprintf(name, 16, "c%u", a->index);
}

static int copy_file(int from_fd, int to_fd, const char *name, uid_t owner)
{
        _cleanup_free_ char *data = NULL;
        size_t size;

        int r = read_file_at(from_fd, name, CREDENTIALS_SIZE_MAX, &data, &size);
        if (r < 0)
                return r;
        r = write_file_new_at(to_fd, name, data, size, 0400);
        explicit_bzero(data, size);
        if (r >= 0 && fchownat(to_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        return r;
}

static int fill(int from_fd, int mount_fd, uid_t owner)
{
        _cleanup_close_ int to_fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;
        int r = to_fd < 0 ? -errno : list_names(from_fd, &names);

        for (char **name = names; r >= 0 && name && *name; name++)
                r = copy_file(from_fd, to_fd, *name, owner);
        if (r >= 0 && (fchown(to_fd, owner, owner) < 0 || fchmod(to_fd, 0500) < 0))
                r = -errno;
        for (char **name = names; r >= 0 && name && *name; name++)
                if (unlinkat(from_fd, *name, 0) < 0)
                        r = -errno;
        return r;
}

static int take(PodMounts *m, int all_fd, const PodApp *app)
{
        static const char *const options[] = {"mode", "0700", NULL};
        uid_t owner = pod_root_uid(m->pod);
        _cleanup_close_ int from_fd = openat(all_fd, app->name,
                                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                            mount_fd = -EBADF;
        char name[16];

        if (from_fd < 0)
                return errno == ENOENT ? 0 : -errno;
        int r = mount_new("ramfs", options,
                          MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSYMFOLLOW,
                          &mount_fd);
        if (r >= 0)
                r = fill(from_fd, mount_fd, owner);
        AppMount *a = pod_mounts_know_app(m, app->name);
        if (r < 0 || !a)
                return r < 0 ? r : -ENOMEM;
        hold_name(a, name);
        return pod_mounts_hold(m, mount_fd, name);
}

int pod_mounts_take_credentials(PodMounts *m, Error *e)
{
        _cleanup_close_ int fd =
                        openat(m->dir_fd, "credentials", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int r = 0;

        if (fd < 0)
                return errno == ENOENT ? 0
                                       : error_set_errno(e, -errno, "Cannot open the credentials of pod %s",
                                                         pod_display_name(m->pod));
        m->has_credentials = true;
        for (size_t i = 0; r >= 0 && i < m->pod->manifest->n_apps; i++)
                r = take(m, fd, m->pod->manifest->apps[i]);
        return r < 0 ? error_set_errno(e, r, "Cannot load the credentials of pod %s into memory",
                                       pod_display_name(m->pod))
                     : 0;
}

int pod_mounts_take_app(PodMounts *m, const PodApp *app, bool notify, Error *e)
{
        bool credentials = pod_app_has_credentials(m->pod, app->name);
        _cleanup_close_ int fd = -EBADF;

        int r = pod_mounts_extend_dev(m, notify, credentials);
        if (r < 0)
                return error_set_errno(e, r, "Cannot extend the devices of pod %s",
                                       pod_display_name(m->pod));
        if (!credentials)
                return 0;
        fd = openat(m->dir_fd, "credentials", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : take(m, fd, app);
        m->has_credentials |= r >= 0;
        return r < 0 ? error_set_errno(e, r, "Cannot load the credentials of app %s into memory", app->name)
                     : 0;
}

int pod_mounts_clone_credentials(PodMounts *m, const PodApp *app, Error *e)
{
        char name[16];

        if (!m->has_credentials)
                return -ENOENT;
        const AppMount *a = pod_mounts_know_app(m, app->name);
        if (!a)
                return error_oom(e);
        hold_name(a, name);
        int fd = mount_clone(m->holder_fd, name, false);
        return fd < 0 && fd != -ENOENT
                               ? error_set_errno(e, fd, "Cannot mount the credentials of app %s", app->name)
                               : fd;
}
