/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The overlay layers that render an image (spec: ace.md, "Filesystem Setup").
 *
 * The specification extracts the dependencies of an image in their order, each after its own dependencies,
 * and then the image over them; later files override earlier ones. So the layers from the uppermost down are
 * the image, and then its dependencies from the last to the first, each in the same way. A repeated image
 * further down adds nothing, since all files of it and its dependencies are already above; overlayfs would
 * refuse it.
 *
 * For an image with a pathWhitelist a layer has to be made: the files of the image and its dependencies,
 * without those that are not in the list. Only that part is rendered (render.c); the layers above it are
 * used unchanged.
 *
 * One more layer is on top if images have implied directories (attributes.c).
 *
 * The path of images to the current one is kept on a stack of bounded depth, to detect cycles (possible by
 * names, not by hashes) and for messages.
 */

#include "prepare/images/images-internal.h"

#define DEPTH_MAX 64U
#define LAYERS_MAX 400U /* overlayfs takes 500 */

typedef struct Frame {
        const Image *image;
        size_t n_pending;    /* dependencies that are still to be processed, from the last to the
                           *                          first */
        size_t out;          /* the frame whose layers this image belongs to */
        char **layers;       /* if that is this frame: uppermost first, relative to the store */
        const Image *hiding; /* an image among these that hides files of layers below it */
} Frame;

typedef struct Rendered {
        const char *id; /* the image's */
        char *path;
} Rendered;

typedef struct Resolver {
        Store *store;
        ImageIndex *index; /* the store's, to find dependencies by name */
        bool used;         /* mark the images as used */
        Image **opened;
        size_t n_opened, opened_allocated;
        Rendered *rendered; /* trees rendered for images with a pathWhitelist */
        size_t n_rendered, rendered_allocated;
        Frame frames[DEPTH_MAX];
        size_t depth;
        char **result;
} Resolver;

static void resolver_done(Resolver *r)
{
        for (size_t i = 0; i < r->depth; i++)
                (void) strv_free(r->frames[i].layers);
        for (size_t i = 0; i < r->n_rendered; i++)
                free(r->rendered[i].path);
        free(r->rendered);
        image_list_free(r->opened, r->n_opened);
        (void) strv_free(r->result);
}

static bool has_whitelist(const Image *i)
{
        return strv_length(i->manifest->path_whitelist) > 0;
}

/* "a -> b -> c" */
static char *describe_path(const Resolver *v)
{
        _cleanup_text_ Text t = {};
        char *text;

        for (size_t i = 0; i < v->depth; i++) {
                const ImageManifest *m = v->frames[i].image->manifest;
                _cleanup_free_ char *name = NULL;

                if (image_name_format(m->name, &m->labels, &name) >= 0)
                        text_addf(&t, "%s%s", i > 0 ? " -> " : "", name);
        }
        return text_take(&t, &text, NULL) < 0 ? NULL : text;
}

/* --- From dependency to image -------------------------------------------------------------------------- */

static int missing(const Resolver *v, const Dependency *d, Error *e)
{
        _cleanup_free_ char *path = describe_path(v), *name = NULL;

        if (!path || image_name_format(d->image_name, &d->labels, &name) < 0)
                return error_oom(e);
        int r = error_set(e, -ENOENT, "The image %s%s%s%s, on which %s depends, is not in the store", name,
                          d->image_id ? " (" : "", d->image_id ?: "", d->image_id ? ")" : "", path);
        return error_hint(e, r, "Import it with 'acnspawn fetch FILE'.");
}

static int find_by_id(Resolver *v, const char *id, const Image **ret, Error *e)
{
        for (size_t i = 0; i < v->n_opened; i++)
                if (streq(v->opened[i]->id, id)) {
                        *ret = v->opened[i];
                        return 0;
                }
        if (GREEDY_REALLOC(v->opened, v->opened_allocated, v->n_opened + 1) < 0)
                return error_oom(e);
        int r = image_index_open(v->index, id, &v->opened[v->n_opened], e);
        if (r < 0)
                return r;
        Image *i = v->opened[v->n_opened++];
        if (v->used)
                image_touch(i);
        i->dir_fd = safe_close(i->dir_fd); /* too many descriptors might be open otherwise */
        *ret = i;
        return 0;
}

static int find(Resolver *v, const Dependency *d, const Image **ret, Error *e)
{
        const char *id = d->image_id;

        int r = id ? 0 : image_index_find_id(v->index, d->image_name, &d->labels, &id, e);
        if (r >= 0)
                r = find_by_id(v, id, ret, e);
        return r == -ENOENT ? missing(v, d, e) : r;
}

