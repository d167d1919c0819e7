/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Joins the cgroups of a process of a pod in hierarchies of version 1, on hosts that mount them, as far as they differ
 * from those of this process. The files are opened before entering the pod, where they are not accessible. */

#include "stage0/host/host-internal.h"

#define CGROUP_FILE_MAX 65536U

static int read_lines(const char *path, char ***ret)
{
        _cleanup_free_ char *text = NULL;
        int r = read_file_at(AT_FDCWD, path, CGROUP_FILE_MAX, &text, NULL);

        return r < 0 ? r : strv_split(text, "\n", ret);
}

static bool is_unified(const char *line)
{
        return startswith(line, "0::") != NULL;
}

/* A line is "NUMBER:CONTROLLERS:PATH". A process of a single thread that writes "0" to "tasks" is moved at once; for
 * "cgroup.procs" the kernel first waits for an RCU grace period, about 10 ms, as it excludes forks on the whole host. */
static int open_tasks(const char *line)
{
        _cleanup_free_ char *path = NULL;
        const char *controllers = strchr(line, ':'),
                   *group = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!group)
                return -EBADMSG;
        controllers++;
        controllers = startswith(controllers, "name=") ?: controllers;
        int r = xasprintf(&path, "/sys/fs/cgroup/%.*s%s/tasks", (int) (group - controllers), controllers,
                          group + 1);
        if (r < 0)
                return r;
        int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? -errno : fd;
}

/* The v2 line of a process of the pod contains the pod's cgroup. */
static bool is_in_pod(const Pod *p, char *const *lines)
{
        _cleanup_free_ char *name = NULL;

        if (xasprintf(&name, "/acnspawn-%s/", p->uuid) < 0)
                return false;
        STRV_FOREACH (line, lines)
                if (is_unified(*line) && strstr(*line, name))
                        return true;
        return false;
}

int pod_cgroup_open_process(Pod *p, pid_t pid, int *ret_fds, size_t max, size_t *ret_n)
{
        _cleanup_strv_free_ char **theirs = NULL, **own = NULL;
        char path[64];
        size_t n = 0;

        snprintf(path, sizeof(path), "/proc/%d/cgroup", (int) pid);
        int r = read_lines(path, &theirs);
        if (r == -ENOENT || (r >= 0 && !is_in_pod(p, theirs)))
                return -ESRCH;
        if (r >= 0)
                r = read_lines("/proc/self/cgroup", &own);
        for (size_t i = 0; r >= 0 && theirs[i]; i++) {
                if (is_unified(theirs[i]) || strv_contains(own, theirs[i]))
                        continue;
                r = n < max ? open_tasks(theirs[i]) : -E2BIG;
                if (r >= 0)
                        ret_fds[n++] = r;
        }
        if (r < 0)
                while (n > 0)
                        safe_close(ret_fds[--n]);
        *ret_n = n;
        return r < 0 ? r : 0;
}
