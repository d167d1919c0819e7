/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The apps of a running pod: one object for each app, which every part of the supervisor refers to.
 *
 * The settings of an app are read once, here. Each part (admission, readiness, streams, ...) has a pointer of its
 * own in the object, and adds and frees what that refers to.
 */

#include "stage0/run/app-table.h"

static AppInstance *instance_free(AppInstance *a)
{
        if (!a)
                return NULL;
        pod_units_free(a->units, a->n_units);
        app_settings_done(&a->settings);
        strv_free(a->volumes);
        free(a);
        return NULL;
}

DEFINE_TRIVIAL_CLEANUP_FUNC(AppInstance *, instance_free);

AppInstance *app_table_find(const AppTable *t, const char *name)
{
        FOREACH_APP(a, t)
        if (streq(a->name, name))
                return a;
        return NULL;
}

int app_table_add(AppTable *t, PodApp *manifest, AppInstance **ret, Error *e)
{
        _cleanup_(instance_freep) AppInstance *a = calloc(1, sizeof(AppInstance));

        if (!a)
                return error_oom(e);
        a->manifest = manifest;
        a->name = manifest->name;
        a->app = manifest->app;
        int r = app_settings_read(manifest, &a->settings, e);
        if (r < 0)
                return r;
        if (pod_units_new(a, &a->units, &a->n_units) < 0 ||
            GREEDY_REALLOC(t->items, t->allocated, t->n + 1) < 0)
                return error_oom(e);
        t->items[t->n++] = a;
        if (ret)
                *ret = a;
        TAKE_PTR(a);
        return 0;
}

void app_table_remove(AppTable *t, AppInstance *a)
{
        size_t i = 0;

        while (t->items[i] != a)
                i++;
        memmove(t->items + i, t->items + i + 1, (--t->n - i) * sizeof(AppInstance *));
        instance_free(a);
}

int app_table_new(Pod *p, AppTable **ret, Error *e)
{
        _cleanup_(app_table_freep) AppTable *t = calloc(1, sizeof(AppTable));

        if (!t)
                return error_oom(e);
        t->pod = p;
        for (size_t i = 0; i < p->manifest->n_apps; i++) {
                int r = app_table_add(t, p->manifest->apps[i], NULL, e);
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
        free(t);
        return NULL;
}
