/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The units of the pod's apps: the supervisor follows them over its connection to the pod's systemd, ends the pod
 * when the exit policy says so, and acts on apps that are unhealthy.
 *
 * The connection is made once the pod's systemd is known to serve it, which the first request of a launcher shows,
 * and when nothing else waits: it takes about a millisecond, by which no app's start is to be longer.
 *
 * A systemd that executes itself again, as it does on SIGTERM, which root of an app may send, drops its connections.
 * They are made again, as long as the pod is there.
 *
 * The connection is closed when the pod ends and all apps have ended: a systemd that exits sends a signal for each of its units,
 * for 100 apps 357 of 385 in all, which take a thirtieth of the processor time for the whole pod.
 *
 * That all processes of an app are gone is learned from systemd as well, which watches cgroup.events itself. To watch
 * those files here, too, would take 80 microseconds for each app (a watch, and two reads), 2 % of what an app takes from start to
 * end, and nothing could be done earlier: the unit cannot be started again before systemd has noticed, and how
 * the main process has ended is known by its pidfd (PIDFD_GET_INFO) or from systemd.
 */

#include <signal.h>
#include <sys/wait.h>

#include "stage0/supervisor/apps/state-table.h"
#include "stage0/supervisor/launchers/admission.h"
#include "stage0/supervisor/pod/supervisor-internal.h"
#include "stage1/backoff.h"

#define RECONNECT_MIN_USEC UINT64_C(20000)
#define RECONNECT_MAX_USEC UINT64_C(1000000)

static const char *const ends[_POD_END_MAX] = {
                [POD_GOES_ON] = "goes on",
                [POD_END_APP_FAILED] = "has failed",
                [POD_END_APP_ENDED] = "has ended",
                [POD_END_APP_GIVEN_UP] = "cannot be started by connections any more",
                [POD_END_NOTHING_RUNS] = "nothing runs any more",
};

/* *RET is to be freed; NULL: out of memory. */
static size_t list_units(const Supervisor *s, PodUnit ***ret)
{
        size_t n = 0;

        FOREACH_APP(app, s->apps)
        n += app->n_units;
        PodUnit **units = *ret = calloc(n + 1, sizeof(PodUnit *));
        n = 0;
        FOREACH_APP(app, s->apps)
        for (size_t i = 0; units && i < app->n_units; i++)
                units[n++] = &app->units[i];
        return n;
}

/* The pod's systemd stops the other apps in order. Their ends are not judged. */
static void judge(Supervisor *s)
{
        const PodUnit *unit = NULL;

        if (supervisor_ends(s))
                return;
        supervisor_spread_fate(s);
        _cleanup_free_ PodUnit **units = NULL;
        size_t n = list_units(s, &units);
        PodEnd end = units ? exit_policy_judge(s->pod->config.exit_policy, units, n, &unit) : POD_GOES_ON;
        if (end == POD_GOES_ON)
                return;
        log_debug("The pod ends: %s%s%s", unit ? "app " : "", unit ? unit->app->name : "",
                  unit ? "" : ends[end]);
        supervisor_handle_end(s, POLICY_ENDS);
}

/* --- Ends of apps --------------------------------------------------------------------------------------- */

/* systemd's start limit also counts starts by connections, and a slow health check outlasts its interval, so the restarts of an
 * app with sockets, or that its health check restarts, are counted here. An app that exceeds the limit has failed; with sockets
 * it ends the pod, as failed sockets do. If the pod continues without it, only a call can start it again. */
static void check_restarts(Supervisor *s, AppInstance *app)
{
        if (app_was_stopped(app) || (!app->sockets && !app_settings_health_restarts(&app->settings)) ||
            !backoff_applies(&app->status, &app->settings) ||
            !backoff_is_used_up(&app->status, &app->settings))
                return;
        supervisor_give_up_app(s, app);
        if (supervisor_ends(s) || !s->manager)
                return;
        log_debug("App %s was restarted too often: it is given up", app->name);
        app->units[0].unsound = true;
        app_sockets_close(app->sockets);
        (void) manager_link_run(s->manager, "StopUnit", app->units[0].name, NULL, NULL);
}

/* The launcher that asks whether APP is ready does not run once the app has ended, which may have reported it before. */
static void take_last_notice(Supervisor *s, AppInstance *app)
{
        if (app->settings.notify && app->check == CHECK_NONE &&
            app->status.readiness == READINESS_STARTING && server_app_is_ready(app))
                supervisor_app_ready(s, app);
}

