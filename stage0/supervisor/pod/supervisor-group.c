/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Groups of apps that are added to a running pod and started: all or none.
 *
 * One process prepares all apps: it resolves their images, and checks and writes what they need. If one fails, the files of
 * all are removed. Otherwise the supervisor puts them all into the pod and then requests the starts of all, before it waits for
 * the first. The manifest on disk gets the apps, in one step, when each of them is executed, and ready if it reports that;
 * until then a supervisor that is killed leaves a pod without them. If one cannot be started, the starts of the others are
 * cancelled; then they are stopped and removed, the last one first. If the connection to the pod's systemd is lost, as when that
 * executes itself again, an app may run whose start has failed here: the apps are stopped when the connection is there again.
 *
 * While the apps start, which may take any time, other changes of the pod are made. A launch is also undone when one of its
 * apps is removed, or when its caller disconnects.
 *
 * Meanwhile the apps count as up for the exit policy, so that a group that fails has no effect on the pod, and no other call
 * can change them. */

#include "stage0/supervisor/apps/state-table.h"
#include "stage0/supervisor/pod/app-change.h"
#include "stage1/stage1.h"

typedef struct Start {
        AppChange *change;
        AppInstance *app;
} Start;

typedef struct Group {
        Start *starts;
        size_t n, n_waits; /* starts whose end is not known yet */
        char **names, **warnings;
        Error error; /* the first failure */
        int result;
} Group;

void group_done(AppChange *c)
{
        Group *g = TAKE_PTR(c->group);

        if (!g)
                return;
        free(g->starts);
        strv_free(g->names);
        strv_free(g->warnings);
        error_done(&g->error);
        free(g);
}

char *const *group_names(const AppChange *c)
{
        return c->group ? c->group->names : NULL;
}

/* --- States -------------------------------------------------------------------------------------------- */

typedef enum GroupEvent {
        WAS_PREPARED, /* and its apps are in the pod, unless it is dropped */
        NOT_PREPARED,
        START_FAILED, /* that of one of its apps */
        STARTS_ENDED, /* all of them, in success or failure */
        WAS_RECORDED,
        NOT_RECORDED,
        WAS_CANCELLED,
        _GROUP_EVENT_MAX,
} GroupEvent;

typedef enum GroupAction {
        IMPOSSIBLE, /* the event cannot occur in this state */
        NOTHING,
        START_ALL,
        CANCEL_STARTS,
        REMOVE_LAST,
        CONCLUDE,
        _GROUP_ACTION_MAX,
} GroupAction;

static const char *const states[_GROUP_STATE_MAX] = {
                [GROUP_IS_PREPARED] = "is-prepared", [GROUP_IS_DROPPED] = "is-dropped",
                [GROUP_STARTS] = "starts",           [GROUP_FAILS] = "fails",
                [GROUP_IS_RECORDED] = "is-recorded", [GROUP_IS_UNDONE] = "is-undone",
                [GROUP_IS_DONE] = "is-done",
};

static const char *const events[_GROUP_EVENT_MAX] = {
                [WAS_PREPARED] = "prepared",     [NOT_PREPARED] = "not-prepared",
                [START_FAILED] = "start-failed", [STARTS_ENDED] = "starts-ended",
                [WAS_RECORDED] = "recorded",     [NOT_RECORDED] = "not-recorded",
                [WAS_CANCELLED] = "cancelled",
};

static const StateTransition transitions[_GROUP_STATE_MAX][_GROUP_EVENT_MAX] = {
                [GROUP_IS_PREPARED] = {[WAS_PREPARED] = {GROUP_STARTS, START_ALL},
                                       [NOT_PREPARED] = {GROUP_IS_UNDONE, REMOVE_LAST},
                                       [WAS_CANCELLED] = {GROUP_IS_DROPPED, NOTHING}},
                [GROUP_IS_DROPPED] = {[NOT_PREPARED] = {GROUP_IS_UNDONE, REMOVE_LAST},
                                      [WAS_CANCELLED] = {GROUP_IS_DROPPED, NOTHING}},
                [GROUP_STARTS] = {[START_FAILED] = {GROUP_FAILS, CANCEL_STARTS},
                                  [STARTS_ENDED] = {GROUP_IS_RECORDED, NOTHING},
                                  [WAS_CANCELLED] = {GROUP_FAILS, CANCEL_STARTS}},
                [GROUP_FAILS] = {[START_FAILED] = {GROUP_FAILS, NOTHING},
                                 [STARTS_ENDED] = {GROUP_IS_UNDONE, NOTHING},
                                 [WAS_CANCELLED] = {GROUP_FAILS, NOTHING}},
                /* All apps run: it is too late to cancel it. */
                [GROUP_IS_RECORDED] = {[WAS_RECORDED] = {GROUP_IS_DONE, CONCLUDE},
                                       [NOT_RECORDED] = {GROUP_IS_UNDONE, REMOVE_LAST},
                                       [WAS_CANCELLED] = {GROUP_IS_RECORDED, NOTHING}},
                [GROUP_IS_UNDONE] = {[WAS_CANCELLED] = {GROUP_IS_UNDONE, NOTHING}},
};

