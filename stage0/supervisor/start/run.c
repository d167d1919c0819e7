/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Running a prepared pod: starts its supervisor and is its client, in the foreground until the pod has ended
 * (foreground.c), or until it is up. */

#include <poll.h>
#include <sys/wait.h>

#include "stage0/supervisor/start/foreground.h"

#define PATIENCE_MSEC 2000 /* until what is waited for is said */

static int start_detached(Pod *p, const RunOptions *o, int *ret_report_fd, pid_t *ret_pid, Error *e)
{
        ForegroundProxy front = FOREGROUND_PROXY_NULL;
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set_errno(e, -errno, "Cannot create a pipe");
        front.report_fd = fds[1];
        int r = supervisor_spawn(p, o, &front, ret_pid, e);
        if (r < 0) {
                safe_close(fds[0]);
                return r;
        }
        *ret_report_fd = fds[0];
        return 0;
}

static int run_detached(Pod *p, const RunOptions *o, Error *e)
{
        _cleanup_close_ int report_fd = -EBADF;
        int status = 0;
        pid_t pid = 0;

        int r = start_detached(p, o, &report_fd, &pid, e);
        if (r < 0)
                return r;
        bool told = !isatty(STDERR_FILENO);
        do {
                r = operation_poll(pod_operation(p), report_fd, POLLIN, told ? -1 : PATIENCE_MSEC, NULL);
                if (r == 0)
                        log_info("Waiting until pod %s is up: 'acnspawn status %s' shows how far it is.",
                                 pod_display_name(p), pod_display_name(p));
                told = true;
        } while (r == 0);
        if (operation_ended(r)) {
                if (!p->config.owner) /* which decides what becomes of it */
                        log_info("Pod %s is still starting: 'acnspawn status %s' shows how far it is, "
                                 "'acnspawn stop %s' ends it.",
                                 pod_display_name(p), pod_display_name(p), pod_display_name(p));
                return r;
        }
        r = report_read(p, report_fd, &status, e);
        if (r == -ECHILD)
                r = report_silence(p, pid, NULL, e);
        return r < 0 ? r : status;
}

int run_pod(Pod *p, const RunOptions *o, bool *ret_detached, Error *e)
{
        if (p->state != POD_PREPARED)
                return pod_begin_run(p, e); /* with the reason why it cannot be run */
        return o->detach ? run_detached(p, o, e) : foreground_run(p, o, ret_detached, e);
}
