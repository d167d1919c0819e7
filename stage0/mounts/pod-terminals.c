/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The number of pseudo terminals in the pod's own /dev/pts.
 *
 * systemd-nspawn mounts it without a bound, and the kernel has one number for all instances of the host. No app has it in its mount namespace, and
 * nothing of acnspawn opens terminals there; a process that gets at it all the same is not to take those of other pods. */

#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "stage0/mounts/mounts-internal.h"

#ifndef FSPICK_CLOEXEC
#define FSPICK_CLOEXEC 1
#define FSPICK_EMPTY_PATH 8
#endif

/* A change of the mount sets all options anew. */
static int change(int pts_fd, const char *const *options)
{
        _cleanup_close_ int fs = (int) syscall(SYS_fspick, pts_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);

        if (fs < 0)
                return -errno;
        for (; options[0]; options += 2)
                if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0)
                        return -errno;
        return syscall(SYS_fsconfig, fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0 ? -errno : 0;
}

int pod_limit_terminals(const Pod *p, pid_t leader)
{
        TerminalOptions options;
        struct statfs fs;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/root/dev/pts", (int) leader);
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fstatfs(fd, &fs) < 0)
                return -errno;
        if (fs.f_type != DEVPTS_SUPER_MAGIC)
                return -EXDEV;
        terminal_options(p, TERMINALS_MIN, &options);
        return change(fd, options.list);
}
