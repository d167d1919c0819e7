/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A separate cgroup for every pod. nspawn with --keep-unit subdivides its current cgroup; two pods must not
 * share one.
 *
 * So the pod gets a child of a cgroup in the v2 hierarchy and in systemd's named v1 hierarchy, if there is
 * one. On a host with systemd it is a child of a scope created for it, or of the unit that acnspawn was
 * started in, with all the controllers of these. Elsewhere it is a child of the current cgroup: no hierarchy
 * is ever created there, no controller enabled. The directories are recorded in the pod directory before
 * they are created, so that they can be cleaned up after a crash.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "library/libsystemd.h"
#include "stage0/host/host-internal.h"

#define RECORD "cgroups"
#define RECORD_SIZE_MAX 65536U
#define SCOPE_TRIES 500U
#define SCOPE_PAUSE_USEC 2000U /* a second in total */

static int record_paths(Pod *p, const Cgroups *c)
{
        _cleanup_free_ char *text = strv_join(c->paths, "\n");

        if (!text)
                return -ENOMEM;
        return write_file_atomic_at(p->dir_fd, RECORD, text, strlen(text), 0600, false);
}

bool pod_cgroup_is_below_parent(const Pod *p)
{
        const char *parent = p->config.cgroup_parent;

        return parent && (!host_runs_systemd() || !endswith(parent, ".slice"));
}

/* A cgroup that enables controllers for its children must not contain processes: in the scope they are all
 * in children of it. */
int pod_cgroup_move(const Pod *p, const Cgroups *c, pid_t pid, Error *e)
{
        if (!host_runs_systemd() || pod_cgroup_is_below_parent(p))
                return 0;
        STRV_FOREACH (path, c->paths) {
                _cleanup_free_ char *own = NULL;
                int r = xasprintf(&own, "%.*s/" CGROUP_SUPERVISOR, (int) (strrchr(*path, '/') - *path),
                                  *path);
                if (r >= 0)
                        r = cgroup_put(own, pid);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot move a process to the cgroup next to %s",
                                               *path);
        }
        return 0;
}

/* Sets requests of isolators where there is no scope. The pod's status reports missing controllers. */
static int set_requests(const Pod *p, const Cgroups *c, Error *e)
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
                        return error_set_errno(e, r, "Cannot set %s of pod %s", requests[i].file,
                                               pod_display_name(p));
        }
        return 0;
}

int cgroup_parent_check(const char *parent, Error *e)
{
        int r = pod_cgroup_parent_check(parent, e);

        return r < 0 ? error_prefix(e, r, "The pod cannot be prepared") : 0;
}

/* The pod's cgroups are beside the "supervisor" that nspawn was started from, or below the scope's, or below
 * that of this process, or below the configured parent, unless that is a slice of the host's systemd. */
static int name_cgroups(const Pod *p, const PodPlace *place, const Cgroups *base, Cgroups *c)
{
        int r = 0;

        STRV_FOREACH (path, base->paths) {
                size_t n = place->keep_unit && !pod_cgroup_is_below_parent(p)
                                           ? (size_t) (strrchr(*path, '/') - *path)
                                           : strlen(*path);
                bool unified = streq(*path, base->unified);

                if (r >= 0)
                        r = strv_extendf(&c->paths, "%.*s/acnspawn-%s", (int) n, *path, p->uuid);
                if (r >= 0 && unified)
                        r = xasprintf(&c->unified, "%.*s/acnspawn-%s", (int) n, *path, p->uuid);
        }
        return r;
}

static int make_cgroups(Pod *p, pid_t pid, const PodPlace *place, Cgroups *c, Error *e)
{
        _cleanup_(cgroups_done) Cgroups base = {};
        int r = pod_cgroup_is_below_parent(p) ? cgroups_of_parent(p->config.cgroup_parent, &base, e)
                                              : cgroups_of_process(pid, &base, e);

        if (r < 0)
                return r;
        if (name_cgroups(p, place, &base, c) < 0)
                return error_oom(e);
        r = record_paths(p, c);
        if (r < 0)
                return error_set_errno(e, r, "Cannot record the cgroups of pod %s", pod_display_name(p));
        STRV_FOREACH (path, c->paths) {
                r = cgroup_put(*path, pid);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot create cgroup %s for pod %s", *path,
                                               pod_display_name(p));
        }
        return 0;
}

