/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A user namespace for one app, below the pod's.
 *
 * CAP_SYS_ADMIN in the pod's user namespace is more than it looks like: file systems of the kernel that are mounted once for each
 * user namespace belong to it. By binfmt_misc (since Linux 6.7) an app would be executed in the place of the next
 * launcher, with all capabilities of the pod; by a remount of /proc it would change the /proc of all apps; the locks of mounts
 * hold off only who has no capability over the user namespace that they were made in; and until a fix of 2026 NS_MNT_GET_NEXT
 * opened the mount namespaces of others. So an app with this capability gets a namespace with the same users, mapped one to one,
 * and a copy of its mount namespace that belongs to it: its capabilities are for what it makes there, and for files of
 * its users.
 *
 * The maps are written by a child that stays in the pod's user namespace, as this process has no capability over it any more.
 */

#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "stage1/launch/launch.h"

#define MAP_SIZE_MAX 4096U

/* A process that sees all users is in the namespace of the host. */
#define ALL_USERS UINT64_C(4294967295)

/* The lines "inside outside count" of the map of this namespace become "inside inside count". */
static int one_to_one(const char *map, Text *ret)
{
        _cleanup_strv_free_ char **lines = NULL;

        if (strv_split(map, "\n", &lines) < 0)
                return -ENOMEM;
        STRV_FOREACH (line, lines) {
                unsigned long long inside, outside, count;

                if (isempty(*line))
                        continue;
                if (sscanf(*line, "%llu %llu %llu", &inside, &outside, &count) != 3)
                        return -EBADMSG;
                if (count >= ALL_USERS)
                        return -EXDEV;
                text_addf(ret, "%llu %llu %llu\n", inside, inside, count);
        }
        return 0;
}

/* -EXDEV: that of the host. */
static int read_map(const char *file, char **ret)
{
        _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);
        _cleanup_text_ Text t = {};
        char text[MAP_SIZE_MAX];

        if (fd < 0)
                return -errno;
        ssize_t n = loop_read(fd, text, sizeof(text) - 1);
        if (n < 0)
                return (int) n;
        text[n] = 0;
        int r = one_to_one(text, &t);
        return r < 0 ? r : text_take(&t, ret, NULL);
}

typedef struct Maps {
        char *users, *groups;
} Maps;

static void maps_done(Maps *m)
{
        free(m->users);
        free(m->groups);
}

static int write_map(pid_t pid, const char *file, const char *map)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
        return write_attribute_at(AT_FDCWD, path, map);
}

/* Waits until its parent is in its namespace, and writes the maps. */
static _noreturn_ void child(pid_t parent, int ready_fd, const Maps *m)
{
        char c;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (loop_read(ready_fd, &c, 1) != 1)
                _exit(EXIT_FAILURE);
        int r = write_map(parent, "uid_map", m->users);
        if (r >= 0)
                r = write_map(parent, "gid_map", m->groups);
        _exit(r < 0 ? -r : 0);
}

static int enter(const Maps *m)
{
        int fds[2], status = 0;
        pid_t self = getpid();

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                safe_close(fds[1]);
                child(self, fds[0], m);
        }
        int r = pid < 0 ? -errno : 0;
        safe_close(fds[0]);
        if (r >= 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                r = -errno;
        if (r >= 0)
                r = loop_write(fds[1], "1", 1);
        safe_close(fds[1]);
        while (pid > 0 && waitpid(pid, &status, 0) < 0)
                if (errno != EINTR) {
                        r = r < 0 ? r : -errno;
                        break;
                }
        if (r >= 0)
                r = !WIFEXITED(status) ? -ECHILD : -WEXITSTATUS(status);
        return r;
}

int own_users_enter(const Launch *l, Failure *f)
{
        _cleanup_(maps_done) Maps m = {};

        if (!(l->config.capabilities & UINT64_C(1) << CAP_SYS_ADMIN) || l->joined)
                return 0;
        int r = read_map("/proc/self/uid_map", &m.users);
        if (r == -EXDEV)
                return 0;
        if (r >= 0)
                r = read_map("/proc/self/gid_map", &m.groups);
        if (r >= 0)
                r = enter(&m);
        if (r == -EAGAIN)
                return failure_set(
                                f, CAUSE_SETUP, r,
                                "Cannot create a user namespace for app %s, which has CAP_SYS_ADMIN: that takes two tasks, and the "
                                "limit of tasks (--tasks-max=) of the app or the pod is reached",
                                l->app);
        return r < 0 ? failure_set_errno(
                                       f, CAUSE_SETUP, r,
                                       "Cannot create a user namespace for app %s, which has CAP_SYS_ADMIN",
                                       l->app)
                     : 0;
}
