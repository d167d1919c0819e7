/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A cgroup of its own for every pod.
 *
 * nspawn with --keep-unit splits the cgroup that it finds itself in; two pods must not share one. So the pod
 * gets a child of a cgroup in the v2 hierarchy and in systemd's named v1 hierarchy, where there is one. On a
 * host with systemd it is the child of a scope that we are given for it, with all the controllers that the
 * scope has. Elsewhere it is a child of our own cgroup: no hierarchy is ever created there, no controller
 * enabled. The directories are written down in the pod directory before they are made: whoever cleans up
 * after us finds them.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "library/libsystemd.h"
#include "stage0/runtime/runtime.h"

#define RECORD "cgroups"
#define RECORD_SIZE_MAX 65536U
#define SUPERVISOR "supervisor"

void pod_cgroup_done(PodCgroup *c)
{
        strv_free(c->paths);
        free(c->unified);
        *c = (PodCgroup){};
}

/* Where the hierarchies are, by the prefix of their line in /proc/self/cgroup. */
static const struct {
        const char *prefix;
        const char *mounts[2];
        bool unified;
} hierarchies[] = {
                {"0::", {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, true},
                {":name=systemd:", {"/sys/fs/cgroup/systemd", NULL}, false},
};

static const char *match_hierarchy(const char *line, size_t i)
{
        if (hierarchies[i].unified)
                return startswith(line, hierarchies[i].prefix);
        const char *p = strstr(line, hierarchies[i].prefix);
        return p ? p + strlen(hierarchies[i].prefix) : NULL;
}

/* The v2 root has cgroup.subtree_control or at least cgroup.controllers; a v1 root or a plain tmpfs has
 * not. */
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

static int add_path(Pod *p, size_t i, const char *own, PodCgroup *c)
{
        const char *mount = find_mount(i);
        int r;

        if (!mount)
                return 0;
        r = strv_extendf(&c->paths, "%s%s/acnspawn-%s", mount, streq(own, "/") ? "" : own, p->uuid);
        if (r >= 0 && hierarchies[i].unified) {
                c->unified = strdup(c->paths[strv_length(c->paths) - 1]);
                if (!c->unified)
                        r = -ENOMEM;
        }
        return r;
}

static int find_paths(Pod *p, pid_t pid, PodCgroup *c)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_free_ char **lines = NULL;
        char file[64];

        snprintf(file, sizeof(file), "/proc/%d/cgroup", (int) pid);
        int r = read_file_at(AT_FDCWD, file, RECORD_SIZE_MAX, &text, NULL);

        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        for (size_t k = 0; r >= 0 && lines && lines[k]; k++)
                for (size_t i = 0; r >= 0 && i < ELEMENTSOF(hierarchies); i++) {
                        const char *own = match_hierarchy(lines[k], i);
                        if (own)
                                r = add_path(p, i, own, c);
                }
        return r;
}

static int record_paths(Pod *p, const PodCgroup *c)
{
        _cleanup_free_ char *text = strv_join(c->paths, "\n");

        if (!text)
                return -ENOMEM;
        return write_file_atomic_at(p->dir_fd, RECORD, text, strlen(text), 0600, false);
}

/* Makes the cgroup, if need be, and puts process PID there. */
static int put(const char *path, pid_t pid)
{
        char number[16];

        if (mkdir(path, 0755) < 0 && errno != EEXIST)
                return -errno;
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        snprintf(number, sizeof(number), "%d", (int) pid);
        return write_attribute_at(fd, "cgroup.procs", number);
}

/* A cgroup that hands on controllers must not hold processes: in the scope they are all in children of
 * it. */
int pod_cgroup_go_along(const PodCgroup *c, Error *e)
{
        if (sd_booted() <= 0)
                return 0;
        STRV_FOREACH (path, c->paths) {
                _cleanup_free_ char *own = NULL;
                int r = xasprintf(&own, "%.*s/" SUPERVISOR, (int) (strrchr(*path, '/') - *path), *path);
                if (r >= 0)
                        r = put(own, getpid());
                if (r < 0)
                        return error_set_errno(e, r, "Cannot go to the cgroup next to %s", *path);
        }
        return 0;
}

/* One at a time: one that cannot be had does not take the others away. What the pod does not get is told by
 * its status. */
