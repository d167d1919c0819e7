/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes the layers that neither an image nor a pod refers to any more.
 *
 * An import holds the store's lock shared until the image that names its layers is in place; the collection
 * holds it exclusively, so an unreferenced layer stays unreferenced. References are read from the files of
 * images and pods; if one of these cannot be read, nothing is removed. Trees that were rendered from a layer
 * are removed before it. A dry run runs the same code without removing anything; references of images that
 * it counts as removed are ignored.
 */

#include "prepare/collect/collect-internal.h"

#define NAMES_SIZE_MAX (16U * 1024U * 1024U)
#define BATCH 64U /* removed with the lock held once; each has a descriptor */

typedef char LayerId[LAYER_ID_SIZE + 1];

typedef struct Named {
        LayerId *ids;
        size_t n, allocated;
} Named;

static void named_done(Named *n)
{
        free(n->ids);
}

static int compare_ids(const void *a, const void *b)
{
        return strcmp(a, b);
}

static bool is_named(const Named *n, const char *id)
{
        return n->n > 0 && bsearch(id, n->ids, n->n, sizeof(LayerId), compare_ids);
}

/* Adds all IDs of layers in TEXT. */
static int add_text(Named *n, const char *text)
{
        for (const char *dash = text; (dash = strchr(dash, '-')); dash++) {
                const char *id = dash - (LAYER_ID_PREFIX_SIZE - 1);
                if ((size_t) (dash - text) < LAYER_ID_PREFIX_SIZE - 1 || !layer_id_begins(id))
                        continue;
                if (GREEDY_REALLOC(n->ids, n->allocated, n->n + 1) < 0)
                        return -ENOMEM;
                memcpy(n->ids[n->n], id, LAYER_ID_SIZE);
                n->ids[n->n++][LAYER_ID_SIZE] = 0;
        }
        return 0;
}

/* A file that does not exist has no references. */
static int add_file(Named *n, int dir_fd, const char *path, char **ret_text)
{
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(dir_fd, path, NAMES_SIZE_MAX, &text, NULL);
        if (r == -ENOENT || r == -ENOTDIR)
                return 0;
        if (r >= 0)
                r = add_text(n, text);
        if (r >= 0 && ret_text)
                *ret_text = TAKE_PTR(text);
        return r;
}

static int list_directory(int dir_fd, const char *path, char ***ret)
{
        _cleanup_close_ int fd = open_beneath(dir_fd, path, O_RDONLY | O_DIRECTORY);

        if (fd < 0)
                return fd == -ENOENT ? 0 : fd;
        return list_names(fd, ret);
}

/* --- References to layers
 * ---------------------------------------------------------------------------------- */

static int add_images(Named *n, Store *s, char *const *gone)
{
        _cleanup_strv_free_ char **images = NULL;

        int r = list_directory(s->fd, "images", &images);
        for (char *const *i = images; r >= 0 && i && *i; i++) {
                _cleanup_free_ char *path = NULL;
                if (strv_contains(gone, *i))
                        continue;
                r = xasprintf(&path, "images/%s/layers", *i);
                if (r >= 0)
                        r = add_file(n, s->fd, path, NULL);
        }
        return r;
}

/* Adds the layers of an app, and those that its rendered trees were made from. */
static int add_lowers(Named *n, Store *s, const char *path)
{
        _cleanup_free_ char *text = NULL;

        int r = add_file(n, s->fd, path, &text);
        for (const char *p = text; r >= 0 && p && (p = strstr(p, "/rendered/")); p++) {
                _cleanup_free_ char *layers = NULL;
                r = xasprintf(&layers, "rendered/%.64s/layers", p + strlen("/rendered/"));
                if (r >= 0)
                        r = add_file(n, s->fd, layers, NULL);
        }
        return r;
}

static int add_pod(Named *n, Store *s, const char *pod)
{
        _cleanup_strv_free_ char **apps = NULL;
        _cleanup_free_ char *dir = NULL;

        int r = xasprintf(&dir, "%s/apps", pod);
        if (r >= 0)
                r = list_directory(s->fd, dir, &apps);
        for (char *const *a = apps; r >= 0 && a && *a; a++) {
                _cleanup_free_ char *path = NULL;
                r = xasprintf(&path, "%s/%s/lowers", dir, *a);
                if (r >= 0)
                        r = add_lowers(n, s, path);
        }
        return r;
}

