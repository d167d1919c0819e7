/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps of a running pod that are replaced by apps of another image, or with other settings.
 *
 * A child process prepares the new app while the old one continues to run, and again if the limits of the old app change in
 * the meantime. Then the old app is stopped, its units are unloaded, and the new app takes over its name, units, volumes
 * and, unless it comes with others, its credentials. The change is permanent when the manifest with the new app is written,
 * which happens when the new app is started, or ready if it reports that. Until then the old app has all its files; if the
 * new one cannot be started, the old one is put back and continues in its unchanged root.
 *
 * When the connection to the pod's systemd is lost, as when that executes itself again, it is not known what has become of
 * the current step. The states of all units are read over the next connection; then the step is repeated unless it was
 * done: systemd joins a job that is repeated with the one that it still has, and that an app was started is known from its
 * launcher, which does not depend on the connection.
 *
 * Meanwhile the app counts as up for the exit policy, and no call can change it. */

#include "stage0/supervisor/pod/app-change.h"

#define OLD_READY_USEC (60 * UINT64_C(1000000)) /* the least time that the old app has to get ready again */
#define UPDATES_USEC UINT64_C(20000)            /* between checks for pending changes of its limits */

typedef struct Replacement {
        AppInstance *app;
        PodManifest *added; /* the prepared app, until the pod owns it */
        PodApp *old, *new;  /* NEW is NULL until it replaces OLD */
        size_t index;       /* in the manifest */
        char **volumes;     /* volumes that came with the new app */
        char **warnings;
        AppSockets *sockets; /* of the app that does not have the place */
        bool was_running, swapped;
        uint64_t starts;     /* of the old app, before it is started again */
        uint64_t n_updated;  /* the changes of the old app's limits that the new app has */
        uint64_t ready_usec; /* in which the new app has to be ready; UINT64_MAX: its own time-out holds */
        Error error;         /* why the old app is put back */
} Replacement;

static Replacement *replacement_free(Replacement *x)
{
        if (!x)
                return NULL;
        app_sockets_free(x->sockets);
        pod_manifest_free(x->added);
        strv_free(x->volumes);
        strv_free(x->warnings);
        error_done(&x->error);
        free(x);
        return NULL;
}

static const char *parameter(const AppChange *c, const char *key)
{
        json_object *v = json_object_object_get(c->request, key);

        return v ? json_object_get_string(v) : NULL;
}

static void hold(AppInstance *app, bool held)
{
        app_place_handle(app, held ? PLACE_IS_REPLACED : PLACE_IS_SETTLED);
}

/* --- The end of the change ----------------------------------------------------------------------------- */

static void end_replacing(AppChange *c, int r, Error *e)
{
        Supervisor *s = c->supervisor;
        Replacement *x = TAKE_PTR(c->replacement);
        AppInstance *app = x->app;

        hold(app, false);
        app_life_replaced(app, NULL);
        change_finish(c, r, app_instance_path(app), x->warnings, e);
        replacement_free(x);
        if (app_table_has(s->apps, app)) /* the next change may have been its removal */
                supervisor_listen(s, app);
        supervisor_judge(s);
}

/* Before anything has changed. */
static void refuse(AppChange *c, int r, Error *e)
{
        c->replacement = replacement_free(c->replacement);
        change_finish(c, r, c->name, NULL, e);
}

static void remove_files(Supervisor *s, const char *path)
{
        _cleanup_free_ char *credentials = NULL;

        if (!path || xasprintf(&credentials, "credentials/%s", path + strlen("apps/")) < 0)
                return;
        change_remove_directory(s, credentials);
        change_remove_directory(s, path);
}

/* The manifest on disk has the new app. */
static void conclude(AppChange *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *files = NULL;
        Supervisor *s = c->supervisor;
        Replacement *x = c->replacement;

        (void) pod_app_path(s->pod, x->old, NULL, &files);
        x->sockets = app_sockets_free(x->sockets);
        (void) app_sockets_record(s->apps, NULL);
        x->old = pod_app_free(x->old);
        pod_mounts_forget_replaced(s->mounts, x->app->name);
        remove_files(s, files);
        STRV_FOREACH (name, x->volumes)
                (void) strv_extend(&x->app->volumes, *name);
        interface_announce(s->interface, x->app, "replaced", NULL);
        end_replacing(c, 0, &e);
}

/* --- Exchanging the old app and the new one ------------------------------------------------------------ */

static void set_place(Supervisor *s, const PodApp *from, PodApp *to)
{
        s->pod->manifest->apps[pod_manifest_index_of(s->pod->manifest, from)] = to;
}