static const StateTable table = STATE_TABLE("group", states, events, transitions);

static void start_all(AppChange *c);
static void cancel_starts(AppChange *c);
static void remove_last(AppChange *c);
static void conclude(AppChange *c);

/* C may be freed when this returns. */
static void handle(AppChange *c, GroupEvent event)
{
        static void (*const actions[_GROUP_ACTION_MAX])(AppChange * c) = {
                        [START_ALL] = start_all,
                        [CANCEL_STARTS] = cancel_starts,
                        [REMOVE_LAST] = remove_last,
                        [CONCLUDE] = conclude,
        };
        const StateTransition *t = state_table_find(&table, c->group_state, event);

        if (!t)
                return;
        c->group_state = t->to;
        if (actions[t->action])
                actions[t->action](c);
}

static void hold(AppInstance *app, bool held)
{
        app_place_handle(app, held ? PLACE_IS_LAUNCHED : PLACE_IS_SETTLED);
        app->manifest->tentative = held;
}

static void hold_all(const Group *g, bool held)
{
        for (size_t i = 0; i < g->n; i++)
                hold(g->starts[i].app, held);
}

/* --- Undoing ------------------------------------------------------------------------------------------- */

static void conclude_undoing(AppChange *c)
{
        Supervisor *s = c->supervisor;
        Group *g = c->group;
        _cleanup_error_ Error e = ERROR_NULL;

        sweep_apps(s->pod);
        (void) app_sockets_record(s->apps, NULL);
        if (supervisor_ends(s)) /* which apps fail of */
                g->result = error_set(&e, -ESHUTDOWN, "The pod ends");
        else
                (void) error_move(&e, &g->error);
        change_finish(c, g->result, NULL, NULL, &e);
        supervisor_judge(s);
}

static void drop_last(AppChange *c, bool unloaded)
{
        Group *g = c->group;

        if (!unloaded && !change_reaches_manager(c, remove_last))
                return;
        AppInstance *app = g->starts[--g->n].app;
        app_place_handle(app, PLACE_IS_FREE);
        interface_changed(c->supervisor->interface, app);
        change_drop(c->supervisor, app);
        remove_last(c);
}

static void unload_last(AppChange *c)
{
        AppInstance *app = c->group->starts[c->group->n - 1].app;

        discard_app(c->supervisor->pod, app->manifest);
        if (change_unload(c, app, drop_last) < 0)
                drop_last(c, false);
}

static void on_last_stopped(AppChange *c, int r, const char *result)
{
        if (r >= 0 || change_reaches_manager(c, remove_last))
                unload_last(c);
}

static void remove_last(AppChange *c)
{
        Group *g = c->group;

        if (g->n == 0) {
                conclude_undoing(c);
                return;
        }
        if (!change_reaches_manager(c, remove_last))
                return;
        AppInstance *app = g->starts[g->n - 1].app;
        app->sockets = app_sockets_free(app->sockets);
        app_stop_handle(app, CHANGE_STOPS);
        if (app->units[0].life != UNIT_UP ||
            change_run(c, "StopUnit", app->units[0].name, on_last_stopped) < 0)
                unload_last(c);
}

/* --- Starting ------------------------------------------------------------------------------------------ */

static void set_tentative(const Group *g, bool tentative)
{
        for (size_t i = 0; i < g->n; i++)
                g->starts[i].app->manifest->tentative = tentative;
}

static void on_recorded(AppChange *c, int r, const Error *e)
{
        Group *g = c->group;

        if (r < 0) {
                g->result = r;
                (void) error_copy(&g->error, e);
                set_tentative(g, true);
        }
        handle(c, r < 0 ? NOT_RECORDED : WAS_RECORDED);
}

static void conclude(AppChange *c)
{
        Supervisor *s = c->supervisor;
        Group *g = c->group;

        hold_all(g, false);
        for (size_t i = 0; i < g->n; i++)
                supervisor_listen(s, g->starts[i].app);
        change_finish(c, 0, NULL, g->warnings, &g->error);
        supervisor_judge(s); /* short ones may have ended */
}

void group_started(AppChange *c)
{
        bool failed = c->group_state == GROUP_IS_UNDONE;

        set_tentative(c->group, failed);
        if (failed)
                remove_last(c);
        else
                change_save(c, on_recorded);
}

/* Ends the starts that are not done yet. Their ends are not waited for: systemd may not be reachable, and remove_last() stops the apps. The
 * caller keeps N_WAITS above 0. */
static void cancel_starts(AppChange *c)
{
        Group *g = c->group;

        for (size_t i = 0; i < g->n; i++) {
                AppInstance *app = g->starts[i].app;
                if (app->n_jobs == 0)
                        continue;
                app_stop_handle(app, CHANGE_STOPS);
                if (c->supervisor->manager)
                        (void) manager_link_run(c->supervisor->manager, "StopUnit", app->units[0].name, NULL,
                                                NULL);
                (void) interface_give_up_start(app, -ECANCELED, "its launch was cancelled");
        }
}

