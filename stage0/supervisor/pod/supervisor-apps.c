/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Adds apps to a running pod, and removes them; for replacing them see supervisor-replace.c, for groups of them
 * supervisor-group.c.
 *
 * Changes are made one by one, in the order of the calls. While the apps of a group start, which may take any time, other
 * changes are made, except for changes of these apps, which follow the launch. A child process prepares the apps to be added
 * (supervisor-prepare.c). Only the supervisor changes the pod: it takes over the result, or removes the files of a child
 * that has failed or was killed. An app counts as removed once systemd has unloaded its units (supervisor-unload.c). */

#include <signal.h>
#include <sys/wait.h>

#include "stage0/supervisor/apps/state-table.h"
#include "stage0/supervisor/pod/app-change.h"
#include "stage0/supervisor/apps/app-limits.h"
#include "stage0/supervisor/apps/task-state.h"

#define STOPS_MAX 3U                     /* attempts to stop an app that is removed */
#define KILL_AGAIN_USEC UINT64_C(100000) /* between attempts while the pod's systemd cannot be reached */
#define CHANGES_MAX 1024U                /* queued changes: eight for each possible client */

static void process_changes(Supervisor *s);

static AppChange *change_free(AppChange *c)
{
        if (!c)
                return NULL;
        sd_event_source_disable_unref(c->timer);
        pod_timer_free(c->kill_timer);
        sd_bus_slot_unref(c->slot);
        change_end_preparing(c);
        group_done(c);
        json_object_put(c->request);
        strv_free(c->units);
        strv_free(c->warnings);
        strv_free(c->gone);
        error_done(&c->refusal);
        free(c->name);
        free(c);
        return NULL;
}

bool change_resume(AppChange *c)
{
        c->waits = false;
        if (!c->abandoned)
                return true;
        change_free(c);
        return false;
}

static void on_job(void *userdata, int r, const char *result)
{
        AppChange *c = userdata;

        if (change_resume(c))
                c->job_done(c, r, result);
}

int change_run(AppChange *c, const char *method, const char *unit,
               void (*done)(AppChange *c, int r, const char *result))
{
        ManagerLink *l = c->supervisor->manager;

        c->job_done = done;
        int r = l ? manager_link_run(l, method, unit, on_job, c) : -ENOTCONN;
        c->waits = r >= 0;
        return r;
}

static void on_saved(void *userdata, int r, const Error *e)
{
        AppChange *c = userdata;

        if (change_resume(c))
                c->saved(c, r, e);
}

void change_save(AppChange *c, void (*then)(AppChange *c, int r, const Error *e))
{
        Supervisor *s = c->supervisor;
        _cleanup_error_ Error e = ERROR_NULL;

        c->saved = then;
        c->waits = true;
        if (file_keeper_write(s->keeper, on_saved, c) >= 0)
                return;
        c->waits = false;
        then(c, error_oom(&e), &e);
}

bool change_reaches_manager(AppChange *c, void (*resume)(AppChange *c))
{
        const Supervisor *s = c->supervisor;

        if (s->connection == CONNECTION_KNOWN && manager_link_is_open(s->manager))
                return true;
        c->resume = resume;
        return false;
}

void supervisor_resume_changes(Supervisor *s)
{
        AppChange *c = s->changes;
        void (*resume)(AppChange * c) = c ? TAKE_PTR(c->resume) : NULL;

        if (resume)
                resume(c);
}

static void report(AppChange *c, int r, const char *app, char *const *warnings, const Error *e)
{
        if (c->group_function)
                c->group_function(c->userdata, r, r < 0 ? NULL : group_names(c), warnings, e);
        else
                c->function(c->userdata, r, app, warnings, e);
}

static AppChange **last_of(AppChange **list)
{
        while (*list)
                list = &(*list)->next;
        return list;
}

/* Removes C, the current change. Its followers take its place. */
static void dequeue(AppChange *c)
{
        *last_of(&c->followers) = c->next;
        c->supervisor->changes = TAKE_PTR(c->followers);
        c->supervisor->n_changes--;
}

