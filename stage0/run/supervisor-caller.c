/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whoever started us: he is told how far the pod is, sends signals, and may be attached to an app or leave
 * us.
 */

#include <signal.h>
#include <sys/prctl.h>

#include "stage0/run/supervisor-internal.h"

/* Whoever started us, in the foreground: a process in front of us is whom he knows. */
void supervisor_tell_host(Supervisor *s, const char *text)
{
        if (!s->options->detach)
                (void) sd_pid_notify(s->front ? getppid() : 0, 0, text);
}

/* --- Signals ------------------------------------------------------------------------------------------- */

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
static const int job_signals[] = {SIGTSTP, SIGCONT}; /* from the front, for whom they were meant */

/* nohup, and shells for what they put into the background, have us ignore what is not meant for us. A signal
 * that is blocked would reach us all the same. */
static bool is_ignored(int sig)
{
        struct sigaction sa;

        return sigaction(sig, NULL, &sa) >= 0 && sa.sa_handler == SIG_IGN;
}

/* A stop of a whole unit reaches the client, which passes it on, and this process: that is one request. So
 * only the client's signals count as a second one, as a SIGHUP does not. */
static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        Supervisor *s = userdata;
        bool is_clients = !s->front || (pid_t) si->ssi_pid == getppid();

        bool kills = supervisor_request_stop(s, is_clients ? (int) si->ssi_signo : SIGHUP);

        if (!s->detached && isatty(STDERR_FILENO))
                log_notice(kills ? "Killing pod %s." : "Stopping pod %s; once more to kill it.",
                           pod_display_name(s->pod));
        return 0;
}

static int on_job_control(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        Supervisor *s = userdata;

        pumps_hold(s->pumps, si->ssi_signo == SIGTSTP);
        return 0;
}

void supervisor_block_signals(const Front *front)
{
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(stop_signals); i++)
                if (!is_ignored(stop_signals[i]))
                        sigaddset(&set, stop_signals[i]);
        for (size_t i = 0; front && i < ELEMENTSOF(job_signals); i++)
                sigaddset(&set, job_signals[i]);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
}

void signals_release(void)
{
        const struct timespec now = {};
        sigset_t set;

        sigfillset(&set);
        while (sigtimedwait(&set, NULL, &now) > 0)
                ;
        sigemptyset(&set);
        (void) sigprocmask(SIG_SETMASK, &set, NULL);
}

int supervisor_watch_signals(Supervisor *s)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(stop_signals); i++)
                if (!is_ignored(stop_signals[i]))
                        r = sd_event_add_signal(s->event, NULL, stop_signals[i], on_signal, s);
        for (size_t i = 0; r >= 0 && s->front && i < ELEMENTSOF(job_signals); i++)
                r = sd_event_add_signal(s->event, NULL, job_signals[i], on_job_control, s);
        return r;
}

/* --- The front ----------------------------------------------------------------------------------------- */

/* He has left us: from now on we are as if we had been detached from the start. */
static void on_left(Supervisor *s)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        s->detached = true;
        (void) prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
        (void) pod_cgroup_go_along(&s->cgroup, NULL);
        (void) !chdir("/");
        pumps_show_nothing(s->pumps);
        for (int fd = 0; null >= 0 && fd <= 2; fd++)
                (void) dup2(null, fd);
        (void) loop_write(s->front->report_fd, "1", 1);
        s->front->report_fd = safe_close(s->front->report_fd);
}

/* Nothing is shown on his terminal until that is as the app's has to be. */
static void on_front(void *userdata, AttachEvent event)
{
        Supervisor *s = userdata;

        if (event == ATTACH_LEAVE)
                on_left(s);
        else
                pumps_hold(s->pumps, event == ATTACH_REQUEST);
}

int supervisor_connect_front(Supervisor *s, Error *e)
{
        Front *f = s->front;

        if (!f || !f->app || !s->inputs)
                return 0;
        if (f->kind == INPUT_TERMINAL)
                pumps_show_only(s->pumps, f->app);
        return inputs_add_front(s->inputs, f->app, TAKE_FD(f->in_fd), TAKE_FD(f->socket), on_front, s, e);
}
