/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* /proc of an app in another pid namespace than the pod's.
 *
 * What protects the pod's /proc are mounts on it that systemd-nspawn has made: /proc/sys is read-only but for the
 * parameters of the pod's network, and others are hidden; which, depends on its version. They are found in the mount
 * table and repeated on the new one. In a user namespace the kernel allows a new /proc while one is mounted on which
 * nothing hides files for good, as is the case for mounts that were made in the same user namespace.
 */

#include <sys/mount.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

#define MOUNTS_FILE_MAX (4U << 20)
#define PROC_DIRECTORY "/proc"

int proc_mount(int *ret_fd)
{
        _cleanup_close_ int context = (int) syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);

        if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "source", "proc", 0) < 0 ||
            syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        int fd = (int) syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
                               MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

/* The mount point in a line of mountinfo, if it is below /proc: the fifth field. The kernel escapes special
 * characters, which no file there has. */
static char *mount_point_below(char *line)
{
        char *field = line;

        for (unsigned i = 0; field && i < 4; i++) {
                field = strchr(field, ' ');
                field += field ? 1 : 0;
        }
        if (!field || !startswith(field, PROC_DIRECTORY "/"))
                return NULL;
        field[strcspn(field, " ")] = 0;
        return strchr(field, '\\') ? NULL : field;
}

static int list_mounts(char ***ret)
{
        _cleanup_strv_free_ char **paths = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTS_FILE_MAX, &text, NULL);
        for (char *line = text, *next; r >= 0 && line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                const char *path = mount_point_below(line);
                if (path && !strv_contains(paths, path))
                        r = strv_extend(&paths, path);
        }
        if (r >= 0)
                *ret = TAKE_PTR(paths);
        return r;
}

/* Whether it comes along with a mount that it is below. */
static bool is_included(char *const *paths, const char *path)
{
        STRV_FOREACH (other, paths)
                if (!streq(*other, path) && path_has_prefix(path, *other))
                        return true;
        return false;
}

/* nspawn mounts a FIFO on /proc/kmsg that it has removed; what is removed cannot be mounted anew, and is hidden. */
static int repeat_mount(int proc_fd, const char *path)
{
        _cleanup_close_ int target = open_in_root(proc_fd, path + strlen(PROC_DIRECTORY), O_PATH),
                            fd = -EBADF;

        if (target == -ENOENT)
                return 0;
        if (target < 0)
                return target;
        fd = (int) syscall(SYS_open_tree, AT_FDCWD, path,
                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        int r = fd < 0 ? -errno : target_attach(fd, target);
        return r == -ENOENT ? root_mask(target) : r;
}

int proc_protect(int proc_fd)
{
        _cleanup_strv_free_ char **paths = NULL;

        int r = list_mounts(&paths);
        STRV_FOREACH (path, paths)
                if (r >= 0 && !is_included(paths, *path))
                        r = repeat_mount(proc_fd, *path);
        return r;
}
