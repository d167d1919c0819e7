/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The images of a pod's apps, before anything else is done: fetching may take long.
 *
 * The store's lock, which keeps images from being removed, is not held meanwhile, so that removing another
 * image need not wait for a download. If an image is removed before the lock is taken, that is detected and
 * reported.
 */

#include "prepare/pods/reify-internal.h"

static bool is_there(Reify *r, const char *id)
{
        _cleanup_(image_freep) Image *i = NULL;

        return id && image_index_open(r->index, id, &i, NULL) >= 0;
}

/* The image of an app of a template. An ID takes precedence, but must not contradict the name beside it. */
static int find_template_image(Reify *r, const PodApp *t, Image **ret, Error *e)
{
        if (!t->image_name || is_there(r, t->image_id))
                return fetcher_fetch(r->fetcher, t->image_id, ret, e);
        return fetcher_fetch_named(r->fetcher, t->image_name, &t->image_labels, t->image_id, ret, e);
}

static int fetch_template_image(Reify *r, size_t i, Error *e)
{
        const PodApp *t = r->request->template->apps[i];
        Image *x = NULL;

        int k = find_template_image(r, t, &x, e);
        if (k < 0)
                return error_prefix(e, k, "App %s", t->name);
        r->found[i] = x;
        if (t->image_name && !streq(t->image_name, x->manifest->name))
                return error_set(e, -EINVAL,
                                 "App %s: the image %s is %s, not %s as stated in the pod manifest", t->name,
                                 x->id, x->manifest->name, t->image_name);
        return 0;
}

int reify_fetch(Reify *r, Error *e)
{
        const PodRequest *q = r->request;
        FetchOptions o = q->fetch ? *q->fetch : (FetchOptions){.policy = PULL_NEVER};

        r->n_found = q->template ? q->template->n_apps : q->n_apps;
        r->found = calloc(r->n_found, sizeof(Image *));
        if (!r->found)
                return error_oom(e);
        o.or_stored = true; /* a pod that was running has to start again while a registry is away */
        int k = fetcher_new(r->pod->store, &o, &r->fetcher, e);
        if (k < 0)
                return k;
        r->index = fetcher_index(r->fetcher);
        for (size_t i = 0; k >= 0 && i < r->n_found; i++) {
                if (q->image_ids)
                        k = fetcher_fetch(r->fetcher, q->image_ids[i], &r->found[i], e);
                else if (q->template)
                        k = fetch_template_image(r, i, e);
                else
                        k = fetcher_fetch(r->fetcher, q->apps[i].reference, &r->found[i], e);
        }
        return k;
}

int reify_take_image(Reify *r, size_t i, Image **ret, Error *e)
{
        _cleanup_free_ char *path = NULL;
        Store *s = r->pod->store;

        if (xasprintf(&path, "images/%s", r->found[i]->id) < 0)
                return error_oom(e);
        if (faccessat(store_fd(s), path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return error_set(e, -ENOENT, "The image %s was removed from the store %s meanwhile",
                                 r->found[i]->id, store_path(s));
        *ret = TAKE_PTR(r->found[i]);
        return 0;
}
