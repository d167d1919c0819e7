/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests to end the pod: calls of its interface, systemd-machined, idleness, and, by way of
 * supervisor-caller.c, signals. The pod's systemd is asked for an orderly end, and does the rest. */

#include <signal.h>

#include "stage0/supervisor/pod/supervisor-internal.h"
#include "stage0/supervisor/apps/task-state.h"

void supervisor_kill(Supervisor *s)
{
        (void) pod_cgroup_kill(s->pod, NULL);
        if (s->nspawn.pid_fd >= 0)
                (void) process_signal(s->nspawn.pid_fd, SIGKILL);
}

/* The pod's systemd takes this as the order to go to halt.target, which in our pods is the orderly end; one of a user
 * goes to exit.target. */
void supervisor_signal_leader(Supervisor *s)
{
        pod_pause_release(s->pause);
        FOREACH_APP(app, s->apps)
        if (app->units[0].life == UNIT_UP && app->stop == STOP_NONE)
                app->stop = STOP_POD_ENDED;
        if (s->leader_fd < 0)
                return;
        (void) process_signal(s->leader_fd, s->pod->config.host_pid ? SIGTERM : SIGRTMIN + 3);
        /* A process of the host may have stopped PID 1 by SIGSTOP. */
        (void) process_signal(s->leader_fd, SIGCONT);
}

void supervisor_stop(Supervisor *s)
{
        s->stop_requests++;
        supervisor_signal_leader(s);
}

/* Before the pod's systemd is up it would lose the signal: it is sent again then. A stop requested by other
 * means, as by the host's systemd, which uses two at shutdown, does not make a signal the second one; and a
 * SIGHUP follows another signal by itself, as at the end of a session. */
bool supervisor_request_stop(Supervisor *s, int sig)
{
        s->stop_requests++;
        s->stopped_by_host = true;
        supervisor_notify_stopping(s);
        if (sig == SIGHUP || s->stop_signals++ == 0 || s->detached) {
                supervisor_signal_leader(s);
                return false;
        }
        supervisor_kill(s);
        return true;
}

/* --- Before the event loop ----------------------------------------------------------------------------- */

#define CALLS_MAX 64U /* per step, as plugins have to be watched meanwhile */

bool supervisor_serve_calls(void *userdata)
{
        Supervisor *s = userdata;

        for (unsigned i = 0; i < CALLS_MAX && sd_event_run(s->event, 0) > 0; i++)
                ;
        return s->stop_requests > 0;
}

/* --- Requests of the host's systemd -------------------------------------------------------------------- */

static void on_machine_stop(void *userdata)
{
        Supervisor *s = userdata;

        s->stopped_by_host = true;
        supervisor_stop(s);
}

static void on_machine_refused(const Error *e, void *userdata)
{
        Supervisor *s = userdata;

        if (s->options->registration != REGISTER_YES) {
                log_warning("%s", e->message);
                return;
        }
        (void) error_set(&s->refusal, e->code, "%s", e->message);
        if (e->hint)
                (void) error_hint(&s->refusal, e->code, "%s", e->hint);
        supervisor_kill(s);
}

int supervisor_connect_machine(Supervisor *s, Error *e)
{
        const MachineHandlers handlers = {
                        .stop = on_machine_stop, .refused = on_machine_refused, .userdata = s};

        return machine_new(s->pod, s->options->registration, &handlers, &s->machine, e);
}

/* --- Idle pods ----------------------------------------------------------------------------------------- */

/* Connections that come from now on stay in sockets of the host's systemd, which start the pod again. */
static void on_idle_pod(void *userdata)
{
        Supervisor *s = userdata;

        if (!s->detached && !s->options->quiet)
                log_info("Pod %s is idle: it ends.", pod_display_name(s->pod));
        supervisor_stop(s);
}

int supervisor_watch_idleness(Supervisor *s, Error *e)
{
        int r = idle_watch_new(s->apps, s->event, on_idle_pod, s, &s->idle_watch, e);

        if (r >= 0 && s->idle_watch)
                server_set_activity(s->server, idle_watch_begin, s->idle_watch);
        return r;
}
