/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Health checks: a command, given by the image or the user, that runs with the app's own confinement, and
 * the record of its result.
 *
 * While the app starts, ready.c calls this; later a timer of the pod's systemd has it run ("launch check").
 * A check that succeeds makes the app healthy, a number of consecutive failures makes it unhealthy; stage0
 * is notified once of that, and acts on it.
 */

#include "stage1/launch/launch.h"

/* --- One check ----------------------------------------------------------------------------------------- */

static void set_message(HealthStatus *h, const char *text, size_t n)
{
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
                n--;
        free(h->message);
        h->message = n > 0 ? strndup(text, n) : NULL;
        /* The text comes from the app and is stored in one line of a record. */
        for (char *c = h->message; c && *c; c++)
                if ((unsigned char) *c < 0x20 || *c == 0x7f)
                        *c = ' ';
}

static void describe(HealthStatus *h, const LaunchCheck *check, const Failure *f)
{
        if (f->error.message)
                set_message(h, f->error.message, strlen(f->error.message));
        else
                set_message(h, check->output, strnlen(check->output, check->n_output));
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

int health_check(Launch *l, uint64_t timeout_usec, HealthStatus *h)
{
        LaunchCheck check = {.timeout_usec = timeout_usec, .read_fd = -EBADF, .write_fd = -EBADF};
        Failure f = {};

        int r = open_pipe(&check);
        if (r < 0)
                return r;
        l->phase = LAUNCH_HEALTH;
        l->check = &check;
        h->last = (HandlerStatus){.ran = true, .exit_status = -1};
        r = launch_run_handler(l, &h->last, &f);
        l->check = NULL;
        h->checked_usec = now_usec(CLOCK_REALTIME);
        describe(h, &check, &f);
        safe_close(check.read_fd);
        safe_close(check.write_fd);
        error_done(&f.error);
        if (l->interrupted)
                return -EINTR;
        return r >= 0 && h->last.exit_status == 0 && !h->last.timed_out;
}

/* --- Failures ------------------------------------------------------------------------------------------ */

int health_count(Launch *l, const LaunchNumbers *n, HealthStatus *h)
{
        bool tell = false;

        h->failures++;
        if (h->failures >= n->retries) {
                h->state = HEALTH_UNHEALTHY;
                tell = n->act && !h->action_sent;
                h->action_sent = h->action_sent || n->act;
        }
        int r = health_status_write(l->status_fd, l->app, h);
        if (r >= 0 && tell)
                r = launch_send_notice(l, LAUNCH_UNHEALTHY);
        return r;
}

/* --- Periodic checks ----------------------------------------------------------------------------------- */

/* 1: the app runs, and has become ready. */
static int app_runs(Launch *l, uint64_t *ret_started)
{
        _cleanup_app_status_ AppStatus s = {};
        int r = app_status_read(l->status_fd, l->app, &s);

        if (r < 0)
                return r;
        *ret_started = s.started_usec;
        return s.state == APP_RUNNING && s.readiness == READINESS_READY;
}

int health_main(Launch *l, const LaunchNumbers *n)
{
        _cleanup_health_status_ HealthStatus h = {};
        uint64_t started = 0, now_started = 0;

        if (app_runs(l, &started) <= 0)
                return 0;
        if (health_status_read(l->status_fd, l->app, &h) < 0)
                h = (HealthStatus){.last.exit_status = -1};
        int r = health_check(l, n->timeout, &h);
        /* The check may have failed because the app ended; a result for an earlier execution is not
         * recorded. */
        if (r < 0 || app_runs(l, &now_started) <= 0 || started != now_started)
                return 0;
        if (r == 0)
                return health_count(l, n, &h) < 0 ? 125 : 0;
        h.state = HEALTH_HEALTHY;
        h.failures = 0;
        return health_status_write(l->status_fd, l->app, &h) < 0 ? 125 : 0;
}
