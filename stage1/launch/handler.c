/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Event handlers: run as a child that takes exactly the way the app itself takes, so that they are confined
 * alike.
 *
 * The launcher stays outside, waits, and tells how the handler ended. Memory that both share brings back why
 * a handler could not be started at all: writing there takes no system call, of which the child may have
 * none left.
 */

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "stage1/launch/launch.h"

typedef struct ChildReport {
        int32_t failed; /* negative errno, or 0: the handler was started */
        int32_t cause;
        char message[1024];
} ChildReport;

static _noreturn_ void child(Launch *l, ChildReport *report)
{
        Failure f = {};

        l->status_fd = safe_close(l->status_fd); /* the record is our parent's to write */
        int r = launch_become(l, NULL, &f);
        snprintf(report->message, sizeof(report->message), "%s", f.error.message ?: strerror(-r));
        report->cause = (int32_t) f.cause;
        report->failed = r < 0 ? r : -EIO;
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

static int read_report(const ChildReport *report, Failure *f)
{
        if (report->failed == 0)
                return 0;
        f->cause = (AppCause) report->cause;
        return error_set(&f->error, report->failed, "%s", report->message);
}

static int run_child(Launch *l, ChildReport *report, HandlerStatus *ret, Failure *f)
{
        HandlerStatus h = {.ran = true, .exit_status = -1};
        sigset_t signals;
        int status = 0;

        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGCHLD);
        (void) sigprocmask(SIG_BLOCK, &signals, NULL);
        pid_t pid = fork();
        if (pid == 0)
                child(l, report);
        if (pid < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot fork");

        int r = wait_for(pid, &signals, &status, &h.timed_out);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot wait for an event handler");
        r = read_report(report, f);
        if (r < 0)
                return r;
        if (WIFEXITED(status))
                h.exit_status = WEXITSTATUS(status);
        else if (WIFSIGNALED(status))
                h.signal = WTERMSIG(status);
        *ret = h;
        return 0;
}

int launch_run_handler(Launch *l, HandlerStatus *ret, Failure *f)
{
        ChildReport *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                   -1, 0);

        if (report == MAP_FAILED)
                return failure_set_errno(f, CAUSE_SETUP, -errno,
                                         "Cannot share memory with an event handler");
        int r = run_child(l, report, ret, f);
        munmap(report, sizeof(*report));
        return r;
}
