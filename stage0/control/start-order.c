/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The order in which the apps of a pod start. */

#include "stage0/control/control-internal.h"

static bool is_placed(const PodManifest *m, const size_t *order, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (streq(m->apps[order[i]]->name, name))
                        return true;
        return false;
}

static bool can_be_next(const PodManifest *m, const AppSettings *s, const size_t *order, size_t n)
{
        STRV_FOREACH (name, s->after)
                if (pod_manifest_find_app(m, *name) && !is_placed(m, order, n, *name))
                        return false;
        return true;
}

/* ORDER gets the indexes of all apps. If they wait for each other, which a manifest cannot say, the rest is as it is there. */
static void place_all(const PodManifest *m, const AppSettings *settings, size_t *order)
{
        size_t n = 0, before;

        do {
                before = n;
                for (size_t i = 0; i < m->n_apps; i++)
                        if (!is_placed(m, order, n, m->apps[i]->name) &&
                            can_be_next(m, &settings[i], order, n))
                                order[n++] = i;
        } while (n > before);
        for (size_t i = 0; i < m->n_apps; i++)
                if (!is_placed(m, order, n, m->apps[i]->name))
                        order[n++] = i;
}

static int read_all(const PodManifest *m, AppSettings *settings, Error *e)
{
        for (size_t i = 0; i < m->n_apps; i++) {
                int r = app_settings_read(m->apps[i], &settings[i], e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int start_order(const PodManifest *m, size_t **ret, Error *e)
{
        AppSettings *settings = calloc(m->n_apps + 1, sizeof(AppSettings));
        _cleanup_free_ size_t *order = calloc(m->n_apps + 1, sizeof(size_t));

        int r = settings && order ? read_all(m, settings, e) : error_oom(e);
        if (r >= 0)
                place_all(m, settings, order);
        for (size_t i = 0; settings && i < m->n_apps; i++)
                app_settings_done(&settings[i]);
        free(settings);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(order);
        return 0;
}
