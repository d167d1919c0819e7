/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which apps of a pod can be updated, and by which reference.
 *
 * The reference is that of the app's definition: what the user has named, or the name in a pod manifest. */

#include "stage0/update/update-internal.h"

int candidates_list(const Pod *p, Candidate **ret, size_t *ret_n, Error *e)
{
        const PodManifest *m = p->manifest;
        _cleanup_free_ Candidate *l = calloc(m->n_apps + 1, sizeof(Candidate));
        _cleanup_free_ size_t *order = NULL;
        size_t n = 0;

        int r = l ? start_order(m, &order, e) : error_oom(e);
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++) {
                const PodApp *app = m->apps[order[i]];
                _cleanup_app_settings_ AppSettings settings = {};

                r = app_settings_read(app, &settings, e);
                if (r >= 0 && settings.image_policy != IMAGE_POLICY_NONE)
                        l[n++] = (Candidate){app, (ImagePolicy) settings.image_policy};
        }
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
        const PodApp *a =
                        r >= 0 && d.request.template ? pod_manifest_find_app(d.request.template, app) : NULL;
        bool pinned = a && a->image_id;
        pod_definition_done(&d);
        return r < 0 ? r : pinned;
}

static int reference_of_template(const Pod *p, const PodApp *app, const PodApp *template, char **ret,
                                 Error *e)
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