static void exchange_sockets(Replacement *x)
{
        AppSockets *other = x->sockets;

        x->sockets = x->app->sockets;
        x->app->sockets = other;
}

static void name_as(AppInstance *app, PodApp *to)
{
        app->manifest = to;
        app->name = to->name;
        app->app = to->app;
}

/* In memory. */
static int exchange_instance(Supervisor *s, AppInstance *app, PodApp *to, Error *e)
{
        change_forget_instance(s, app);
        int r = app_table_change(app, to, e);
        int k = change_know_instance(s, app, r < 0 ? NULL : e);
        hold(app, true);
        interface_changed(s->interface, app); /* what it is now was not started yet */
        supervisor_check_ready(s);
        return r < 0 ? r : k;
}

/* The app is down and its units are unloaded. */
static int exchange(Supervisor *s, AppInstance *app, const PodApp *from, PodApp *to, Error *e)
{
        int r = exchange_units(s->pod, from, to, e);

        return r < 0 ? r : exchange_instance(s, app, to, e);
}

/* Also if its units cannot be written: the other app is freed after this. */
static int exchange_back(Supervisor *s, AppInstance *app, const PodApp *from, PodApp *to, Error *e)
{
        int r = exchange_units(s->pod, from, to, e), k = exchange_instance(s, app, to, r < 0 ? NULL : e);

        if (app->manifest != to)
                name_as(app, to);
        return r < 0 ? r : k;
}

/* Makes what was prepared a part of the manifest in memory. */
static int take_new(Supervisor *s, Replacement *x, Error *e)
{
        PodApp *place = pod_manifest_take_app(s->pod->manifest, x->old->name);
        PodApp *new = NULL;

        int r = pod_merge_added(s->pod, x->added, &new, &x->volumes, e);
        (void) pod_manifest_take_app(s->pod->manifest, x->old->name);
        pod_manifest_insert_app(s->pod->manifest, x->index, place);
        if (r >= 0)
                x->new = new;
        return r;
}

/* --- Putting the old app back -------------------------------------------------------------------------- */

static void drop_new(Supervisor *s, Replacement *x)
{
        _cleanup_free_ char *files = NULL;

        if (!x->new)
                return;
        x->sockets = app_sockets_free(x->sockets);
        (void) pod_app_path(s->pod, x->new, NULL, &files);
        change_remove_volumes(s, x->volumes);
        remove_files(s, files);
        if (file_keeper_is_behind(s->keeper)) /* unless the manifest on disk has it */
                sweep_apps(s->pod);
        x->new = pod_app_free(x->new);
}

static void conclude_restoring(AppChange *c, int r, const Error *why)
{
        Supervisor *s = c->supervisor;
        Replacement *x = c->replacement;
        _cleanup_error_ Error e = ERROR_NULL;

        int code = -ECONNABORTED;

        (void) error_move(&e, &x->error);
        if (r < 0)
                (void) error_hint(&e, code, "App %s of the old image could not be started again, either: %s",
                                  app_instance_path(x->app),
                                  why && why->message ? why->message : strerror(-r));
        else if (x->was_running && !supervisor_ends(s))
                (void) error_hint(&e, code, "App %s of the old image runs again.",
                                  app_instance_path(x->app));
        interface_announce(s->interface, x->app, "rolledBack", e.message);
        end_replacing(c, code, &e);
}

static void start_old(AppChange *c);

/* An old app that is not ready in time is running again, too. */
static void on_old_started(void *userdata, int r, const Error *e)
{
        AppChange *c = userdata;

        r = r == -ETIME ? 0 : r;
        if (change_resume(c) && (r >= 0 || change_reaches_manager(c, start_old)))
                conclude_restoring(c, r, e);
}

static void start_old(AppChange *c)
{
        Replacement *x = c->replacement;
        Supervisor *s = c->supervisor;

        bool has_run = x->app->units[0].life != UNIT_UP && x->app->status.starts > x->starts;
        if (!x->was_running || has_run || supervisor_ends(s)) {
                conclude_restoring(c, 0, NULL);
                return;
        }
        if (!change_reaches_manager(c, start_old))
                return;
        c->waits = true;
        uint64_t wait_usec = x->ready_usec == UINT64_MAX ? UINT64_MAX : MAX(x->ready_usec, OLD_READY_USEC);
        int r = interface_start(s->interface, x->app, wait_usec, on_old_started, c);
        if (r >= 0)
                return;
        c->waits = false;
        if (change_reaches_manager(c, start_old))
                conclude_restoring(c, r, NULL);
}

static void begin_restoring(AppChange *c);

