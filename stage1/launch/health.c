/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Health checks: a command, given by the image or the user, that runs with the app's own confinement.
 *
 * While the app starts, ready.c calls this; later a timer of the pod's systemd has it run ("launch check"). Each
 * result is reported to the supervisor, which counts: a check that succeeds makes the app healthy, a number of
 * consecutive failures makes it unhealthy.
 */

#include "stage1/launch/launch.h"

/* The text comes from the app and becomes one line. */
static void describe(const LaunchCheck *check, const Failure *f, char *ret, size_t size)
{
        const char *text = f->error.message ?: check->output;
        size_t n = f->error.message ? strlen(text) : strnlen(text, check->n_output);

        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
                n--;
        n = MIN(n, size - 1);
        memcpy(ret, text, n);
        ret[n] = 0;
        for (char *c = ret; *c; c++)
                if ((unsigned char) *c < 0x20 || *c == 0x7f)
                        *c = ' ';
}

static int open_pipe(LaunchCheck *check)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        (void) fcntl(fds[0], F_SETFL, O_NONBLOCK);
        check->read_fd = fds[0];
        check->write_fd = fds[1];
        return 0;
}

int health_check(Launch *l, uint64_t timeout_usec, uint64_t number, uint64_t counts_from, bool *ret_counted)
{
        LaunchCheck check = {.timeout_usec = timeout_usec,
                             .read_fd = -EBADF,
                             .write_fd = -EBADF,
                             .cgroup = CHECK_CGROUP_NULL};
        HandlerStatus h = {.ran = true, .exit_status = -1};
        char message[LAUNCH_MESSAGE_MAX];
        Failure f = {};

        int r = open_pipe(&check);
        if (r < 0)
                return r;
        l->phase = LAUNCH_HEALTH;
        l->check = &check;
        r = launch_run_handler(l, &h, &f);
        l->check = NULL;
        check_cgroup_done(&check.cgroup);
        describe(&check, &f, message, sizeof(message));
        safe_close(check.read_fd);
        safe_close(check.write_fd);
        error_done(&f.error);
        if (l->interrupted)
                return -EINTR;
        bool good = r >= 0 && h.exit_status == 0 && !h.timed_out;
        bool counts = now_usec(CLOCK_MONOTONIC) >= counts_from;
        r = report_check(l, &h, message, number, counts);
        if (r < 0)
                return r;
        if (ret_counted)
                *ret_counted = counts;
        return good;
}

int health_main(Launch *l, const LaunchNumbers *n)
{
        uint64_t number = 0;

        if (launch_ask(l, LAUNCH_CHECK, &number) < 0)
                return 0;
        int r = health_check(l, n->timeout, number, 0, NULL);
        return r < 0 && r != -EINTR ? 125 : 0;
}
