/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Event handlers and health checks: run in a child by the same code as the app itself, so that they are
 * confined alike.
 *
 * The launcher stays outside, waits, and reports how the handler ended. If a handler could not be started at
 * all, the reason is returned in shared memory: writing there takes no system call, since the child's filter
 * may forbid all of them.
 */

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "stage1/launch/launch.h"

#define PIPE_SIZE 65536U
#define SLICE_USEC UINT64_C(1000000)
#define LATE_USEC UINT64_C(500000)

typedef struct ChildReport {
        int32_t failed; /* negative errno, or 0: the handler was started */
        int32_t cause;
        char message[1024];
        char identity[APP_IDENTITY_MAX];
} ChildReport;

static _noreturn_ void child(Launch *l, ChildReport *report)
{
        Failure f = {};

        l->shared_identity = report->identity;
        if (l->check)
                (void) setsid(); /* without the controlling terminal of the app */
        int r = launch_become(l, NULL, &f);
        snprintf(report->message, sizeof(report->message), "%s", f.error.message ?: strerror(-r));
        report->cause = (int32_t) f.cause;
        report->failed = r < 0 ? r : -EIO;
        _exit(125);
}

/* Reads the available output, but not more than a pipe holds, so that the time-out also applies to a check
 * that never stops writing. The beginning of the output is kept. */
static void drain(LaunchCheck *check)
{
        char chunk[4096];

        for (size_t i = 0; i < PIPE_SIZE / sizeof(chunk); i++) {
                ssize_t n = read(check->read_fd, chunk, sizeof(chunk));
                if (n <= 0)
                        return;
                size_t k = MIN((size_t) n, CHECK_OUTPUT_MAX - check->n_output);
                memcpy(check->output + check->n_output, chunk, k);
                check->n_output += k;
        }
}

/* Kills a handler, or a check with all processes that it has started. */
static void kill_child(const Launch *l, pid_t pid)
{
        if (l->check && check_cgroup_kill(&l->check->cgroup) < 0) /* cgroup.kill needs Linux 5.14 */
                (void) kill(-pid, SIGKILL);
        (void) kill(pid, SIGKILL);
}

/* The time-out of a check. It is tested every second: if much more time has passed, the pod was paused, this
 * process together with the check, and that time does not count. */
typedef struct Deadline {
        uint64_t end, looked, expected;
} Deadline;

static uint64_t deadline_look(Deadline *d)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (d->end != UINT64_MAX && now > d->expected + LATE_USEC)
                d->end += now - d->expected;
        d->looked = now;
        return now;
}

/* The time to wait after the last test, in milliseconds. */
static int deadline_next(Deadline *d)
{
        if (d->end == UINT64_MAX)
                return -1;
        uint64_t left = d->end > d->looked ? MIN(d->end - d->looked, SLICE_USEC) : 0;

        d->expected = d->looked + left;
        return (int) (left / 1000 + 1);
}

/* Waits for the child, which is killed on a signal to end this process or on the time-out of a check. */
static int wait_for(Launch *l, pid_t pid, int signal_fd, int *ret_status, HandlerStatus *h)
{
        LaunchCheck *check = l->check;
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        Deadline deadline = {.end = check ? begin + check->timeout_usec : UINT64_MAX, .expected = begin};

        for (;;) {
                struct pollfd p[] = {{.fd = signal_fd, .events = POLLIN},
                                     {.fd = check ? check->read_fd : -1, .events = POLLIN}};
                struct signalfd_siginfo si;
                pid_t k = waitpid(pid, ret_status, WNOHANG);

                if (k < 0 && errno != EINTR)
                        return -errno;
                if (k == pid)
                        return 0;
                if (deadline_look(&deadline) >= deadline.end) {
                        h->timed_out = true;
                        kill_child(l, pid);
                        deadline.end = UINT64_MAX;
                }
                (void) poll(p, ELEMENTSOF(p), deadline_next(&deadline));
                if (check && p[1].revents)
                        drain(check);
                if (read(signal_fd, &si, sizeof(si)) == sizeof(si) && si.ssi_signo != SIGCHLD) {
                        h->timed_out = !check;
                        l->interrupted = true;
                        kill_child(l, pid);
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
        _cleanup_close_ int signal_fd = -EBADF;
        sigset_t signals;
        int status = 0;

        launch_block_signals(&signals);
        sigaddset(&signals, SIGCHLD);
        (void) sigprocmask(SIG_BLOCK, &signals, NULL);
        signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signal_fd < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot wait for signals");
        int r = launch_enter_processes(l, f);
        if (r >= 0 && l->check)
                r = check_cgroup_make(&l->check->cgroup, f);
        if (r < 0)
                return r;
        pid_t pid = l->check ? check_cgroup_fork(&l->check->cgroup) : fork();
        if (pid == 0)
                child(l, report);
        if (pid < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot fork");

        r = wait_for(l, pid, signal_fd, &status, &h);
        if (r >= 0 && l->check) {
                if (check_cgroup_kill(&l->check->cgroup) < 0) /* processes that the check left behind */
                        (void) kill(-pid, SIGKILL);
                drain(l->check);
        }
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
        report->identity[APP_IDENTITY_MAX - 1] = 0;
        if (!l->identity && report->identity[0])
                l->identity = strdup(report->identity);
        munmap(report, sizeof(*report));
        return r;
}
