/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* /sys: for an app that may write to it, and the cgroups in that of each app.
 *
 * That of the pod is a mount that systemd-nspawn has made read-only. So an app that may write to it gets another mount of the
 * same file system, which shows the network of the pod. The file system itself is read-only as well until the first such app
 * changes that; mounts of other apps stay read-only. In a user namespace the kernel refuses all of it.
 *
 * Each app has a cgroup namespace, rooted at its own cgroup, and sees its own cgroup and those below as /sys/fs/cgroup: one that
 * may mount, or may write there, cannot leave its limits and its freezer. */

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

int sys_mount_cgroups(int sys_fd, bool writable)
{
        _cleanup_close_ int target = open_in_root(sys_fd, CGROUPS, O_PATH | O_DIRECTORY);
        _cleanup_close_ int context = -EBADF, fd = -EBADF;

        if (target < 0)
                return target == -ENOENT ? 0 : target;
        context = (int) syscall(SYS_fsopen, "cgroup2", FSOPEN_CLOEXEC);
        if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "source", "cgroup2", 0) < 0 ||
            syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        fd = (int) syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
                           MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                           (writable ? 0 : MOUNT_ATTR_RDONLY));
        return fd < 0 ? -errno : target_attach(fd, target);
}
