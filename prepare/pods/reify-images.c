/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The images of a pod's apps, before anything else is done: fetching may take long.
 *
 * The store's lock, which keeps images from being removed, is not held meanwhile, so that whoever wants to
 * remove some other image need not wait for a download. An image that was removed between then and when the
 * lock is taken is noticed, and said.
 */

#include "prepare/pods/reify-internal.h"

static int not_in_store(Store *s, const PodApp *t, Error *e)
{
        _cleanup_free_ char *shown = NULL;

        if (image_name_format(t->image_name, &t->image_labels, &shown) < 0)
                return error_oom(e);
        int r = error_set(e, -ENOENT, "The image %s is not in the store %s", shown, store_path(s));
        return error_hint(e, r,
                          "Import it with: acnspawn fetch FILE. What there is shows 'acnspawn image list'.");
}

static int find_by_name(Reify *r, const PodApp *t, Image **ret, Error *e)
{
        int k = image_index_find(r->index, t->image_name, &t->image_labels, ret, e);

        return k == -ENOENT ? not_in_store(r->pod->store, t, e) : k;
}

/* The image of an app of a template. An ID is what counts, but must not contradict the name beside it. */
static int find_template_image(Reify *r, const PodApp *t, Image **ret, Error *e)
{
        const FetchOptions *o = r->request->fetch;
        bool update = o && o->policy == PULL_UPDATE && !t->image_id;
        Store *s = r->pod->store;
        int k = -ENOENT;

        if (!update)
                k = t->image_id ? image_open(s, t->image_id, ret, e) : find_by_name(r, t, ret, e);
        if (k != -ENOENT || !t->image_name || !o || o->policy == PULL_NEVER)
                return k;
        if (e)
                error_done(e);
        image_index_invalidate(r->index);
        return fetcher_fetch_named(r->fetcher, t->image_name, &t->image_labels, t->image_id, ret, e);
}

static int fetch_template_image(Reify *r, size_t i, Error *e)
{
        const PodApp *t = &r->request->template->apps[i];
        Image *x = NULL;

        int k = find_template_image(r, t, &x, e);
        if (k < 0)
                return error_prefix(e, k, "App %s", t->name);
        r->found[i] = x;
        if (t->image_name && !streq(t->image_name, x->manifest->name))
                return error_set(e, -EINVAL, "App %s: the image %s is %s, not %s as the pod manifest says",
                                 t->name, x->id, x->manifest->name, t->image_name);
        return 0;
}

int reify_fetch(Reify *r, Error *e)
{
        static const FetchOptions local = {.policy = PULL_NEVER};
        const PodRequest *q = r->request;

        r->n_found = q->template ? q->template->n_apps : q->n_apps;
        r->found = calloc(r->n_found, sizeof(Image *));
        if (!r->found)
                return error_oom(e);
        int k = image_index_new(r->pod->store, &r->index, e);
        if (k >= 0)
                k = fetcher_new(r->pod->store, q->fetch ?: &local, &r->fetcher, e);
        for (size_t i = 0; k >= 0 && i < r->n_found; i++)
                k = q->template ? fetch_template_image(r, i, e)
                                : fetcher_fetch(r->fetcher, q->apps[i].reference, &r->found[i], e);
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