/* Reports the result before the next change begins. */
void change_finish(AppChange *c, int r, const char *app, char **warnings, Error *e)
{
        Supervisor *s = c->supervisor;
        bool processing_changes = s->processing_changes;

        dequeue(c);
        s->processing_changes = true;
        report(c, r, app, warnings, e);
        change_free(c);
        s->processing_changes = processing_changes;
        process_changes(s);
}

/* --- Steps --------------------------------------------------------------------------------------------- */

typedef enum ChangeEvent {
        TURN_CAME,  /* it is the first of the queue, and none is being made */
        APPS_START, /* those of its group */
        STARTS_ENDED,
        MET_LAUNCH, /* of the app that it changes, and which it follows */
        _CHANGE_EVENT_MAX,
} ChangeEvent;

static const char *const states[_CHANGE_STEP_MAX] = {
                [STEP_WAITS] = "waits",
                [STEP_IS_MADE] = "is-made",
                [STEP_STARTS] = "starts",
                [STEP_STARTED] = "started",
};

static const char *const events[_CHANGE_EVENT_MAX] = {
                [TURN_CAME] = "turn-came",
                [APPS_START] = "apps-start",
                [STARTS_ENDED] = "starts-ended",
                [MET_LAUNCH] = "met-launch",
};

static const StateTransition transitions[_CHANGE_STEP_MAX][_CHANGE_EVENT_MAX] = {
                [STEP_WAITS] = {[TURN_CAME] = {STEP_IS_MADE, STATE_ONLY}},
                [STEP_IS_MADE] = {[APPS_START] = {STEP_STARTS, STATE_ONLY},
                                  [MET_LAUNCH] = {STEP_WAITS, STATE_ONLY}},
                [STEP_STARTS] = {[STARTS_ENDED] = {STEP_STARTED, STATE_ONLY}},
                [STEP_STARTED] = {[TURN_CAME] = {STEP_IS_MADE, STATE_ONLY}},
};

static const StateTable table = STATE_TABLE("change", states, events, transitions);

static void set_step(AppChange *c, ChangeEvent event)
{
        const StateTransition *t = state_table_find(&table, c->step, event);

        if (t)
                c->step = t->to;
        else if (event == TURN_CAME) /* it is not to be begun again and again */
                c->step = STEP_IS_MADE;
}

void change_step_aside(AppChange *c)
{
        Supervisor *s = c->supervisor;

        s->changes = c->next;
        c->next = s->launches;
        s->launches = c;
        set_step(c, APPS_START);
        process_changes(s);
}

void change_step_back(AppChange *c)
{
        Supervisor *s = c->supervisor;
        AppChange **place = &s->launches;

        while (*place != c)
                place = &(*place)->next;
        *place = c->next;
        place = s->changes && s->changes->step == STEP_IS_MADE ? &s->changes->next : &s->changes;
        c->next = *place;
        *place = c;
        set_step(c, STARTS_ENDED);
        process_changes(s);
}

void change_follow(AppChange *c, AppChange *launch)
{
        Supervisor *s = c->supervisor;

        s->changes = c->next;
        c->next = NULL;
        set_step(c, MET_LAUNCH);
        *last_of(&launch->followers) = c;
        process_changes(s);
}

/* The starts of its group may have ended meanwhile: it is queued behind the current change then. */
static AppChange *find_launch(const Supervisor *s, const char *name)
{
        for (AppChange *c = s->launches; c; c = c->next)
                if (group_has(c, name))
                        return c;
        for (AppChange *c = s->changes; c; c = c->next)
                if (c->step == STEP_STARTED && group_has(c, name))
                        return c;
        return NULL;
}

/* --- Adding -------------------------------------------------------------------------------------------- */

void change_forget_instance(Supervisor *s, AppInstance *app)
{
        if (s->manager)
                manager_link_unfollow(s->manager, &app->units[0]);
        readiness_remove_app(app);
        server_remove_app(s->server, app);
        forwarders_remove_app(s->forwarders, app);
        inputs_remove_app(app);
}

static void forget_instance(Supervisor *s, AppInstance *app)
{
        change_forget_instance(s, app);
        pod_mounts_remove_app(s->mounts, app->name);
        tasks_remove(s->pod, app->name);
}