static void restore(AppChange *c, bool unloaded)
{
        _cleanup_error_ Error e = ERROR_NULL;
        Replacement *x = c->replacement;
        Supervisor *s = c->supervisor;

        if (x->swapped && !unloaded && !change_reaches_manager(c, begin_restoring))
                return;
        if (x->swapped) {
                set_place(s, x->new, x->old);
                exchange_sockets(x);
                int r = exchange_back(s, x->app, x->new, x->old, &e);
                pod_mounts_restore_app(s->mounts, x->old->name);
                x->swapped = false;
                app_life_replaced(x->app, NULL);
                drop_new(s, x);
                if (r < 0) {
                        conclude_restoring(c, r, &e);
                        return;
                }
        } else if (x->new)
                drop_new(s, x);
        else
                sweep_apps(s->pod);
        x->starts = x->app->status.starts;
        start_old(c);
}

static void unload_new(AppChange *c)
{
        if (change_unload(c, c->replacement->app, restore) < 0)
                restore(c, false);
}

static void on_new_stopped(AppChange *c, int r, const char *result)
{
        if (r >= 0 || change_reaches_manager(c, begin_restoring))
                unload_new(c);
}

/* The reason is in the error of the replacement. An app that is stopped with its pod says nothing of its image, and no old one is to
 * run any more: the end of the pod abandons the change. */
static void begin_restoring(AppChange *c)
{
        Replacement *x = c->replacement;

        if (supervisor_ends(c->supervisor))
                return;
        if (!x->swapped) {
                restore(c, false);
                return;
        }
        app_stop_handle(x->app, CHANGE_STOPS);
        if (!change_reaches_manager(c, begin_restoring))
                return;
        if (x->app->units[0].life != UNIT_UP ||
            change_run(c, "StopUnit", x->app->units[0].name, on_new_stopped) < 0)
                unload_new(c);
}

/* --- The new app --------------------------------------------------------------------------------------- */

/* The reason why a start is given up, for messages. */
static char *describe_check(const HealthStatus *h)
{
        char *text = NULL;

        if (xasprintf(&text, "its health check has failed %u times%s%s", (unsigned) h->failures,
                      isempty(h->message) ? "" : "; the check says: ", h->message ?: "") < 0)
                return NULL;
        return text;
}

bool supervisor_replacement_is_unhealthy(Supervisor *s, AppInstance *app)
{
        _cleanup_free_ char *why = describe_check(&app->health);
        const Replacement *x = s->changes ? s->changes->replacement : NULL;
        bool is_new = x && x->app == app && x->swapped;

        return interface_give_up_start(app, -EIO, why ?: "its health check has failed too often") && is_new;
}

static const char superseded[] =
                "its caller has disconnected, and another replacement of the app was requested";

/* Undoes a replacement whose caller has disconnected, as soon as another one of the same app is queued. */
static void check_superseded(Supervisor *s)
{
        AppChange *c = s->changes;
        bool waits = false;

        if (!c || !c->orphaned || !c->replacement || c->superseded)
                return;
        for (const AppChange *next = c->next; next; next = next->next)
                waits = waits || (next->request && streq_ptr(next->name, c->name));
        c->superseded = waits;
        if (waits && c->replacement->swapped)
                (void) interface_give_up_start(c->replacement->app, -ECANCELED, superseded);
}

static bool is_replacement_of(const AppChange *c, const void *userdata)
{
        return c->kind == CHANGE_REPLACES && c->userdata == userdata;
}

void supervisor_replace_orphaned(Supervisor *s, const void *userdata)
{
        AppChange *c = change_find(s, is_replacement_of, userdata);

        if (c)
                c->orphaned = true;
        check_superseded(s);
}

bool supervisor_may_supersede(const Supervisor *s, const AppInstance *app)
{
        const AppChange *c = s->changes;

        return c && c->orphaned && c->replacement && c->replacement->app == app;
}

void supervisor_supersede(Supervisor *s)
{
        check_superseded(s);
}

/* Until this the old app has its files, and is what the manifest on disk has. */
static void on_committed(AppChange *c, int r, const Error *e)
{
        if (r >= 0) {
                conclude(c);
                return;
        }
        Replacement *x = c->replacement;
        x->new->instead = x->old;
        (void) error_copy(&x->error, e);
        begin_restoring(c);
}

static void commit(AppChange *c)
{
        c->replacement->new->instead = NULL;
        change_save(c, on_committed);
}

static void refuse_new(AppChange *c, int r, const char *why)
{
        Replacement *x = c->replacement;

        (void) error_set(&x->error, r, "App %s could not be started with the image %s: %s",
                         app_instance_path(x->app), x->new->image_name ?: x->new->image_id, why);
        begin_restoring(c);
}