static void hand_on_controllers(const PodCgroup *c)
{
        _cleanup_close_ int fd = open(c->unified, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_free_ char **names = NULL;

        if (fd < 0 || read_file_at(fd, "../cgroup.controllers", 4096, &text, NULL) < 0 ||
            strv_split(text, " \n", &names) < 0)
                return;
        STRV_FOREACH (name, names) {
                _cleanup_free_ char *word = NULL;
                if (**name && xasprintf(&word, "+%s", *name) >= 0)
                        (void) write_attribute_at(fd, "../cgroup.subtree_control", word);
        }
}

static int find_unified(Pod *p, pid_t pid, PodCgroup *c, Error *e)
{
        int r = find_paths(p, pid, c);

        if (r < 0)
                return error_set_errno(e, r, "Cannot find our own cgroup");
        if (c->unified)
                return 0;
        (void) error_set(e, -ENOSYS, "Pod %s needs the cgroup v2 hierarchy, and none is mounted", p->uuid);
        return error_hint(e, -ENOSYS, "Mount it: mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified");
}

/* Where there is no scope to have them. A controller that is missing is told by the pod's status. */
static int set_requests(const Pod *p, const PodCgroup *c, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        PodRequests q = {};

        if (p->manifest)
                stage1_pod_requests(&p->manifest->isolators, &q);
        const struct {
                const char *file;
                uint64_t value;
        } requests[] = {{"cpu.weight", q.cpu_weight}, {"memory.low", q.memory_low}};
        for (size_t i = 0; i < ELEMENTSOF(requests); i++) {
                char value[24];

                if (requests[i].value == 0)
                        continue;
                if (fd < 0)
                        fd = open(c->unified, O_PATH | O_DIRECTORY | O_CLOEXEC);
                snprintf(value, sizeof(value), "%" PRIu64, requests[i].value);
                int r = fd < 0 ? -errno : write_attribute_at(fd, requests[i].file, value);
                if (r < 0 && r != -ENOENT)
                        return error_set_errno(e, r, "Cannot set %s of pod %s", requests[i].file, p->uuid);
        }
        return 0;
}

int pod_cgroup_create(Pod *p, pid_t pid, bool along, struct sd_bus *bus, PodCgroup *ret, Error *e)
{
        _cleanup_(pod_cgroup_done) PodCgroup c = {};
        bool systemd = sd_booted() > 0;

        int r = systemd ? pod_scope_start(p, pid, bus, e) : 0;
        if (r >= 0)
                r = find_unified(p, pid, &c, e);
        if (r < 0)
                return r;
        r = record_paths(p, &c);
        if (r < 0)
                return error_set_errno(e, r, "Cannot record the cgroups of pod %s", p->uuid);
        STRV_FOREACH (path, c.paths) {
                r = put(*path, pid);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot make cgroup %s for pod %s", *path, p->uuid);
        }
        if (systemd && along)
                r = pod_cgroup_go_along(&c, e);
        if (!systemd)
                r = set_requests(p, &c, e);
        if (r < 0)
                return r;
        if (systemd)
                hand_on_controllers(&c);
        *ret = c;
        c = (PodCgroup){};
        return 0;
}

static int read_paths(Pod *p, char ***ret)
{
        _cleanup_free_ char *text = NULL;
        int r = read_file_at(p->dir_fd, RECORD, RECORD_SIZE_MAX, &text, NULL);

        if (r == -ENOENT) {
                *ret = NULL;
                return 0;
        }
        return r < 0 ? r : strv_split(text, "\n", ret);
}

/* Only directories of the name that we give are ours to touch. */
static bool path_is_ours(Pod *p, const char *path)
{
        const char *tail = startswith(path, "/sys/fs/cgroup/") ? strrchr(path, '/') : NULL;
        const char *uuid = tail ? startswith(tail, "/acnspawn-") : NULL;

        return uuid && streq(uuid, p->uuid);
}

/* Of the hierarchies only v2 has the file. */
int pod_cgroup_features(Pod *p, HostFeatures *ret)
{
        _cleanup_strv_free_ char **paths = NULL;
        int r = read_paths(p, &paths);

        STRV_FOREACH (path, paths) {
                _cleanup_free_ char *file = NULL;
                if (r < 0 || !path_is_ours(p, *path))
                        continue;
                r = xasprintf(&file, "%s/cgroup.controllers", *path);
                if (r < 0)
                        return r;
                r = host_features_read(file, ret);
                if (r >= 0)
                        return 0;
                if (r == -ENOENT)
                        r = 0;
        }
        return r < 0 ? r : -ENOENT;
}

const char *cgroup_unified_mount(void)
{
        for (size_t i = 0; i < ELEMENTSOF(hierarchies); i++)
                if (hierarchies[i].unified)
                        return find_mount(i);
        return NULL;
}

int pod_cgroup_unified(Pod *p, char **ret)
{
        const char *mount = cgroup_unified_mount();
        _cleanup_strv_free_ char **paths = NULL;
        int r = read_paths(p, &paths);

        if (r < 0)
                return r;
        STRV_FOREACH (path, paths) {
                _cleanup_free_ char *file = NULL;
                if (!mount || !path_is_ours(p, *path) || !path_has_prefix(*path, mount))
                        continue;
                if (xasprintf(&file, "%s/cgroup.freeze", *path) < 0)
                        return -ENOMEM;
                if (access(file, F_OK) < 0)
                        continue;
                *ret = strdup(*path);
                return *ret ? 0 : -ENOMEM;
        }
        return -ENOENT;
}

static int open_directory_at(int fd, const char *name)
{
        int r = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return r < 0 ? -errno : r;
}

/* Removes the cgroups in FD, up to the first that is busy: there are others in it, or processes. *RET_N is
 * how many went. Returns a descriptor of the busy one, or -ENOENT if there is none. */
static int remove_children(int fd, size_t *ret_n)
{
        int own = open_directory_at(fd, "."), r = -ENOENT;
        DIR *d = own < 0 ? NULL : fdopendir(own);

        *ret_n = 0;
        if (!d) {
                r = own < 0 ? own : -errno;
                safe_close(own);
                return r;
        }
        for (struct dirent *de; r == -ENOENT && (de = readdir(d));) {
                if (de->d_type != DT_DIR || streq(de->d_name, ".") || streq(de->d_name, ".."))
                        continue;
                if (unlinkat(fd, de->d_name, AT_REMOVEDIR) >= 0)
                        (*ret_n)++;
                else
                        r = errno == EBUSY ? open_directory_at(fd, de->d_name) : -errno;
        }
        closedir(d);
        return r;
}

/* The payload nests cgroups as deep as it likes, and makes as many: no path is put together, none is
 * remembered. -EBUSY: there are processes, or systemd removes the same. */
static int remove_tree(const char *path)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        bool came_up = false;
        size_t depth = 0, n;

        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        for (;;) {
                _cleanup_close_ int next = remove_children(fd, &n);
                if (next < 0 && next != -ENOENT)
                        return next;
                /* Where we have been nothing is left to be removed. */
                if (next >= 0 && came_up && n == 0)
                        return -EBUSY;
                came_up = next < 0;
                if (came_up && depth == 0)
                        return rmdir(path) < 0 && errno != ENOENT ? -errno : 0;
                if (came_up)
                        next = open_directory_at(fd, "..");
                if (next < 0)
                        return next == -ENOENT ? -EBUSY : next;
                depth = came_up ? depth - 1 : depth + 1;
                safe_close(fd);
                fd = TAKE_FD(next);
        }
}