int change_know_instance(Supervisor *s, AppInstance *app, Error *e)
{
        int r = forwarders_add_app(s->forwarders, app, e);

        if (r >= 0)
                r = inputs_add_app(s->inputs, app, e);
        if (r < 0)
                return r;
        r = server_add_app(s->server, app);
        if (r >= 0)
                r = readiness_add_app(s->readiness, app);
        if (r >= 0 && s->manager)
                r = manager_link_follow(s->manager, app->units[0].name, &app->units[0]);
        if (r < 0)
                return error_oom(e);
        app->units[0].known = true; /* it was not started yet */
        return 0;
}

static int know_instance(Supervisor *s, AppInstance *app, Error *e)
{
        int r = change_know_instance(s, app, e);

        return r < 0 ? r : pod_mounts_take_app(s->mounts, app->manifest, app->settings.notify, e);
}

static void drop_volumes(Supervisor *s, char *const *volumes)
{
        STRV_FOREACH (name, volumes)
                pod_drop_volume(s->pod, *name);
}

/* Puts APP, which is in the manifest, into the pod. */
static int adopt(Supervisor *s, PodApp *manifest, char ***volumes, AppInstance **ret, Error *e)
{
        AppInstance *app = NULL;
        int r = app_table_add(s->apps, manifest, &app, e);

        if (r < 0)
                return r;
        app->volumes = TAKE_PTR(*volumes);
        r = know_instance(s, app, e);
        if (r >= 0)
                r = app_sockets_new(s->pod, s->runtime.leader, manifest, NULL, &app->sockets, e);
        if (r >= 0) {
                *ret = app;
                return 0;
        }
        *volumes = TAKE_PTR(app->volumes);
        forget_instance(s, app);
        app_table_remove(s->apps, app);
        return r;
}

int change_take_over(Supervisor *s, const char *text, AppInstance **ret, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *added = NULL;
        _cleanup_strv_free_ char **volumes = NULL;
        PodApp *app = NULL;

        int r = pod_manifest_parse(text, strlen(text), &added, NULL, e);
        if (r >= 0)
                r = pod_merge_added(s->pod, added, &app, &volumes, e);
        if (r < 0)
                return r;
        r = adopt(s, app, &volumes, ret, e);
        if (r >= 0)
                return 0;
        discard_app(s->pod, app);
        (void) pod_manifest_take_app(s->pod->manifest, app->name);
        drop_volumes(s, volumes);
        pod_app_free(app);
        return r;
}

void change_drop(Supervisor *s, AppInstance *app)
{
        _cleanup_strv_free_ char **volumes = TAKE_PTR(app->volumes);
        _cleanup_(pod_app_freep) PodApp *manifest = app->manifest;

        forget_instance(s, app);
        app_table_remove(s->apps, app);
        (void) pod_manifest_take_app(s->pod->manifest, manifest->name);
        change_remove_volumes(s, volumes);
}

/* The first app that shares its pid namespace needs process 1 of that, which takes as long to start as an app does: it is started when the app
 * was added, and not only with it. */
static void start_processes(Supervisor *s, const AppInstance *app)
{
        if (s->has_processes || app->settings.pid.mode != PID_SHARED || !s->manager || supervisor_ends(s))
                return;
        s->has_processes = manager_link_run(s->manager, "StartUnit", LAUNCH_PROCESSES_UNIT, NULL, NULL) >= 0;
}

/* Until its manifest is on disk nothing else is done with the app. */
static void hold_added(AppInstance *app, bool held)
{
        app_place_handle(app, held ? PLACE_IS_ADDED : PLACE_IS_SETTLED);
}

static void refuse_adding(AppChange *c, int r, const Error *why)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (why)
                (void) error_copy(&e, why);
        sweep_apps(c->supervisor->pod);
        change_finish(c, r, NULL, c->warnings, &e);
}

static void conclude_adding(AppChange *c, int r, const Error *e)
{
        _cleanup_error_ Error none = ERROR_NULL;
        AppInstance *app = TAKE_PTR(c->added);
        Supervisor *s = c->supervisor;

        hold_added(app, false);
        if (r < 0) {
                discard_app(s->pod, app->manifest);
                change_drop(s, app);
                refuse_adding(c, r, e);
                return;
        }
        supervisor_listen(s, app);
        interface_changed(s->interface, app);
        start_processes(s, app);
        change_finish(c, 0, app_instance_path(app), c->warnings, &none);
}