static void fail(AppChange *c, const AppInstance *app, int r, const Error *e)
{
        Group *g = c->group;

        if (c->group_state != GROUP_STARTS) { /* only the first failure is reported */
                handle(c, START_FAILED);
                return;
        }
        const char *why = e && e->message ? e->message : strerror(-r);
        g->result = error_set(&g->error, r, "App %s could not be started: %s", app_instance_path(app), why);
        (void) error_hint(&g->error, g->result, "None of the %zu apps of the group was kept.", g->n);
        handle(c, START_FAILED);
}

static void end_wait(AppChange *c)
{
        if (--c->group->n_waits > 0 || !change_resume(c))
                return;
        handle(c, STARTS_ENDED);
        change_step_back(c);
}

static void on_started(void *userdata, int r, const Error *e)
{
        Start *start = userdata;
        AppChange *c = start->change;

        if (r < 0 && !c->abandoned)
                fail(c, start->app, r, e);
        end_wait(c);
}

void group_cancel(AppChange *c, int r, const char *why)
{
        Group *g = c->group;

        c->caller = NULL;
        if (c->group_state != GROUP_STARTS) {
                handle(c, WAS_CANCELLED);
                return;
        }
        g->result = error_set(&g->error, r, "The launch was cancelled: %s", why);
        (void) error_hint(&g->error, g->result, "None of the %zu apps of the group was kept.", g->n);
        g->n_waits++;
        handle(c, WAS_CANCELLED);
        end_wait(c);
}

bool group_has(const AppChange *c, const char *name)
{
        const Group *g = c->group;

        for (size_t i = 0; g && i < g->n; i++) {
                const char *one = g->starts[i].app->name;
                if (streq(one, name) || nested_is_below(name, one))
                        return true;
        }
        return false;
}

/* An app that connections start is not started here. */
static void start_all(AppChange *c)
{
        Group *g = c->group;

        c->waits = true;
        g->n_waits = 1;
        for (size_t i = 0; i < g->n && c->group_state == GROUP_STARTS; i++) {
                Start *start = &g->starts[i];
                int r;

                if (stage1_app_is_socket_activated(start->app->app))
                        continue;
                const AppInstance *parent = app_missing_parent(start->app);
                if (parent) {
                        _cleanup_error_ Error e = ERROR_NULL;
                        fail(c, start->app, -ESRCH,
                             (error_set(&e, -ESRCH, "app %s, which it is nested under, does not run",
                                        app_instance_path(parent)),
                              &e));
                        continue;
                }
                g->n_waits++;
                r = interface_start(c->supervisor->interface, start->app, UINT64_MAX, on_started, start);
                if (r >= 0)
                        continue;
                g->n_waits--;
                fail(c, start->app, r, NULL);
        }
        if (--g->n_waits > 0) {
                change_step_aside(c);
                return;
        }
        c->waits = false;
        handle(c, STARTS_ENDED);
        group_started(c);
}

/* --- Taking over --------------------------------------------------------------------------------------- */

static int take_one(AppChange *c, json_object *added, Error *e)
{
        Supervisor *s = c->supervisor;
        Group *g = c->group;
        AppInstance *app = NULL;

        if (!json_object_is_type(added, json_type_string))
                return error_set(e, -EBADMSG, "What was prepared for the group is not a list of apps");
        int r = change_take_over(s, json_object_get_string(added), &app, e);
        if (r < 0)
                return r;
        g->starts[g->n++] = (Start){.change = c, .app = app};
        hold(app, true);
        interface_changed(s->interface, app);
        return strv_extend(&g->names, app_instance_path(app)) < 0 ? error_oom(e) : 0;
}

static int take_all(AppChange *c, const char *text, Error *e)
{
        _cleanup_json_ json_object *list = NULL;
        Group *g = c->group;

        int r = json_parse_strict(text, strlen(text), &list, NULL, e);
        if (r < 0)
                return r;
        if (!json_object_is_type(list, json_type_array))
                return error_set(e, -EBADMSG, "What was prepared for the group is not a list of apps");
        size_t n = json_object_array_length(list);
        g->starts = calloc(n + 1, sizeof(Start));
        if (!g->starts)
                return error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = take_one(c, json_object_array_get_idx(list, i), e);
        return r;
}

void group_prepared(AppChange *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;
        Group *g = calloc(1, sizeof(Group));

        c->group = g;
        if (!g) {
                sweep_apps(c->supervisor->pod);
                change_finish(c, error_oom(&e), NULL, NULL, &e);
                return;
        }
        g->result = change_read_answer(c, &text, &g->warnings, &g->error);
        if (g->result >= 0 && c->group_state == GROUP_IS_DROPPED)
                g->result = error_set(&g->error, -ECANCELED,
                                      "The launch was cancelled: its caller has disconnected");
        if (g->result >= 0)
                g->result = take_all(c, text, &g->error);
        handle(c, g->result < 0 ? NOT_PREPARED : WAS_PREPARED);
}
