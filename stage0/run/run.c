/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Running a prepared pod: in the foreground by this very process, or detached by a child that goes on
 * alone. */

#include <sys/wait.h>

#include "library/libcapng.h"
#include "stage0/run/run-internal.h"

static int run_in_foreground(Pod *p, const RunOptions *o, PodSockets *sockets, Error *e)
{
        return supervise_pod(p, o, sockets, -EBADF, e);
}

/* What the child has to say before the pod is up: '1' alone when it is; else how it ended. */
typedef struct DetachReport {
        char kind; /* 'x': the pod has ended, with this status; 'e': an error */
        int32_t status;
        char message[1024], hint[4096];
} DetachReport;

static int detach_from_terminal(void)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || setsid() < 0 || chdir("/") < 0)
                return -errno;
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(null, fd) < 0)
                        return -errno;
        return 0;
}

static _noreturn_ void detached_child(Pod *p, const RunOptions *o, PodSockets *sockets, int report_fd)
{
        _cleanup_error_ Error e = ERROR_NULL;
        DetachReport report = {.kind = 'x'};
        int r = detach_from_terminal(), ready_fd = fcntl(report_fd, F_DUPFD_CLOEXEC, 3);

        if (r >= 0)
                r = supervise_pod(p, o, sockets, ready_fd, &e);
        report.status = r;
        if (r < 0) {
                report.kind = 'e';
                snprintf(report.message, sizeof(report.message), "%s", e.message ?: strerror(-r));
                snprintf(report.hint, sizeof(report.hint), "%s", e.hint ?: "");
        }
        (void) signal(SIGPIPE, SIG_IGN); /* the parent has gone long ago, if all is well */
        (void) loop_write(report_fd, &report, sizeof(report));
        _exit(r < 0 ? 1 : r);
}

static int read_report(Pod *p, int fd, Error *e)
{
        DetachReport report;
        char kind;

        if (loop_read(fd, &kind, 1) != 1)
                return error_set(e, -EIO, "The process that runs pod %s was killed", p->uuid);
        if (kind == '1')
                return 0;
        size_t rest = sizeof(report) - 1;
        if (loop_read(fd, (char *) &report + 1, rest) != (ssize_t) rest)
                return error_set(e, -EIO, "The process that runs pod %s was killed", p->uuid);
        if (kind == 'x')
                return report.status;
        (void) error_set(e, report.status, "%.*s", (int) sizeof(report.message) - 1, report.message);
        if (report.hint[0])
                (void) error_hint(e, report.status, "%.*s", (int) sizeof(report.hint) - 1, report.hint);
        return report.status;
}

static int run_detached(Pod *p, const RunOptions *o, PodSockets *sockets, Error *e)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set_errno(e, -errno, "Cannot create a pipe");
        (void) fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
                safe_close(fds[0]);
                detached_child(p, o, sockets, fds[1]);
        }
        safe_close(fds[1]);
        _cleanup_close_ int report_fd = fds[0];
        if (pid < 0)
                return error_set_errno(e, -errno, "Cannot fork");
        return read_report(p, report_fd, e);
}

int run_pod(Pod *p, const RunOptions *o, Error *e)
{
        _cleanup_(pod_sockets_freep) PodSockets *sockets = NULL;
        PassedSockets none = {};
        int r = pod_isolators_check(p, e);

        /* What is needed once the pod counts as running is there before. */
        if (r >= 0)
                r = library_load(&systemd_library, e);
        if (r >= 0)
                r = library_load(&capng_library, e);
        if (r >= 0)
                r = pod_sockets_new(p, o->sockets ?: &none, &sockets, e);
        if (r >= 0 && (o->strict || p->config.strict))
                r = pod_require_isolators(p, o->config_dirs, e);
        if (r >= 0)
                r = pod_begin_run(p, e);
        if (r < 0)
                return r;
        return o->detach ? run_detached(p, o, sockets, e) : run_in_foreground(p, o, sockets, e);
}
