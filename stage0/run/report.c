/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a process that runs a pod tells the one that started it: through a pipe, one byte when the pod is up
 * and can do without it, and at the end a report. */

#include <signal.h>

#include "stage0/run/front.h"

/* '1' alone: the pod is up; else how it ended. */
typedef struct Report {
        char kind; /* 'x': the pod has ended, with STATUS; 'e': an error; 'w': it is up, with a warning */
        int32_t status;
        char message[1024], hint[4096];
} Report;

_noreturn_ void report_run(Pod *p, const RunOptions *o, PodSockets *sockets, int ready_fd, int report_fd,
                           Front *front)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Report report = {.kind = 'x'};

        int r = supervise_pod(p, o, sockets, ready_fd, front, &e);
        report.status = r;
        if (r < 0) {
                report.kind = 'e';
                snprintf(report.message, sizeof(report.message), "%s", e.message ?: strerror(-r));
                snprintf(report.hint, sizeof(report.hint), "%s", e.hint ?: "");
        }
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

int report_read(Pod *p, int fd, int *ret_status, Error *e)
{
        Report report;
        size_t rest = sizeof(report) - 1;

        if (loop_read(fd, &report.kind, 1) != 1)
                return error_set(e, -ECHILD, "The process that runs pod %s was killed", p->uuid);
        if (report.kind == '1')
                return 1;
        if (loop_read(fd, (char *) &report + 1, rest) != (ssize_t) rest)
                return error_set(e, -ECHILD, "The process that runs pod %s was killed", p->uuid);
        if (report.kind == 'x') {
                *ret_status = report.status;
                return 0;
        }
        if (report.kind == 'w') {
                log_warning("Pod %s is up, but: %.*s.", p->uuid, (int) sizeof(report.message) - 1,
                            report.message);
                return 1;
        }
        (void) error_set(e, report.status, "%.*s", (int) sizeof(report.message) - 1, report.message);
        if (report.hint[0])
                (void) error_hint(e, report.status, "%.*s", (int) sizeof(report.hint) - 1, report.hint);
        return report.status;
}
