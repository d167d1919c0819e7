/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The features of this host that isolators depend on: controllers of cgroup v2, security modules and
 * privileges. And, from that, which isolators keep a pod from being made or run at all, because the host
 * lacks what they request and the app would run without it.
 */

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/capability.h>
#include <linux/landlock.h>

#include "stage1/isolators-internal.h"
#include "stage1/seccomp-filter.h"

/* The documented test of sd_booted(3), for which its library need not be loaded. */
bool host_runs_systemd(void)
{
        return access("/run/systemd/system/", F_OK) >= 0;
}

int host_features_read(const char *file, HostFeatures *ret)
{
        _cleanup_strv_free_ char **controllers = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(AT_FDCWD, file, 4096, &text, NULL);
        if (r >= 0)
                r = strv_split(text, " \n", &controllers);
        if (r < 0)
                return r == -ENODEV ? -ENOENT : r; /* the cgroup was removed between open() and read() */
        ret->cpu = strv_contains(controllers, "cpu");
        ret->cpuset = strv_contains(controllers, "cpuset");
        ret->memory = strv_contains(controllers, "memory");
        ret->io = strv_contains(controllers, "io");
        ret->pids = strv_contains(controllers, "pids");
        ret->hugetlb = strv_contains(controllers, "hugetlb");
        return 0;
}

/* The cgroup of this process in the v2 hierarchy: "/" for its root. */
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

/* systemd gives a pod every controller that it has. With KEEP_UNIT the pod's cgroup is a sibling of ours and
 * has the same controllers. Otherwise it is below our own, and has the controllers enabled there for
 * children. */
static int controllers_file(const char *mount, bool keep_unit, char **ret)
{
        _cleanup_free_ char *own = NULL;

        if (!keep_unit && host_runs_systemd())
                return xasprintf(ret, "%s/cgroup.controllers", mount);
        int r = own_cgroup(&own);
        return r < 0 ? r
                     : xasprintf(ret, "%s%s/cgroup.%s", mount, own,
                                 keep_unit ? "controllers" : "subtree_control");
}

/* Where the v2 hierarchy is mounted: alone, or beside those of version 1. The latter have no such files. */
static const char *const cgroup_mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

/* Every pod gets a cgroup of its own there, if that hierarchy exists: see host_pids_v1_path(). */
#define PIDS_V1 "/sys/fs/cgroup/pids"

const char *host_pids_v1_path(void)
{
        return access(PIDS_V1 "/cgroup.procs", W_OK) >= 0 ? PIDS_V1 : NULL;
}

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
        h.pids_v1 = host_pids_v1_path() != NULL;
        *ret = h;
        return 0;
}

/* --- Security modules and privileges ------------------------------------------------------------------- */

void host_features_detect_security(HostFeatures *h)
{
        host_labels_detect(h);
        h->resources = prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE, 0, 0, 0) > 0;
        int version = (int) syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        h->landlock = version > 0 ? version : 0;
        h->landlock_refused = version < 0 && errno != ENOSYS && is_refusal(-errno);
}

static int check_system_calls(const PodApp *a, Error *e)
{
        for (size_t i = 0; a->app && i < a->app->isolators.n; i++) {
                const Isolator *isolator = &a->app->isolators.items[i];
                if (isolator->type != ISOLATOR_SECCOMP_RETAIN_SET &&
                    isolator->type != ISOLATOR_SECCOMP_REMOVE_SET)
                        continue;
                int r = seccomp_isolator_check(isolator, NULL, e);
                if (r < 0)
                        return error_prefix(e, r, "App %s", a->name);
        }
        return 0;
}

/* The checks that depend on the manifest alone. */
static int check_isolators(const PodManifest *m, SharedNamespaces shared, Error *e)
{
        int r = sysctl_check(m, shared, e);

        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = check_system_calls(m->apps[i], e);
        return r;
}

int stage1_manifest_check(const PodManifest *m, Error *e)
{
        int r = check_isolators(m, (SharedNamespaces){}, e);

        return r < 0 ? r : stage1_sockets_check(m, e);
}

int stage1_isolators_check(const PodManifest *m, const HostFeatures *h, Error *e)
{
        int r = check_isolators(m, h->shared, e);

        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = labels_check(m->apps[i], h, e);
        return r;
}
