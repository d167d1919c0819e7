/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes images that were not used for a while, and the remains of removed images.
 *
 * An image is removed if it was last used before the grace period and neither a pod nor another image needs
 * it. Its dependencies may then be removed as well, so the images are checked repeatedly until nothing more
 * can be removed. Whether an image is due is checked again under the lock, since another process may have
 * used it in the meantime.
 *
 * Then rendered trees whose sources were removed are removed, and layers that no image refers to (layers.c).
 *
 * A dry run runs the same code and reports the same items: it keeps lists of what would have been removed.
 */

#include "prepare/collect/collect-internal.h"

typedef struct Collection {
        Store *store;
        ImageIndex *index;
        const ImageGcOptions *options;
        char **gone;       /* images that were removed, or would have been */
        char **gone_trees; /* rendered trees that were removed, or would have been */
        int result;        /* of the first failure */
        Error *error;
} Collection;

static void note_failure(Collection *c, int r, Error *e)
{
        if (c->result < 0)
                return;
        c->result = r;
        (void) error_move(c->error, e);
}

static void note_removed(const Collection *c, const GcItem *item)
{
        if (c->options->removed)
                c->options->removed(item, c->options->userdata);
}

static bool is_selected(const Collection *c, const char *kind, const char *id)
{
        return !c->options->selected || c->options->selected(kind, id, c->options->userdata);
}

/* The disk space of KIND/NAME in the store. */
static uint64_t measure(const Collection *c, const char *kind, const char *name)
{
        _cleanup_free_ char *path = NULL;

        if (!c->options->removed || c->options->unmeasured || xasprintf(&path, "%s/%s", kind, name) < 0)
                return 0;
        return disk_usage_at(c->store->fd, path, c->store->operation);
}

/* Rendered trees to be removed: together with their image, or because their image does not exist any
 * more. */
typedef struct Trees {
        char **keys;
        uint64_t *sizes;
} Trees;

static void trees_done(Trees *t)
{
        strv_free(t->keys);
        free(t->sizes);
}

/* The trees of an image that were not reported before, each with its size. */
static int find_trees(const Collection *c, const char *id, Trees *ret, Error *e)
{
        _cleanup_(trees_done) Trees t = {};
        _cleanup_strv_free_ char **keys = NULL;
        size_t n = 0;

        int r = image_rendered_trees(c->store, id, &keys, e);
        if (r < 0)
                return r;
        t.sizes = calloc(strv_length(keys) + 1, sizeof(uint64_t));
        if (!t.sizes)
                return error_oom(e);
        STRV_FOREACH (key, keys) {
                if (strv_contains(c->gone_trees, *key))
                        continue;
                if (strv_extend(&t.keys, *key) < 0)
                        return error_oom(e);
                t.sizes[n++] = measure(c, "rendered", *key);
        }
        *ret = t;
        t = (Trees){};
        return 0;
}

static int note_trees(Collection *c, const Trees *t, Error *e)
{
        for (size_t i = 0; t->keys && t->keys[i]; i++) {
                if (strv_extend(&c->gone_trees, t->keys[i]) < 0)
                        return error_oom(e);
                note_removed(c, &(GcItem){.kind = "rendered", .id = t->keys[i], .size = t->sizes[i]});
        }
        return 0;
}

/* --- Images -------------------------------------------------------------------------------------------- */

static bool is_due(const Collection *c, const Image *i)
{
        uint64_t now = now_usec(CLOCK_REALTIME);

        return now >= i->last_used && now - i->last_used >= c->options->grace_usec &&
               !strv_contains(c->gone, i->id) && !strv_contains(c->options->kept, i->id) &&
               is_selected(c, "image", i->id);
}

/* Read again from the disk: another process may just have used it. */
static int check_still_due(const Collection *c, const char *id, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;

        int r = image_open(c->store, id, &i, e);
        return r < 0 ? r : is_due(c, i) ? 0 : -EBUSY;
}

/* 1: it was removed. */
static int remove_image(Collection *c, const Image *i, Trees *ret_trees, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_close_ int lock = -EBADF;

        int r = store_lock_exclusive(c->store, &lock, e);
        if (r >= 0)
                r = check_still_due(c, i->id, e);
        if (r >= 0)
                r = image_check_unneeded(c->store, c->index, i->id, c->gone, e);
        if (r >= 0)
                r = find_trees(c, i->id, ret_trees, e);
        if (r >= 0 && !c->options->dry_run)
                r = image_detach(c->store, i->id, &t, e);
        if (r == -EBUSY || r == -ENOENT)
                return 0;
        if (r >= 0 && strv_extend(&c->gone, i->id) < 0)
                r = error_oom(e);
        return r < 0 ? r : 1;
}

static int collect_one(Collection *c, const Image *i)
{
        _cleanup_(trees_done) Trees trees = {};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (!is_due(c, i))
                return 0;
        uint64_t size = measure(c, "images", i->id);
        int r = remove_image(c, i, &trees, &e);
        if (r > 0) {
                (void) image_name_format(i->manifest->name, &i->manifest->labels, &name);
                note_removed(c, &(GcItem){.kind = "image", .id = i->id, .name = name, .size = size});
                int k = note_trees(c, &trees, &e);
                r = k < 0 ? k : r;
        }
        if (r < 0)
                note_failure(c, r, &e);
        return r;
}

