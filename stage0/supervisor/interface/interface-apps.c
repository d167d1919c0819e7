/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The part of the pod's interface that is about single apps.
 *
 * The state of an app follows from that of its unit; how it has ended is in its status. Calls that change the state
 * are answered when systemd has done the job, in the order in which systemd accepted them. If the connection to systemd is lost
 * before, for example because it re-executes itself, they are repeated over the next one. Stopping an app that
 * does not run, or is not there any more, succeeds; any other call that does not fit the state is answered with WrongState, which names it.
 */

#include <signal.h>

#include "stage0/supervisor/apps/app-life.h"
#include "stage0/supervisor/interface/interface-internal.h"
#include "stage0/supervisor/launchers/notices.h"
#include "stage0/supervisor/launchers/readiness.h"
#include "stage0/supervisor/apps/task-state.h"

const char *interface_app_state(const Interface *i, const AppInstance *a)
{
        const PodUnit *u = &a->units[0];

        if (app_is_leaving(a))
                return a->place == PLACE_REMOVED ? "removed" : "removing";
        if (!u->known || (u->life == UNIT_DOWN && !u->was_up))
                return "created";
        if (u->life != UNIT_UP)
                return "exited";
        return u->activity == UNIT_RUNS ? "running" : u->activity == UNIT_STOPS ? "stopping" : "starting";
}

/* --- App ----------------------------------------------------------------------------------------------- */

static int add_number(json_object *o, const char *key, uint64_t value, bool present)
{
        return present ? json_member_add(o, key, json_object_new_uint64(value)) : 0;
}

/* HEALTH is NULL for an app without a health check. */
static int add_status(json_object *o, const AppStatus *s, const HealthStatus *health, bool exited)
{
        int r = add_number(o, "starts", s->starts, true);

        if (r >= 0)
                r = add_number(o, "startedUSec", s->started_usec, s->started_usec > 0);
        if (r >= 0 && s->readiness != READINESS_NONE)
                r = json_member_add(o, "ready", json_object_new_boolean(s->readiness == READINESS_READY));
        if (r >= 0 && health && !exited)
                r = json_member_add_text(o, "health", health_state_to_string(health->state));
        if (r < 0 || !exited)
                return r;
        r = add_number(o, "endedUSec", s->ended_usec, s->ended_usec > 0);
        if (r >= 0)
                r = add_number(o, "exitStatus", (uint64_t) s->exit_status, s->exit_status >= 0);
        if (r >= 0)
                r = add_number(o, "signal", (uint64_t) s->signal, s->signal > 0);
        if (r >= 0)
                r = add_number(o, "exitCode", (uint64_t) app_status_to_exit_code(s), true);
        if (r >= 0)
                r = json_member_add_text(o, "cause", app_cause_to_string(s->cause));
        return r < 0 || !s->message ? r : json_member_add_text(o, "message", s->message);
}

bool interface_task_is_lost(const Interface *i, const AppInstance *app)
{
        return i->ended && i->pod->config.exit_policy == EXIT_ON_TASKS && app->status.starts == 0 &&
               !app_is_leaving(app);
}

static int add_task(json_object *o, const Interface *i, const AppInstance *app, const char *state)
{
        const char *reason = NULL,
                   *task = task_state(state, &app->status, stop_reason_to_string(app->stop), &reason);

        if (interface_task_is_lost(i, app)) {
                task = "LOST";
                reason = app_cause_to_string(CAUSE_NOT_STARTED);
        }
        int r = task ? json_member_add_text(o, "task", task) : 0;

        return r < 0 || !reason ? r : json_member_add_text(o, "reason", reason);
}

json_object *interface_app_json(const Interface *i, const AppInstance *app)
{
        const char *state = interface_app_state(i, app);
        json_object *o = json_object_new_object();

        int r = json_member_add_text(o, "name", app_instance_path(app));
        if (r >= 0)
                r = json_member_add_text(o, "state", state);
        if (r >= 0)
                r = json_member_add_text(o, "imageID", app->manifest->image_id);
        if (r >= 0 && app->manifest->image_name)
                r = json_member_add_text(o, "image", app->manifest->image_name);
        if (r >= 0)
                r = add_status(o, &app->status, app->check != CHECK_NONE ? &app->health : NULL,
                               streq(state, "exited"));
        if (r >= 0)
                r = add_task(o, i, app, state);
        if (r >= 0)
                return o;
        json_object_put(o);
        return NULL;
}

