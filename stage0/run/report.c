/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a process that runs a pod tells the one that started it: through a pipe, one byte when the pod is up
 * and can do without it, and at the end a report. */

#include <sched.h>
#include <signal.h>

#include "stage0/run/front.h"

/* '1' alone: the pod is up; else how it ended. */
typedef struct Report {
        char kind; /* 'x': the pod has ended, with STATUS; 'e': an error; 'w': it is up, with a warning */
        int32_t status;
        char message[4096], hint[4096]; /* with 'x' why it did not get up; may be empty */
} Report;

static void describe(Report *report, const Error *e, int r)
{
        report->status = r;
        snprintf(report->message, sizeof(report->message), "%s", e->message ?: r < 0 ? strerror(-r) : "");
        snprintf(report->hint, sizeof(report->hint), "%s", e->hint ?: "");
}

/* Mounts of the supervisor's own namespace must not count as mounts on the pod. */
static int remove_pod(Pod *p, int mount_ns_fd)
{
        _cleanup_error_ Error e = ERROR_NULL;

        int r = setns(mount_ns_fd, CLONE_NEWNS) < 0 ? -errno : 0;
        if (r >= 0)
                r = pod_release(p, NULL, &e);
        if (r >= 0)
                r = pod_remove(p, &e);
        if (r < 0)
                log_debug("Pod %s is not removed: %s", pod_display_name(p), e.message ?: strerror(-r));
        return r;
}

_noreturn_ void report_run(Pod *p, const RunOptions *o, PodSockets *sockets, int ready_fd, int report_fd,
                           Front *front)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int mount_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        Report report = {.kind = 'x'};

        int r = supervise_pod(p, o, sockets, ready_fd, front, &e);
        if (r < 0)
                report.kind = 'e';
        describe(&report, &e, r);
        if (o->remove && (!front || front->report_fd < 0) && remove_pod(p, mount_ns_fd) >= 0 && e.hint)
                snprintf(report.hint, sizeof(report.hint), "%s",
                         "Without --rm the pod would be left, for 'acnspawn status' and 'acnspawn logs' to "
                         "tell more.");
        (void) signal(SIGPIPE, SIG_IGN); /* the parent has gone long ago, if all is well */
        (void) loop_write(front ? front->report_fd : report_fd, &report, sizeof(report));
        _exit(r < 0 ? 1 : r);
}

int report_warning(int fd, const char *text)
{
        Report report = {.kind = 'w'};

        snprintf(report.message, sizeof(report.message), "%s", text);
        return loop_write(fd, &report, sizeof(report));
}

int report_error(int fd, const Error *e)
{
        Report report = {.kind = 'e'};

        describe(&report, e, e->code);
        return loop_write(fd, &report, sizeof(report));
}

static int set_error(const Report *report, int code, Error *e)
{
        int r = error_set(e, code, "%.*s", (int) sizeof(report->message) - 1, report->message);

        return report->hint[0] ? error_hint(e, r, "%.*s", (int) sizeof(report->hint) - 1, report->hint) : r;
}

int report_read(Pod *p, int fd, int *ret_status, Error *e)
{
        _cleanup_error_ Error why = ERROR_NULL;
        Report report;
        size_t rest = sizeof(report) - 1;

        if (loop_read(fd, &report.kind, 1) != 1)
                return error_set(e, -ECHILD, "The process that runs pod %s was killed", pod_display_name(p));
        if (report.kind == '1')
                return 1;
        if (loop_read(fd, (char *) &report + 1, rest) != (ssize_t) rest)
                return error_set(e, -ECHILD, "The process that runs pod %s was killed", pod_display_name(p));
        if (report.kind == 'w') {
                log_warning("Pod %s is up, but: %.*s.", pod_display_name(p),
                            (int) sizeof(report.message) - 1, report.message);
                return 1;
        }
        if (report.kind == 'e')
                return set_error(&report, report.status, e);
        if (report.message[0])
                error_print(&why, set_error(&report, -EIO, &why));
        *ret_status = report.status;
        return 0;
}
