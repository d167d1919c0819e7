/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* /sys for an app that may write to it.
 *
 * That of the pod is a mount that systemd-nspawn has made read-only, as are the cgroups in it but the pod's own. So the
 * app gets another mount of the same file system, which shows the network of the pod, and the cgroups without these
 * restrictions. The file system itself is read-only as well until the first such app changes that; mounts of other apps
 * stay read-only. In a user namespace the kernel refuses all of it. */

#include <sys/mount.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

#define CGROUPS "/fs/cgroup"

int sys_mount(int *ret_fd)
{
        _cleanup_close_ int context = (int) syscall(SYS_fsopen, "sysfs", FSOPEN_CLOEXEC);

        if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "source", "sysfs", 0) < 0 ||
            syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        _cleanup_close_ int fd = (int) syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
                                               MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (fd < 0 || syscall(SYS_fsconfig, context, FSCONFIG_SET_FLAG, "rw", NULL, 0) < 0 ||
            syscall(SYS_fsconfig, context, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int sys_mount_cgroups(int sys_fd)
{
        struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
        _cleanup_close_ int target = open_in_root(sys_fd, CGROUPS, O_PATH | O_DIRECTORY);
        _cleanup_close_ int fd = root_clone_tree(AT_FDCWD, "/sys" CGROUPS);

        if (target == -ENOENT || fd == -ENOENT)
                return 0;
        if (target < 0 || fd < 0)
                return target < 0 ? target : fd;
        if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
                return -errno;
        return target_attach(fd, target);
}
