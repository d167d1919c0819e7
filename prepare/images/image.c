/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Images that are in the store: reading one, listing all.
 *
 * An image is a directory named after the hash of its archive, and it is complete, because it was renamed
 * into place. When it was used last is the modification time of an empty file in it, so that using an image
 * writes nothing that could be half written.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "prepare/images/images.h"

#define LAYERS_FILE_MAX (64U * 1024U)
#define LAYER_ID_PREFIX "sha256-"
#define LAYER_ID_SIZE (7U + 64U)

/* --- One image ----------------------------------------------------------------------------------------- */

Image *image_free(Image *i)
{
        if (!i)
                return NULL;
        free(i->id);
        safe_close(i->dir_fd);
        free(i->manifest_text);
        (void) image_manifest_free(i->manifest);
        image_info_done(&i->info);
        (void) strv_free(i->layer_ids);
        free(i);
        return NULL;
}

/* The layers of an OCI image: one a line, each the digest of its uncompressed archive. */
int image_read_layer_ids(int image_fd, char ***ret, Error *e)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_free_ char **ids = NULL;

        int r = read_file_at(image_fd, "layers", LAYERS_FILE_MAX, &text, NULL);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read its list of layers");
        r = strv_split(text, "\n", &ids);
        if (r < 0)
                return error_oom(e);
        STRV_FOREACH (l, ids) {
                const char *digits = startswith(*l, LAYER_ID_PREFIX);
                if (!digits || strlen(*l) != LAYER_ID_SIZE ||
                    strspn(digits, "0123456789abcdef") != strlen(digits))
                        return error_set(e, -EBADMSG, "Its list of layers is damaged");
        }
        *ret = TAKE_PTR(ids);
        return 0;
}

