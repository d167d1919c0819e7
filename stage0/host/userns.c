/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A user namespace without processes, as required for id-mapped mounts: a child creates it, the parent
 * writes its maps, opens it, and lets the child exit.
 */

#include <sched.h>
#include <sys/wait.h>

#include "stage0/host/host.h"

static int format_map(const IdRange *ranges, size_t n, uint32_t uid_base, char **ret)
{
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < n; i++)
                text_addf(&t, "%u %u %u\n", ranges[i].host, uid_base + ranges[i].pod, ranges[i].count);
        return text_take(&t, ret, NULL);
}

static int write_map(pid_t pid, const char *file, const char *map)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
        return write_attribute_at(AT_FDCWD, path, map);
}

static int take_namespace(pid_t pid, const char *map, int *ret_fd)
{
        char path[64];
        int r = write_map(pid, "uid_map", map);

        if (r >= 0)
                r = write_map(pid, "gid_map", map);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "/proc/%d/ns/user", (int) pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

/* The child: reports that it is in its new namespace, then waits until it is not needed any more. */
static _noreturn_ void child(int ready_fd, int wait_fd)
{
        char c = 0;

        if (unshare(CLONE_NEWUSER) < 0)
                _exit(1);
        (void) loop_write(ready_fd, &c, 1);
        (void) loop_read(wait_fd, &c, 1);
        _exit(0);
}

static int make_namespace(const char *map, int *ret_fd, Error *e)
{
        int ready[2] = {-EBADF, -EBADF}, wait[2] = {-EBADF, -EBADF};
        char c;
        int r;

        if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(wait, O_CLOEXEC) < 0) {
                r = -errno;
                safe_close(ready[0]);
                safe_close(ready[1]);
                return error_set_errno(e, r, "Cannot create a pipe");
        }
        pid_t pid = fork();
        if (pid == 0) {
                safe_close(wait[1]);
                child(ready[1], wait[0]);
        }
        r = pid < 0 ? -errno : 0;
        safe_close(ready[1]);
        safe_close(wait[0]);
        if (r >= 0)
                r = loop_read(ready[0], &c, 1) == 1 ? take_namespace(pid, map, ret_fd) : -EPERM;
        safe_close(ready[0]);
        safe_close(wait[1]);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
        if (r < 0) {
                (void) error_set_errno(e, r, "Cannot create a user namespace that maps %.*s",
                                       (int) strcspn(map, "\n"), map);
                if (r == -EPERM) /* the limit that is reached is determined when the error is printed */
                        return error_hint(e, r,
                                          "Prepare the pod with --no-userns if this host allows none.");
                return r;
        }
        return 0;
}

int userns_open_ranges(const IdRange *ranges, size_t n, uint32_t uid_base, int *ret_fd, Error *e)
{
        _cleanup_free_ char *map = NULL;

        if (format_map(ranges, n, uid_base, &map) < 0)
                return error_oom(e);
        return make_namespace(map, ret_fd, e);
}

int userns_open(uint32_t uid_base, uint32_t count, int *ret_fd, Error *e)
{
        const IdRange all = {.count = count};

        return userns_open_ranges(&all, 1, uid_base, ret_fd, e);
}