static int check_dependency(const Resolver *v, const Dependency *d, const Image *i, Error *e)
{
        _cleanup_free_ char *path = describe_path(v), *name = NULL;

        if (!path || image_name_format(d->image_name, &d->labels, &name) < 0)
                return error_oom(e);
        if (!image_name_matches(d->image_name, &d->labels, i->manifest)) {
                _cleanup_free_ char *found = NULL;
                (void) image_name_format(i->manifest->name, &i->manifest->labels, &found);
                return error_set(e, -EBADMSG,
                                 "The dependency %s of %s has the ID of another image: %s is %s", name, path,
                                 i->id, found ?: "?");
        }
        if (!d->has_size)
                return 0;
        /* The specification does not define which of the two sizes is meant. */
        if (d->size != i->info.size && d->size != i->info.archive_size)
                return error_set(e, -EBADMSG,
                                 "The dependency %s of %s should have %" PRIu64
                                 " bytes, but the image in the store has %" PRIu64 " (%" PRIu64
                                 " as it came)",
                                 name, path, d->size, i->info.size, i->info.archive_size);
        return 0;
}

/* --- Walking ------------------------------------------------------------------------------------------- */

static int add_layer(Frame *out, const char *path, Error *e)
{
        if (strv_contains(out->layers, path))
                return 0;
        if (strv_length(out->layers) >= LAYERS_MAX) {
                int r = error_set(e, -E2BIG,
                                  "The image %s has more than %u layers, with those that it depends on",
                                  out->image->manifest->name, LAYERS_MAX);
                return error_hint(e, r,
                                  "Combine some of them into one image: 'acnspawn image render', then "
                                  "'acnspawn build'.");
        }
        return strv_extend(&out->layers, path) < 0 ? error_oom(e) : 0;
}

static int check_stack(const Resolver *v, const Image *i, Error *e)
{
        _cleanup_free_ char *path = describe_path(v);

        for (size_t k = 0; k < v->depth; k++)
                if (streq(v->frames[k].image->id, i->id))
                        return error_set(e, -ELOOP, "The dependencies of an image lead back to it: %s -> %s",
                                         path ?: "?", i->manifest->name);
        if (v->depth >= DEPTH_MAX)
                return error_set(e, -ELOOP, "The dependencies of an image are more than %u levels deep: %s",
                                 DEPTH_MAX, path ?: "?");
        return 0;
}

/* Whether a layer of an OCI image removes files: it is only meant to remove those of the image's own
 * layers. */
static bool layer_hides(const Resolver *v, const char *layer)
{
        _cleanup_free_ char *marker = NULL;
        const char *end = endswith(layer, "/rootfs");

        return startswith(layer, "layers/") && end &&
               (xasprintf(&marker, "%.*s/whiteouts", (int) (end - layer), layer) < 0 ||
                faccessat(v->store->fd, marker, F_OK, AT_SYMLINK_NOFOLLOW) >= 0);
}

static int hides_others(const Image *above, const Image *below, Error *e)
{
        int r = error_set(e, -EOPNOTSUPP,
                          "The image %s removes files of its lower layers, and would also remove those of "
                          "the image %s below it",
                          above->manifest->name, below->manifest->name);
        return error_hint(e, r, "Make it the first dependency, which is the lowest.");
}

static int add_image_layers(Resolver *v, Frame *out, const Image *i, char *const *layers, Error *e)
{
        bool hides = false;

        STRV_FOREACH (layer, layers) {
                if (out->hiding && out->hiding != i && !strv_contains(out->layers, *layer))
                        return hides_others(out->hiding, i, e);
                hides = hides || layer_hides(v, *layer);
                int r = add_layer(out, *layer, e);
                if (r < 0)
                        return r;
        }
        if (hides)
                out->hiding = i;
        return 0;
}

/* A tree rendered for an image with a pathWhitelist is used like any layer. */
static int add_rendered(Resolver *v, const Image *i, const char *path, Error *e)
{
        Frame *out = &v->frames[v->frames[v->depth - 1].out];

        if (out->hiding && out->hiding != i && !strv_contains(out->layers, path))
                return hides_others(out->hiding, i, e);
        return add_layer(out, path, e);
}

