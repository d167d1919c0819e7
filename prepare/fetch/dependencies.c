/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The images that an image depends on (spec: aci.md, "Dependency Matching"): fetched depth-first, so that
 * all dependencies of an image are fetched before its next sibling.
 *
 * Errors of the dependency tree are reported when the layers are resolved (prepare/images/layers.c), since
 * images get into the store in several ways. Here it is sufficient to terminate: an image is visited once,
 * one that depends on itself is refused, and depth and number are limited.
 */

#include "prepare/fetch/fetch-internal.h"

#define DEPTH_MAX 64U
#define IMAGES_MAX 512U

typedef struct Frame {
        const Image *image;
        Image *owned; /* the same if owned; NULL for the first */
        size_t next;  /* dependency */
} Frame;

typedef struct Walk {
        Fetcher *fetcher;
        Frame frames[DEPTH_MAX];
        size_t depth;
        char **seen; /* IDs */
} Walk;

static void walk_done(Walk *w)
{
        while (w->depth > 0)
                image_free(w->frames[--w->depth].owned);
        strv_free(w->seen);
}

/* "a -> b -> c" */
static char *describe_path(const Walk *w)
{
        _cleanup_text_ Text t = {};
        char *text;

        for (size_t i = 0; i < w->depth; i++) {
                const ImageManifest *m = w->frames[i].image->manifest;
                _cleanup_free_ char *name = NULL;

                if (image_name_format(m->name, &m->labels, &name) >= 0)
                        text_addf(&t, "%s%s", i > 0 ? " -> " : "", name);
        }
        return text_take(&t, &text, NULL) < 0 ? NULL : text;
}

static int enter(Walk *w, const Image *i, Image *owned, Error *e)
{
        _cleanup_(image_freep) Image *image = owned;
        _cleanup_free_ char *path = NULL;
        bool cycle = false;

        for (size_t k = 0; k < w->depth; k++)
                cycle = cycle || streq(w->frames[k].image->id, i->id);
        if (cycle || w->depth >= DEPTH_MAX || strv_length(w->seen) >= IMAGES_MAX) {
                path = describe_path(w);
                return error_set(e, -ELOOP,
                                 cycle ? "The image %s depends on itself: %s"
                                       : "The image %s depends on too many others: %s",
                                 i->manifest->name, path ?: "?");
        }
        if (strv_contains(w->seen, i->id))
                return 0;
        if (strv_extend(&w->seen, i->id) < 0)
                return error_oom(e);
        w->frames[w->depth++] = (Frame){.image = i, .owned = TAKE_PTR(image)};
        return 0;
}

static int step(Walk *w, Error *e)
{
        Frame *frame = &w->frames[w->depth - 1];
        Image *i = NULL;

        if (frame->next >= frame->image->manifest->n_dependencies) {
                image_free(frame->owned);
                w->depth--;
                return 0;
        }
        const Dependency *d = &frame->image->manifest->dependencies[frame->next++];
        int r = operation_check(w->fetcher->store->operation, e);
        if (r >= 0)
                r = fetch_image_by_name(w->fetcher, d->image_name, &d->labels, d->image_id, &i, e);
        if (r >= 0)
                return enter(w, i, i, e);
        _cleanup_free_ char *path = describe_path(w);
        return operation_ended(r) ? r
                                  : error_prefix(e, r, "The image %s is incomplete without its dependencies",
                                                 path ?: "?");
}

int fetch_dependencies(Fetcher *f, const Image *i, Error *e)
{
        _cleanup_(walk_done) Walk w = {.fetcher = f};

        if (i->manifest->n_dependencies == 0)
                return 0;
        int r = enter(&w, i, NULL, e);
        while (r >= 0 && w.depth > 0)
                r = step(&w, e);
        return r;
}