static void start_new(AppChange *c);

/* The start was requested over a connection that was lost. */
static void resume_start(AppChange *c)
{
        const AppInstance *app = c->replacement->app;

        if (app->units[0].life == UNIT_UP || app->status.state == APP_WAITING)
                start_new(c);
        else if (app->status.starts > 0 && !app_settings_readiness(&app->settings))
                commit(c); /* it was started, and has ended */
        else
                refuse_new(c, -EIO, app->status.message ?: "it has ended before it was ready");
}

static void on_new_started(void *userdata, int r, const Error *e)
{
        AppChange *c = userdata;

        if (!change_resume(c))
                return;
        if (r >= 0)
                commit(c);
        else if (change_reaches_manager(c, resume_start))
                refuse_new(c, r, e->message ?: strerror(-r));
}

static void start_new(AppChange *c)
{
        Replacement *x = c->replacement;

        if (!x->was_running) {
                commit(c);
                return;
        }
        if (c->superseded) {
                refuse_new(c, -ECANCELED, superseded);
                return;
        }
        if (!change_reaches_manager(c, resume_start))
                return;
        c->waits = true;
        int r = interface_start(c->supervisor->interface, x->app, x->ready_usec, on_new_started, c);
        if (r >= 0)
                return;
        c->waits = false;
        if (change_reaches_manager(c, resume_start))
                refuse_new(c, r, strerror(-r));
}

static void unload_old(AppChange *c);

static void swap(AppChange *c, bool unloaded)
{
        Replacement *x = c->replacement;
        Supervisor *s = c->supervisor;

        if (!unloaded && !change_reaches_manager(c, unload_old))
                return;
        _cleanup_app_settings_ AppSettings settings = {};
        int r = unloaded ? take_new(s, x, &x->error)
                         : error_set(&x->error, -EBUSY, "The pod's systemd does not unload app %s",
                                     app_instance_path(x->app));
        if (r >= 0)
                r = app_settings_read(x->new, &settings, &x->error);
        if (r >= 0)
                r = app_sockets_new(s->pod, s->runtime.leader, x->new, x->app->sockets, &x->sockets,
                                    &x->error);
        if (r >= 0)
                r = pod_mounts_replace_app(s->mounts, x->new, settings.notify, &x->error);
        if (r >= 0) {
                set_place(s, x->old, x->new);
                x->new->instead = x->old;
        }
        if (r >= 0) {
                x->swapped = true;
                app_life_replaced(x->app, x->new);
                exchange_sockets(x);
                r = exchange(s, x->app, x->old, x->new, &x->error);
        }
        if (r < 0)
                begin_restoring(c);
        else
                start_new(c);
}

/* --- The old app --------------------------------------------------------------------------------------- */

static void unload_old(AppChange *c)
{
        Replacement *x = c->replacement;

        if (change_unload(c, x->app, swap) >= 0 || !change_reaches_manager(c, unload_old))
                return;
        (void) error_set(&x->error, -EAGAIN, "The pod's systemd cannot be reached");
        begin_restoring(c);
}

static void stop_old(AppChange *c);

static void on_old_stopped(AppChange *c, int r, const char *result)
{
        Replacement *x = c->replacement;

        bool stopped = r >= 0 && x->app->units[0].life != UNIT_UP;
        if (!stopped && !change_reaches_manager(c, stop_old))
                return;
        if (stopped) {
                unload_old(c);
                return;
        }
        (void) error_set(&x->error, r < 0 ? r : -EIO, "App %s could not be stopped",
                         app_instance_path(x->app));
        x->was_running = false; /* its units stay as they are */
        app_stop_handle(x->app, STOP_FAILED);
        begin_restoring(c);
}

static void stop_old(AppChange *c)
{
        Replacement *x = c->replacement;

        if (!change_reaches_manager(c, stop_old))
                return;
        if (!app_is_up(x->app)) {
                unload_old(c);
                return;
        }
        app_stop_handle(x->app, CHANGE_STOPS);
        int r = change_run(c, "StopUnit", x->app->units[0].name, on_old_stopped);
        if (r < 0)
                on_old_stopped(c, r, NULL);
}

/* Whether it is to run is decided when the state of its unit is known. */
static void begin_replacing(AppChange *c)
{
        Replacement *x = c->replacement;

        if (!change_reaches_manager(c, begin_replacing))
                return;
        x->was_running = app_is_up(x->app);
        stop_old(c);
}

