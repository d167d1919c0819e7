/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Event handlers: run as a child that takes exactly the way the app itself takes, so that they are confined
 * alike.
 *
 * The launcher stays outside, waits, and tells how the handler ended. A pipe that closes on exec brings back
 * why a handler could not be started at all.
 */

#include <signal.h>
#include <sys/wait.h>

#include "stage1/launch/launch.h"

typedef struct ChildReport {
        int32_t cause, code;
        char message[1024];
} ChildReport;

static _noreturn_ void child(Launch *l, int report_fd)
{
        Failure f = {};
        ChildReport report = {};

        int r = launch_become(l, NULL, &f);
        report.cause = (int32_t) f.cause;
        report.code = r;
        snprintf(report.message, sizeof(report.message), "%s", f.error.message ?: strerror(-r));
        (void) loop_write(report_fd, &report, sizeof(report));
        _exit(125);
}

/* Waits for the child; a SIGTERM that comes first ends it. Both signals are blocked. */
static int wait_for(pid_t pid, const sigset_t *signals, int *ret_status, bool *ret_timed_out)
{
        bool terminated = false;

        for (;;) {
                pid_t p = waitpid(pid, ret_status, WNOHANG);
                if (p < 0 && errno != EINTR)
                        return -errno;
                if (p == pid) {
                        *ret_timed_out = terminated;
                        return 0;
                }
                int s = sigwaitinfo(signals, NULL);
                if (s == SIGTERM) {
                        terminated = true;
                        (void) kill(pid, SIGKILL);
                }
        }
}

static int read_report(int fd, Failure *f)
{
        ChildReport report;
        ssize_t n = loop_read(fd, &report, sizeof(report));

        if (n != (ssize_t) sizeof(report))
                return 0; /* the pipe closed on exec: the handler runs */
        report.message[sizeof(report.message) - 1] = 0;
        f->cause = (AppCause) report.cause;
        return error_set(&f->error, report.code ?: -EIO, "%s", report.message);
}

int launch_run_handler(Launch *l, HandlerStatus *ret, Failure *f)
{
        HandlerStatus h = {.ran = true, .exit_status = -1};
        sigset_t signals;
        int fds[2], status = 0;

        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGCHLD);
        (void) sigprocmask(SIG_BLOCK, &signals, NULL);
        if (pipe2(fds, O_CLOEXEC) < 0)
                return failure_set(f, CAUSE_SETUP, -errno, "Cannot create a pipe");
        pid_t pid = fork();
        if (pid == 0) {
                safe_close(fds[0]);
                child(l, fds[1]);
        }
        safe_close(fds[1]);
        _cleanup_close_ int report_fd = fds[0];
        if (pid < 0)
                return failure_set(f, CAUSE_SETUP, -errno, "Cannot fork");

        int failed = read_report(report_fd, f);
        int r = wait_for(pid, &signals, &status, &h.timed_out);
        if (r < 0)
                return failure_set(f, CAUSE_SETUP, r, "Cannot wait for an event handler");
        if (failed < 0)
                return failed;
        if (WIFEXITED(status))
                h.exit_status = WEXITSTATUS(status);
        else if (WIFSIGNALED(status))
                h.signal = WTERMSIG(status);
        *ret = h;
        return 0;
}