void supervisor_main_ended(Supervisor *s, AppInstance *app, const MainEnd *end)
{
        readiness_settle(app);
        take_last_notice(s, app);
        app_life_main_ended(app, end);
        server_end_execution(s->server, app);
        supervisor_end_below(s, app);
}

/* Kills the processes of an app that has ended, in whatever cgroup of the pod they are. */
static void kill_escaped(Supervisor *s, AppInstance *app)
{
        pid_t leader = 0;
        size_t n = 0;

        if (app->root == 0 || process_number(s->leader_fd, &leader) < 0)
                return;
        FOREACH_APP(other, s->apps)
        if (other != app && other->root == app->root) /* APP's root is gone, and its number was reused */
                app->root = 0;
        int r = app->root == 0 ? 0 : pod_kill_escaped(s->pod, app->name, app->root, leader, &n);
        if (r < 0)
                log_debug("Cannot look for processes that app %s has left behind: %s", app->name,
                          strerror(-r));
        else if (n > 0)
                log_warning("App %s has ended, and left %zu process%s in other cgroups of pod %s, which %s killed.",
                            app_instance_path(app), n, n == 1 ? "" : "es", pod_display_name(s->pod),
                            n == 1 ? "was" : "were");
        app->root = 0; /* until the next execution */
}

/* The owner of a pod reads it in the next boot, so that what has completed does not run again. */
static void keep_status(Supervisor *s, const AppInstance *app)
{
        _cleanup_free_ char *path = NULL;

        if (s->pod->config.owner && xasprintf(&path, "status/%s", app->name) >= 0)
                file_keeper_sync(s->keeper, path);
}

/* A report of systemd may be older than the last request of a launcher. */
static void end_app(Supervisor *s, AppInstance *app, const MainEnd *end)
{
        readiness_settle(app);
        if (admission_process_is_alive(app)) {
                if (end->given_up) {
                        app_run_handle(app, RUN_IS_GIVEN_UP);
                        app_life_signal_denied(app);
                }
                return;
        }
        if (app->run != APP_RUN_NONE) {
                /* All output is stored before the status says that the app has ended. */
                forwarders_drain(s->forwarders, app);
                take_last_notice(s, app);
        }
        if (!app_life_ended(app, end))
                return;
        kill_escaped(s, app);
        server_end_execution(s->server, app);
        supervisor_end_below(s, app);
        supervisor_journal_app_ended(s, app);
        check_restarts(s, app);
        readiness_ended(app);
        if (app_settings_readiness(&app->settings))
                supervisor_notify_status(s);
        keep_status(s, app);
        interface_executed(s->interface, app, START_ENDED);
        supervisor_check_ready(s);
        idle_watch_begin(s->idle_watch);
}

/* Newer kernels know how the process that became the app has ended. *RET has what systemd says of it already. */
static int end_of_process(const AppInstance *app, MainEnd *ret)
{
        uint64_t usec = 0;
        int status = 0;

        int r = admission_wait_status(app, &status, &usec);
        if (r < 0)
                return r;
        ret->known = true;
        ret->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        ret->core_dumped = WIFSIGNALED(status) && WCOREDUMP(status);
        ret->usec = usec;
        return 0;
}

static bool has_exited(const MainEnd *end)
{
        return end->known && end->signal == 0;
}

/* If the kernel has killed the processes with the pod, that is not the end of the app by itself. */
static bool is_end_of_app(const AppInstance *app, const MainEnd *end, bool in_order)
{
        return (in_order && app->run != APP_RUN_GIVEN_UP) || has_exited(end);
}

/* systemd has not reported how the app has ended. IN_ORDER: if not, the kernel has killed the processes. */
static void end_unknown(Supervisor *s, AppInstance *app, bool in_order)
{
        MainEnd end = {.exit_status = -1};

        if (app->run == APP_RUN_NONE)
                return;
        int r = end_of_process(app, &end);
        log_debug("The end of app %s is known only from its process: %s", app->name,
                  r < 0 ? strerror(-r) : "it is");
        if (!is_end_of_app(app, &end, in_order))
                end = (MainEnd){.exit_status = -1};
        end_app(s, app, &end);
}