/* --- Errors -------------------------------------------------------------------------------------------- */

int interface_reply_error(VarlinkCall *call, const char *error, const char *key, const char *value,
                          const char *key2, const char *value2)
{
        json_object *o = json_object_new_object();
        int r = key ? json_member_add_text(o, key, value) : 0;

        if (r >= 0 && key2)
                r = json_member_add_text(o, key2, value2);
        if (r >= 0)
                r = varlink_reply_error(call, error, o);
        json_object_put(o);
        return r;
}

int interface_reply_failure(VarlinkCall *call, const char *error, int code, const Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        int r = json_member_add_text(o, "message", e->message ?: strerror(-code));

        if (r >= 0 && e->hint)
                r = json_member_add_text(o, "hint", e->hint);
        if (r >= 0)
                r = json_member_add(o, "errno", json_object_new_int(-code));
        return r < 0 ? r : varlink_reply_error(call, error, o);
}

static const char *text_parameter(json_object *parameters, const char *key)
{
        json_object *value = NULL;

        return json_object_object_get_ex(parameters, key, &value) && value ? json_object_get_string(value)
                                                                           : NULL;
}

AppInstance *interface_find_app(const Interface *i, const char *name)
{
        AppInstance *app = app_table_find(i->apps, name);

        return app && app->place != PLACE_ADDING ? app : NULL;
}

