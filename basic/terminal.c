/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* New terminals of a pod, and the type of this process' own terminal.
 *
 * A terminal has to come from the pod's own instance of devpts, since its name would otherwise be wrong in
 * the pod. The content of a pod's root is untrusted: symlinks are resolved inside of the root, and only a
 * devpts is accepted, and in it only files that are not covered by another mount.
 */

#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "basic/basic.h"

static int open_multiplexer(int root_fd)
{
        const struct open_how how = {
                        .flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC,
                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
        };
        _cleanup_close_ int dir = open_in_root(root_fd, "/dev/pts", O_PATH | O_DIRECTORY);
        struct statfs fs;

        if (dir < 0)
                return dir;
        if (fstatfs(dir, &fs) < 0)
                return -errno;
        if (fs.f_type != DEVPTS_SUPER_MAGIC)
                return -ENOTTY;
        int fd = (int) syscall(SYS_openat2, dir, "ptmx", &how, sizeof(how));
        return fd < 0 ? -errno : fd;
}

int terminal_open_in_root(int root_fd, int *ret_master, int *ret_slave)
{
        _cleanup_close_ int master = open_multiplexer(root_fd);
        int unlock = 0;

        if (master < 0)
                return master;
        if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0)
                return -errno;
        *ret_master = TAKE_FD(master);
        *ret_slave = slave;
        return 0;
}

const char *terminal_type(void)
{
        const char *term = getenv("TERM");

        if (isempty(term) || strlen(term) >= TERMINAL_TYPE_MAX ||
            strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+._") !=
                            strlen(term))
                return "linux";
        return term;
}
