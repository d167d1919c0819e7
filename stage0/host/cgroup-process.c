/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds the app of a process, by its cgroup in the v2 hierarchy. nspawn places the pod's systemd, and all
 * processes started by it, below "payload" of the pod's cgroup; there every app has a slice, for its service
 * and for its health checks.
 *
 * A process can leave it only by writing to cgroup files, which are read-only for apps.
 */

#include <sys/syscall.h>

#include "stage0/host/host.h"

#define CGROUP_FILE_MAX 65536U
#define STATUS_FILE_MAX 65536U
#define PROCS_FILE_MAX (1U << 20)
#define NUMBERS_MAX 32U /* the kernel's limit of nested pid namespaces */

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

/* The slice of a nested app is below that of its parent. */
static bool is_below_slice(const char *path)
{
        const char *end = strchr(path, '/'), *suffix = ".slice";
        size_t length = end ? (size_t) (end - path) : 0, n = strlen(suffix);

        return length > n && strncmp(path + length - n, suffix, n) == 0;
}

int pod_app_has_process(const Pod *p, const char *app, pid_t pid)
{
        _cleanup_free_ char *path = NULL, *slice = NULL, *prefix = NULL;

        int r = pod_cgroup_of_process(p, pid, &path);
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                r = nested_slices(app, &slice);
        if (r >= 0)
                r = xasprintf(&prefix, "payload/app.slice/%s/", slice);
        if (r < 0)
                return r;
        const char *rest = startswith(path, prefix);
        return rest && !is_below_slice(rest);
}

/* --- Processes by PIDs in the pod ---------------------------------------------------------------------- */

typedef struct Numbers {
        uint32_t parent;                /* in this pid namespace */
        uint32_t of_level[NUMBERS_MAX]; /* the PID here first, then that in each pid namespace below */
        size_t n;
} Numbers;

static int read_numbers(pid_t pid, Numbers *ret)
{
        _cleanup_free_ char *text = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        int r = read_file_at(AT_FDCWD, path, STATUS_FILE_MAX, &text, NULL);
        if (r < 0)
                return r == -ENOENT ? -ESRCH : r;
        const char *parent = strstr(text, "\nPPid:\t"), *list = strstr(text, "\nNSpid:");
        if (!parent || !list)
                return -EBADMSG;
        *ret = (Numbers){.parent = (uint32_t) strtoul(parent + strlen("\nPPid:\t"), NULL, 10)};
        for (list += strlen("\nNSpid:"); *list == '\t' && ret->n < NUMBERS_MAX;)
                ret->of_level[ret->n++] = (uint32_t) strtoul(list + 1, (char **) &list, 10);
        return 0;
}

int process_innermost_number(pid_t pid, uint32_t *ret)
{
        Numbers n;
        int r = read_numbers(pid, &n);

        if (r < 0)
                return r;
        if (n.n == 0)
                return -EBADMSG;
        *ret = n.of_level[n.n - 1];
        return 0;
}

int process_parent(pid_t pid, pid_t *ret)
{
        Numbers n;
        int r = read_numbers(pid, &n);

        if (r >= 0)
                *ret = (pid_t) n.parent;
        return r;
}

static bool is_number(const Numbers *n, size_t level, uint32_t number)
{
        return level < n->n && n->of_level[level] == number;
}

/* The matching process in LIST; 0: none. */
static pid_t find_number(const char *list, size_t level, uint32_t number)
{
        for (const char *line = list; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                pid_t pid = (pid_t) strtol(line, NULL, 10);
                Numbers n;
                if (pid > 0 && read_numbers(pid, &n) >= 0 && is_number(&n, level, number))
                        return pid;
        }
        return 0;
}

/* Data read by PID belongs to the process of PID_FD if that still exists afterwards. */
static int check_named(const Pod *p, const char *place, pid_t leader, size_t level, uint32_t number,
                       pid_t pid, int pid_fd)
{
        _cleanup_free_ char *path = NULL;
        Numbers n;

        int r = read_numbers(pid, &n);
        if (r >= 0)
                r = pod_cgroup_of_process(p, pid, &path);
        if (r < 0)
                return r == -ENOENT ? -ESRCH : r;
        if (!is_number(&n, level, number) || !streq(path, place) || !process_is_alive(pid_fd))
                return -ESRCH;
        return n.parent == (uint32_t) leader ? 0 : -ECHILD;
}

int pod_app_open_process(Pod *p, const char *app, pid_t leader, uint32_t number, pid_t *ret_pid)
{
        _cleanup_free_ char *slice = NULL, *unit = NULL, *place = NULL, *unified = NULL, *file = NULL,
                            *list = NULL;
        Numbers own;

        int r = nested_slices(app, &slice);
        if (r >= 0)
                r = stage1_app_unit_name(app, &unit);
        if (r >= 0)
                r = xasprintf(&place, "payload/app.slice/%s/%s", slice, unit);
        if (r >= 0)
                r = pod_cgroup_unified(p, &unified);
        if (r >= 0)
                r = xasprintf(&file, "%s/%s/cgroup.procs", unified, place);
        if (r >= 0)
                r = read_file_at(AT_FDCWD, file, PROCS_FILE_MAX, &list, NULL);
        if (r >= 0)
                r = read_numbers(leader, &own);
        if (r < 0)
                return r;
        pid_t pid = find_number(list, own.n - 1, number);
        if (pid == 0)
                return -ESRCH;
        _cleanup_close_ int fd = (int) syscall(SYS_pidfd_open, pid, 0);
        if (fd < 0)
                return -errno;
        r = check_named(p, place, leader, own.n - 1, number, pid, fd);
        if (r < 0)
                return r;
        *ret_pid = pid;
        return TAKE_FD(fd);
}

/* The kernel lists the children of a process, of which the pod's systemd has all that it has started. */
int pod_find_process(pid_t leader, uint32_t number, pid_t *ret)
{
        _cleanup_free_ char *list = NULL;
        char path[96];
        Numbers own;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) leader, (int) leader);
        int r = read_numbers(leader, &own);
        if (r >= 0)
                r = read_file_at(AT_FDCWD, path, PROCS_FILE_MAX, &list, NULL);
        if (r < 0)
                return r;
        for (char *c = list; (c = strchr(c, ' ')); c++)
                *c = '\n';
        *ret = find_number(list, own.n - 1, number);
        return *ret > 0 ? 0 : -ESRCH;
}
