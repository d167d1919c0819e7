/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removing images that nobody has used for a while, and what is left of images that are gone.
 *
 * An image goes when it was used last before the grace period and neither a pod nor another image needs it.
 * What one image needed may go once that one is gone, so the images are gone through until nothing more can
 * be removed. Whether an image is due is looked at again under the lock, as somebody may just have found it.
 *
 * Then the rendered trees of which something that they were made of is gone are removed, and the layers that
 * no image names (layers.c).
 */

#include "prepare/collect/collect-internal.h"

typedef struct Collection {
        Store *store;
        ImageIndex *index;
        const ImageGcOptions *options;
        char **gone; /* images that were removed, or would be */
        int result;  /* of the first failure */
        Error *error;
} Collection;

static void note_failure(Collection *c, int r, Error *e)
{
        if (c->result < 0)
                return;
        c->result = r;
        (void) error_move(c->error, e);
}

static void note_removed(const Collection *c, const char *kind, const char *id, const char *name)
{
        if (c->options->removed)
                c->options->removed(kind, id, name, c->options->userdata);
}

/* --- Images -------------------------------------------------------------------------------------------- */

static bool is_due(const Collection *c, const Image *i)
{
        uint64_t now = now_usec(CLOCK_REALTIME);

        return now >= i->last_used && now - i->last_used >= c->options->grace_usec &&
               !strv_contains(c->gone, i->id);
}

/* Anew, from the disk: another process may just have used it. */
static int check_still_due(const Collection *c, const char *id, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;

        int r = image_open(c->store, id, &i, e);
        return r < 0 ? r : is_due(c, i) ? 0 : -EBUSY;
}

/* 1: it is gone. */
static int remove_image(Collection *c, const Image *i, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_close_ int lock = -EBADF;

        int r = store_lock_exclusive(c->store, &lock, e);
        if (r >= 0)
                r = check_still_due(c, i->id, e);
        if (r >= 0)
                r = image_check_unneeded(c->store, c->index, i->id, c->gone, e);
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
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (!is_due(c, i))
                return 0;
        int r = remove_image(c, i, &e);
        if (r < 0)
                note_failure(c, r, &e);
        if (r > 0) {
                (void) image_name_format(i->manifest->name, &i->manifest->labels, &name);
                note_removed(c, "image", i->id, name);
        }
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
                for (size_t i = 0; i < n && !interrupt_pending(); i++)
                        again = collect_one(c, list[i]) > 0 || again;
        }
        image_list_free(list, n);
        c->index = image_index_free(c->index);
}

/* --- What is left -------------------------------------------------------------------------------------- */

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

        if (xasprintf(&path, "rendered/%s", name) < 0)
                return error_oom(e);
        int r = c->options->dry_run ? 0 : store_detach_tree(c->store, path, &t, e);
        if (r == -EBUSY || r == -ENOENT)
                return 0;
        if (r >= 0)
                note_removed(c, "rendered", name, NULL);
        return r;
}

static void note_layer(const char *id, void *userdata)
{
        note_removed(userdata, "layer", id, NULL);
}

static void collect_layers(Collection *c)
{
        const LayersCollect o = {.dry_run = c->options->dry_run, .removed = note_layer, .userdata = c};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = layers_collect(c->store, &o, &e);
        if (r < 0)
                note_failure(c, r, &e);
}

/* Whether something that the tree was made of is there no more. */
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
                return fd >= 0; /* nobody can tell any more what it was made of */
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
                if (r < 0 || (*key)[0] == '.')
                        continue;
                r = is_orphaned(c, *key);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot tell what %s was rendered from", *key);
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
        if (!interrupt_pending())
                collect_rendered(&c);
        if (!interrupt_pending())
                collect_layers(&c);
        (void) strv_free(c.gone);
        return c.result < 0 ? c.result : interrupt_check(e);
}