int interface_begin(Interface *i, VarlinkCall *call, json_object *parameters, bool starts,
                    VarlinkMethodFunction method, AppInstance **ret)
{
        const char *name = text_parameter(parameters, "app");
        AppInstance *app = app_table_find(i->apps, name ?: "");
        int r;

        if (!app || app_is_leaving(app))
                r = interface_reply_error(call, "org.acnspawn.Pod.NoSuchApp", "app", name, NULL, NULL);
        else if (starts && i->ops.ends(i->userdata))
                r = interface_reply_error(call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
        else if (interface_pod_is_paused(i))
                r = interface_reply_error(call, "org.acnspawn.Pod.PodPaused", NULL, NULL, NULL, NULL);
        else if ((app_change_of(app) &&
                  (method != interface_replace_app || !i->ops.may_supersede(i->userdata, app))) ||
                 (starts && i->ops.removes(i->userdata, app)))
                r = interface_reply_error(call, "org.acnspawn.Pod.WrongState", "app", name, "state",
                                          app_change_of(app) ?: "removing");
        else if (!app->units[0].known || !i->ops.manager(i->userdata))
                r = interface_defer(i, call, parameters, method);
        else {
                *ret = app;
                return 0;
        }
        return r < 0 ? r : 1;
}

int interface_wrong_state(Interface *i, VarlinkCall *call, const AppInstance *app)
{
        return interface_reply_error(call, "org.acnspawn.Pod.WrongState", "app", app_instance_path(app),
                                     "state", interface_app_state(i, app));
}

/* --- Jobs ---------------------------------------------------------------------------------------------- */

#define KILL_AGAIN_USEC UINT64_C(100000) /* between attempts while the pod's systemd cannot be reached */

typedef struct AppCall {
        struct AppCall *next; /* of those that wait for an exec */
        Interface *interface;
        VarlinkCall *call; /* or NULL: */
        InterfaceStartFunction function;
        void *userdata;
        AppInstance *app;
        const char *method; /* method of the pod's systemd */
        PodTimer *timer;    /* kills an app that does not stop, or bounds a start */
        bool starts;
        bool tentative;          /* the app does not count for the exit policy before this has succeeded */
        uint64_t earlier_starts; /* of the app, when the job was requested */
        bool told;               /* FUNCTION was called: the job is still freed at its end */
} AppCall;

static void call_done(AppCall *a)
{
        if (!a->told)
                a->app->n_jobs--;
        if (!a->told && a->app->start == a)
                a->app->start = NULL;
        pod_timer_free(a->timer);
        if (a->call)
                varlink_call_unref(a->call);
        free(a);
}

/* Reports the result to the supervisor, once. */
static void report(AppCall *a, int r, const Error *e)
{
        if (a->told)
                return;
        a->told = true;
        a->app->n_jobs--;
        if (a->app->start == a)
                a->app->start = NULL;
        a->function(a->userdata, r, e);
}

static void reply_done(AppCall *a)
{
        const Error e = ERROR_NULL;

        if (!a->call) {
                report(a, 0, &e);
                return;
        }
        (void) varlink_reply(a->call, NULL);
        if (a->tentative) {
                a->app->units[0].held = false;
                a->interface->ops.judge(a->interface->userdata);
        }
}

static void reply_pod_ends(AppCall *a)
{
        (void) interface_reply_error(a->call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
}

/* The systemd of a pod that ends refuses to start anything. */
static void reply_errno(AppCall *a, int r)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (a->call && a->starts && a->interface->ops.ends(a->interface->userdata))
                reply_pod_ends(a);
        else if (a->call)
                (void) varlink_reply_errno(a->call, r);
        else
                report(a, error_set_errno(&e, r, "its unit cannot be started"), &e);
}

static void report_failure(AppCall *a, const char *result)
{
        const AppStatus *s = &a->app->status;
        _cleanup_error_ Error e = ERROR_NULL;

        if (s->message)
                (void) error_set(&e, -EIO, "%s", s->message);
        else if (s->exit_status >= 0)
                (void) error_set(&e, -EIO, "it has ended with exit status %d before it was ready",
                                 s->exit_status);
        else
                (void) error_set(&e, -EIO, "%s",
                                 streq(result, "timeout") ? "it was not ready in time" : "it has failed");
        report(a, -EIO, &e);
}

static void reply_failed(AppCall *a, const char *result)
{
        _cleanup_json_ json_object *o = NULL;
        const char *message = a->app->status.message;

        if (!a->call) {
                report_failure(a, result);
                return;
        }
        o = json_object_new_object();

        int r = json_member_add_text(o, "app", app_instance_path(a->app));
        if (r >= 0)
                r = json_member_add_text(o, "result", result);
        if (r >= 0 && a->starts && message)
                r = json_member_add_text(o, "message", message);
        (void) (r < 0 ? varlink_reply_errno(a->call, r)
                      : varlink_reply_error(a->call, "org.acnspawn.Pod.JobFailed", o));
}

/* --- Being executed ------------------------------------------------------------------------------------ */

static bool was_executed(const AppInstance *app)
{
        return app->status.started_usec > 0 || app->status.cause == CAUSE_NONE;
}

/* A caller that is told that an app could not be executed must find it ended. An app that is started again
 * may never be down, and is not waited for. */
static bool is_settled(const AppInstance *app, StartStep step, bool good)
{
        return good || step == START_DOWN || (step == START_ENDED && app->settings.restart != RESTART_NO);
}

void interface_executed(Interface *i, AppInstance *app, StartStep step)
{
        bool good = i && was_executed(app);
        AppCall *done = NULL;

        app_run_handle(app, step == START_LAUNCHER_GONE && good ? RUN_IS_EXECUTED : RUN_IS_NOT_EXECUTED);
        if (app->run == APP_RUN_EXECUTED && streq(interface_app_state(i, app), "running"))
                interface_changed(i, app); /* the time of its start is known now */
        if (!i || !is_settled(app, step, good))
                return;
        for (AppCall **p = &i->starts, *a; (a = *p);) {
                if (a->app != app) {
                        p = &a->next;
                        continue;
                }
                *p = a->next;
                a->next = done;
                done = a;
        }
        for (AppCall *a; (a = done);) { /* the callback may start it again */
                done = a->next;
                if (good)
                        reply_done(a);
                else
                        reply_failed(a, "failed");
                call_done(a);
        }
}

/* The process was started; whether it could execute the app is known when its launcher has closed its
 * connection. */
static void await_exec(AppCall *a)
{
        Interface *i = a->interface;

        a->next = i->starts;
        i->starts = a;
        if (a->app->run == APP_RUN_EXECUTED)
                interface_executed(i, a->app, START_LAUNCHER_GONE);
        else if (a->app->units[0].life != UNIT_UP)
                interface_executed(i, a->app, START_DOWN);
}

/* The pod has ended: stops have succeeded. */
static void drop(AppCall *a)
{
        if (!a->call)
                reply_errno(a, -ECONNRESET);
        else if (a->starts)
                reply_pod_ends(a);
        else
                reply_done(a);
        call_done(a);
}

void interface_drop_starts(Interface *i)
{
        for (AppCall *a; (a = i->starts ?: i->lost);) {
                *(i->starts ? &i->starts : &i->lost) = a->next;
                drop(a);
        }
}

/* --- Ends of jobs -------------------------------------------------------------------------------------- */

/* systemd may learn of the end of a short app before it learns that its launcher was executed: the job has
 * failed then if the exit status is not 0, though the app was started. */
static bool has_run(const AppCall *a)
{
        const AppStatus *s = &a->app->status;

        if (!a->starts || app_settings_readiness(&a->app->settings))
                return false;
        readiness_settle(a->app);
        return s->started_usec > 0 && s->starts > a->earlier_starts;
}

/* Keeps the call, or the start, until the next connection has reported the states of all apps. */
static void keep_lost(AppCall *a)
{
        AppCall **last = &a->interface->lost;

        while (*last)
                last = &(*last)->next;
        a->next = NULL;
        *last = a;
}

static void on_job(void *userdata, int r, const char *result)
{
        AppCall *a = userdata;

        if (a->told) { /* the app may have been removed meanwhile */
                call_done(a);
                return;
        }
        if (r == -ECONNRESET) {
                keep_lost(a);
                return;
        }
        if (r >= 0 && streq(result, "done") && a->starts) {
                await_exec(a);
                return;
        }
        if (a->starts && (r < 0 || !streq(result, "done")))
                app_stop_handle(a->app, NOT_RESTARTED);
        if (r < 0)
                reply_errno(a, r);
        else if (streq(result, "done") || (streq(result, "failed") && has_run(a)))
                reply_done(a);
        else
                reply_failed(a, result);
        call_done(a);
}

/* Has the pod's systemd run the job, or keeps it for the next connection. */
static int request_job(AppCall *a)
{
        ManagerLink *l = a->interface->ops.manager(a->interface->userdata);

        int r = l ? manager_link_run(l, a->method, a->app->units[0].name, on_job, a) : -ENOTCONN;
        if (r != -ENOTCONN && r != -ECONNRESET)
                return r;
        keep_lost(a);
        return 0;
}

static void on_stop_timeout(void *userdata)
{
        AppCall *a = userdata;
        ManagerLink *l = a->interface->ops.manager(a->interface->userdata);

        if (!l || manager_link_kill(l, a->app->units[0].name, true, SIGKILL) < 0) {
                (void) pod_timer_set(a->timer, KILL_AGAIN_USEC);
                return;
        }
        FOREACH_APP(app, a->interface->apps)
        if (nested_is_below(app->name, a->app->name) && app->units[0].life == UNIT_UP)
                (void) manager_link_kill(l, app->units[0].name, true, SIGKILL);
}

/* The job continues in systemd until the app is stopped. */
bool interface_give_up_start(AppInstance *app, int code, const char *why)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        AppCall *a = TAKE_PTR(app->start);

        if (!a)
                return false;
        if (!a->call) {
                report(a, error_set(&e, code, "%s", why), &e);
                return true;
        }
        o = json_object_new_object();
        int r = json_member_add_text(o, "app", app_instance_path(app));
        if (r >= 0)
                r = json_member_add_text(o, "result", "unhealthy");
        if (r >= 0)
                r = json_member_add_text(o, "message", why);
        (void) (r < 0 ? varlink_reply_errno(a->call, r)
                      : varlink_reply_error(a->call, "org.acnspawn.Pod.JobFailed", o));
        return true;
}

