/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests to end the pod: calls of its interface, systemd-machined, idleness, and, by way of
 * supervisor-caller.c, signals. The pod's systemd is asked for an orderly end, and does the rest. */

#include <signal.h>

#include "stage0/supervisor/apps/state-table.h"
#include "stage0/supervisor/apps/task-state.h"
#include "stage0/supervisor/pod/supervisor-internal.h"

typedef enum EndAction {
        IMPOSSIBLE, /* the event cannot occur in this state */
        NOTHING,
        ASK,
        KILL,
} EndAction;

static const char *const states[_END_STATE_MAX] = {
                [END_NONE] = "none",           [END_BY_POLICY] = "by-policy", [END_ASKED] = "asked",
                [END_BY_SIGNAL] = "by-signal", [END_KILLED] = "killed",
};

static const char *const events[_END_EVENT_MAX] = {
                [POLICY_ENDS] = "policy-ends",
                [END_IS_ASKED] = "asked",
                [SIGNAL_CAME] = "signal",
                [KILL_IS_ASKED] = "kill-asked",
};

/* A pod that is to end is not judged by its exit policy. */
static const StateTransition transitions[_END_STATE_MAX][_END_EVENT_MAX] = {
                [END_NONE] = {[POLICY_ENDS] = {END_BY_POLICY, ASK},
                              [END_IS_ASKED] = {END_ASKED, ASK},
                              [SIGNAL_CAME] = {END_BY_SIGNAL, ASK},
                              [KILL_IS_ASKED] = {END_KILLED, KILL}},
                [END_BY_POLICY] = {[END_IS_ASKED] = {END_ASKED, ASK},
                                   [SIGNAL_CAME] = {END_BY_SIGNAL, ASK},
                                   [KILL_IS_ASKED] = {END_KILLED, KILL}},
                [END_ASKED] = {[END_IS_ASKED] = {END_ASKED, ASK},
                               [SIGNAL_CAME] = {END_BY_SIGNAL, ASK},
                               [KILL_IS_ASKED] = {END_KILLED, KILL}},
                [END_BY_SIGNAL] = {[END_IS_ASKED] = {END_BY_SIGNAL, ASK},
                                   [SIGNAL_CAME] = {END_KILLED, KILL},
                                   [KILL_IS_ASKED] = {END_KILLED, KILL}},
                [END_KILLED] = {[END_IS_ASKED] = {END_KILLED, NOTHING},
                                [SIGNAL_CAME] = {END_KILLED, KILL},
                                [KILL_IS_ASKED] = {END_KILLED, KILL}},
};

static const StateTable table = STATE_TABLE("end", states, events, transitions);

void supervisor_kill(Supervisor *s)
{
        (void) pod_cgroup_kill(s->pod, NULL);
        if (s->nspawn.pid_fd >= 0)
                (void) process_signal(s->nspawn.pid_fd, SIGKILL);
}

static void report_signal(const Supervisor *s, int code)
{
        _cleanup_error_ Error e = ERROR_NULL;

        (void) error_set_errno(&e, code, "Cannot tell the systemd of pod %s to end",
                               pod_display_name(s->pod));
        error_print(&e, host_limits_hint(store_path(s->pod->store), &e, code));
}

/* The pod's systemd takes this as the order to go to halt.target, which in our pods is the orderly end; one of a user
 * goes to exit.target. */
static void signal_leader(Supervisor *s)
{
        pod_pause_release(s->pause);
        FOREACH_APP(app, s->apps)
        if (app->units[0].life == UNIT_UP)
                app_stop_handle(app, POD_IS_ENDED);
        if (s->leader_fd < 0)
                return;
        int r = process_signal(s->leader_fd, s->pod->config.host_pid ? SIGTERM : SIGRTMIN + 3);
        if (r < 0 && r != -ESRCH)
                report_signal(s, r);
        /* A process of the host may have stopped PID 1 by SIGSTOP. */
        (void) process_signal(s->leader_fd, SIGCONT);
}

bool supervisor_ends(const Supervisor *s)
{
        return s->end != END_NONE;
}

bool supervisor_was_asked_to_end(const Supervisor *s)
{
        return s->end >= END_ASKED;
}

void supervisor_handle_end(Supervisor *s, EndEvent event)
{
        const StateTransition *t = state_table_find(&table, s->end, event);

        if (!t)
                return;
        s->end = t->to;
        supervisor_watch_end(s);
        if (t->action == ASK)
                signal_leader(s);
        else if (t->action == KILL)
                supervisor_kill(s);
}

void supervisor_signal_again(Supervisor *s)
{
        if (supervisor_was_asked_to_end(s))
                signal_leader(s);
}

void supervisor_stop(Supervisor *s)
{
        supervisor_handle_end(s, END_IS_ASKED);
}

/* Before the pod's systemd is up it would lose the signal: it is sent again then. A stop requested by other
 * means, as by the host's systemd, which uses two at shutdown, does not make a signal the second one; and a
 * SIGHUP follows another signal by itself, as at the end of a session. */
bool supervisor_request_stop(Supervisor *s, int sig)
{
        s->stopped_by_host = true;
        supervisor_notify_stopping(s);
        supervisor_handle_end(s, sig == SIGHUP || s->detached ? END_IS_ASKED : SIGNAL_CAME);
        return s->end == END_KILLED;
}

/* --- Before the event loop ----------------------------------------------------------------------------- */

#define CALLS_MAX 64U /* per step, as plugins have to be watched meanwhile */

bool supervisor_serve_calls(void *userdata)
{
        Supervisor *s = userdata;

        for (unsigned i = 0; i < CALLS_MAX && sd_event_run(s->event, 0) > 0; i++)
                ;
        return supervisor_was_asked_to_end(s);
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
