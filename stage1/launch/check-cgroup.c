/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A cgroup for each health check, below the cgroup of the service that runs the check: the app's while it starts, later a
 * service of its own. Killing the cgroup kills everything that the check has started, also processes in another session, so
 * that no process of a check is left in the app.
 *
 * It exists in the v2 hierarchy only, and enables no controllers, so that the limits of the app apply to the check. If this
 * process is killed, the pod's systemd kills and removes the cgroup with the service. */

#include <linux/sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define NAME "check"
#define REMOVE_TRIES 100U
#define REMOVE_USEC 5000U

char *unified_cgroup(const char *pid)
{
        _cleanup_free_ char *all = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%s/cgroup", pid);
        if (read_file_at(AT_FDCWD, path, 65536, &all, NULL) < 0)
                return NULL;
        const char *line = startswith(all, "0::") ? all : strstr(all, "\n0::");
        if (!line)
                return NULL;
        line += *line == '\n';
        line += strlen("0::");
        return strndup(line, strcspn(line, "\n"));
}

static int write_attribute(int dir_fd, const char *name, const char *value)
{
        _cleanup_close_ int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOCTTY);

        return fd < 0 ? -errno : loop_write(fd, value, strlen(value));
}

static int make(CheckCgroup *c)
{
        _cleanup_free_ char *own = unified_cgroup("self"), *path = NULL;

        if (!own)
                return -ENODATA;
        if (xasprintf(&path, CGROUP_ROOT "%s", own) < 0)
                return -ENOMEM;
        c->parent_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (c->parent_fd < 0 || (mkdirat(c->parent_fd, NAME, 0755) < 0 && errno != EEXIST))
                return -errno;
        c->fd = openat(c->parent_fd, NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return c->fd < 0 ? -errno : 0;
}

int check_cgroup_make(CheckCgroup *ret, Failure *f)
{
        CheckCgroup c = CHECK_CGROUP_NULL;

        int r = make(&c);
        if (r < 0) {
                check_cgroup_done(&c);
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot make a cgroup for the health check");
        }
        *ret = c;
        return 0;
}

/* struct clone_args of the kernel, up to the last member that is used. */
typedef struct CloneArguments {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
                        set_tid_size, cgroup;
} CloneArguments;

/* Without CLONE_INTO_CGROUP (before Linux 5.7) the child moves itself, which takes much longer. */
pid_t check_cgroup_fork(const CheckCgroup *c)
{
        CloneArguments a = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t) c->fd};

        pid_t pid = (pid_t) syscall(SYS_clone3, &a, sizeof(a));
        if (pid >= 0)
                return pid;
        pid = fork();
        if (pid == 0 && write_attribute(c->fd, "cgroup.procs", "0") < 0)
                _exit(125);
        return pid;
}

int check_cgroup_kill(const CheckCgroup *c)
{
        return c->fd < 0 ? -EBADF : write_attribute(c->fd, "cgroup.kill", "1");
}

/* Killed processes leave the cgroup with a delay. If one cannot end, the cgroup stays, and the next check uses it. */
void check_cgroup_done(CheckCgroup *c)
{
        for (unsigned i = 0; c->fd >= 0 && i < REMOVE_TRIES; i++) {
                if (unlinkat(c->parent_fd, NAME, AT_REMOVEDIR) >= 0 || errno != EBUSY)
                        break;
                (void) usleep(REMOVE_USEC);
        }
        c->fd = safe_close(c->fd);
        c->parent_fd = safe_close(c->parent_fd);
}
