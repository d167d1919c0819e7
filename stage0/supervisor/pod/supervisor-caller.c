/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that started the supervisor: it is notified of the progress of the pod, sends signals, and may
 * be attached to an app or detach. */

#include <signal.h>
#include <sys/prctl.h>

#include "stage0/supervisor/pod/supervisor-internal.h"

/* Notifies the service manager, if any. In the foreground it knows only the client, which is our parent. */
void supervisor_notify_host(Supervisor *s, const char *text)
{
        if (!s->options->detach)
                (void) sd_pid_notify(s->front ? getppid() : 0, 0, text);
}

/* systemd 262 refuses READY=1 after STOPPING=1, and lets the unit fail. So that the pod stops is told once it was ready; one that
 * ends before is told to have been ready or not by supervisor_notify_end(). */
void supervisor_notify_stopping(Supervisor *s)
{
        if (supervisor_is_up(s))
                supervisor_notify_host(s, "STOPPING=1");
}

void supervisor_notify_end(Supervisor *s, bool started)
{
        if (supervisor_is_up(s))
                return;
        if (started)
                supervisor_notify_host(s, "READY=1");
        supervisor_notify_host(s, "STOPPING=1");
}

/* --- The watchdog of a unit of the host ---------------------------------------------------------------- */

/* The time that the unit's WatchdogSec= gives its main process: this one, or the client in front of it. 0: none. */
static uint64_t watchdog_usec(const Supervisor *s)
{
        const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
        uint64_t n, its;

        if (s->options->detach || !usec || parse_u64(usec, &n) < 0 || n == UINT64_MAX)
                return 0;
        if (pid && (parse_u64(pid, &its) < 0 || its != (uint64_t) (s->front ? getppid() : getpid())))
                return 0;
        return n;
}

/* The event loop works, by which the pod is run. */
static int on_watchdog(sd_event_source *source, uint64_t usec, void *userdata)
{
        Supervisor *s = userdata;

        supervisor_notify_host(s, "WATCHDOG=1");
        (void) sd_event_source_set_time_relative(source, watchdog_usec(s) / 2);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return 0;
}

int supervisor_serve_watchdog(Supervisor *s)
{
        uint64_t usec = watchdog_usec(s);

        return usec == 0 ? 0
                         : sd_event_add_time_relative(s->event, NULL, CLOCK_MONOTONIC, usec / 2, 0,
                                                      on_watchdog, s);
}

/* --- Signals ------------------------------------------------------------------------------------------- */

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
static const int job_signals[] = {SIGTSTP, SIGCONT}; /* from the client in the foreground */

/* nohup, and shells for background jobs, set signals to ignored. A blocked signal would be received
 * nevertheless. */
static bool is_ignored(int sig)
{
        struct sigaction sa;

        return sigaction(sig, NULL, &sa) >= 0 && sa.sa_handler == SIG_IGN;
}

/* A stop of a whole unit reaches the client, which passes it on, and this process: that is one request. So
 * only the client's signals count as a second one, but not SIGHUP. */
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

        forwarders_hold(s->forwarders, si->ssi_signo == SIGTSTP);
        return 0;
}

void supervisor_block_signals(const ForegroundProxy *front)
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

/* --- The client in the foreground ---------------------------------------------------------------------- */

/* The client detaches: from now on this process behaves as if started detached. */
static void on_left(Supervisor *s)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        s->detached = true;
        (void) prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
        (void) pod_cgroup_move(s->pod, &s->cgroup, getpid(), NULL);
        forwarders_move_writers(s->forwarders, &s->cgroup);
        (void) !chdir("/");
        forwarders_show_nothing(s->forwarders);
        for (int fd = 0; null >= 0 && fd <= 2; fd++)
                (void) dup2(null, fd);
        (void) loop_write(s->front->report_fd, "1", 1);
        s->front->report_fd = safe_close(s->front->report_fd);
}

/* Output is held back until the client's terminal is in the mode that the app needs. */
static void on_front(void *userdata, ForegroundEvent event)
{
        Supervisor *s = userdata;

        if (event == FOREGROUND_LEAVE)
                on_left(s);
        else
                forwarders_hold(s->forwarders, event == FOREGROUND_STARTED);
}

int supervisor_connect_front(Supervisor *s, Error *e)
{
        ForegroundProxy *f = s->front;

        if (!f || !f->app || !s->inputs)
                return 0;
        if (f->kind == INPUT_TERMINAL)
                forwarders_show_only(s->forwarders, f->app);
        return inputs_add_front(s->inputs, f->app, TAKE_FD(f->in_fd), TAKE_FD(f->socket), on_front, s, e);
}
