/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this host offers, as far as isolators depend on it: controllers of cgroup v2, security modules and
 * privileges. And, from that, which isolators keep a pod from being made or run at all, because what they
 * ask for is not there and the app would run without it.
 */

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/capability.h>
#include <linux/landlock.h>

#include "stage1/isolators-internal.h"

int host_features_read(const char *file, HostFeatures *ret)
{
        _cleanup_strv_free_ char **controllers = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(AT_FDCWD, file, 4096, &text, NULL);
        if (r >= 0)
                r = strv_split(text, " \n", &controllers);
        if (r < 0)
                return r;
        ret->cpu = strv_contains(controllers, "cpu");
        ret->memory = strv_contains(controllers, "memory");
        ret->io = strv_contains(controllers, "io");
        ret->pids = strv_contains(controllers, "pids");
        return 0;
}

/* Our own place in the v2 hierarchy: "/" at the top of it. */
static int own_cgroup(char **ret)
{
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(AT_FDCWD, "/proc/self/cgroup", 65536, &text, NULL);
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        if (r < 0)
                return r;
        STRV_FOREACH (line, lines) {
                const char *path = startswith(*line, "0::");
                if (path)
                        return xasprintf(ret, "%s", path);
        }
        return -ENOENT;
}

/* systemd gives a pod every controller that it has. Beside us it has what we have. Elsewhere the pod's
 * cgroup is below our own, and has what that one hands on. */
static int controllers_file(const char *mount, bool keep_unit, char **ret)
{
        _cleanup_free_ char *own = NULL;

        if (!keep_unit && access("/run/systemd/system/", F_OK) >= 0)
                return xasprintf(ret, "%s/cgroup.controllers", mount);
        int r = own_cgroup(&own);
        return r < 0 ? r
                     : xasprintf(ret, "%s%s/cgroup.%s", mount, own,
                                 keep_unit ? "controllers" : "subtree_control");
}

/* Where the v2 hierarchy is: alone, or beside those of version 1. The latter have no such files. */
static const char *const cgroup_mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

int host_features_detect(bool keep_unit, HostFeatures *ret)
{
        HostFeatures h = *ret;

        for (size_t i = 0; i < ELEMENTSOF(cgroup_mounts); i++) {
                _cleanup_free_ char *file = NULL;
                int r = controllers_file(cgroup_mounts[i], keep_unit, &file);
                if (r >= 0)
                        r = host_features_read(file, &h);
                if (r >= 0)
                        break;
                if (r != -ENOENT && r != -ENOTDIR)
                        return r;
        }
        h.host_unit = keep_unit;
        *ret = h;
        return 0;
}

/* --- Security modules and privileges ------------------------------------------------------------------- */

void host_features_detect_security(HostFeatures *h)
{
        host_labels_detect(h);
        h->resources = prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE, 0, 0, 0) > 0;
        /* Of version 2: the first has no rule that lets apps move files; see launch/confine.c. */
        h->landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 2;
}

int stage1_isolators_check(const PodManifest *m, const HostFeatures *h, Error *e)
{
        int r = sysctl_check(m, h->host_network, e);

        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = labels_check(&m->apps[i], h, e);
        return r;
}