/* What systemd has reported by now is about the previous execution. It may also complete the removal of the app. */
void supervisor_end_superseded(void *userdata, AppInstance *app)
{
        Supervisor *s = userdata;

        /* The unit was not down if a restart has replaced the stop of an app that had failed. */
        if (app->stop == STOP_TO_RESTART)
                app->units[0].unsound = false;
        manager_link_drain(s->manager);
        if (app_table_has(s->apps, app))
                end_unknown(s, app, true);
}

void supervisor_end_apps(Supervisor *s, bool in_order)
{
        manager_link_drain(s->manager);
        FOREACH_APP(app, s->apps)
        {
                MainEnd end = {};
                readiness_settle(app);
                if (app->run != APP_RUN_NONE && end_of_process(app, &end) >= 0 &&
                    is_end_of_app(app, &end, in_order))
                        end_unknown(s, app, in_order);
        }
}

static void on_stopped(void *userdata, void *tag, const MainEnd *end)
{
        const PodUnit *u = tag;

        bool says_nothing = isempty(end->result) || streq(end->result, "success");

        /* A unit that was unloaded at its end, and loaded again to answer, has forgotten it. */
        if (!end->known && !end->given_up && says_nothing && u->app->run != APP_RUN_NONE)
                end_unknown(userdata, u->app, true);
        else
                end_app(userdata, u->app, end);
}

static bool find_end(void *userdata, void *tag, MainEnd *ret)
{
        const PodUnit *u = tag;

        return u->app->run != APP_RUN_NONE && end_of_process(u->app, ret) >= 0 &&
               is_end_of_app(u->app, ret, true);
}

/* --- States of units ----------------------------------------------------------------------------------- */

void supervisor_judge(Supervisor *s)
{
        judge(s);
}

static void on_end_below(void *userdata, const AppInstance *app)
{
        supervisor_end_below(userdata, app);
}

static void on_judge(void *userdata)
{
        judge(userdata);
}

/* The pod ends, and all of its apps have: nothing that the pod's systemd could report matters any more. */
static bool is_done_with_manager(const Supervisor *s)
{
        if (!supervisor_ends(s) || s->changes || s->launches)
                return false;
        FOREACH_APP(app, s->apps)
        if (!app->units[0].known || app_is_up(app) || app->run != APP_RUN_NONE)
                return false;
        return true;
}

static int on_leave(sd_event_source *source, void *userdata)
{
        Supervisor *s = userdata;

        if (is_done_with_manager(s))
                supervisor_leave_manager(s);
        return 0;
}

/* Marks the unit of an app as failed if the app is down and did not become ready: systemd may have recorded success. An app that
 * is restarted at once is not down; its next execution is judged. One that a call stops while it waits for a restart has not
 * failed. */
static void judge_readiness(PodUnit *u)
{
        if (u == &u->app->units[0] && u->app->status.cause == CAUSE_NOT_READY && !app_was_stopped(u->app))
                u->unsound = true;
}

static void on_unit(void *userdata, void *tag, UnitLife life, UnitActivity activity)
{
        Supervisor *s = userdata;
        PodUnit *u = tag;

        pod_unit_set(u, life);
        u->activity = activity;
        if (u == &u->app->units[0])
                notices_set_activity(u->app, life, activity);
        if (life != UNIT_UP) {
                kill_escaped(s, u->app);
                end_unknown(s, u->app, true);
                judge_readiness(u);
                readiness_down(u->app);
                interface_executed(s->interface, u->app, START_DOWN);
                supervisor_end_below(s, u->app);
        }
        judge(s);
        if (life != UNIT_UP)
                supervisor_check_ready(s);
        supervisor_listen(s, u->app);
        interface_changed(s->interface, u->app);
        if (life != UNIT_UP && is_done_with_manager(s))
                (void) sd_event_source_set_enabled(s->leave_source, SD_EVENT_ONESHOT);
}

/* --- The connection ------------------------------------------------------------------------------------ */

/* Repeats requests that were lost with the last connection; systemd merges a job that it still has. An action for an
 * unhealthy app is requested again with its next failed check. */
static void repeat_requests(Supervisor *s)
{
        FOREACH_APP(app, s->apps)
        if (app_is_ending(app) && stop_reason_is_repeated(app->stop))
                (void) manager_link_run(s->manager, "StopUnit", app->units[0].name, NULL, NULL);
        else if (app->check == CHECK_ACTS && !app_is_ending(app))
                app_life_action_failed(app);
}

