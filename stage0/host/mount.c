/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Detached mounts as descriptors: created and changed before they are attached, when they are not visible
 * anywhere. */

#include <sys/mount.h>
#include <sys/syscall.h>

#include "stage0/host/host.h"

int mount_clone(int dir_fd, const char *path, bool recursive)
{
        int fd = (int) syscall(SYS_open_tree, dir_fd, path,
                               OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW |
                                               (recursive ? AT_RECURSIVE : 0));

        return fd < 0 ? -errno : fd;
}

int mount_attach(int mount_fd, int dir_fd, const char *name)
{
        if (syscall(SYS_move_mount, mount_fd, "", dir_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
                return -errno;
        return 0;
}

int mount_set_attributes(int mount_fd, const struct mount_attr *attr, bool recursive)
{
        if (syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), attr,
                    sizeof(*attr)) < 0)
                return -errno;
        return 0;
}

int mount_map_owners(int mount_fd, int userns_fd, bool recursive)
{
        const struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t) userns_fd};

        return mount_set_attributes(mount_fd, &attr, recursive);
}

int mount_new(const char *type, const char *const *options, unsigned attributes, int *ret_fd)
{
        _cleanup_close_ int fs = (int) syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);

        if (fs < 0)
                return -errno;
        for (; options && options[0]; options += 2)
                if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0)
                        return -errno;
        if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        int fd = (int) syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}
