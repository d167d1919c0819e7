/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The progress of the pod: notifications of nspawn, the pod's systemd and launchers, and what follows from
 * them for processes that wait until the pod is ready. */

#include <sys/socket.h>
#include <sys/syscall.h>

#include "stage0/supervisor/apps/state-table.h"
#include "stage0/supervisor/interface/control-api.h"
#include "stage0/supervisor/pod/supervisor-internal.h"

/* --- States -------------------------------------------------------------------------------------------- */

typedef enum BootEvent {
        LAUNCHER_ASKS,
        UNITS_STARTED, /* nspawn passes on that the pod's systemd has no job left; but an app may be waiting for its next attempt */
        NOTHING_AWAITED, /* neither apps nor the disk */
        GAVE_UP,
        _BOOT_EVENT_MAX,
} BootEvent;

typedef enum BootAction {
        IMPOSSIBLE, /* the event cannot occur in this state */
        NOTHING,
        TAKE_SIGNALS, /* as the pod's systemd does from now on */
        SERVE,
        TELL_UP,
        END_POD,
        _BOOT_ACTION_MAX,
} BootAction;

static const char *const states[_BOOT_STATE_MAX] = {
                [BOOT_SILENT] = "silent",
                [BOOT_HEARD] = "heard",
                [BOOT_DONE] = "done",
                [BOOT_UP] = "up",
                [BOOT_LATE_SILENT] = "late-silent",
                [BOOT_LATE_HEARD] = "late-heard",
                [BOOT_LATE] = "late",
};

static const char *const events[_BOOT_EVENT_MAX] = {
                [LAUNCHER_ASKS] = "launcher-asks",
                [UNITS_STARTED] = "units-started",
                [NOTHING_AWAITED] = "nothing-awaited",
                [GAVE_UP] = "gave-up",
};

static const StateTransition transitions[_BOOT_STATE_MAX][_BOOT_EVENT_MAX] = {
                [BOOT_SILENT] = {[LAUNCHER_ASKS] = {BOOT_HEARD, TAKE_SIGNALS},
                                 [UNITS_STARTED] = {BOOT_DONE, SERVE},
                                 [NOTHING_AWAITED] = {BOOT_SILENT, NOTHING},
                                 [GAVE_UP] = {BOOT_LATE_SILENT, END_POD}},
                [BOOT_HEARD] = {[LAUNCHER_ASKS] = {BOOT_HEARD, NOTHING},
                                [UNITS_STARTED] = {BOOT_DONE, SERVE},
                                [NOTHING_AWAITED] = {BOOT_HEARD, NOTHING},
                                [GAVE_UP] = {BOOT_LATE_HEARD, END_POD}},
                [BOOT_DONE] = {[LAUNCHER_ASKS] = {BOOT_DONE, NOTHING},
                               [NOTHING_AWAITED] = {BOOT_UP, TELL_UP},
                               [GAVE_UP] = {BOOT_LATE, END_POD}},
                [BOOT_UP] = {[LAUNCHER_ASKS] = {BOOT_UP, NOTHING},
                             [NOTHING_AWAITED] = {BOOT_UP, NOTHING},
                             [GAVE_UP] = {BOOT_UP, NOTHING}},
                [BOOT_LATE_SILENT] = {[LAUNCHER_ASKS] = {BOOT_LATE_HEARD, TAKE_SIGNALS},
                                      [UNITS_STARTED] = {BOOT_LATE, SERVE},
                                      [NOTHING_AWAITED] = {BOOT_LATE_SILENT, NOTHING},
                                      [GAVE_UP] = {BOOT_LATE_SILENT, NOTHING}},
                [BOOT_LATE_HEARD] = {[LAUNCHER_ASKS] = {BOOT_LATE_HEARD, NOTHING},
                                     [UNITS_STARTED] = {BOOT_LATE, SERVE},
                                     [NOTHING_AWAITED] = {BOOT_LATE_HEARD, NOTHING},
                                     [GAVE_UP] = {BOOT_LATE_HEARD, NOTHING}},
                [BOOT_LATE] = {[LAUNCHER_ASKS] = {BOOT_LATE, NOTHING},
                               [NOTHING_AWAITED] = {BOOT_LATE, NOTHING},
                               [GAVE_UP] = {BOOT_LATE, NOTHING}},
};

