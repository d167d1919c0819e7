/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An app that takes the place of another one keeps the volumes of the mounts that both have, which are compared as they were
 * defined: in the manifest of the pod they are other volumes by name. */

#include "prepare/pods/reify-internal.h"

static int list_mounts(const AppOverrides *o, json_object **ret)
{
        _cleanup_json_ json_object *all = NULL;
        json_object *mounts = NULL;

        int r = app_overrides_members(o, &all);
        if (r < 0)
                return r;
        *ret = json_object_object_get_ex(all, "mounts", &mounts) ? json_object_get(mounts)
                                                                 : json_object_new_array();
        return *ret ? 0 : -ENOMEM;
}

/* The index of the first mount of OLD that equals this one; N: none does. */
static size_t find_equal(json_object *old, size_t n, json_object *mount)
{
        for (size_t i = 0; i < n; i++)
                if (json_object_equal(json_object_array_get_idx(old, i), mount))
                        return i;
        return n;
}

/* In the manifest, mounts that are defined come first, in the order of the definition. */
static int compare_mounts(Reify *r, const AppOverrides *old, const AppOverrides *new)
{
        _cleanup_json_ json_object *from = NULL, *to = NULL;

        if (list_mounts(old, &from) < 0 || list_mounts(new, &to) < 0)
                return -ENOMEM;
        size_t n = MIN(json_object_array_length(from), r->old->n_mounts);
        for (size_t i = 0; i < r->n_kept && i < json_object_array_length(to); i++) {
                size_t k = find_equal(from, n, json_object_array_get_idx(to, i));
                if (k < n)
                        r->kept[i] = r->old->mounts[k].volume;
        }
        return 0;
}

/* An app of a pod manifest has the same mounts. */
static void keep_all(Reify *r)
{
        for (size_t i = 0; i < r->n_kept && i < r->old->n_mounts; i++)
                r->kept[i] = r->old->mounts[i].volume;
}

int reify_keep_volumes(Reify *r, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        const PodRequest *q = r->request;

        if (!r->old)
                return 0;
        r->n_kept = q->template ? q->template->apps[0]->n_mounts : q->apps[0].n_mounts;
        r->kept = calloc(r->n_kept + 1, sizeof(char *));
        if (!r->kept)
                return error_oom(e);
        if (q->template)
                keep_all(r);
        if (q->template || r->n_kept == 0)
                return 0;
        int k = pod_app_definition_read(r->pod, r->old, &d, e);
        if (k < 0)
                return k;
        return compare_mounts(r, &d.request.apps[0], &q->apps[0]) < 0 ? error_oom(e) : 0;
}