static int check_idle(AppChange *c, AppInstance *app, Error *e)
{
        if (!app || app_is_leaving(app))
                return error_set(e, -ESRCH, "The pod has no app %s", c->name);
        if (app->n_jobs > 0)
                return error_set(e, -EBUSY, "App %s is just being started or stopped", app->name);
        return 0;
}

static void on_prepared(AppChange *c);

static int prepare_new(AppChange *c)
{
        c->replacement->n_updated = c->replacement->app->n_updated;
        return change_prepare(c, on_prepared);
}

static int prepare_updated(AppChange *c);

static int on_look_again(sd_event_source *source, uint64_t usec, void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        AppChange *c = userdata;

        int r = prepare_updated(c);
        if (r < 0)
                refuse(c, error_set_errno(&e, r, "Cannot start a process that prepares the app"), &e);
        return 0;
}

/* A change of limits can be pending as long as the pod is paused. */
static int prepare_updated(AppChange *c)
{
        c->timer = sd_event_source_disable_unref(c->timer);
        if (c->replacement->app->n_updates == 0)
                return prepare_new(c);
        return sd_event_add_time_relative(c->supervisor->event, &c->timer, CLOCK_MONOTONIC, UPDATES_USEC,
                                          UPDATES_USEC, on_look_again, c);
}

/* The new app was prepared with limits that have changed since. */
static int prepare_anew(AppChange *c, Error *e)
{
        change_end_preparing(c);
        sweep_apps(c->supervisor->pod);
        c->replacement->warnings = strv_free(c->replacement->warnings);
        c->replacement->added = pod_manifest_free(c->replacement->added);
        int r = prepare_updated(c);
        return r < 0 ? error_set_errno(e, r, "Cannot start a process that prepares the app") : 0;
}

/* The process that prepares the app has answered, or ended. */
static void on_prepared(AppChange *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *text = NULL;
        Replacement *x = c->replacement;
        Supervisor *s = c->supervisor;

        int r = change_read_answer(c, &text, &x->warnings, &e);
        if (r >= 0)
                r = pod_manifest_parse(text, strlen(text), &x->added, NULL, &e);
        if (r >= 0)
                r = check_idle(c, x->app, &e);
        if (r >= 0 && (x->app->n_updates > 0 || x->app->n_updated != x->n_updated)) {
                r = prepare_anew(c, &e);
                if (r >= 0)
                        return;
        }
        if (r < 0) {
                sweep_apps(s->pod);
                refuse(c, r, &e);
                return;
        }
        x->old = x->app->manifest;
        x->index = pod_manifest_index_of(s->pod->manifest, x->old);
        hold(x->app, true);
        interface_announce(s->interface, x->app, "replacing", NULL);
        begin_replacing(c);
}

/* --- The beginning ------------------------------------------------------------------------------------- */

void replace_begin(AppChange *c)
{
        json_object *timeout = json_object_object_get(c->request, "readyTimeoutUSec");
        AppInstance *app = change_instance(c);
        _cleanup_error_ Error e = ERROR_NULL;

        int r = check_idle(c, app, &e);
        if (r >= 0 && app_table_last_below(c->supervisor->apps, app->name)) {
                r = error_set(&e, -ENOTEMPTY, "App %s cannot be replaced: apps are nested under it",
                              app_instance_path(app));
                (void) error_hint(&e, r, "They have to be removed first.");
        }
        if (r >= 0 && !parameter(c, "definition") &&
            streq(app->manifest->image_id, parameter(c, "imageID") ?: ""))
                r = -EALREADY;
        if (r < 0) {
                change_finish(c, r, c->name, NULL, &e);
                return;
        }
        c->replacement = calloc(1, sizeof(Replacement));
        if (!c->replacement) {
                change_finish(c, error_oom(&e), NULL, NULL, &e);
                return;
        }
        c->replacement->app = app;
        c->replacement->ready_usec = timeout ? (uint64_t) json_object_get_int64(timeout) : UINT64_MAX;
        r = prepare_new(c);
        if (r < 0)
                refuse(c, error_set_errno(&e, r, "Cannot start a process that prepares the app"), &e);
}

/* The manifest in memory equals the one on disk again. */
void replace_abandon(AppChange *c)
{
        Replacement *x = TAKE_PTR(c->replacement);

        if (x && x->swapped) {
                set_place(c->supervisor, x->new, x->old);
                exchange_sockets(x);
                name_as(x->app, x->old);
        }
        if (x && x->new) {
                app_life_replaced(x->app, NULL);
                STRV_FOREACH (name, x->volumes)
                        pod_drop_volume(c->supervisor->pod, *name);
                x->new = pod_app_free(x->new);
        }
        replacement_free(x);
}