/* From the slice to the scope: the host's systemd does not know this controller. Other programs enable it for the slices that they
 * make, such as the kubelet; where it is not available, the write fails. */
static void hand_on_hugetlb(const Cgroups *c)
{
        _cleanup_close_ int fd = open(c->unified, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0)
                (void) write_attribute_at(fd, "../../cgroup.subtree_control", "+hugetlb");
}

int pod_cgroup_create(Pod *p, pid_t pid, const PodPlace *place, Cgroups *ret, Error *e)
{
        _cleanup_(cgroups_done) Cgroups c = {};

        bool below = pod_cgroup_is_below_parent(p), systemd = host_runs_systemd() && !below,
             scope = systemd && !place->keep_unit;
        int r = scope ? library_load(&systemd_library, e) : 0;
        if (r >= 0 && scope)
                r = pod_scope_start(p, pid, place, e);
        if (r >= 0)
                r = make_cgroups(p, pid, place, &c, e);
        if (r >= 0 && systemd && place->along)
                r = pod_cgroup_move(p, &c, getpid(), e);
        if (r >= 0 && below && c.unified)
                cgroup_hand_on_controllers(c.unified);
        if (r >= 0 && !systemd)
                r = set_requests(p, &c, e);
        if (r < 0)
                return r;
        if (scope) {
                hand_on_hugetlb(&c);
                cgroup_hand_on_controllers(c.unified);
        }
        *ret = c;
        c = (Cgroups){};
        return 0;
}

/* A copy of a pod that runs has none. */
static int read_paths(Pod *p, char ***ret)
{
        _cleanup_free_ char *text = NULL;
        int r = pod_is_copy(p) ? -ENOENT : read_file_at(p->dir_fd, RECORD, RECORD_SIZE_MAX, &text, NULL);

        if (r == -ENOENT) {
                *ret = NULL;
                return 0;
        }
        return r < 0 ? r : strv_split(text, "\n", ret);
}

/* Only directories with names assigned by acnspawn may be changed. */
static bool path_is_ours(Pod *p, const char *path)
{
        const char *tail = startswith(path, "/sys/fs/cgroup/") ? strrchr(path, '/') : NULL;
        const char *uuid = tail ? startswith(tail, "/acnspawn-") : NULL;

        return uuid && streq(uuid, p->uuid);
}

int pod_cgroup_host_unit(Pod *p, char **ret)
{
        _cleanup_free_ char *path = NULL;
        int r = host_runs_systemd() && !pod_cgroup_is_below_parent(p) ? pod_cgroup_unified(p, &path)
                                                                      : -ENOENT;

        if (r < 0)
                return r;
        *strrchr(path, '/') = 0;
        *ret = strdup(strrchr(path, '/') + 1);
        return *ret ? 0 : -ENOMEM;
}

/* Whether it is in a unit that was not created by acnspawn. */
static int find_host_unit(Pod *p, HostFeatures *h)
{
        _cleanup_free_ char *unit = NULL, *scope = NULL;
        int r = pod_cgroup_host_unit(p, &unit);

        if (r >= 0)
                r = pod_scope_name(p, &scope);
        h->host_unit = r >= 0 && !streq(unit, scope);
        return r == -ENOMEM ? r : 0;
}

int pod_cgroup_pids_v1(Pod *p, char **ret)
{
        _cleanup_strv_free_ char **paths = NULL;
        int r = read_paths(p, &paths);

        if (r < 0)
                return r;
        STRV_FOREACH (path, paths)
                if (path_is_ours(p, *path) && path_has_prefix(*path, CGROUP_PIDS_V1)) {
                        *ret = strdup(*path);
                        return *ret ? 0 : -ENOMEM;
                }
        return -ENOENT;
}