static void on_start_timeout(void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        AppCall *a = userdata;

        report(a, error_set(&e, -ETIME, "it was not ready in time"), &e);
}

static int run_job(Interface *i, VarlinkCall *call, AppInstance *app, const char *method, uint64_t kill_usec)
{
        AppCall *a = calloc(1, sizeof(AppCall));

        if (!a)
                return -ENOMEM;
        *a = (AppCall){.interface = i,
                       .call = varlink_call_ref(call),
                       .app = app,
                       .method = method,
                       .starts = !streq(method, "StopUnit"),
                       .tentative = app->units[0].held && !streq(method, "StopUnit"),
                       .earlier_starts = app->status.starts};
        int r = kill_usec == UINT64_MAX ? 0
                                        : pod_timer_new(i->apps->pause, i->event, kill_usec, on_stop_timeout,
                                                        a, &a->timer);
        if (r >= 0)
                r = request_job(a);
        if (r >= 0) {
                app->n_jobs++;
                if (a->tentative)
                        app->start = a;
                return 0;
        }
        pod_timer_free(a->timer);
        varlink_call_unref(a->call);
        free(a);
        return r;
}

/* The same of a start by the supervisor itself. A change that is cancelled stops the app. */
static bool is_start_decided(AppCall *a)
{
        StopReason stop = a->app->stop;

        if (a->interface->ops.ends(a->interface->userdata))
                reply_errno(a, -ESHUTDOWN);
        else if (stop != STOP_NONE && stop != STOP_TO_RESTART)
                reply_errno(a, -ECANCELED);
        else
                return false;
        return true;
}