typedef enum ConnectionEvent {
        MAY_CONNECT, /* the pod's systemd serves connections */
        CONNECTED,
        NOT_CONNECTED,
        STATES_KNOWN, /* of all units */
        DISCONNECTED,
        LEFT, /* the pod ends, and no app is up */
        _CONNECTION_EVENT_MAX,
} ConnectionEvent;

typedef enum ConnectionAction {
        IMPOSSIBLE, /* the event cannot occur in this state */
        NOTHING,
        CONNECT,
        CONNECT_LATER,
        CONTINUE, /* with the requests, changes and calls that were lost, or waited */
        _CONNECTION_ACTION_MAX,
} ConnectionAction;

static const char *const states[_CONNECTION_STATE_MAX] = {
                [CONNECTION_NONE] = "none",   [CONNECTION_DUE] = "due",   [CONNECTION_OPEN] = "open",
                [CONNECTION_KNOWN] = "known", [CONNECTION_LOST] = "lost", [CONNECTION_OVER] = "over",
};

static const char *const events[_CONNECTION_EVENT_MAX] = {
                [MAY_CONNECT] = "may-connect",     [CONNECTED] = "connected",
                [NOT_CONNECTED] = "not-connected", [STATES_KNOWN] = "states-known",
                [DISCONNECTED] = "disconnected",   [LEFT] = "left",
};

static const StateTransition transitions[_CONNECTION_STATE_MAX][_CONNECTION_EVENT_MAX] = {
                [CONNECTION_NONE] = {[MAY_CONNECT] = {CONNECTION_DUE, CONNECT},
                                     [LEFT] = {CONNECTION_OVER, NOTHING}},
                [CONNECTION_DUE] = {[MAY_CONNECT] = {CONNECTION_DUE, NOTHING},
                                    [CONNECTED] = {CONNECTION_OPEN, NOTHING},
                                    [NOT_CONNECTED] = {CONNECTION_LOST, CONNECT_LATER},
                                    [LEFT] = {CONNECTION_OVER, NOTHING}},
                [CONNECTION_OPEN] = {[MAY_CONNECT] = {CONNECTION_OPEN, NOTHING},
                                     [STATES_KNOWN] = {CONNECTION_KNOWN, CONTINUE},
                                     [DISCONNECTED] = {CONNECTION_LOST, CONNECT_LATER},
                                     [LEFT] = {CONNECTION_OVER, NOTHING}},
                [CONNECTION_KNOWN] = {[MAY_CONNECT] = {CONNECTION_KNOWN, NOTHING},
                                      [DISCONNECTED] = {CONNECTION_LOST, CONNECT_LATER},
                                      [LEFT] = {CONNECTION_OVER, NOTHING}},
                [CONNECTION_LOST] = {[MAY_CONNECT] = {CONNECTION_LOST, NOTHING},
                                     [CONNECTED] = {CONNECTION_OPEN, NOTHING},
                                     [NOT_CONNECTED] = {CONNECTION_LOST, CONNECT_LATER},
                                     [LEFT] = {CONNECTION_OVER, NOTHING}},
                [CONNECTION_OVER] = {[MAY_CONNECT] = {CONNECTION_OVER, NOTHING},
                                     [LEFT] = {CONNECTION_OVER, NOTHING}},
};

static const StateTable table = STATE_TABLE("connection", states, events, transitions);

static void connect_later(Supervisor *s);

static void act_on_connection(Supervisor *s, ConnectionAction action)
{
        switch (action) {
        case CONNECT:
                (void) sd_event_source_set_enabled(s->connect_source, SD_EVENT_ONESHOT);
                break;
        case CONNECT_LATER:
                connect_later(s);
                break;
        case CONTINUE:
                repeat_requests(s);
                supervisor_listen_all(s);
                supervisor_resume_changes(s);
                interface_resume(s->interface);
                break;
        default:
                break;
        }
}

static void handle_connection(Supervisor *s, ConnectionEvent event)
{
        const StateTransition *t = state_table_find(&table, s->connection, event);

        if (!t)
                return;
        s->connection = t->to;
        act_on_connection(s, t->action);
}

bool supervisor_is_connected(const Supervisor *s)
{
        return s->connection == CONNECTION_OPEN || s->connection == CONNECTION_KNOWN;
}

static void on_ready(void *userdata)
{
        handle_connection(userdata, STATES_KNOWN);
}