/* Only the v2 hierarchy has this file. */
int pod_cgroup_features(Pod *p, HostFeatures *ret)
{
        _cleanup_strv_free_ char **paths = NULL;
        _cleanup_free_ char *pids = NULL;
        int r = read_paths(p, &paths);

        ret->pids_v1 = pod_cgroup_pids_v1(p, &pids) >= 0;
        STRV_FOREACH (path, paths) {
                _cleanup_free_ char *file = NULL;
                if (r < 0 || !path_is_ours(p, *path))
                        continue;
                r = xasprintf(&file, "%s/cgroup.controllers", *path);
                if (r < 0)
                        return r;
                r = host_features_read(file, ret);
                if (r >= 0)
                        return find_host_unit(p, ret);
                if (r == -ENOENT)
                        r = 0;
        }
        return r < 0 ? r : -ENOENT;
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

/* Removes the cgroups in FD, up to the first that is busy: it contains other cgroups, or processes. *RET_N:
 * number of removed ones. Returns a descriptor of the busy one, or -ENOENT if there is none. */
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

/* The payload may create any number of nested cgroups: paths are neither constructed nor remembered. -EBUSY:
 * there are processes, or systemd removes the same cgroups. */
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
                /* The visited cgroup is empty now. */
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

/* --- The scope ----------------------------------------------------------------------------------------- */

/* The scope of a pod that has one; NULL: none. */
static char *scope_of(const Pod *p, const char *path)
{
        const char *end = strrchr(path, '/');
        _cleanup_free_ char *scope = NULL, *parent = end ? strndup(path, (size_t) (end - path)) : NULL;

        if (!parent || pod_scope_name(p, &scope) < 0)
                return NULL;
        const char *name = strrchr(parent, '/');
        return name && streq(name + 1, scope) ? TAKE_PTR(parent) : NULL;
}

static bool is_gone_in_time(const char *path)
{
        for (unsigned i = 0; i < SCOPE_TRIES; i++) {
                if (access(path, F_OK) < 0)
                        return true;
                (void) usleep(SCOPE_PAUSE_USEC);
        }
        return false;
}

void pod_cgroup_wait_for_scope(Pod *p)
{
        _cleanup_strv_free_ char **paths = NULL;

        if (!host_runs_systemd() || library_load(&systemd_library, NULL) < 0 || read_paths(p, &paths) < 0)
                return;
        STRV_FOREACH (path, paths) {
                _cleanup_free_ char *scope = path_is_ours(p, *path) ? scope_of(p, *path) : NULL;

                if (!scope || is_gone_in_time(scope))
                        continue;
                (void) pod_scope_stop(p, NULL);
                if (!is_gone_in_time(scope))
                        (void) remove_tree(scope); /* which fails if there are processes */
        }
}

static int kill_tree(const char *path)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        int r = write_attribute_at(fd, "cgroup.kill", "1");
        return r == -ENOENT ? 0 : r; /* v1 has no such file; its processes are those of the v2 tree */
}

int pod_cgroup_kill(Pod *p, Error *e)
{
        _cleanup_strv_free_ char **paths = NULL;
        int r = read_paths(p, &paths);

        STRV_FOREACH (path, paths)
                if (r >= 0 && path_is_ours(p, *path))
                        r = kill_tree(*path);
        if (r < 0)
                return error_set_errno(e, r, "Cannot kill the processes of pod %s", pod_display_name(p));
        return 0;
}

/* Killed processes leave their cgroup with a delay. */
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

bool pod_cgroup_is_left(Pod *p)
{
        _cleanup_strv_free_ char **paths = NULL;

        (void) read_paths(p, &paths);
        STRV_FOREACH (path, paths)
                if (path_is_ours(p, *path) && access(*path, F_OK) >= 0)
                        return true;
        return false;
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
                return error_set_errno(e, r, "Cannot read the list of cgroups of pod %s",
                                       pod_display_name(p));
        STRV_FOREACH (path, paths) {
                if (!path_is_ours(p, *path))
                        continue;
                r = remove_tree_patiently(*path);
                if (r < 0 && r != -ENOENT && first >= 0)
                        first = error_set_errno(e, r, "Cannot remove cgroup %s of pod %s", *path,
                                                pod_display_name(p));
        }
        return first;
}