static void take_added(AppChange *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *added = NULL;

        int r = change_read_answer(c, &added, &c->warnings, &e);
        if (r >= 0)
                r = change_take_over(c->supervisor, added, &c->added, &e);
        if (r < 0) {
                refuse_adding(c, r, &e);
                return;
        }
        hold_added(c->added, true);
        change_save(c, conclude_adding);
}

/* --- Removing ------------------------------------------------------------------------------------------ */

/* The directory is renamed first: removing its content may take long. */
static void remove_directory(Supervisor *s, const char *path)
{
        _cleanup_close_ int to =
                        openat(s->pod->dir_fd, "apps", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char removed[40];

        snprintf(removed, sizeof(removed), ".removed-%" PRIu64, ++s->n_removed);
        if (to >= 0 && renameat(s->pod->dir_fd, path, to, removed) >= 0)
                server_remove_tree(s->server, to, removed);
}

/* As long as the manifest on disk may be another one, what that has stays. */
void change_remove_directory(Supervisor *s, const char *path)
{
        if (file_keeper_is_behind(s->keeper))
                (void) strv_extend(&s->leftovers, path);
        else
                remove_directory(s, path);
}

/* Nothing that was made since then has one of these names: no app is added before (begin_next()). */
void supervisor_remove_leftovers(void *userdata)
{
        Supervisor *s = userdata;
        _cleanup_strv_free_ char **paths = TAKE_PTR(s->leftovers);

        STRV_FOREACH (path, paths)
                remove_directory(s, *path);
}

static AppInstance *find_user(const Supervisor *s, const char *volume)
{
        FOREACH_APP(app, s->apps)
        for (size_t i = 0; i < app->manifest->n_mounts; i++)
                if (streq_ptr(app->manifest->mounts[i].volume, volume))
                        return app;
        return NULL;
}

/* A volume that another app mounts goes with that one. The path of its directory is added to GONE. */
static void drop_volume(Supervisor *s, const char *name, char ***gone)
{
        AppInstance *user = find_user(s, name);

        if (user) {
                (void) strv_extend(&user->volumes, name);
                return;
        }
        pod_drop_volume(s->pod, name);
        if (pod_manifest_find_volume(s->pod->manifest, name))
                return;
        pod_mounts_forget_volume(s->mounts, name);
        (void) strv_extendf(gone, "volumes/%s", name);
}

void change_remove_volumes(Supervisor *s, char *const *volumes)
{
        _cleanup_strv_free_ char **gone = NULL;

        STRV_FOREACH (name, volumes)
                drop_volume(s, *name, &gone);
        STRV_FOREACH (path, gone)
                change_remove_directory(s, *path);
}

/* What is nested under an app that is removed goes first. */
AppInstance *change_instance(const AppChange *c)
{
        AppTable *apps = c->supervisor->apps;
        AppInstance *below = c->kind == CHANGE_REMOVES ? app_table_last_below(apps, c->name) : NULL;

        return below ?: app_table_find(apps, c->name);
}

static void begin_removing(AppChange *c);

/* What is gone is removed once the manifest on disk is without it. */
static void remove_gone(AppChange *c, int r, const Error *why)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Supervisor *s = c->supervisor;

        STRV_FOREACH (path, c->gone)
                change_remove_directory(s, *path);
        if (r < 0) {
                (void) error_copy(&e, why);
                (void) error_hint(
                                &e, r,
                                "The app is not a part of the running pod any more. The manifest is written as soon as "
                                "that is possible; if the pod ends before, it may have the app when it is run again.");
        } else if (c->refused)
                r = error_move(&e, &c->refusal);
        change_finish(c, r, c->refused ? app_instance_path(c->refused) : NULL, NULL, &e);
        supervisor_judge(s); /* what has listened may have kept the pod up */
}