/* Answers the call if it does not need systemd any more. The launcher of the app tells what the job has done. */
static bool is_decided(AppCall *a)
{
        Interface *i = a->interface;
        AppInstance *app = a->app;

        if (a->told || !a->starts)
                return a->told;
        if (app->status.starts > a->earlier_starts && app->units[0].life != UNIT_UP) {
                if (has_run(a))
                        reply_done(a);
                else
                        reply_failed(a, "failed");
        } else if (!a->call)
                return is_start_decided(a);
        else if (i->ops.ends(i->userdata))
                reply_pod_ends(a);
        else if (i->ops.removes(i->userdata, app))
                (void) interface_reply_error(a->call, "org.acnspawn.Pod.WrongState", "app",
                                             app_instance_path(app), "state", "removing");
        else
                return false;
        return true;
}

/* If systemd still has the job, it merges both. An app that the lost job has started is not restarted a second time. The request to
 * kill an app that does not stop may have been lost as well. If it was not, and the app has ended, a connection may just have it started
 * again: that execution has its own time to stop. */
static void repeat(AppCall *a)
{
        if (is_decided(a)) {
                call_done(a);
                return;
        }
        if (a->starts && a->app->status.starts > a->earlier_starts)
                a->method = "StartUnit";
        int r = request_job(a);
        if (r < 0) {
                reply_errno(a, r);
                call_done(a);
        } else if (!a->starts && a->app->units[0].life == UNIT_UP && pod_timer_has_expired(a->timer))
                on_stop_timeout(a);
}

void interface_repeat_calls(Interface *i)
{
        AppCall *next = TAKE_PTR(i->lost);

        for (AppCall *a; (a = next);) {
                next = a->next;
                repeat(a);
        }
}

/* A start by a call resets the count of consecutive restarts, and the reason of an earlier stop. */
static void prepare_start(Interface *i, AppInstance *app)
{
        app_stop_handle(app, app->units[0].life == UNIT_UP ? APP_RESTARTS : APP_BEGINS_ANEW);
        i->ops.expect_start(i->userdata);
        app_life_forget_starts(app);
        if (i->ops.manager(i->userdata))
                (void) manager_link_reset(i->ops.manager(i->userdata), app->units[0].name);
}