static int add_pods(Named *n, Store *s)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < N_NEEDING_PLACES; i++) {
                _cleanup_strv_free_ char **pods = NULL;
                r = list_directory(s->fd, needing_places[i], &pods);
                for (char *const *p = pods; r >= 0 && p && *p; p++) {
                        _cleanup_free_ char *pod = NULL;
                        r = xasprintf(&pod, "%s/%s", needing_places[i], *p);
                        if (r >= 0 && pod_needs_images(s, i, pod))
                                r = add_pod(n, s, pod);
                }
        }
        return r;
}

/* --- Removing ------------------------------------------------------------------------------------------ */

/* Moves a tree out of the store, unless this is a dry run, and reports it. Its size is determined before. */
static int detach(Store *s, const LayersCollect *c, const char *kind, const char *path, StoreTemporary *t,
                  size_t *n, Error *e)
{
        if (c->selected && !c->selected(kind, strrchr(path, '/') + 1, c->userdata))
                return 0;
        uint64_t size = c->removed && !c->unmeasured ? disk_usage_at(s->fd, path, s->operation) : 0;

        int r = c->dry_run ? 0 : store_detach_tree(s, path, &t[*n], e);
        if (r == -EBUSY || r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        *n += !c->dry_run;
        if (c->removed)
                c->removed(&(GcItem){.kind = kind, .id = strrchr(path, '/') + 1, .size = size}, c->userdata);
        return 0;
}

/* Trees that were rendered from a layer that is not needed. */
static int detach_rendered(Store *s, const Named *named, const LayersCollect *c, StoreTemporary *t,
                           size_t *n, Error *e)
{
        _cleanup_strv_free_ char **keys = NULL;

        int r = list_directory(s->fd, "rendered", &keys);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s/rendered", s->path);
        for (char *const *k = keys; r >= 0 && k && *k && *n < BATCH; k++) {
                _cleanup_(named_done) Named from = {};
                _cleanup_free_ char *path = NULL, *layers = NULL;
                bool unneeded = false;

                if (strv_contains(c->gone_trees, *k))
                        continue;
                if (xasprintf(&path, "rendered/%s", *k) < 0 || xasprintf(&layers, "%s/layers", path) < 0)
                        return error_oom(e);
                r = add_file(&from, s->fd, layers, NULL);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot read %s/%s", s->path, layers);
                for (size_t i = 0; i < from.n && !unneeded; i++)
                        unneeded = !is_named(named, from.ids[i]);
                r = unneeded ? detach(s, c, "rendered", path, t, n, e) : 0;
        }
        return r;
}

static int detach_layers(Store *s, const Named *named, const LayersCollect *c, StoreTemporary *t, size_t *n,
                         Error *e)
{
        _cleanup_strv_free_ char **ids = NULL;

        int r = list_directory(s->fd, "layers", &ids);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s/layers", s->path);
        for (char *const *id = ids; r >= 0 && id && *id && *n < BATCH; id++) {
                _cleanup_free_ char *path = NULL;

                if (is_named(named, *id))
                        continue;
                if (xasprintf(&path, "layers/%s", *id) < 0)
                        return error_oom(e);
                r = detach(s, c, "layer", path, t, n, e);
        }
        return r;
}

static int find_named(Store *s, const LayersCollect *c, Named *ret, Error *e)
{
        int r = add_images(ret, s, c->gone_images);

        if (r >= 0)
                r = add_pods(ret, s);
        if (r < 0)
                return error_set_errno(e, r, "Cannot determine which layers of images are needed");
        if (ret->n > 0)
                qsort(ret->ids, ret->n, sizeof(LayerId), compare_ids);
        return 0;
}

/* 1: there may be more. */
static int collect_batch(Store *s, const LayersCollect *c, Error *e)
{
        StoreTemporary removed[BATCH];
        _cleanup_(named_done) Named named = {};
        _cleanup_close_ int lock = -EBADF;
        size_t n = 0;

        int r = store_lock_exclusive(s, &lock, e);
        if (r >= 0)
                r = find_named(s, c, &named, e);
        if (r >= 0)
                r = detach_rendered(s, &named, c, removed, &n, e);
        if (r >= 0)
                r = detach_layers(s, &named, c, removed, &n, e);
        /* Emptied after the lock is given back. */
        lock = safe_close(lock);
        bool full = n == BATCH;
        while (n > 0)
                store_temporary_done(&removed[--n]);
        return r < 0 ? r : full;
}

int layers_collect(Store *s, const LayersCollect *c, Error *e)
{
        _cleanup_strv_free_ char **ids = NULL;

        int r = list_directory(s->fd, "layers", &ids);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s/layers", s->path);
        if (!ids || !ids[0]) /* nothing to do, so do not take the lock */
                return 0;
        do
                r = collect_batch(s, c, e);
        while (r > 0);
        return r;
}