/* Frees the link later: this is called by it. */
static void on_lost(void *userdata)
{
        Supervisor *s = userdata;

        log_debug("The connection to the pod's systemd has ended");
        supervisor_watch_end(s);
        server_extend_again(s->server);
        handle_connection(s, DISCONNECTED);
}

static int connect_manager(Supervisor *s, Error *e)
{
        static const ManagerLinkEvents callbacks = {.stopped = on_stopped,
                                                    .changed = on_unit,
                                                    .find_end = find_end,
                                                    .lost = on_lost,
                                                    .ready = on_ready};

        s->manager = manager_link_free(s->manager);
        int r = manager_link_new(s->pod, s->event, &callbacks, s, &s->manager, e);
        if (r < 0)
                return r;
        FOREACH_APP(app, s->apps)
        if (manager_link_follow(s->manager, app->units[0].name, &app->units[0]) < 0) {
                s->manager = manager_link_free(s->manager);
                return error_oom(e);
        }
        return 0;
}

/* The pod's systemd may be about to end, or be executing itself again: its socket is not served
 * meanwhile. */
static int on_reconnect(sd_event_source *source, uint64_t usec, void *userdata)
{
        Supervisor *s = userdata;
        _cleanup_error_ Error e = ERROR_NULL;

        bool connected = connect_manager(s, &e) >= 0;
        if (connected)
                s->reconnect_usec = 0;
        else
                log_debug("%s", e.message ?: "No connection to the pod's systemd");
        handle_connection(s, connected ? CONNECTED : NOT_CONNECTED);
        return 0;
}

static void connect_later(Supervisor *s)
{
        s->reconnect_usec = s->reconnect_usec == 0 ? RECONNECT_MIN_USEC
                                                   : MIN(s->reconnect_usec * 2, RECONNECT_MAX_USEC);
        s->reconnect_source = sd_event_source_disable_unref(s->reconnect_source);
        int r = sd_event_add_time_relative(s->event, &s->reconnect_source, CLOCK_MONOTONIC,
                                           s->reconnect_usec, 0, on_reconnect, s);
        if (r < 0)
                log_warning("Pod %s does not end any more when its apps do: %s.", pod_display_name(s->pod),
                            strerror(-r));
}

/* Without the connection the end of the pod would not be noticed. */
static int on_connect(sd_event_source *source, void *userdata)
{
        Supervisor *s = userdata;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = connect_manager(s, &e);
        if (r == -ESRCH) /* the pod ends already */
                return 0;
        if (r >= 0)
                handle_connection(s, CONNECTED);
        else if (supervisor_ends(s)) /* it is about to */
                handle_connection(s, NOT_CONNECTED);
        else {
                error_move(&s->refusal, &e);
                supervisor_kill(s);
        }
        return 0;
}