static void collect_images(Collection *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        size_t n = 0, n_damaged;
        bool again = true;
        Image **list = NULL;

        int r = image_index_new(c->store, &c->index, &e);
        if (r >= 0)
                r = image_list_readable(c->store, &list, &n, &n_damaged, &e);
        if (r < 0)
                note_failure(c, r, &e);
        while (again) {
                again = false;
                for (size_t i = 0; i < n && operation_check(c->store->operation, NULL) >= 0; i++)
                        again = collect_one(c, list[i]) > 0 || again;
        }
        image_list_free(list, n);
        c->index = image_index_free(c->index);
}

/* --- Rendered trees without sources
 * -------------------------------------------------------------------------------------- */

static int list_directory(Store *s, const char *name, char ***ret, Error *e)
{
        _cleanup_close_ int fd = open_beneath(s->fd, name, O_RDONLY | O_DIRECTORY);

        int r = fd == -ENOENT ? 0 : fd < 0 ? fd : list_names(fd, ret);
        return r < 0 ? error_set_errno(e, r, "Cannot list %s/%s", s->path, name) : 0;
}

static int remove_rendered(Collection *c, const char *name, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_free_ char *path = NULL;

        if (!is_selected(c, "rendered", name))
                return 0;
        if (xasprintf(&path, "rendered/%s", name) < 0)
                return error_oom(e);
        uint64_t size = measure(c, "rendered", name);
        int r = c->options->dry_run ? 0 : store_detach_tree(c->store, path, &t, e);
        if (r == -EBUSY || r == -ENOENT)
                return 0;
        if (r >= 0 && strv_extend(&c->gone_trees, name) < 0)
                return error_oom(e);
        if (r >= 0)
                note_removed(c, &(GcItem){.kind = "rendered", .id = name, .size = size});
        return r;
}

static void note_layer(const GcItem *item, void *userdata)
{
        note_removed(userdata, item);
}

static bool layer_is_selected(const char *kind, const char *id, void *userdata)
{
        return is_selected(userdata, kind, id);
}

static void collect_layers(Collection *c)
{
        const LayersCollect o = {.dry_run = c->options->dry_run,
                                 .unmeasured = c->options->unmeasured,
                                 .gone_images = c->gone,
                                 .gone_trees = c->gone_trees,
                                 .selected = layer_is_selected,
                                 .removed = note_layer,
                                 .userdata = c};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = layers_collect(c->store, &o, &e);
        if (r < 0)
                note_failure(c, r, &e);
}

/* Whether a source of the tree does not exist any more. */
static int is_orphaned(Collection *c, const char *key)
{
        _cleanup_free_ char *path = NULL, *text = NULL;
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_close_ int fd = -EBADF;

        if (xasprintf(&path, "rendered/%s", key) < 0)
                return -ENOMEM;
        fd = open_beneath(c->store->fd, path, O_PATH | O_DIRECTORY);
        int r = fd < 0 ? fd : render_read_layers(fd, &text);
        if (r == -ENOENT)
                return fd >= 0; /* without its list of layers the sources are unknown */
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        if (r < 0)
                return r;
        STRV_FOREACH (l, lines) {
                if (faccessat(c->store->fd, *l, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
                        return 1;
                STRV_FOREACH (id, c->gone)
                        if (strstr(*l, *id))
                                return 1;
        }
        return 0;
}

static int collect_trees(Collection *c, Error *e)
{
        _cleanup_strv_free_ char **keys = NULL;

        int r = list_directory(c->store, "rendered", &keys, e);
        STRV_FOREACH (key, keys) {
                _cleanup_strv_free_ char **pods = NULL;
                if (r < 0 || (*key)[0] == '.' || strv_contains(c->gone_trees, *key))
                        continue;
                r = is_orphaned(c, *key);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot determine what %s was rendered from", *key);
                if (r > 0)
                        r = pods_that_need(c->store, *key, &pods, e);
                else
                        continue;
                if (r >= 0 && !pods)
                        r = remove_rendered(c, *key, e);
        }
        return r;
}

static void collect_rendered(Collection *c)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int lock = -EBADF;

        int r = store_lock_exclusive(c->store, &lock, &e);
        if (r >= 0)
                r = collect_trees(c, &e);
        if (r < 0)
                note_failure(c, r, &e);
}

int image_gc(Store *s, const ImageGcOptions *o, Error *e)
{
        Collection c = {.store = s, .options = o, .error = e};

        collect_images(&c);
        if (operation_check(s->operation, NULL) >= 0)
                collect_rendered(&c);
        if (operation_check(s->operation, NULL) >= 0)
                collect_layers(&c);
        (void) strv_free(c.gone);
        (void) strv_free(c.gone_trees);
        return c.result < 0 ? c.result : operation_check(s->operation, e);
}
