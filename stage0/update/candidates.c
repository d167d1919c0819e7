/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which apps of a pod can be updated, in which order, and by which reference.
 *
 * The reference is that of the app's definition: what the user has named, or the name in a pod manifest. */

#include "stage0/update/update-internal.h"

/* --- The order ----------------------------------------------------------------------------------------- */

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

int candidates_list(const Pod *p, Candidate **ret, size_t *ret_n, Error *e)
{
        const PodManifest *m = p->manifest;
        AppSettings *settings = calloc(m->n_apps + 1, sizeof(AppSettings));
        _cleanup_free_ size_t *order = calloc(m->n_apps + 1, sizeof(size_t));
        _cleanup_free_ Candidate *l = calloc(m->n_apps + 1, sizeof(Candidate));
        size_t n = 0;

        int r = settings && order && l ? read_all(m, settings, e) : error_oom(e);
        if (r >= 0)
                place_all(m, settings, order);
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                if (settings[order[i]].image_policy != IMAGE_POLICY_NONE)
                        l[n++] = (Candidate){m->apps[order[i]],
                                             (ImagePolicy) settings[order[i]].image_policy};
        for (size_t i = 0; settings && i < m->n_apps; i++)
                app_settings_done(&settings[i]);
        free(settings);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        *ret_n = n;
        return 0;
}

/* --- The reference ------------------------------------------------------------------------------------- */

/* Whether the pod manifest that the pod was made from says the ID of the app's image. */
static int is_pinned(const Pod *p, const char *app, Error *e)
{
        PodDefinition d = {};

        int r = pod_definition_read(p, &d, e);
        const PodApp *a = r >= 0 && d.request.template ? pod_manifest_find_app(d.request.template, app) : NULL;
        bool pinned = a && a->image_id;
        pod_definition_done(&d);
        return r < 0 ? r : pinned;
}

static int reference_of_template(const Pod *p, const PodApp *app, const PodApp *template, char **ret, Error *e)
{
        int r = template->image_name ? is_pinned(p, app->name, e) : 1;

        if (r < 0)
                return r;
        if (r > 0)
                return error_set(e, -ENODATA, "the pod manifest names its image by the ID");
        return image_name_format(template->image_name, &template->image_labels, ret) < 0 ? error_oom(e) : 0;
}

int candidate_reference(const Pod *p, const PodApp *app, char **ret, Error *e)
{
        PodDefinition d = {};

        int r = pod_app_definition_read(p, app, &d, e);
        if (r >= 0 && d.request.template)
                r = reference_of_template(p, app, d.request.template->apps[0], ret, e);
        else if (r >= 0 && !(*ret = strdup(d.request.apps[0].reference)))
                r = error_oom(e);
        pod_definition_done(&d);
        return r;
}
