/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Kernel parameters of a pod, written from outside.
 *
 * /proc/sys shows and changes the parameters of the namespaces of the calling process: a child joins the
 * pod's network, ipc and uts namespaces, but stays in our mount namespace, where /proc is writable, and in
 * our user namespace. For parameters of an ipc namespace some kernels require the root user of the
 * namespace, others that of the host: the child tries both. */

#include <sched.h>
#include <sys/wait.h>

#include "stage0/supervisor/apps/app-limits.h"

/* The child's result: the parameter that failed, and why; empty on success. */
typedef struct Report {
        size_t index;
        int error;
} Report;

static int enter(pid_t pid, const char *name, int type)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) pid, name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 || setns(fd, type) < 0 ? -errno : 0;
}

static int enter_namespaces(pid_t pid, bool host_network)
{
        int r = enter(pid, "ipc", CLONE_NEWIPC);

        if (r >= 0)
                r = enter(pid, "uts", CLONE_NEWUTS);
        if (r >= 0 && !host_network)
                r = enter(pid, "net", CLONE_NEWNET);
        return r;
}

static int write_parameter(int sys_fd, const Pair *p, uid_t root)
{
        int r = write_attribute_at(sys_fd, p->name, p->value);

        if ((r != -EACCES && r != -EPERM) || root == 0)
                return r;
        if (seteuid(root) < 0)
                return -errno;
        r = write_attribute_at(sys_fd, p->name, p->value);
        return seteuid(0) < 0 ? -errno : r;
}

static _noreturn_ void child(const Pod *p, pid_t pid, const PairList *l, int report_fd)
{
        int sys_fd = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
        Report report = {.index = SIZE_MAX, .error = sys_fd < 0 ? -errno : 0};

        if (report.error >= 0)
                report.error = enter_namespaces(pid, p->config.net == NET_HOST);
        for (size_t i = 0; report.error >= 0 && i < l->n; i++) {
                report.index = i;
                report.error = write_parameter(sys_fd, &l->items[i], pod_root_uid(p));
        }
        if (report.error < 0)
                (void) loop_write(report_fd, &report, sizeof(report));
        _exit(report.error < 0);
}

static int explain(const Pod *p, const PairList *l, const Report *report, Error *e)
{
        if (report->index >= l->n)
                return error_set_errno(e, report->error, "Cannot go to the namespaces of pod %s",
                                       pod_display_name(p));
        const Pair *pair = &l->items[report->index];
        int r = error_set_errno(e, report->error, "Cannot set the kernel parameter %s of the pod to '%s'",
                                pair->name, pair->value);
        if (report->error == -ENOENT)
                return error_hint(e, r, "This kernel has no such parameter, or not one for each namespace.");
        return r;
}

static int run_child(const Pod *p, pid_t pid, const PairList *l, Error *e)
{
        Report report;
        int fd, status = 0;

        pid_t k = child_fork_with_pipe(&fd);
        if (k == 0)
                child(p, pid, l, fd);
        if (k < 0)
                return error_set_errno(e, k, "Cannot set kernel parameters of pod %s", pod_display_name(p));
        ssize_t n = loop_read(fd, &report, sizeof(report));
        safe_close(fd);
        int r = waitpid(k, &status, 0) < 0 ? -errno : 0;
        if (r >= 0 && n == (ssize_t) sizeof(report))
                return explain(p, l, &report, e);
        if (r >= 0 && (n != 0 || status != 0))
                r = -ECHILD;
        return r < 0 ? error_set_errno(e, r, "Cannot set kernel parameters of pod %s", pod_display_name(p))
                     : 0;
}

int parameters_set(Pod *p, pid_t pid, Error *e)
{
        PairList l = {};
        int r = stage1_sysctls(
                        p->manifest,
                        (SharedNamespaces){.network = p->config.net == NET_HOST, .ipc = p->config.host_ipc},
                        &l, e);

        if (r < 0)
                return r;
        if (l.n > 0)
                r = run_child(p, pid, &l, e);
        pair_list_done(&l);
        return r;
}