/* The apps that are nested under an app go before it; one manifest is written for all. */
static void conclude_removing(AppChange *c, AppInstance *app)
{
        _cleanup_strv_free_ char **volumes = TAKE_PTR(app->volumes);
        _cleanup_(pod_app_freep) PodApp *manifest = app->manifest;
        _cleanup_free_ char *files = NULL;
        Supervisor *s = c->supervisor;

        bool ordered = app->settings.after && *app->settings.after;
        (void) pod_app_path(s->pod, manifest, NULL, &files);
        app_place_handle(app, PLACE_IS_FREE);
        interface_changed(s->interface, app);
        forget_instance(s, app);
        app_table_remove(s->apps, app);
        (void) pod_manifest_take_app(s->pod->manifest, manifest->name);
        if (ordered)
                sweep_units(s->pod);
        STRV_FOREACH (name, volumes)
                drop_volume(s, *name, &c->gone);
        (void) app_sockets_record(s->apps, NULL);
        supervisor_check_ready(s); /* the pod may have waited for this app */
        const char *name = files ? files + strlen("apps/") : manifest->name;
        (void) strv_extendf(&c->gone, "credentials/%s", name);
        (void) strv_extendf(&c->gone, "apps/%s", name);
        if (app_table_find(s->apps, c->name))
                begin_removing(c);
        else
                change_save(c, remove_gone);
}

static void on_unloaded(AppChange *c, bool done)
{
        conclude_removing(c, change_instance(c));
}

/* It is down, or stays. */
static void end_stopping(AppChange *c)
{
        c->kill_timer = pod_timer_free(c->kill_timer);
        c->stopping = NULL;
}

static void refuse_removing(AppChange *c, AppInstance *app, int code, const char *why)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Supervisor *s = c->supervisor;

        int r = error_set(&e, code, "App %s %s", app_instance_path(app), why);
        if (app == c->stopping && app->n_jobs == 0)
                app_stop_handle(app, STOP_FAILED);
        end_stopping(c);
        if (code != -EBUSY)
                (void) error_hint(&e, r, "Try it again; 'acnspawn stop %s' ends the app with the pod.",
                                  pod_display_name(s->pod));
        if (c->gone) { /* apps that were nested under it */
                c->refused = app;
                (void) error_move(&c->refusal, &e);
                supervisor_listen(s, app);
                change_save(c, remove_gone);
                return;
        }
        change_finish(c, r, app_instance_path(app), NULL, &e);
        if (app_table_has(s->apps, app)) /* the next change may have been its removal */
                supervisor_listen(s, app);
}

/* First its sockets: what connects from now on is refused. */
static void remove_app(AppChange *c, AppInstance *app)
{
        app_place_handle(app, PLACE_IS_LEFT);
        app->sockets = app_sockets_free(app->sockets);
        interface_changed(c->supervisor->interface, app);
        discard_app(c->supervisor->pod, app->manifest);
        if (change_unload(c, app, on_unloaded) < 0)
                conclude_removing(c, app);
}

/* One of the apps to be removed that is up; the app itself before those that are nested under it. */
static AppInstance *find_up(const AppChange *c)
{
        FOREACH_APP(app, c->supervisor->apps)
        if ((streq(app->name, c->name) || nested_is_below(app->name, c->name)) && app_is_up(app))
                return app;
        return NULL;
}

static void on_app_stopped(AppChange *c, int r, const char *result);

static void on_calls_answered(void *userdata, int r, uint32_t number)
{
        AppChange *c = userdata;

        if (change_resume(c))
                on_app_stopped(c, r == -ECONNRESET ? r : 0, "done");
}

/* Other calls may have asked for the stop as well, and not be answered yet. What systemd replies to them comes before its
 * reply to this. */
static bool await_calls(AppChange *c, const AppInstance *app)
{
        ManagerLink *l = c->supervisor->manager;

        if (app->n_jobs == 0 || !l ||
            manager_link_main_process(l, app->units[0].name, on_calls_answered, c) < 0)
                return false;
        c->waits = true;
        return true;
}

/* When the connection to the pod's systemd was lost, systemd is asked again over the next one. */
static void on_app_stopped(AppChange *c, int r, const char *result)
{
        AppInstance *app = c->stopping;

        if (r >= 0 && await_calls(c, app))
                return;
        bool stopped = r >= 0 && !app_is_up(app);
        if (!stopped && !change_reaches_manager(c, begin_removing))
                return;
        /* If another job of the unit has replaced the stop, or followed it, the app is stopped again. Its group, or the end of a session, may
         * stop it as well, and root of an app may do anything. */
        bool again = r == -ECONNRESET || (r >= 0 && ++c->n_stops < STOPS_MAX);
        if (!stopped && !again)
                refuse_removing(c, app, r < 0 ? r : -EIO, "could not be stopped");
        else
                begin_removing(c);
}

