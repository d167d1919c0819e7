/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads images of the store.
 *
 * An image is a directory named after the hash of its archive, and it is complete, because it was renamed
 * into place. The time of its last use is the modification time of an empty file in it, so that using an
 * image writes no content that could be incomplete.
 */

#include <sys/stat.h>

#include "prepare/images/images-internal.h"

#define LAYERS_FILE_MAX (64U * 1024U)

/* --- One image ----------------------------------------------------------------------------------------- */

Image *image_share(Image *i)
{
        Image *copy = calloc(1, sizeof(Image));

        if (!copy)
                return NULL;
        if (i->shared)
                i = i->shared;
        if (__atomic_load_n(&i->n_users, __ATOMIC_RELAXED) == 0)
                i->n_users = 1; /* no other reference exists yet */
        (void) __atomic_add_fetch(&i->n_users, 1, __ATOMIC_RELAXED);
        *copy = *i;
        copy->dir_fd = -EBADF;
        copy->shared = i;
        return copy;
}

static Image *free_copy(Image *i)
{
        Image *shared = i->shared;

        safe_close(i->dir_fd);
        free(i);
        return image_free(shared);
}

Image *image_free(Image *i)
{
        if (!i)
                return NULL;
        if (i->shared)
                return free_copy(i);
        if (__atomic_load_n(&i->n_users, __ATOMIC_RELAXED) > 0 &&
            __atomic_sub_fetch(&i->n_users, 1, __ATOMIC_ACQ_REL) > 0)
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

bool image_is_of_registry(const Image *i)
{
        return i->info.kind == IMAGE_KIND_OCI && startswith(i->info.origin ?: "", "docker://") &&
               startswith(i->info.reference ?: i->info.origin, "docker://");
}

bool layer_id_begins(const char *s)
{
        const char *digits = startswith(s, LAYER_ID_UNPACKED) ?: startswith(s, LAYER_ID_MADE);

        return digits && strspn(digits, "0123456789abcdef") >= LAYER_ID_SIZE - LAYER_ID_PREFIX_SIZE;
}

bool layer_id_check(const char *s)
{
        return layer_id_begins(s) && strlen(s) == LAYER_ID_SIZE;
}

/* The layers of an OCI image: one a line. */
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
        STRV_FOREACH (l, ids)
                if (!layer_id_check(*l))
                        return error_set(e, -EBADMSG, "Its list of layers is damaged");
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
        else if (errno != ENOENT)
                return error_set_errno(e, errno, "Cannot examine when it was last used");
        return 0;
}

#define OPEN_TRIES 8U /* for an image that is repeatedly removed and imported */

/* Whether the opened directory is not at its path any more: it was removed meanwhile, that is renamed as a
 * whole, and perhaps imported again. */
static bool is_gone(Store *s, const char *path, int dir_fd)
{
        struct stat ours, there;

        if (fstatat(s->fd, path, &there, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT;
        return fstat(dir_fd, &ours) >= 0 && (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino);
}

int image_open_directory(Store *s, const char *id, Error *e)
{
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "images/%s", id) < 0)
                return error_oom(e);
        int fd = open_beneath(s->fd, path, O_RDONLY | O_DIRECTORY);
        if (fd == -ENOENT)
                return error_set(e, -ENOENT, "The image %s is not in the store %s", id, s->path);
        return fd < 0 ? error_set_errno(e, fd, "Cannot open the image %s", id) : fd;
}

/* -ESTALE: it was removed meanwhile. */
static int try_open(Store *s, const char *id, const char *path, Image **ret, Error *e)
{
        _cleanup_(image_freep) Image *i = calloc(1, sizeof(Image));

        if (!i)
                return error_oom(e);
        i->dir_fd = -EBADF;
        i->id = strdup(id);
        if (!i->id)
                return error_oom(e);
        int r = image_open_directory(s, id, e);
        if (r < 0)
                return r;
        i->dir_fd = r;
        r = read_image(i, e);
        if (r < 0 && is_gone(s, path, i->dir_fd))
                return error_set(e, -ESTALE, "The image %s was removed from the store %s meanwhile", id,
                                 s->path);
        if (image_is_shortage(r))
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
