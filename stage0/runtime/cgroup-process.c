/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which app of a pod a process belongs to, by its cgroup.
 *
 * The kernel tells where a process is in the v2 hierarchy. nspawn puts the pod's systemd, and all that it
 * starts, below "payload" of the pod's own cgroup; there every app has a slice of its own, for its service and
 * for its health checks. A process can leave it only by writing to cgroup files, which apps see read-only.
 */

#include "stage0/runtime/runtime.h"

#define CGROUP_FILE_MAX 65536U

int pod_cgroup_of_process(const Pod *p, pid_t pid, char **ret)
{
        _cleanup_free_ char *text = NULL, *own = NULL;
        char file[64];

        snprintf(file, sizeof(file), "/proc/%d/cgroup", (int) pid);
        int r = read_file_at(AT_FDCWD, file, CGROUP_FILE_MAX, &text, NULL);
        if (r == -ENOENT || r == -ESRCH)
                return -ESRCH;
        if (r >= 0)
                r = xasprintf(&own, "/acnspawn-%s/", p->uuid);
        if (r < 0)
                return r;
        char *line = startswith(text, "0::") ? text : strstr(text, "\n0::");
        if (!line)
                return -ENOENT;
        line += *line == '\n';
        line[strcspn(line, "\n")] = 0;
        const char *path = strstr(line, own);
        if (!path)
                return -ENOENT;
        *ret = strdup(path + strlen(own));
        return *ret ? 0 : -ENOMEM;
}

int pod_app_has_process(const Pod *p, const char *app, pid_t pid)
{
        _cleanup_free_ char *path = NULL, *slice = NULL, *prefix = NULL;

        int r = pod_cgroup_of_process(p, pid, &path);
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                r = stage1_app_slice_name(app, &slice);
        if (r >= 0)
                r = xasprintf(&prefix, "payload/app.slice/%s/", slice);
        return r < 0 ? r : startswith(path, prefix) != NULL;
}