int image_own_layers(const Image *i, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;
        int r = 0;

        if (i->info.kind != IMAGE_KIND_OCI)
                r = strv_extendf(&l, "images/%s/rootfs", i->id);
        STRV_FOREACH (d, i->layer_ids)
                if (r >= 0)
                        r = strv_extendf(&l, "layers/%s/rootfs", *d);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

static int read_image(Image *i, Error *e)
{
        struct stat st;

        int r = read_file_at(i->dir_fd, "manifest", MANIFEST_SIZE_MAX, &i->manifest_text, &i->manifest_size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read its manifest");
        r = image_manifest_parse(i->manifest_text, i->manifest_size, &i->manifest, NULL, e);
        if (r < 0)
                return error_prefix(e, r, "Its manifest is not valid");
        r = image_info_read(i->dir_fd, &i->info, e);
        if (r >= 0 && i->info.kind == IMAGE_KIND_OCI)
                r = image_read_layer_ids(i->dir_fd, &i->layer_ids, e);
        if (r < 0)
                return r;
        i->import_time = i->last_used = i->info.import_time;
        i->size = i->info.size;
        if (fstatat(i->dir_fd, "used", &st, AT_SYMLINK_NOFOLLOW) >= 0)
                i->last_used = (uint64_t) st.st_mtim.tv_sec * 1000000U +
                               (uint64_t) st.st_mtim.tv_nsec / 1000U;
        return 0;
}

#define OPEN_TRIES 8U /* of an image that is removed and imported again and again */

/* What says nothing of an image: it can be read once there is more of what we lack. */
static bool is_shortage(int r)
{
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/* Whether what we have opened is not at its place any more: removed meanwhile, which is to rename it away as a
 * whole, and perhaps imported again. */
static bool is_gone(Store *s, const char *path, int dir_fd)
{
        struct stat ours, there;

        if (fstatat(s->fd, path, &there, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT;
        return fstat(dir_fd, &ours) >= 0 && (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino);
}

/* -ESTALE: it was removed while we read. */
static int try_open(Store *s, const char *id, const char *path, Image **ret, Error *e)
{
        _cleanup_(image_freep) Image *i = calloc(1, sizeof(Image));

        if (!i)
                return error_oom(e);
        i->dir_fd = -EBADF;
        i->id = strdup(id);
        if (!i->id)
                return error_oom(e);
        i->dir_fd = open_beneath(s->fd, path, O_RDONLY | O_DIRECTORY);
        if (i->dir_fd == -ENOENT)
                return error_set(e, -ENOENT, "The image %s is not in the store %s", id, s->path);
        if (i->dir_fd < 0)
                return error_set_errno(e, i->dir_fd, "Cannot open the image %s", id);
        int r = read_image(i, e);
        if (r < 0 && is_gone(s, path, i->dir_fd))
                return error_set(e, -ESTALE, "The image %s was removed from the store %s meanwhile", id,
                                 s->path);
        if (is_shortage(r))
                return error_prefix(e, r, "Cannot read the image %s", id);
        if (r < 0) {
                r = error_prefix(e, r == -ENOENT ? -EBADMSG : r, "The image %s in the store %s is damaged",
                                 id, s->path);
                return error_hint(e, r, "Remove it with 'acnspawn image rm %s' and import it again.", id);
        }
        *ret = TAKE_PTR(i);
        return 0;
}

int image_open(Store *s, const char *id, Image **ret, Error *e)
{
        _cleanup_free_ char *path = NULL;

        int r = image_id_check(id, e);
        if (r < 0)
                return r;
        if (xasprintf(&path, "images/%s", id) < 0)
                return error_oom(e);
        for (unsigned tries = 0; tries < OPEN_TRIES; tries++) {
                if (tries > 0 && e)
                        error_done(e);
                r = try_open(s, id, path, ret, e);
                if (r != -ESTALE)
                        return r;
        }
        if (e)
                e->code = -ENOENT;
        return -ENOENT;
}

void image_touch(const Image *i)
{
        (void) utimensat(i->dir_fd, "used", NULL, AT_SYMLINK_NOFOLLOW);
}

/* --- All images ---------------------------------------------------------------------------------------- */

void image_list_free(Image **l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                (void) image_free(l[i]);
        free(l);
}

typedef struct ImageList {
        Image **items;
        size_t n, allocated;
        size_t n_damaged;
} ImageList;

static void image_list_done(ImageList *l)
{
        image_list_free(l->items, l->n);
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

/* Adds one image. Those that have vanished are left out; of those that are damaged the first is told in
 * E. */
static int add_image(ImageList *l, Store *s, const char *id, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_error_ Error error = ERROR_NULL;

        int r = image_open(s, id, &i, &error);
        if (r == -ENOENT)
                return 0;
        if (is_shortage(r)) {
                if (e) {
                        error_done(e);
                        *e = TAKE_GENERIC(error, Error, ERROR_NULL);
                }
                return r;
        }
        if (r < 0) {
                l->n_damaged++;
                if (e && e->code == 0)
                        *e = TAKE_GENERIC(error, Error, ERROR_NULL);
                return 0;
        }
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                return error_oom(e);
        l->items[l->n++] = TAKE_PTR(i);
        return 0;
}

static int list_images(Store *s, ImageList *l, Error *e)
{
        _cleanup_close_ int fd = openat(s->fd, "images", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct dirent *de;
        int r = 0;

        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        if (!d)
                return error_set_errno(e, errno, "Cannot list the images of the store %s", s->path);
        (void) TAKE_FD(fd);
        for (errno = 0; r >= 0 && (de = readdir(d)); errno = 0)
                if (image_id_check(de->d_name, NULL) >= 0)
                        r = add_image(l, s, de->d_name, e);
        if (r >= 0 && errno != 0)
                r = error_set_errno(e, errno, "Cannot list the images of the store %s", s->path);
        closedir(d);
        if (r >= 0 && l->n > 0)
                qsort(l->items, l->n, sizeof(Image *), compare_images);
        return r;
}

int image_list_readable(Store *s, Image ***ret, size_t *ret_n, size_t *ret_n_damaged, Error *e)
{
        _cleanup_(image_list_done) ImageList l = {};
        _cleanup_error_ Error damage = ERROR_NULL;

        int r = list_images(s, &l, &damage);
        if (r < 0) {
                if (e) {
                        error_done(e);
                        *e = TAKE_GENERIC(damage, Error, ERROR_NULL);
                }
                return r;
        }
        *ret = TAKE_PTR(l.items);
        *ret_n = TAKE_GENERIC(l.n, size_t, 0);
        *ret_n_damaged = l.n_damaged;
        return 0;
}

int image_list(Store *s, Image ***ret, size_t *ret_n, Error *e)
{
        _cleanup_(image_list_done) ImageList l = {};
        _cleanup_error_ Error damage = ERROR_NULL;

        int r = list_images(s, &l, &damage);
        if (r >= 0 && l.n_damaged > 0)
                r = damage.code ?: -EBADMSG;
        if (r < 0) {
                if (e) {
                        error_done(e);
                        *e = TAKE_GENERIC(damage, Error, ERROR_NULL);
                }
                return r;
        }
        *ret = TAKE_PTR(l.items);
        *ret_n = TAKE_GENERIC(l.n, size_t, 0);
        return 0;
}