static int enter(Resolver *v, const Image *i, Error *e)
{
        _cleanup_strv_free_ char **own = NULL;

        int r = check_stack(v, i, e);
        if (r < 0)
                return r;
        if (image_own_layers(i, &own) < 0)
                return error_oom(e);
        bool separate = v->depth == 0 || has_whitelist(i);
        size_t out = separate ? v->depth : v->frames[v->depth - 1].out;
        if (!separate && !i->layer_ids && strv_contains(v->frames[out].layers, own[0]))
                return 0; /* already above, with all its dependencies */
        if (separate)
                for (size_t k = 0; k < v->n_rendered; k++)
                        if (streq(v->rendered[k].id, i->id))
                                return add_rendered(v, i, v->rendered[k].path, e);
        if (v->depth == 0 && v->used)
                image_touch(i);
        v->frames[v->depth++] = (Frame){.image = i, .n_pending = i->manifest->n_dependencies, .out = out};
        return add_image_layers(v, &v->frames[out], i, own, e);
}

static int render(Resolver *v, Frame *f, char **ret, Error *e)
{
        char *path;

        int r = render_whitelist(v->store, f->layers, f->image->manifest->path_whitelist, &path, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot render the image %s", f->image->manifest->name);
        if (GREEDY_REALLOC(v->rendered, v->rendered_allocated, v->n_rendered + 1) < 0) {
                free(path);
                return error_oom(e);
        }
        v->rendered[v->n_rendered++] = (Rendered){.id = f->image->id, .path = path};
        *ret = path;
        return 0;
}

/* Directories that an upper image only implies keep the attributes that they have below. For the layers of
 * an OCI image this was done when it was imported. */
static int add_attributes(const Resolver *v, Frame *f, Error *e)
{
        _cleanup_strv_free_ char **below = NULL;
        char *path = NULL;

        int r = f->image->layer_ids ? 0 : render_attributes(v->store, f->layers, &path, e);
        if (r <= 0)
                return r < 0 ? error_prefix(e, r, "Cannot render the image %s", f->image->manifest->name)
                             : 0;
        below = TAKE_PTR(f->layers);
        r = strv_consume(&f->layers, path);
        STRV_FOREACH (l, below)
                if (r >= 0)
                        r = strv_extend(&f->layers, *l);
        return r < 0 ? error_oom(e) : 0;
}

/* All dependencies of the topmost image have been added. */
static int leave(Resolver *v, Error *e)
{
        Frame *f = &v->frames[v->depth - 1], root = {.image = f->image};

        int r = add_attributes(v, f, e);
        if (r < 0)
                return r;
        if (has_whitelist(f->image)) {
                char *path = NULL;
                r = render(v, f, &path, e);
                if (r < 0)
                        return r;
                const Image *i = f->image;
                v->depth--;
                r = v->depth > 0 ? add_rendered(v, i, path, e) : add_layer(&root, path, e);
                v->depth++;
        } else if (v->depth == 1)
                root.layers = TAKE_PTR(f->layers);
        f->layers = strv_free(f->layers);
        v->depth--;
        if (v->depth == 0)
                v->result = root.layers;
        return r;
}

static int step(Resolver *v, Error *e)
{
        Frame *f = &v->frames[v->depth - 1];
        const Image *i = NULL;

        if (f->n_pending == 0)
                return leave(v, e);
        const Dependency *d = &f->image->manifest->dependencies[--f->n_pending];
        int r = find(v, d, &i, e);
        if (r >= 0)
                r = check_dependency(v, d, i, e);
        return r < 0 ? r : enter(v, i, e);
}

static int resolve(Resolver *v, const Image *i, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **layers = NULL;

        int r = enter(v, i, e);
        while (r >= 0 && v->depth > 0)
                r = step(v, e);
        if (r < 0)
                return r;
        STRV_FOREACH (l, v->result)
                if (strv_extendf(&layers, "%s/%s", v->store->path, *l) < 0)
                        return error_oom(e);
        *ret = TAKE_PTR(layers);
        return 0;
}

int image_layers_used(Store *s, ImageIndex *x, const Image *i, char ***ret, Error *e)
{
        _cleanup_(resolver_done) Resolver v = {.store = s, .index = x, .used = true};

        return resolve(&v, i, ret, e);
}

int image_layers(Store *s, const Image *i, char ***ret, Error *e)
{
        _cleanup_(image_index_freep) ImageIndex *x = NULL;

        int r = image_index_new(s, &x, e);
        if (r < 0)
                return r;
        _cleanup_(resolver_done) Resolver v = {.store = s, .index = x};
        return resolve(&v, i, ret, e);
}