static void on_kill(void *userdata)
{
        AppChange *c = userdata;
        ManagerLink *l = c->supervisor->manager;

        if (!manager_link_is_open(l)) {
                (void) pod_timer_set(c->kill_timer, KILL_AGAIN_USEC);
                return;
        }
        FOREACH_APP(app, c->supervisor->apps)
        if (app_is_up(app) && (app == c->stopping || nested_is_below(app->name, c->stopping->name)))
                (void) manager_link_kill(l, app->units[0].name, true, SIGKILL);
}

/* Its time to stop begins with the first attempt. A request to kill it may have been lost with the connection. */
static int begin_stopping(AppChange *c, AppInstance *app)
{
        Supervisor *s = c->supervisor;

        if (c->stopping == app) {
                if (pod_timer_has_expired(c->kill_timer))
                        on_kill(c);
                return 0;
        }
        c->stopping = app;
        c->n_stops = 0;
        if (c->kill_usec == UINT64_MAX)
                return 0;
        notices_extend_stop(app, c->kill_usec);
        return pod_timer_new(s->pause, s->event, c->kill_usec, on_kill, c, &c->kill_timer);
}

/* Connections and calls do not start it any more meanwhile. */
static void stop_for_removal(AppChange *c, AppInstance *app)
{
        int r = begin_stopping(c, app);

        app_stop_handle(app, STOP_ASKED);
        supervisor_end_below(c->supervisor, app);
        if (r >= 0)
                r = change_run(c, "StopUnit", app->units[0].name, on_app_stopped);
        if (r < 0 && change_reaches_manager(c, begin_removing))
                refuse_removing(c, app, r, "cannot be stopped");
}

static AppChange *find_launch_of_removed(const AppChange *c)
{
        FOREACH_APP(app, c->supervisor->apps)
        {
                bool concerned = streq(app->name, c->name) || nested_is_below(app->name, c->name);
                AppChange *launch = concerned ? find_launch(c->supervisor, app->name) : NULL;
                if (launch)
                        return launch;
        }
        return NULL;
}

/* The removal of an app whose group starts undoes the launch of the whole group. */
static void cancel_launch(AppChange *c, AppChange *launch)
{
        _cleanup_free_ char *why = NULL;

        (void) xasprintf(&why, "App %s is removed", c->name);
        group_cancel(launch, -ECANCELED, why ?: "One of them is removed");
        change_follow(c, launch); /* which may be over then */
}

static void begin_removing(AppChange *c)
{
        AppInstance *app = change_instance(c), *up = find_up(c);
        AppChange *launch = find_launch_of_removed(c);
        _cleanup_error_ Error e = ERROR_NULL;

        if (up != c->stopping || launch)
                end_stopping(c);
        if (!app)
                change_finish(c, 0, NULL, NULL, &e);
        else if (launch && c->stops)
                cancel_launch(c, launch);
        else if (launch)
                refuse_removing(c, change_instance(c), -EBUSY, "has to be stopped first");
        else if (!up)
                remove_app(c, app);
        else if (c->stops) {
                if (change_reaches_manager(c, begin_removing))
                        stop_for_removal(c, up);
        } else
                refuse_removing(c, up, -EBUSY, "has to be stopped first");
}

bool supervisor_removes_app(const Supervisor *s, const AppInstance *app)
{
        const AppChange *c = s->changes;

        return app_is_leaving(app) ||
               (c && c->kind == CHANGE_REMOVES &&
                (streq_ptr(c->name, app->name) || nested_is_below(app->name, c->name)));
}

/* --- The queue ----------------------------------------------------------------------------------------- */

/* Finds the launch of the parent of an app to be added, or of an app of the group. */
static AppChange *find_launch_of_parent(const AppChange *c)
{
        json_object *list = c->kind == CHANGE_LAUNCHES ? json_object_object_get(c->request, "apps") : NULL;
        size_t n = list ? json_object_array_length(list) : 1;
        AppChange *launch = NULL;

        for (size_t i = 0; i < n && !launch; i++) {
                json_object *one = list ? json_object_array_get_idx(list, i) : c->request;
                const char *parent = json_object_get_string(json_object_object_get(one, "parent"));
                const AppInstance *app = parent ? app_table_find(c->supervisor->apps, parent) : NULL;

                launch = app ? find_launch(c->supervisor, app->name) : NULL;
        }
        return launch;
}

