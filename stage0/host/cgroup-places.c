/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The cgroups of a process in the hierarchies used for pods: version 2, and of version 1, if mounted,
 * systemd's named one and that of the pids controller, which contains fork bombs. The other controllers of
 * version 1 are not used.
 */

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "stage0/host/host-internal.h"

#define CGROUP_FILE_MAX 65536U

/* The mount points of the hierarchies, by the prefix of their line in /proc/self/cgroup. */
static const struct {
        const char *prefix;
        const char *mounts[2];
        bool unified;
} hierarchies[] = {
                {"0::", {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, true},
                {":name=systemd:", {"/sys/fs/cgroup/systemd", NULL}, false},
                {":pids:", {CGROUP_PIDS_V1, NULL}, false},
};

static const char *match_hierarchy(const char *line, size_t i)
{
        if (hierarchies[i].unified)
                return startswith(line, hierarchies[i].prefix);
        const char *p = strstr(line, hierarchies[i].prefix);
        return p ? p + strlen(hierarchies[i].prefix) : NULL;
}

/* The v2 root has cgroup.subtree_control or at least cgroup.controllers; a v1 root or a plain tmpfs has
 * neither. */
static const char *find_mount(size_t i)
{
        for (size_t k = 0; k < ELEMENTSOF(hierarchies[i].mounts); k++) {
                _cleanup_free_ char *probe = NULL;
                const char *mount = hierarchies[i].mounts[k];
                if (!mount)
                        continue;
                if (xasprintf(&probe, "%s/%s", mount,
                              hierarchies[i].unified ? "cgroup.controllers" : "cgroup.procs") < 0)
                        return NULL;
                if (access(probe, F_OK) >= 0)
                        return mount;
        }
        return NULL;
}

static int add_path(size_t i, const char *own, Cgroups *c)
{
        const char *mount = find_mount(i);
        int r;

        /* Pods also run without the controller, and status reports that. */
        if (!mount || (streq(mount, CGROUP_PIDS_V1) && !host_pids_v1_path()))
                return 0;
        r = strv_extendf(&c->paths, "%s%s", mount, streq(own, "/") ? "" : own);
        if (r >= 0 && hierarchies[i].unified) {
                c->unified = strdup(c->paths[strv_length(c->paths) - 1]);
                if (!c->unified)
                        r = -ENOMEM;
        }
        return r;
}

void cgroups_done(Cgroups *c)
{
        strv_free(c->paths);
        free(c->unified);
        *c = (Cgroups){};
}

static int find_paths(pid_t pid, Cgroups *c)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_free_ char **lines = NULL;
        char file[64];

        snprintf(file, sizeof(file), "/proc/%d/cgroup", (int) pid);
        int r = read_file_at(AT_FDCWD, file, CGROUP_FILE_MAX, &text, NULL);

        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        for (size_t k = 0; r >= 0 && lines && lines[k]; k++)
                for (size_t i = 0; r >= 0 && i < ELEMENTSOF(hierarchies); i++) {
                        const char *own = match_hierarchy(lines[k], i);
                        if (own)
                                r = add_path(i, own, c);
                }
        return r;
}

/* On a host with hierarchies of version 1, v2 is mounted beside them, in a tmpfs that the host's systemd makes read-only. */
static int hint_mount(int r, Error *e)
{
        struct statfs sf;

        if (statfs("/sys/fs/cgroup", &sf) < 0 || sf.f_type != TMPFS_MAGIC)
                return error_hint(e, r, "Mount it: mount -t cgroup2 cgroup2 /sys/fs/cgroup");
        return error_hint(
                        e, r,
                        "Mount it beside those of version 1: %smkdir -p /sys/fs/cgroup/unified && mount -t "
                        "cgroup2 cgroup2 /sys/fs/cgroup/unified",
                        sf.f_flags & ST_RDONLY ? "mount -o remount,rw /sys/fs/cgroup && " : "");
}

/* Moves them to *RET, if the required one is among them. */
static int take_places(Cgroups *c, Cgroups *ret, Error *e)
{
        if (!c->unified) {
                int r = error_set(e, -ENOSYS, "Pods need the cgroup v2 hierarchy, and none is mounted");
                return hint_mount(r, e);
        }
        *ret = *c;
        *c = (Cgroups){};
        return 0;
}

int cgroups_of_process(pid_t pid, Cgroups *ret, Error *e)
{
        _cleanup_(cgroups_done) Cgroups c = {};
        int r = find_paths(pid, &c);

        if (r < 0)
                return error_set_errno(e, r, "Cannot find the cgroup of process %d", (int) pid);
        return take_places(&c, ret, e);
}

int cgroup_open_own(void)
{
        _cleanup_(cgroups_done) Cgroups c = {};
        _cleanup_free_ char *path = NULL;

        int r = cgroups_of_process(getpid(), &c, NULL);
        if (r >= 0)
                r = xasprintf(&path, "%s/cgroup.procs", c.unified);
        if (r < 0)
                return r;
        int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? -errno : fd;
}

/* PATH is below a mount point of cgroups, and may have several parts that do not exist. */
static int make_path(const char *path)
{
        _cleanup_free_ char *part = strdup(path);

        if (!part)
                return -ENOMEM;
        for (char *p = part; (p = strchr(p + 1, '/'));) {
                *p = 0;
                if (mkdir(part, 0755) < 0 && errno != EEXIST)
                        return -errno;
                *p = '/';
        }
        return mkdir(part, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int cgroups_of_parent(const char *parent, Cgroups *ret, Error *e)
{
        _cleanup_(cgroups_done) Cgroups c = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(hierarchies); i++)
                r = add_path(i, parent, &c);
        if (r < 0)
                return error_oom(e);
        STRV_FOREACH (path, c.paths) {
                r = make_path(*path);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot create cgroup %s", *path);
        }
        return take_places(&c, ret, e);
}

const char *cgroup_unified_mount(void)
{
        for (size_t i = 0; i < ELEMENTSOF(hierarchies); i++)
                if (hierarchies[i].unified)
                        return find_mount(i);
        return NULL;
}