int supervisor_open_units(Supervisor *s, Error *e)
{
        int r = sd_event_add_defer(s->event, &s->connect_source, on_connect, s);

        if (r >= 0)
                r = sd_event_source_set_priority(s->connect_source, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_source_set_enabled(s->connect_source, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_defer(s->event, &s->leave_source, on_leave, s);
        if (r >= 0)
                r = sd_event_source_set_enabled(s->leave_source, SD_EVENT_OFF);
        return r < 0 ? error_set_errno(e, r, "Cannot follow the units of pod %s", pod_display_name(s->pod))
                     : 0;
}

void supervisor_follow_units(Supervisor *s)
{
        if (s->leader_fd >= 0 && supervisor_is_heard(s))
                handle_connection(s, MAY_CONNECT);
}

void supervisor_leave_manager(Supervisor *s)
{
        supervisor_end_changes(s);
        handle_connection(s, LEFT);
        s->connect_source = sd_event_source_disable_unref(s->connect_source);
        s->leave_source = sd_event_source_disable_unref(s->leave_source);
        s->reconnect_source = sd_event_source_disable_unref(s->reconnect_source);
        s->manager = manager_link_free(s->manager); /* executes the calls that wait for it */
}

void supervisor_close_units(Supervisor *s)
{
        supervisor_leave_manager(s);
        s->interface = interface_free(s->interface);
}

/* --- The interface ------------------------------------------------------------------------------------- */

static void on_stop_call(void *userdata, bool kill)
{
        Supervisor *s = userdata;

        supervisor_notify_stopping(s);
        supervisor_handle_end(s, kill ? KILL_IS_ASKED : END_IS_ASKED);
}

static bool pod_ends(void *userdata)
{
        return supervisor_ends(userdata);
}

static bool removes_app(void *userdata, const AppInstance *app)
{
        return supervisor_removes_app(userdata, app);
}

/* Before the states are known again, requests that were lost are not repeated yet, which what is sent now would overtake. */
static ManagerLink *get_manager(void *userdata)
{
        const Supervisor *s = userdata;

        return s->connection == CONNECTION_KNOWN && manager_link_is_open(s->manager) ? s->manager : NULL;
}

static void on_manifest_changed(void *userdata)
{
        const Supervisor *s = userdata;

        server_manifest_changed(s->server);
}

static int on_reopen_call(void *userdata, const char *app, LogsFunction function, void *data, Error *e)
{
        const Supervisor *s = userdata;

        return forwarders_reopen(s->forwarders, app, function, data, e);
}

static int open_null(void *userdata)
{
        const Supervisor *s = userdata;

        return pod_mounts_open_null(s->mounts);
}

static int on_add_call(void *userdata, json_object *request, AppChangeFunction function, void *data)
{
        return supervisor_add_app(userdata, request, function, data);
}

static void expect_start(void *userdata)
{
        Supervisor *s = userdata;

        cgroup_moves_expect(s->moves, MOVES_OF_START_USEC);
}

static int on_group_call(void *userdata, json_object *request, const void *caller, GroupFunction function,
                         void *data)
{
        return supervisor_launch_group(userdata, request, caller, function, data);
}

static void on_launcher_of_group_gone(void *userdata, const void *caller)
{
        supervisor_cancel_launch(userdata, caller);
}

static int on_remove_call(void *userdata, json_object *request, AppChangeFunction function, void *data)
{
        return supervisor_remove_app(userdata, request, function, data);
}

static int on_replace_call(void *userdata, json_object *request, AppChangeFunction function, void *data)
{
        return supervisor_replace_app(userdata, request, function, data);
}

static void replace_orphaned(void *userdata, const void *data)
{
        supervisor_replace_orphaned(userdata, data);
}

static bool may_supersede(void *userdata, const AppInstance *app)
{
        return supervisor_may_supersede(userdata, app);
}

static int compare_credentials(void *userdata, const AppInstance *app, const CredentialList *l, char ***ret)
{
        const Supervisor *s = userdata;

        return pod_mounts_compare_credentials(s->mounts, app->manifest, l, ret);
}

int supervisor_open_interface(Supervisor *s, Error *e)
{
        static const InterfaceOps ops = {.stop = on_stop_call,
                                         .ends = pod_ends,
                                         .removes = removes_app,
                                         .manager = get_manager,
                                         .expect_start = expect_start,
                                         .add_app = on_add_call,
                                         .launch_group = on_group_call,
                                         .cancel_launch = on_launcher_of_group_gone,
                                         .remove_app = on_remove_call,
                                         .replace_app = on_replace_call,
                                         .replace_orphaned = replace_orphaned,
                                         .may_supersede = may_supersede,
                                         .compare_credentials = compare_credentials,
                                         .manifest_changed = on_manifest_changed,
                                         .reopen_logs = on_reopen_call,
                                         .end_below = on_end_below,
                                         .judge = on_judge,
                                         .open_null = open_null};

        return interface_new(s->pod, s->event, s->apps, s->keeper, &ops, s, &s->interface, e);
}

/* --- Health -------------------------------------------------------------------------------------------- */

static int act(Supervisor *s, AppInstance *app, PodUnit *u, HealthAction action)
{
        if (action == HEALTH_KILL)
                return manager_link_kill(s->manager, u->name, false, SIGKILL);
        if (action == HEALTH_RESTART && !backoff_is_used_up(&app->status, &app->settings))
                return manager_link_run(s->manager, "RestartUnit", u->name, NULL, NULL);
        u->unsound = true;
        return manager_link_run(s->manager, "StopUnit", u->name, NULL, NULL);
}

void supervisor_app_unhealthy(Supervisor *s, AppInstance *app)
{
        HealthAction action = (HealthAction) app->settings.health.action;

        if (action == HEALTH_NONE)
                return;
        int r = s->manager ? act(s, app, &app->units[0], action) : -ENOTCONN;
        if (r >= 0)
                return;
        app_life_action_failed(app);
        if (r != -ENOTCONN)
                log_warning("App %s is not healthy, and nothing can be done about it: %s.", app->name,
                            strerror(-r));
}
