/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The main process of an app, held by a descriptor, so that no other can be taken for it.
 *
 * The pod's systemd reports its pid. The pid may have been reused by the time that a descriptor is opened;
 * if systemd, which has to reap the process first, still reports the same pid afterwards, the descriptor
 * refers to the right process. The main process of an app may still be systemd itself, before it executes
 * the launcher, or the launcher, which is not confined yet. Both have the root of the pod, or started there:
 * an operation on the app would be done in the environment of the pod's systemd. And the process must be in
 * the app's cgroup: clients of systemd, and notify messages, can declare another process to be the main
 * process. */

#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "stage0/control/control-internal.h"

#define START_TIMEOUT_USEC (10 * UINT64_C(1000000))
#define LAUNCHER_NAME "launch"
#define SERVICE "org.freedesktop.systemd1.Service"

int pod_find_app(Pod *p, const char *name, const PodApp **ret, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_free_ char *list = NULL, *shown = name ? text_escape_for_terminal(name) : NULL;
        const PodManifest *m = p->manifest;

        if (!m || m->n_apps == 0)
                return error_set(e, -ENOENT, "Pod %s has no apps", pod_display_name(p));
        const PodApp *app = name ? pod_manifest_find_app(m, name) : m->n_apps == 1 ? m->apps[0] : NULL;
        if (app) {
                *ret = app;
                return 0;
        }
        for (size_t i = 0; i < m->n_apps; i++)
                if (strv_extend(&names, pod_app_path_name(m->apps[i])) < 0)
                        return error_oom(e);
        list = strv_join(names, ", ");
        int r = name ? error_set(e, -ENOENT, "Pod %s has no app '%s'", pod_display_name(p), shown ?: "")
                     : error_set(e, -ENOTUNIQ,
                                 "Pod %s has several apps: say which one with --app=", pod_display_name(p));
        return error_hint(e, r, "Its apps are: %s", list ?: "");
}

/* --- State in systemd ---------------------------------------------------------------------------------- */

typedef struct MainPidQuery {
        char unit[300];
        uint32_t main_pid; /* in the pid namespace of the pod; 0: none */
} MainPidQuery;

static int get_main_pid(sd_bus *bus, const char *path, uint32_t *ret, Error *e)
{
        _cleanup_(bus_error_done) sd_bus_error error = SD_BUS_ERROR_NULL;
        int r = sd_bus_get_property_trivial(bus, "org.freedesktop.systemd1", path, SERVICE, "MainPID",
                                            &error, 'u', ret);

        return r < 0 ? manager_error(&error, r, "report the app's main process", e) : 0;
}

static int find_main_process(sd_bus *bus, void *data, int *ret_fd, Error *e)
{
        _cleanup_free_ char *path = NULL;
        MainPidQuery *q = data;

        if (manager_unit_path(q->unit, &path) < 0)
                return error_oom(e);
        for (unsigned i = 0; i < 10; i++) {
                uint32_t again = 0;
                int r = get_main_pid(bus, path, &q->main_pid, e);
                if (r < 0 || q->main_pid == 0)
                        return r;
                _cleanup_close_ int fd = (int) syscall(SYS_pidfd_open, q->main_pid, 0);
                r = get_main_pid(bus, path, &again, e);
                if (r < 0)
                        return r;
                if (fd >= 0 && again == q->main_pid) {
                        *ret_fd = TAKE_FD(fd);
                        return 0;
                }
        }
        q->main_pid = 0;
        return 0;
}

/* --- State on the host --------------------------------------------------------------------------------- */