static void begin_adding(AppChange *c)
{
        AppChange *launch = find_launch_of_parent(c);
        _cleanup_error_ Error e = ERROR_NULL;

        if (launch) {
                change_follow(c, launch);
                return;
        }
        int r = change_prepare(c, c->kind == CHANGE_LAUNCHES ? group_prepared : take_added);
        if (r < 0)
                change_finish(c, error_set_errno(&e, r, "Cannot start a process that prepares the app"),
                              NULL, NULL, &e);
}

/* The app may have become one of a group that starts since the call was queued. */
static void begin_replacing(AppChange *c)
{
        AppChange *launch = find_launch(c->supervisor, c->name);

        if (launch)
                change_follow(c, launch);
        else
                replace_begin(c);
}

static void begin(AppChange *c)
{
        switch (c->kind) {
        case CHANGE_ADDS:
        case CHANGE_LAUNCHES:
                begin_adding(c);
                break;
        case CHANGE_REPLACES:
                begin_replacing(c);
                break;
        case CHANGE_REMOVES:
                begin_removing(c);
                break;
        }
}

static void on_manifest_saved(AppChange *c, int r, const Error *why)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Supervisor *s = c->supervisor;

        if (s->ends_changes)
                return;
        if (r < 0 && c->kind != CHANGE_REMOVES) {
                (void) error_copy(&e, why);
                change_finish(c, r, c->name, NULL, &e);
                return;
        }
        begin(c);
}

/* A call may name a nested app by its path before the app is there, and so before its name is known. */
static int resolve_name(AppChange *c)
{
        const AppInstance *app = c->name ? app_table_find(c->supervisor->apps, c->name) : NULL;
        char *name = app && !streq(app->name, c->name) ? strdup(app->name) : NULL;

        if (!app || streq(app->name, c->name))
                return 0;
        if (!name)
                return -ENOMEM;
        free(c->name);
        c->name = name;
        return 0;
}

/* What a failed change has left on disk does not get into the way of the next one: nothing is added until the manifest could be
 * written again. An app can be removed all the same. */
static void process_change(AppChange *c)
{
        bool started = c->step == STEP_STARTED;

        set_step(c, TURN_CAME);
        int r = resolve_name(c);
        if (r < 0)
                on_manifest_saved(c, r, NULL);
        else if (started)
                group_started(c);
        else if (file_keeper_is_behind(c->supervisor->keeper))
                change_save(c, on_manifest_saved);
        else
                on_manifest_saved(c, 0, NULL);
}

/* A loop, not a recursion, for changes that are done at once. */
static void process_changes(Supervisor *s)
{
        if (s->processing_changes)
                return;
        s->processing_changes = true;
        while (s->changes && s->changes->step != STEP_IS_MADE && !s->ends_changes)
                process_change(s->changes);
        s->processing_changes = false;
}

/* Takes over REQUEST and the texts. */
static int enqueue(Supervisor *s, AppChange change)
{
        AppChange *c = s->n_changes < CHANGES_MAX ? malloc(sizeof(AppChange)) : NULL;

        if (!c)
                return s->n_changes < CHANGES_MAX ? -ENOMEM : -EUSERS;
        *c = change;
        c->supervisor = s;
        c->sock = -EBADF;
        *last_of(&s->changes) = c;
        s->n_changes++;
        process_changes(s);
        return 0;
}

int supervisor_add_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata)
{
        json_object *kept = json_object_get(request);
        int r = enqueue(s, (AppChange){.kind = CHANGE_ADDS,
                                       .request = kept,
                                       .nested_number = ++s->n_nested,
                                       .function = function,
                                       .userdata = userdata});

        if (r < 0)
                json_object_put(kept);
        return r;
}