static const StateTable table = STATE_TABLE("boot", states, events, transitions);

bool supervisor_is_heard(const Supervisor *s)
{
        return s->boot != BOOT_SILENT && s->boot != BOOT_LATE_SILENT;
}

bool supervisor_has_booted(const Supervisor *s)
{
        return s->boot == BOOT_DONE || s->boot == BOOT_UP || s->boot == BOOT_LATE;
}

bool supervisor_is_up(const Supervisor *s)
{
        return s->boot == BOOT_UP;
}

static void serve(Supervisor *s);
static void tell_up(Supervisor *s);
static void end_late_pod(Supervisor *s);

static void handle(Supervisor *s, BootEvent event)
{
        static void (*const actions[_BOOT_ACTION_MAX])(Supervisor * s) = {
                        [TAKE_SIGNALS] = supervisor_signal_again,
                        [SERVE] = serve,
                        [TELL_UP] = tell_up,
                        [END_POD] = end_late_pod,
        };
        const StateTransition *t = state_table_find(&table, s->boot, event);

        if (!t)
                return;
        s->boot = t->to;
        if (actions[t->action])
                actions[t->action](s);
}

/* --- What happens -------------------------------------------------------------------------------------- */

static void set_leader(Supervisor *s)
{
        pid_t leader = nspawn_leader(&s->nspawn);

        if (s->leader_fd >= 0 || leader <= 0)
                return;
        s->leader_fd = (int) syscall(SYS_pidfd_open, leader, 0);
        s->runtime.leader = leader;
        int k = pod_runtime_write(s->pod, &s->runtime);
        if (k < 0)
                log_warning("The PID 1 of pod %s cannot be recorded, so other programs do not find it: %s.",
                            pod_display_name(s->pod), strerror(-k));
        if (s->server)
                server_set_leader(s->server, leader);
        int r = pod_limit_terminals(s->pod, leader);
        if (r < 0)
                log_warning("The terminals of pod %s itself, which no app sees, are not bounded: %s.",
                            pod_display_name(s->pod), strerror(-r));
        machine_register(s->machine, leader);
        supervisor_follow_units(s);
}

/* Of a pod without networks: its network is there now. */
static int open_sockets(Supervisor *s)
{
        int r = s->runtime.leader > 0 ? supervisor_open_sockets(s, &s->refusal) : 0;

        if (r >= 0 && s->runtime.leader > 0)
                r = supervisor_filter_sockets(s, &s->refusal);
        if (r < 0)
                supervisor_kill(s);
        return r;
}

/* Requests of launchers set the pod's kernel parameters before an app runs. If there was none yet, they are
 * set before the pod counts as up. */
static int set_parameters(Supervisor *s)
{
        bool due = s->runtime.leader > 0 && !supervisor_is_heard(s);
        int r = due ? server_set_parameters(s->server, &s->refusal) : 0;

        if (r < 0)
                supervisor_kill(s);
        return r;
}

/* Notifies the process that started this one, and the service manager. */
static void tell_ready(Supervisor *s)
{
        _cleanup_free_ char *exceptions = NULL;

        if (s->ready_fd >= 0 && readiness_describe(s->readiness, &exceptions) >= 0 && *exceptions)
                (void) report_warning(s->ready_fd, exceptions);
        else if (s->ready_fd >= 0)
                (void) loop_write(s->ready_fd, "1", 1);
        s->ready_fd = safe_close(s->ready_fd);
        supervisor_notify_host(s, "READY=1");
}

void supervisor_check_ready(void *userdata)
{
        Supervisor *s = userdata;

        if (!s->syncing && readiness_is_settled(s->readiness))
                handle(s, NOTHING_AWAITED);
}

static void tell_up(Supervisor *s)
{
        cgroup_moves_expect(s->moves, MOVES_OF_START_USEC);
        supervisor_journal_up(s);
        tell_ready(s);
}

static void set_booted(Supervisor *s)
{
        if (supervisor_has_booted(s))
                return;
        set_leader(s);
        if (open_sockets(s) >= 0 && set_parameters(s) >= 0)
                handle(s, UNITS_STARTED);
}

static void serve(Supervisor *s)
{
        supervisor_listen_all(s);
        supervisor_follow_units(s);
        log_debug("The pod's systemd is up: it is process %d of the host", (int) s->runtime.leader);
        idle_watch_begin(s->idle_watch);
        supervisor_check_ready(s);
        supervisor_signal_again(s);
}