static int stat_of(pid_t pid, const char *name, struct stat *ret)
{
        char path[96];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
        if (stat(path, ret) < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        return 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether the program of PID is LAUNCHER. The program of an app may be on a file system of FUSE that the app serves, or of a server that
 * does not answer: only what the kernel has in memory is read, and only if the name is that of the launcher at all. */
static int executes_launcher(pid_t pid, const struct stat *launcher)
{
        char path[64], name[PATH_MAX];
        struct statx x;

        snprintf(path, sizeof(path), "/proc/%d/exe", (int) pid);
        ssize_t n = readlink(path, name, sizeof(name) - 1);
        if (n < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        name[n] = 0;
        char *deleted = (char *) endswith(name, " (deleted)");
        if (deleted)
                *deleted = 0;
        if (!endswith(name, "/" LAUNCHER_NAME) && !streq(name, "/")) /* "/": its mount is gone */
                return 0;
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &x) < 0)
                return errno == EACCES ? 0 : -errno; /* of FUSE, whose server serves no other users */
        return x.stx_ino == launcher->st_ino &&
               makedev(x.stx_dev_major, x.stx_dev_minor) == launcher->st_dev;
}

/* Whether it has left the pod's mount namespace, as the launcher does, and then executes another file than
 * the launcher of the pod. The order of the checks matters: a process that has left the namespace is not
 * systemd's own any more. */
int app_process_has_begun(Pod *p, pid_t pid)
{
        struct stat launcher, mounts, pod_mounts;
        PodRuntime runtime = {};

        int r = pod_runtime_read(p, &runtime);
        if (r >= 0)
                r = stat_of(runtime.leader, "root/acnspawn/" LAUNCHER_NAME, &launcher);
        if (r >= 0)
                r = stat_of(runtime.leader, "ns/mnt", &pod_mounts);
        if (r >= 0)
                r = stat_of(pid, "ns/mnt", &mounts);
        if (r < 0)
                return r;
        r = executes_launcher(pid, &launcher);
        return r < 0 ? r : !is_same(&mounts, &pod_mounts) && r == 0;
}

/* A process whose main thread has ended while others continue: the kernel provides no information by its pid
 * any more. */
bool process_main_thread_has_ended(pid_t pid)
{
        _cleanup_free_ char *text = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        if (read_file_at(AT_FDCWD, path, 1U << 20, &text, NULL) < 0)
                return false;
        const char *threads = strstr(text, "\nThreads:\t");
        return strstr(text, "\nState:\tZ") && threads &&
               strtoul(threads + strlen("\nThreads:\t"), NULL, 10) > 1;
}

int app_not_running(Pod *p, const PodApp *app, Error *e)
{
        AppStatus *statuses = NULL;
        AppState state = APP_WAITING;
        size_t n = p->manifest->n_apps;

        if (pod_read_statuses(p, false, &statuses) >= 0) {
                state = statuses[pod_manifest_index_of(p->manifest, app)].state;
                app_statuses_free(statuses, n);
        }
        return error_set(e, -ESRCH, "App %s of pod %s is not running: %s", pod_app_path_name(app),
                         pod_display_name(p),
                         state == APP_ENDED       ? "it has ended"
                         : state == APP_PRE_START ? "its pre-start handler runs"
                         : state == APP_POST_STOP ? "its post-stop handler runs"
                                                  : "it has not started");
}

/* 0: systemd knows of none. */
static int query_main_process(Pod *p, const PodApp *app, AppProcess *ret, Error *e)
{
        MainPidQuery q = {};
        _cleanup_close_ int fd = -EBADF;
        pid_t pid = 0;

        snprintf(q.unit, sizeof(q.unit), "app-%s.service", app->name);
        int r = pod_manager_call(p, find_main_process, &q, sizeof(q), &fd, e);
        if (r < 0)
                return r;
        if (fd < 0 || process_number(fd, &pid) < 0)
                return 0;
        *ret = (AppProcess){.pid = pid, .pid_fd = TAKE_FD(fd)};
        return 1;
}

/* Whether the process is in the app's cgroup; -ESRCH: it has ended. */
static int is_in_cgroup(const Pod *p, const PodApp *app, const AppProcess *process)
{
        int r = pod_app_has_process(p, app->name, process->pid);

        return r >= 0 && !process_is_alive(process->pid_fd) ? -ESRCH : r;
}

static int not_in_cgroup(const Pod *p, const PodApp *app, const AppProcess *process, Error *e)
{
        return error_set(e, -EPERM,
                         "Process %d, which the systemd of pod %s reports as that of app %s, is not in the "
                         "app's cgroup",
                         (int) process->pid, pod_display_name(p), pod_app_path_name(app));
}

int app_process_open(Pod *p, const PodApp *app, AppProcess *ret, Error *e)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + START_TIMEOUT_USEC;

        for (;;) {
                AppProcess process = {.pid_fd = -EBADF};
                int r = pod_check_running(p, e);

                if (r >= 0)
                        r = query_main_process(p, app, &process, e);
                if (r == 0)
                        r = app_not_running(p, app, e);
                if (r < 0)
                        return r;
                r = app_process_has_begun(p, process.pid);
                bool outside_cgroup = r > 0;
                if (r > 0)
                        r = is_in_cgroup(p, app, &process);
                if (r > 0) {
                        *ret = process;
                        return 0;
                }
                safe_close(process.pid_fd);
                if (r == -ESRCH && process_main_thread_has_ended(process.pid))
                        return error_set(e, -EOPNOTSUPP,
                                         "App %s of pod %s cannot be reached: its main thread has ended, "
                                         "but others still run",
                                         app->name, pod_display_name(p));
                if (r < 0 && r != -ESRCH)
                        return error_set_errno(e, r, "Cannot query app %s of pod %s", app->name,
                                               pod_display_name(p));
                if (now_usec(CLOCK_MONOTONIC) >= end && outside_cgroup)
                        return not_in_cgroup(p, app, &process, e);
                if (now_usec(CLOCK_MONOTONIC) >= end)
                        return error_set(e, -ETIME, "App %s of pod %s did not start in time", app->name,
                                         pod_display_name(p));
                (void) usleep(20000);
        }
}