static int kill_tree(const char *path)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        int r = write_attribute_at(fd, "cgroup.kill", "1");
        return r == -ENOENT ? 0 : r; /* v1 has no such file; its processes are the v2 tree's */
}

int pod_cgroup_kill(Pod *p, Error *e)
{
        _cleanup_strv_free_ char **paths = NULL;
        int r = read_paths(p, &paths);

        STRV_FOREACH (path, paths)
                if (r >= 0 && path_is_ours(p, *path))
                        r = kill_tree(*path);
        if (r < 0)
                return error_set_errno(e, r, "Cannot kill the processes of pod %s", p->uuid);
        return 0;
}

/* Killed processes leave their cgroup a moment later. */
static int remove_tree_patiently(const char *path)
{
        int r = -EBUSY;

        for (unsigned i = 0; i < 200 && r == -EBUSY; i++) {
                if (i > 0)
                        (void) usleep(10000);
                r = remove_tree(path);
        }
        return r;
}

int pod_cgroup_remove(Pod *p, Error *e)
{
        _cleanup_strv_free_ char **paths = NULL;
        int first = 0, r;

        r = pod_cgroup_kill(p, e);
        if (r < 0)
                return r;
        r = read_paths(p, &paths);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the list of cgroups of pod %s", p->uuid);
        STRV_FOREACH (path, paths) {
                if (!path_is_ours(p, *path))
                        continue;
                r = remove_tree_patiently(*path);
                if (r < 0 && r != -ENOENT && first >= 0)
                        first = error_set_errno(e, r, "Cannot remove cgroup %s of pod %s", *path, p->uuid);
        }
        return first;
}
