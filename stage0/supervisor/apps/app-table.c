/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The apps of a running pod: one object for each app, which every part of the supervisor refers to.
 *
 * The settings of an app are read once, here. Each part (admission, readiness, streams, ...) has a pointer of its
 * own in the object, and adds and frees what that refers to.
 */

#include <linux/capability.h>
#include <sys/stat.h>

#include "stage0/supervisor/apps/app-life.h"
#include "stage1/stage1.h"

static AppInstance *instance_free(AppInstance *a)
{
        if (!a)
                return NULL;
        pod_units_free(a->units, a->n_units);
        app_sockets_free(a->sockets);
        app_status_done(&a->status);
        health_status_done(&a->health);
        safe_close(a->report_fd);
        app_settings_done(&a->settings);
        strv_free(a->volumes);
        free(a);
        return NULL;
}

DEFINE_TRIVIAL_CLEANUP_FUNC(AppInstance *, instance_free);

AppInstance *app_table_find(const AppTable *t, const char *name)
{
        FOREACH_APP(a, t)
        if (streq(a->name, name) || streq_ptr(a->settings.nested_path, name))
                return a;
        return NULL;
}

bool app_table_has(const AppTable *t, const AppInstance *a)
{
        FOREACH_APP(other, t)
        if (other == a)
                return true;
        return false;
}

const char *app_instance_path(const AppInstance *a)
{
        return a->settings.nested_path ?: a->name;
}

AppInstance *app_table_parent(const AppInstance *a)
{
        size_t n = nested_parent_length(a->name);

        FOREACH_APP(other, a->table)
        if (n > 0 && strlen(other->name) == n && startswith(a->name, other->name))
                return other;
        return NULL;
}

bool app_is_up(const AppInstance *a)
{
        return a->units[0].life == UNIT_UP || a->n_jobs > 0 || a->waking;
}

bool app_is_ending(const AppInstance *a)
{
        const PodUnit *u = &a->units[0];

        return u->life == UNIT_UP && (a->stop != STOP_NONE || u->activity == UNIT_STOPS);
}

bool app_was_stopped(const AppInstance *a)
{
        return a->stop != STOP_NONE && a->stop != STOP_KILLED;
}

const AppInstance *app_missing_parent(const AppInstance *a)
{
        const AppInstance *parent = app_table_parent(a);

        return parent && (parent->units[0].life != UNIT_UP || app_is_ending(parent)) ? parent : NULL;
}

/* Apps are added behind their parents. */
AppInstance *app_table_last_below(const AppTable *t, const char *name)
{
        for (size_t i = t->n; i > 0; i--)
                if (nested_is_below(t->items[i - 1]->name, name))
                        return t->items[i - 1];
        return NULL;
}

static bool writes_cgroups(const AppInstance *a)
{
        return a->settings.writable_sys || a->settings.seccomp_profile || stage1_app_may_mount(a->app) ||
               stage1_app_capabilities(a->app) & UINT64_C(1) << CAP_SYS_ADMIN;
}

int app_table_add(AppTable *t, PodApp *manifest, AppInstance **ret, Error *e)
{
        _cleanup_(instance_freep) AppInstance *a = calloc(1, sizeof(AppInstance));

        if (!a)
                return error_oom(e);
        a->table = t;
        a->status = app_status_initial();
        a->report_fd = -EBADF;
        a->manifest = manifest;
        a->name = manifest->name;
        a->app = manifest->app;
        int r = app_settings_read(manifest, &a->settings, e);
        if (r < 0)
                return r;
        a->writes_cgroups = writes_cgroups(a);
        if (pod_units_new(a, &a->units, &a->n_units) < 0 ||
            GREEDY_REALLOC(t->items, t->allocated, t->n + 1) < 0)
                return error_oom(e);
        r = app_life_reserve(a);
        if (r < 0)
                return error_set_errno(e, r, "Cannot make the records of app %s of pod %s", a->name,
                                       pod_display_name(t->pod));
        t->items[t->n++] = a;
        if (ret)
                *ret = a;
        TAKE_PTR(a);
        return 0;
}

int app_table_change(AppInstance *a, PodApp *manifest, Error *e)
{
        AppInstance changed = {.manifest = manifest, .name = manifest->name, .app = manifest->app};

        int r = app_settings_read(manifest, &changed.settings, e);
        if (r < 0)
                return r;
        if (pod_units_new(&changed, &changed.units, &changed.n_units) < 0) {
                app_settings_done(&changed.settings);
                return error_oom(e);
        }
        for (size_t i = 0; i < changed.n_units; i++)
                changed.units[i].app = a;
        pod_units_free(a->units, a->n_units);
        app_settings_done(&a->settings);
        a->manifest = manifest;
        a->name = manifest->name;
        a->app = manifest->app;
        a->settings = changed.settings;
        a->writes_cgroups = writes_cgroups(a);
        a->bounded_cgroup = 0;
        a->units = changed.units;
        a->n_units = changed.n_units;
        app_status_done(&a->status);
        a->status = app_status_initial();
        health_status_done(&a->health);
        a->health = (HealthStatus){};
        (void) app_check_handle(a, CHECKED_APP_GONE);
        a->report_fd = safe_close(a->report_fd);
        app_stop_handle(a, APP_BEGINS_ANEW);
        app_run_handle(a, RUN_ENDED);
        a->oom_kills = 0;
        app_life_reset(a);
        return 0;
}

void app_table_remove(AppTable *t, AppInstance *a)
{
        size_t i = 0;

        while (t->items[i] != a)
                i++;
        app_life_forget(a);
        memmove(t->items + i, t->items + i + 1, (--t->n - i) * sizeof(AppInstance *));
        instance_free(a);
}

static int open_statuses(AppTable *t, Error *e)
{
        t->status_fd = pod_open_statuses(t->pod);
        return t->status_fd < 0 ? error_set_errno(e, t->status_fd,
                                                  "Cannot open the directory of the statuses of pod %s",
                                                  pod_display_name(t->pod))
                                : 0;
}

int app_table_new(Pod *p, AppTable **ret, Error *e)
{
        _cleanup_(app_table_freep) AppTable *t = calloc(1, sizeof(AppTable));

        if (!t)
                return error_oom(e);
        t->pod = p;
        t->status_fd = -EBADF;
        int r = open_statuses(t, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < p->manifest->n_apps; i++) {
                r = app_table_add(t, p->manifest->apps[i], NULL, e);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(t);
        return 0;
}

AppTable *app_table_free(AppTable *t)
{
        if (!t)
                return NULL;
        for (size_t i = 0; i < t->n; i++)
                instance_free(t->items[i]);
        free(t->items);
        pod_timer_free(t->retry);
        if (t->spare_fd > 0)
                safe_close(t->spare_fd);
        safe_close(t->status_fd);
        free(t);
        return NULL;
}
