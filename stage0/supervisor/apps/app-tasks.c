/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Limits of processes and threads where the pids controller is in a hierarchy of version 1: the pod's systemd
 * counts by cgroup v2 alone. The pod has a cgroup there, in which its systemd and journal are; below it is
 * one for all apps, with the limit of the pod, and in that one for each app; that of a nested app is in that
 * of its parent, whose limit holds for both. A launcher is put there before anything of the app has run, and
 * all that comes after it stays there, as nothing in the pod has the hierarchy mounted. The cgroup stays until
 * the app is removed from the pod.
 */

#include <sys/stat.h>

#include "stage0/supervisor/apps/app-limits.h"
#include "stage0/host/host.h"

static int make_directory(const char *path)
{
        return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* With the one of the pod at TOP: TOP/apps/web/web-0n1. MAKE: those of the apps above it are made, if they are missing. */
static int find_cgroup(const char *top, const char *name, bool make, char **ret)
{
        _cleanup_free_ char *above = strdup(name), *path = NULL;
        size_t ends[NESTED_LEVELS_MAX], n = 0;

        if (!above || xasprintf(&path, "%s/apps", top) < 0)
                return -ENOMEM;
        for (size_t end; n < ELEMENTSOF(ends) && (end = nested_parent_length(above)) > 0; n++)
                above[ends[n] = end] = 0;
        for (int r; n > 0;) {
                _cleanup_free_ char *parent = TAKE_PTR(path);

                r = xasprintf(&path, "%s/%.*s", parent, (int) ends[--n], name);
                if (r >= 0 && make)
                        r = make_directory(path);
                if (r < 0)
                        return r;
        }
        return xasprintf(ret, "%s/%s", path, name);
}

static int make_cgroup(const char *path, uint64_t max)
{
        char value[24] = "max";

        int r = make_directory(path);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (max != STAGE1_TASKS_UNLIMITED)
                snprintf(value, sizeof(value), "%" PRIu64, max);
        return write_attribute_at(fd, "pids.max", value);
}

int tasks_apply(const Limits *l, const Pod *p, const PodApp *app, int sock, pid_t pid, Error *e)
{
        _cleanup_free_ char *all = NULL, *own = NULL;

        if (!l->pids_v1)
                return 0;
        if (xasprintf(&all, "%s/apps", l->pids_v1) < 0)
                return error_oom(e);
        int r = make_cgroup(all, stage1_tasks_max(&p->manifest->isolators, true));
        if (r >= 0)
                r = find_cgroup(l->pids_v1, app->name, true, &own);
        if (r >= 0)
                r = make_cgroup(own, stage1_tasks_max(&app->app->isolators, false));
        if (r >= 0)
                r = launcher_is_connected(sock) ? cgroup_put(own, pid) : -ESRCH;
        return r < 0 ? error_set_errno(e, r, "Cannot limit the processes of app %s", app->name) : 0;
}

/* An app that was not started yet has no cgroup; it gets the limit when it starts. */
int tasks_update(Pod *p, const PodApp *app)
{
        _cleanup_free_ char *path = NULL, *own = NULL;
        int r = pod_cgroup_pids_v1(p, &path);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        r = find_cgroup(path, app->name, false, &own);
        if (r < 0)
                return r;
        if (access(own, F_OK) < 0)
                return errno == ENOENT ? 0 : -errno;
        return make_cgroup(own, stage1_tasks_max(&app->app->isolators, false));
}

/* What is nested under the app was removed before. One that is in use still goes with the pod. */
void tasks_remove(Pod *p, const char *app)
{
        _cleanup_free_ char *path = NULL, *own = NULL;

        if (pod_cgroup_pids_v1(p, &path) >= 0 && find_cgroup(path, app, false, &own) >= 0)
                (void) rmdir(own);
}

uint64_t tasks_by_user(const Limits *l, const PodApp *app)
{
        uint64_t max = stage1_tasks_max(&app->app->isolators, false);
        bool counted = l->features.pids || l->features.pids_v1 || !l->features.own_users;

        return counted || max == STAGE1_TASKS_UNLIMITED ? 0 : max;
}
