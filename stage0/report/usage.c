/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Resource usage of a running pod and its apps:
 *
 * CPU time, memory, I/O, processes, and how long processes waited for CPU, memory and disks (PSI). All of it is
 * accounted by the kernel in the pod's cgroups and read from there, on the host, so that a pod cannot hide its
 * usage, nor is it charged for the query. CPU time and PSI are available in every cgroup; the rest requires
 * controllers. Values that cannot be measured are reported as unknown. Processes can be counted in any case.
 */

#include <dirent.h>

#include "stage0/report/report-internal.h"

#define CGROUP_FILE_MAX (1U << 20)
#define CGROUPS_MAX 65536U

static void usage_init(Usage *u)
{
        memset(u, 0xff, sizeof(*u)); /* UINT64_MAX each */
}

/* The number in a file; UINT64_MAX: unknown, or "max". */
static uint64_t read_number(int fd, const char *name)
{
        _cleanup_free_ char *text = NULL;
        uint64_t n;

        if (read_file_at(fd, name, 64, &text, NULL) < 0)
                return UINT64_MAX;
        text[strcspn(text, "\n")] = 0;
        return parse_u64(text, &n) < 0 ? UINT64_MAX : n;
}

/* The sum of all values of KEY, which includes the separator before the number. */
static uint64_t sum_of(const char *text, const char *key)
{
        uint64_t sum = 0;

        for (const char *p = text; (p = strstr(p, key));) {
                p += strlen(key);
                sum += strtoull(p, NULL, 10);
        }
        return sum;
}

static uint64_t read_sum(int fd, const char *name, const char *key)
{
        _cleanup_free_ char *text = NULL;

        return read_file_at(fd, name, CGROUP_FILE_MAX, &text, NULL) < 0 ? UINT64_MAX : sum_of(text, key);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234", and a line of when all of them waited. */
static uint64_t read_pressure(int fd, const char *name)
{
        _cleanup_free_ char *text = NULL;
        const char *total;

        if (read_file_at(fd, name, 4096, &text, NULL) < 0 || !startswith(text, "some "))
                return UINT64_MAX;
        total = strstr(text, " total=");
        return total ? strtoull(total + strlen(" total="), NULL, 10) : UINT64_MAX;
}

static int add_processes(int fd, pid_t **list, size_t *n, size_t *allocated)
{
        _cleanup_free_ char *text = NULL;

        if (read_file_at(fd, "cgroup.procs", CGROUP_FILE_MAX, &text, NULL) < 0)
                return 0;
        for (const char *p = text, *end; (end = strchr(p, '\n')); p = end + 1) {
                if (GREEDY_REALLOC(*list, *allocated, *n + 1) < 0)
                        return -ENOMEM;
                (*list)[(*n)++] = (pid_t) strtol(p, NULL, 10);
        }
        return 0;
}

static int add_children(const char *path, char ***all)
{
        DIR *d = opendir(path);
        int r = 0;

        if (!d)
                return errno == ENOENT ? 0 : -errno;
        for (struct dirent *de; r >= 0 && (de = readdir(d));)
                if (de->d_type == DT_DIR && de->d_name[0] != '.')
                        r = strv_extendf(all, "%s/%s", path, de->d_name);
        closedir(d);
        return r;
}

/* In all cgroups below, by a list that grows while it is walked. */
int cgroup_list_processes(const char *path, pid_t **ret, size_t *ret_n)
{
        _cleanup_strv_free_ char **all = NULL;
        _cleanup_free_ pid_t *list = NULL;
        size_t n = 0, allocated = 0;
        int r = strv_extend(&all, path);

        for (size_t i = 0; r >= 0 && all[i] && i < CGROUPS_MAX; i++) {
                _cleanup_close_ int fd = open(all[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (fd < 0)
                        continue;
                r = add_processes(fd, &list, &n, &allocated);
                if (r >= 0)
                        r = add_children(all[i], &all);
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(list);
        *ret_n = n;
        return 0;
}

/* Without a controller processes are counted. */
uint64_t cgroup_count_processes(const char *path)
{
        _cleanup_free_ pid_t *list = NULL;
        size_t n;

        return cgroup_list_processes(path, &list, &n) < 0 ? UINT64_MAX : n;
}

/* -ENOENT: there is no such cgroup. */
static int read_usage(const char *path, Usage *ret)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        Usage u;

        usage_init(&u);
        if (fd < 0)
                return -errno;
        u.cpu_usec = read_sum(fd, "cpu.stat", "usage_usec ");
        u.memory = read_number(fd, "memory.current");
        u.memory_peak = read_number(fd, "memory.peak");
        u.memory_max = read_number(fd, "memory.max");
        u.cpu_pressure_usec = read_pressure(fd, "cpu.pressure");
        u.memory_pressure_usec = read_pressure(fd, "memory.pressure");
        u.io_pressure_usec = read_pressure(fd, "io.pressure");
        u.io_read = read_sum(fd, "io.stat", " rbytes=");
        u.io_written = read_sum(fd, "io.stat", " wbytes=");
        u.pids = read_number(fd, "pids.current");
        if (u.pids == UINT64_MAX)
                u.pids = cgroup_count_processes(path);
        *ret = u;
        return 0;
}

/* The limit of the pod as a whole: the minimum of those of its own cgroup, which a unit of the host may set,
 * and of the slice of its apps, where its isolator is enforced. */
uint64_t usage_memory_limit(const char *pod_path)
{
        static const char *const below[] = {"memory.max", "payload/memory.max",
                                            "payload/app.slice/memory.max"};
        _cleanup_close_ int fd = open(pod_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        uint64_t limit = UINT64_MAX;

        for (size_t i = 0; fd >= 0 && i < ELEMENTSOF(below); i++) {
                uint64_t n = read_number(fd, below[i]);
                limit = MIN(limit, n);
        }
        return limit;
}

static int read_app(const char *pod_path, const PodApp *app, Usage *ret)
{
        _cleanup_free_ char *slice = NULL, *path = NULL;

        usage_init(ret);
        int r = nested_slices(app->name, &slice);
        if (r >= 0)
                r = xasprintf(&path, "%s/payload/app.slice/%s", pod_path, slice);
        if (r >= 0)
                r = read_usage(path, ret);
        return r == -ENOENT ? 0 : r; /* it has ended, or has not started */
}

int pod_usage(Pod *p, Usage *ret_pod, Usage **ret_apps, Error *e)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_free_ Usage *apps = calloc(p->manifest ? p->manifest->n_apps + 1 : 1, sizeof(Usage));
        Usage pod;

        if (!apps)
                return error_oom(e);
        if (p->state != POD_RUNNING)
                return pod_not_running(p, e);
        int r = pod_cgroup_unified(p, &path);
        if (r >= 0)
                r = read_usage(path, &pod);
        if (r >= 0)
                pod.memory_max = usage_memory_limit(path);
        for (size_t i = 0; r >= 0 && p->manifest && i < p->manifest->n_apps; i++)
                r = read_app(path, p->manifest->apps[i], &apps[i]);
        if (r == -ENOENT)
                return error_set(e, -ESRCH, "Pod %s is starting, or about to end", pod_display_name(p));
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the resource usage of pod %s",
                                       pod_display_name(p));
        *ret_pod = pod;
        *ret_apps = TAKE_PTR(apps);
        return 0;
}