void supervisor_notify_status(Supervisor *s)
{
        _cleanup_free_ char *summary = NULL, *text = NULL;

        if (readiness_is_used(s->readiness) && readiness_summary(s->readiness, &summary) >= 0 &&
            xasprintf(&text, "STATUS=%s", summary) >= 0)
                supervisor_notify_host(s, text);
}

/* A request of a launcher shows that the pod's systemd can receive a signal that was sent too early. */
void supervisor_asked(void *userdata, AppInstance *app, LaunchPhase what)
{
        Supervisor *s = userdata;

        handle(s, LAUNCHER_ASKS);
        supervisor_follow_units(s);
}

/* Makes the socket of an app that may launch others, and attaches the output of one that was launched by such an app. */
int supervisor_prepare(void *userdata, AppInstance *app, Error *e)
{
        Supervisor *s = userdata;

        int r = supervisor_filter_sockets(s, e);
        if (r < 0)
                return r;
        control_api_starts(s->interface, app);
        return app->settings.control ? control_api_begin(s->interface, s->mounts, app, e) : 0;
}

static void end_late_pod(Supervisor *s)
{
        (void) readiness_describe(s->readiness, &s->late);
        supervisor_stop(s);
}

/* For those who wait until the pod is up it makes no difference how often the check of an app fails that nothing starts again. */
static void judge_health(Supervisor *s, const AppInstance *app)
{
        const AppSettings *a = &app->settings;

        if (s->ready_fd < 0 || supervisor_is_up(s) || app->health.state != HEALTH_UNHEALTHY ||
            app->status.readiness != READINESS_STARTING || a->restart != RESTART_NO ||
            a->health.action == HEALTH_RESTART)
                return;
        s->unhealthy = true;
        handle(s, GAVE_UP);
}

static MainEnd read_end(const LaunchEvent *event)
{
        MainEnd end = {.known = event->known,
                       .exit_status = event->exit_status,
                       .signal = event->signal,
                       .core_dumped = event->core_dumped};

        snprintf(end.result, sizeof(end.result), "%s", event->result);
        return end;
}

static int on_main_ended(Supervisor *s, AppInstance *app, const LaunchEvent *event)
{
        const MainEnd end = read_end(event);

        supervisor_main_ended(s, app, &end);
        return app->status.started_usec > 0 ? 1 : -ECANCELED;
}

/* A start that waits for the health check fails once the check has failed too often. */
static void on_checked(Supervisor *s, AppInstance *app, const LaunchEvent *event)
{
        HealthState before = app->health.state;

        /* A check also fails because the app is being ended, or has ended by itself. An action on that would interfere with the end. */
        if (supervisor_ends(s) || app_is_ending(app) || !admission_process_is_alive(app))
                return;
        bool acts = app_life_checked(app, event) > 0;

        /* The first success is reported together with the readiness. */
        if (app->health.state != before &&
            (app->health.state == HEALTH_UNHEALTHY || before == HEALTH_UNHEALTHY))
                interface_changed(s->interface, app);
        if (acts)
                supervisor_journal_app_unhealthy(s, app);
        if (app->health.state == HEALTH_UNHEALTHY && app->status.readiness == READINESS_STARTING &&
            supervisor_replacement_is_unhealthy(s, app))
                return;
        if (acts)
                supervisor_app_unhealthy(s, app);
        judge_health(s, app);
}

void supervisor_app_ready(Supervisor *s, AppInstance *app)
{
        app_life_ready(app);
        readiness_reported(app);
        supervisor_notify_status(s);
        interface_changed(s->interface, app);
        supervisor_check_ready(s);
}

int supervisor_reported(void *userdata, AppInstance *app, const LaunchEvent *event)
{
        Supervisor *s = userdata;

        readiness_settle(app);
        switch (event->kind) {
        case LAUNCH_STARTS:
                app_life_starts(app);
                return 0;
        case LAUNCH_PRE_START_ENDED:
                app_life_pre_start_ended(app, event);
                return 0;
        case LAUNCH_FAILED:
                app_life_failed(app, event);
                return 0;
        case LAUNCH_READY:
                supervisor_app_ready(s, app);
                return 0;
        case LAUNCH_CHECKED:
                on_checked(s, app, event);
                return 0;
        case LAUNCH_MAIN_ENDED:
                return on_main_ended(s, app, event);
        case LAUNCH_POST_STOP_ENDED:
                app_life_post_stop_ended(app, event);
                return 1;
        default:
                return -EBADMSG;
        }
}