int supervisor_launch_group(Supervisor *s, json_object *request, const void *caller, GroupFunction function,
                            void *userdata)
{
        json_object *kept = json_object_get(request);
        uint64_t number = s->n_nested + 1;

        s->n_nested += json_object_array_length(json_object_object_get(request, "apps"));
        int r = enqueue(s, (AppChange){.kind = CHANGE_LAUNCHES,
                                       .request = kept,
                                       .caller = caller,
                                       .nested_number = number,
                                       .group_function = function,
                                       .userdata = userdata});

        if (r < 0)
                json_object_put(kept);
        return r;
}

/* Of LIST, and of what follows the launches in it. */
static AppChange *find_in(AppChange *list, bool (*is_it)(const AppChange *c, const void *data),
                          const void *data)
{
        AppChange *found = NULL;

        for (AppChange *c = list; c && !found; c = c->next)
                found = is_it(c, data) ? c : find_in(c->followers, is_it, data);
        return found;
}

AppChange *change_find(const Supervisor *s, bool (*is_it)(const AppChange *c, const void *data),
                       const void *data)
{
        return find_in(s->changes, is_it, data) ?: find_in(s->launches, is_it, data);
}

static bool is_launch_of(const AppChange *c, const void *caller)
{
        return c->caller == caller;
}

void supervisor_cancel_launch(Supervisor *s, const void *caller)
{
        AppChange *c = change_find(s, is_launch_of, caller);

        if (c)
                group_cancel(c, -ECANCELED, "Its caller has disconnected");
}

/* The name of the app that a request names, perhaps by its path. */
static char *copy_name(const Supervisor *s, json_object *request)
{
        const char *name = json_object_get_string(json_object_object_get(request, "app"));
        const AppInstance *app = app_table_find(s->apps, name);

        return strdup(app ? app->name : name);
}

int supervisor_remove_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata)
{
        json_object *timeout = json_object_object_get(request, "timeoutUSec");
        char *name = copy_name(s, request);

        int r = !name ? -ENOMEM
                      : enqueue(s,
                                (AppChange){.kind = CHANGE_REMOVES,
                                            .name = name,
                                            .stops = json_object_get_boolean(
                                                            json_object_object_get(request, "stop")),
                                            .kill_usec = timeout ? (uint64_t) json_object_get_int64(timeout)
                                                                 : UINT64_MAX,
                                            .function = function,
                                            .userdata = userdata});
        if (r < 0)
                free(name);
        return r;
}

int supervisor_replace_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata)
{
        char *name = copy_name(s, request);
        json_object *kept = json_object_get(request);
        int r = !name ? -ENOMEM
                      : enqueue(s, (AppChange){.kind = CHANGE_REPLACES,
                                               .request = kept,
                                               .name = name,
                                               .function = function,
                                               .userdata = userdata});

        if (r < 0) {
                json_object_put(kept);
                free(name);
        } else
                supervisor_supersede(s);
        return r;
}

/* What waits for the disk only is made; what comes after it does not begin any more. */
static void finish_saving(Supervisor *s)
{
        AppChange *c = s->changes, *rest = c ? TAKE_PTR(c->next) : NULL;

        s->ends_changes = true;
        if (s->keeper)
                file_keeper_finish(s->keeper);
        *last_of(&s->changes) = rest;
        *last_of(&s->changes) = TAKE_PTR(s->launches);
}

void supervisor_end_changes(Supervisor *s)
{
        finish_saving(s);
        for (AppChange *c; (c = s->changes);) {
                _cleanup_error_ Error e = ERROR_NULL;
                dequeue(c);
                if (c->gone) /* apps of which others were to follow */
                        (void) pod_update_manifest(s->pod, NULL);
                if (c->pid > 0)
                        (void) kill(c->pid, SIGKILL);
                replace_abandon(c);
                (void) error_set(&e, -ESHUTDOWN, "The pod ends");
                report(c, -ESHUTDOWN, NULL, NULL, &e);
                c->abandoned = true;
                c->timer = sd_event_source_disable_unref(c->timer);
                c->kill_timer = pod_timer_free(c->kill_timer);
                c->slot = sd_bus_slot_unref(c->slot);
                if (!c->waits)
                        change_free(c);
        }
        if (s->keeper && file_keeper_is_behind(s->keeper))
                (void) pod_update_manifest(s->pod, NULL);
}
