/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The last program of a pod: what the pod's systemd executes, as process 1, when it leaves.
 *
 * systemd's own program for this unmounts, detaches and syncs a whole machine, which takes a pod longer than
 * all the rest of its end. In a pod the kernel cleans up; only the journal daemon must be allowed to write
 * what it has, after the supervisor has forwarded all that the apps have written. So all processes get SIGTERM, then
 * SIGKILL, and this process ends with the exit status that systemd passes.
 */

#include <signal.h>
#include <sys/wait.h>

#include "stage1/launch/launch.h"

#define FLUSH_TIMEOUT_USEC UINT64_C(10000000)
#define TERM_TIMEOUT_USEC UINT64_C(10000000)
#define KILL_TIMEOUT_USEC UINT64_C(5000000)

/* Waits until no other process is left; false: there still is one. */
static bool wait_for_all(const sigset_t *child, uint64_t timeout_usec)
{
        uint64_t end = now_usec(CLOCK_MONOTONIC) + timeout_usec;

        for (;;) {
                pid_t pid = waitpid(-1, NULL, WNOHANG);
                if (pid < 0 && errno == ECHILD)
                        return true;
                if (pid != 0)
                        continue;
                uint64_t now = now_usec(CLOCK_MONOTONIC);
                if (now >= end)
                        return false;
                struct timespec left = {
                                .tv_sec = (time_t) ((end - now) / 1000000),
                                .tv_nsec = (long) ((end - now) % 1000000 * 1000),
                };
                (void) sigtimedwait(child, NULL, &left);
        }
}

static int exit_code(char *const *argv)
{
        uint32_t code = 0;

        STRV_FOREACH (a, argv) {
                const char *value = startswith(*a, "--exit-code=");
                if (streq(*a, "--exit-code") && a[1])
                        value = a[1];
                if (value)
                        (void) parse_u32(value, &code);
        }
        return (int) (code & 255);
}

int shutdown_main(char *const *argv)
{
        sigset_t child;

        if (getpid() != 1) /* elsewhere "all processes" would be those of the host */
                return 125;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        (void) sigprocmask(SIG_BLOCK, &child, NULL);
        launch_flush_pod(FLUSH_TIMEOUT_USEC);
        (void) kill(-1, SIGTERM);
        (void) kill(-1, SIGCONT);
        if (!wait_for_all(&child, TERM_TIMEOUT_USEC)) {
                (void) kill(-1, SIGKILL);
                (void) wait_for_all(&child, KILL_TIMEOUT_USEC);
        }
        return exit_code(argv);
}