void supervisor_pod_ended(void *userdata)
{
        supervisor_end_apps(userdata, true);
}

/* From the first exec on, ends of apps must be noticed: the connection to the pod's systemd is made now,
 * even if other work is left. */
void supervisor_launcher_gone(void *userdata, AppInstance *app)
{
        Supervisor *s = userdata;

        if (s->connect_source)
                (void) sd_event_source_set_priority(s->connect_source, SD_EVENT_PRIORITY_NORMAL);
        supervisor_journal_app_started(s, app);
        interface_executed(s->interface, app, START_LAUNCHER_GONE);
        supervisor_check_ready(s);
}

void supervisor_launched(void *userdata, AppInstance *app, int fd)
{
        Supervisor *s = userdata;

        readiness_launched(s->readiness, app, fd);
}

/* The pod goes on, without a caller. Apps that report readiness have time-outs of their own. */
static void on_slow(void *userdata)
{
        _cleanup_free_ char *which = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        Supervisor *s = userdata;

        if (supervisor_is_up(s) || s->ready_fd < 0 || readiness_awaits_reports(s->readiness) ||
            readiness_describe(s->readiness, &which) < 0)
                return;
        (void) error_set(&e, -ETIMEDOUT, "Pod %s is not up after %llu s: %s", pod_display_name(s->pod),
                         (unsigned long long) (s->options->start_wait_usec / 1000000U),
                         supervisor_has_booted(s) && s->syncing ? "its files are still being written to disk"
                         : isempty(which)                       ? "its systemd is still starting"
                                                                : which);
        (void) error_hint(&e, -ETIMEDOUT,
                          "It keeps running: 'acnspawn status %s' shows how far it is, 'acnspawn stop %s' "
                          "ends it. --ready-timeout= says how long to wait.",
                          pod_display_name(s->pod), pod_display_name(s->pod));
        (void) report_error(s->ready_fd, &e);
        s->ready_fd = safe_close(s->ready_fd);
}

static void on_late(void *userdata)
{
        handle(userdata, GAVE_UP);
}

static void handle_notification(Supervisor *s, char *text)
{
        _cleanup_strv_free_ char **lines = NULL;

        if (strv_split(text, "\n", &lines) < 0)
                return;
        STRV_FOREACH (line, lines) {
                if (startswith(*line, "X_NSPAWN_LEADER_PID="))
                        set_leader(s);
                if (streq(*line, "READY=1"))
                        set_booted(s);
        }
}

/* What nspawn passes along (a newer one a descriptor of its child) is of no use here: without room for it,
 * the kernel closes it. */
static int on_notify(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        char text[4096];

        ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        if (n < 0)
                return 0;
        text[n] = 0;
        handle_notification(userdata, text);
        return 0;
}

bool supervisor_read_console(Supervisor *s)
{
        char chunk[CONSOLE_KEPT / 2];

        ssize_t n = read(s->nspawn.output_fd, chunk, sizeof(chunk));
        if (n > 0)
                console_add(&s->console, chunk, (size_t) n);
        else if (n == 0)
                errno = 0;
        return n > 0;
}

static int on_console(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        if (!supervisor_read_console(userdata) && errno != EAGAIN)
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        return 0;
}

int supervisor_watch_progress(Supervisor *s)
{
        int r = sd_event_add_io(s->event, NULL, s->nspawn.output_fd, EPOLLIN, on_console, s);

        if (r >= 0)
                r = sd_event_add_io(s->event, NULL, s->notify_fd, EPOLLIN, on_notify, s);
        if (r >= 0 && s->options->ready_timeout_usec < UINT64_MAX)
                r = pod_timer_new(s->pause, s->event, s->options->ready_timeout_usec, on_late, s,
                                  &s->late_timer);
        if (r >= 0 && s->ready_fd >= 0 && s->options->start_wait_usec < UINT64_MAX)
                r = pod_timer_new(s->pause, s->event, s->options->start_wait_usec, on_slow, s,
                                  &s->slow_timer);
        return r;
}