int interface_start(Interface *i, AppInstance *app, uint64_t timeout_usec, InterfaceStartFunction function,
                    void *userdata)
{
        AppCall *a = calloc(1, sizeof(AppCall));
        int r = 0;

        if (!a)
                return -ENOMEM;
        *a = (AppCall){.interface = i,
                       .function = function,
                       .userdata = userdata,
                       .app = app,
                       .method = "StartUnit",
                       .starts = true,
                       .earlier_starts = app->status.starts};
        prepare_start(i, app);
        if (timeout_usec != UINT64_MAX)
                r = pod_timer_new(i->apps->pause, i->event, timeout_usec, on_start_timeout, a, &a->timer);
        if (r >= 0)
                r = request_job(a);
        if (r >= 0) {
                app->n_jobs++;
                app->start = a;
                return 0;
        }
        pod_timer_free(a->timer);
        free(a);
        return r;
}

int interface_refuse(VarlinkCall *call, int code, const char *format, ...)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *message = NULL;
        va_list args;

        va_start(args, format);
        int r = xvasprintf(&message, format, args);
        va_end(args);
        if (r >= 0)
                r = json_member_add_text(o, "message", message);
        if (r >= 0)
                r = json_member_add(o, "errno", json_object_new_int(-code));
        return r < 0 ? r : varlink_reply_error(call, "org.acnspawn.Pod.AppRefused", o);
}

static int refuse_orphan(VarlinkCall *call, const AppInstance *app, const AppInstance *parent)
{
        return interface_refuse(call, -ESRCH,
                                "App %s cannot be started: app %s, which it is nested under, does not run",
                                app_instance_path(app), app_instance_path(parent));
}

int interface_start_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        Interface *i = userdata;
        AppInstance *app = NULL;

        int r = interface_begin(i, call, parameters, true, interface_start_app, &app);
        if (r != 0)
                return MIN(r, 0);
        if (app->units[0].life == UNIT_UP)
                return interface_wrong_state(i, call, app);
        const AppInstance *missing = app_missing_parent(app);
        if (missing)
                return refuse_orphan(call, app, missing);
        app->units[0].held = json_object_get_boolean(json_object_object_get(parameters, "tentative"));
        prepare_start(i, app);
        return run_job(i, call, app, "StartUnit", UINT64_MAX);
}

int interface_restart_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        Interface *i = userdata;
        AppInstance *app = NULL;

        int r = interface_begin(i, call, parameters, true, interface_restart_app, &app);
        if (r != 0)
                return MIN(r, 0);
        const AppInstance *missing = app_missing_parent(app);
        if (missing)
                return refuse_orphan(call, app, missing);
        app->units[0].held = false;
        prepare_start(i, app);
        i->ops.end_below(i->userdata, app);
        r = run_job(i, call, app, "RestartUnit", UINT64_MAX);
        if (r < 0)
                app_stop_handle(app, NOT_RESTARTED);
        return r;
}

int interface_stop_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        uint64_t kill_usec = UINT64_MAX;
        json_object *timeout = NULL;
        Interface *i = userdata;
        AppInstance *app = NULL;

        const AppInstance *found = app_table_find(i->apps, text_parameter(parameters, "app"));
        if (!found || app_is_leaving(found))
                return varlink_reply(call, NULL);
        int r = interface_begin(i, call, parameters, false, interface_stop_app, &app);
        if (r != 0)
                return MIN(r, 0);
        if (!app_is_up(app))
                return varlink_reply(call, NULL);
        if (json_object_object_get_ex(parameters, "timeoutUSec", &timeout) && timeout) {
                int64_t usec = json_object_get_int64(timeout);
                if (usec < 0)
                        return varlink_reply_invalid_parameter(call, "timeoutUSec");
                kill_usec = (uint64_t) usec;
                notices_extend_stop(app, kill_usec);
        }
        app_stop_handle(app, STOP_ASKED);
        i->ops.end_below(i->userdata, app);
        return run_job(i, call, app, "StopUnit", kill_usec);
}
