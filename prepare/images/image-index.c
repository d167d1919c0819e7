/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* All images of a store, and the best of them for a name.
 *
 * Reading and checking manifests takes most of the time of a look-up, and resolving dependencies looks up
 * many images. An image with a given ID never changes. So an index reads each image once; refreshing it
 * means listing a directory, and reading the new images.
 *
 * Images in lists have no descriptor: there may be more images than a process may have descriptors.
 */

#include <dirent.h>

#include "prepare/images/images-internal.h"

struct ImageIndex {
        Store *store;
        Image **items; /* sorted by ID */
        size_t n, allocated;
        size_t n_damaged;
        Error damage;  /* error of the first of these */
        char **unread; /* those of them that cannot be read now, but may be whole */
        int unread_error;
        bool listed;
};

void image_list_free(Image **l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                (void) image_free(l[i]);
        free(l);
}

static void forget_all(ImageIndex *x)
{
        image_list_free(x->items, x->n);
        error_done(&x->damage);
        strv_free(x->unread);
}

int image_index_new(Store *s, ImageIndex **ret, Error *e)
{
        ImageIndex *x = calloc(1, sizeof(ImageIndex));

        if (!x)
                return error_oom(e);
        x->store = s;
        *ret = x;
        return 0;
}

ImageIndex *image_index_free(ImageIndex *x)
{
        if (!x)
                return NULL;
        forget_all(x);
        free(x);
        return NULL;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

typedef struct Ids {
        char **items; /* as a list of strings, too */
        size_t n, allocated;
} Ids;

static int read_ids(DIR *d, const char *prefix, Ids *ids)
{
        struct dirent *de;

        if (GREEDY_REALLOC(ids->items, ids->allocated, 1) < 0)
                return -ENOMEM;
        for (errno = 0; (de = readdir(d)); errno = 0) {
                if (!startswith(de->d_name, prefix) || image_id_check(de->d_name, NULL) < 0)
                        continue;
                if (GREEDY_REALLOC(ids->items, ids->allocated, ids->n + 2) < 0)
                        return -ENOMEM;
                ids->items[ids->n] = strdup(de->d_name);
                if (!ids->items[ids->n])
                        return -ENOMEM;
                ids->n++;
        }
        return -errno;
}

int image_list_ids(Store *s, const char *prefix, char ***ret, Error *e)
{
        Ids ids = {};

        int fd = openat(s->fd, "images", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        int r = d ? read_ids(d, prefix, &ids) : -errno;
        if (ids.items)
                ids.items[ids.n] = NULL;
        if (d)
                closedir(d);
        else
                safe_close(fd);
        if (r < 0) {
                strv_free(ids.items);
                return r == -ENOMEM ? error_oom(e)
                                    : error_set_errno(e, r, "Cannot list the images of the store %s",
                                                      s->path);
        }
        qsort(ids.items, ids.n, sizeof(char *), compare_ids);
        *ret = ids.items;
        return 0;
}

/* The medium, not the content, is the reason. */
static bool is_unread(int r)
{
        static const int errors[] = {-EIO, -EACCES, -EPERM, -ESTALE, -ETIMEDOUT, -EUCLEAN, -ENXIO, -ENODEV};

        for (size_t i = 0; i < ELEMENTSOF(errors); i++)
                if (r == errors[i])
                        return true;
        return false;
}

static int note_damage(ImageIndex *x, const char *id, int r, Error *error, Error *e)
{
        if (is_unread(r)) {
                x->unread_error = r;
                if (strv_extend(&x->unread, id) < 0)
                        return error_oom(e);
        }
        if (x->n_damaged++ == 0)
                x->damage = TAKE_GENERIC(*error, Error, ERROR_NULL);
        return 0;
}

/* Adds one image. Those that have vanished are left out; those that are damaged are counted. */
static int read_image(ImageIndex *x, const char *id, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_error_ Error error = ERROR_NULL;

        int r = image_open(x->store, id, &i, &error);
        if (r == -ENOENT)
                return 0;
        if (image_is_shortage(r)) {
                (void) error_move(e, &error);
                return r;
        }
        if (r < 0)
                return note_damage(x, id, r, &error, e);
        if (GREEDY_REALLOC(x->items, x->allocated, x->n + 1) < 0)
                return error_oom(e);
        i->dir_fd = safe_close(i->dir_fd);
        x->items[x->n++] = TAKE_PTR(i);
        return 0;
}

/* Moves the image of that ID from OLD, searching from *K on; IDs are requested in ascending order. */
static bool take_known(ImageIndex *x, ImageIndex *old, size_t *k, const char *id)
{
        while (*k < old->n && strcmp(old->items[*k]->id, id) < 0)
                (*k)++;
        if (*k >= old->n || !streq(old->items[*k]->id, id) ||
            GREEDY_REALLOC(x->items, x->allocated, x->n + 1) < 0)
                return false;
        /* Both lists stay without gaps: the swapped-in image is freed with OLD. */
        x->items[x->n++] = TAKE_PTR(old->items[*k]);
        (*k)++;
        return true;
}

int image_index_refresh(ImageIndex *x, Error *e)
{
        ImageIndex old = *x, fresh = {.store = x->store, .listed = true};
        _cleanup_strv_free_ char **ids = NULL;
        size_t k = 0;

        int r = image_list_ids(x->store, IMAGE_ID_PREFIX, &ids, e);
        if (r < 0)
                return r;
        STRV_FOREACH (id, ids)
                if (r >= 0 && !take_known(&fresh, &old, &k, *id))
                        r = read_image(&fresh, *id, e);
        forget_all(&old);
        *x = fresh;
        x->listed = r >= 0;
        return r;
}

static Image **find_id(const ImageIndex *x, const char *id)
{
        size_t low = 0, high = x->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int r = strcmp(x->items[middle]->id, id);
                if (r == 0)
                        return &x->items[middle];
                if (r < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

void image_index_invalidate(ImageIndex *x)
{
        x->listed = false;
}

void image_index_forget(ImageIndex *x, const char *id)
{
        Image **known = find_id(x, id);

        if (known) {
                (void) image_free(*known);
                memmove(known, known + 1, (size_t) (x->items + x->n - known - 1) * sizeof(Image *));
                x->n--;
        }
        x->listed = false;
}

/* --- Looking up ---------------------------------------------------------------------------------------- */

static bool label_fits(const Image *i, const char *label, const char *host)
{
        const char *v = pair_list_get(&i->manifest->labels, label);

        return !v || streq_ptr(v, host);
}

static bool fits_host(const Image *i)
{
        return label_fits(i, "os", host_os_label()) && label_fits(i, "arch", host_arch_label());
}

static bool is_better(const Image *a, const Image *b)
{
        if (fits_host(a) != fits_host(b))
                return fits_host(a);
        /* A pull of any tag of a repository must not hide a signed image of that name. */
        if (image_is_of_registry(a) != image_is_of_registry(b))
                return !image_is_of_registry(a);
        int r = image_version_compare(pair_list_get(&a->manifest->labels, "version"),
                                      pair_list_get(&b->manifest->labels, "version"));
        return r != 0 ? r > 0 : a->import_time > b->import_time;
}

Image *image_list_best(Image **list, size_t n, const char *name, const PairList *labels)
{
        Image *best = NULL;

        for (size_t i = 0; i < n; i++)
                if (image_name_matches(name, labels, list[i]->manifest) &&
                    (!best || is_better(list[i], best)))
                        best = list[i];
        return best;
}

int image_index_find_id(ImageIndex *x, const char *name, const PairList *labels, const char **ret, Error *e)
{
        const Image *best = NULL;

        if (x->listed)
                best = image_list_best(x->items, x->n, name, labels);
        if (!best) {
                int r = image_index_refresh(x, e);
                if (r < 0)
                        return r;
                best = image_list_best(x->items, x->n, name, labels);
        }
        if (!best)
                return -ENOENT;
        *ret = best->id;
        return 0;
}

/* Reads an image that is not in the index, and adds it. */
static int add_image(ImageIndex *x, const char *id, Image **ret, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL, *copy = NULL;
        size_t at = 0;

        int r = image_open(x->store, id, &i, e);
        if (r < 0)
                return r;
        if (GREEDY_REALLOC(x->items, x->allocated, x->n + 1) < 0 || !(copy = image_share(i)))
                return error_oom(e);
        copy->dir_fd = TAKE_FD(i->dir_fd);
        while (at < x->n && strcmp(x->items[at]->id, id) < 0)
                at++;
        memmove(x->items + at + 1, x->items + at, (x->n - at) * sizeof(Image *));
        x->items[at] = TAKE_PTR(i);
        x->n++;
        *ret = TAKE_PTR(copy);
        return 0;
}

int image_index_open(ImageIndex *x, const char *id, Image **ret, Error *e)
{
        _cleanup_(image_freep) Image *copy = NULL;
        Image **known = find_id(x, id);

        if (!known)
                return add_image(x, id, ret, e);
        copy = image_share(*known);
        if (!copy)
                return error_oom(e);
        int r = image_open_directory(x->store, id, e);
        if (r < 0)
                return r;
        copy->dir_fd = r;
        *ret = TAKE_PTR(copy);
        return 0;
}

int image_index_find(ImageIndex *x, const char *name, const PairList *labels, Image **ret, Error *e)
{
        const char *id;

        for (;;) {
                int r = image_index_find_id(x, name, labels, &id, e);
                if (r < 0)
                        return r;
                r = image_index_open(x, id, ret, e);
                if (r != -ENOENT)
                        return r;
                /* Removed since it was listed. */
                error_done(e);
                image_index_invalidate(x);
        }
}

/* --- Lists --------------------------------------------------------------------------------------------- */

Image **image_index_images(const ImageIndex *x, size_t *ret_n)
{
        *ret_n = x->n;
        return x->items;
}

static int compare_text(const char *a, const char *b)
{
        return strcmp(a ?: "", b ?: "");
}

static int compare_images(const void *a, const void *b)
{
        const Image *x = *(Image *const *) a, *y = *(Image *const *) b;

        int r = compare_text(x->manifest->name, y->manifest->name);
        if (r == 0)
                r = image_version_compare(pair_list_get(&x->manifest->labels, "version"),
                                          pair_list_get(&y->manifest->labels, "version"));
        if (r == 0 && x->import_time != y->import_time)
                r = x->import_time < y->import_time ? -1 : 1;
        return r ?: strcmp(x->id, y->id);
}

Store *image_index_store(const ImageIndex *x)
{
        return x->store;
}

int image_index_check_read(const ImageIndex *x, const char *but, Error *e)
{
        STRV_FOREACH (id, x->unread)
                if (!streq(*id, but))
                        return error_set_errno(
                                        e, x->unread_error,
                                        "Cannot determine which images are needed, as the image %s cannot be read",
                                        *id);
        return 0;
}

size_t image_index_n_damaged(const ImageIndex *x)
{
        return x->n_damaged;
}

Image **image_index_by_name(const ImageIndex *x)
{
        Image **list = calloc(x->n + 1, sizeof(Image *));

        if (list && x->n > 0) {
                memcpy(list, x->items, x->n * sizeof(Image *));
                qsort(list, x->n, sizeof(Image *), compare_images);
        }
        return list;
}

static void give_list(ImageIndex *x, Image ***ret, size_t *ret_n)
{
        if (x->n > 0)
                qsort(x->items, x->n, sizeof(Image *), compare_images);
        *ret = TAKE_PTR(x->items);
        *ret_n = TAKE_GENERIC(x->n, size_t, 0);
}

int image_list_readable(Store *s, Image ***ret, size_t *ret_n, size_t *ret_n_damaged, Error *e)
{
        _cleanup_(image_index_freep) ImageIndex *x = NULL;

        int r = image_index_new(s, &x, e);
        if (r >= 0)
                r = image_index_refresh(x, e);
        if (r < 0)
                return r;
        give_list(x, ret, ret_n);
        *ret_n_damaged = x->n_damaged;
        return 0;
}

int image_list(Store *s, Image ***ret, size_t *ret_n, Error *e)
{
        _cleanup_(image_index_freep) ImageIndex *x = NULL;

        int r = image_index_new(s, &x, e);
        if (r >= 0)
                r = image_index_refresh(x, e);
        if (r >= 0 && x->n_damaged > 0) {
                r = x->damage.code ?: -EBADMSG;
                (void) error_move(e, &x->damage);
        }
        if (r >= 0)
                give_list(x, ret, ret_n);
        return r;
}
