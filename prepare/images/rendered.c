/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Trees in the store that are made from layers: for a pathWhitelist (render.c), and for directories that
 * layers only imply (attributes.c).
 *
 * Such a tree is made once: its name in the store is the hash of the layers and of the list, both of which
 * never change. It appears atomically. Beside it is the file "layers", with which it is removed when one of
 * its images is removed, and "implied" if it has directories that none of its layers has an entry for: above
 * other layers, these get their attributes from below, as for any layer.
 */

#include "library/libcrypto.h"
#include "prepare/images/images-internal.h"

#define LAYERS_SIZE_MAX (16U * 1024U * 1024U)

/* --- Layers -------------------------------------------------------------------------------------------- */

int layer_file(const char *layer, const char *file, char **ret)
{
        const char *end = endswith(layer, "/rootfs");

        return end ? xasprintf(ret, "%.*s/%s", (int) (end - layer), layer, file) : -EINVAL;
}

void layer_fds_done(LayerFds *l)
{
        while (l->n > 0)
                safe_close(l->fds[--l->n]);
        free(l->fds);
        l->fds = NULL;
}

int layer_fds_open(Store *s, char *const *layers, LayerFds *l, Error *e)
{
        size_t n = strv_length(layers);

        l->fds = calloc(n + 1, sizeof(int));
        if (!l->fds)
                return error_oom(e);
        for (; l->n < n; l->n++) {
                const char *layer = layers[n - l->n - 1];
                _cleanup_free_ char *path = NULL;

                int fd = layer_file(layer, "", &path);
                if (fd >= 0)
                        fd = open_beneath(s->fd, path, O_PATH | O_DIRECTORY);
                if (fd < 0)
                        return error_set_errno(e, fd, "Cannot open the layer %s", layer);
                l->fds[l->n] = fd;
        }
        return 0;
}

int layers_imply(Store *s, char *const *layers, size_t n, Error *e)
{
        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ char *path = NULL;

                if (layer_file(layers[i], "implied", &path) < 0)
                        return error_oom(e);
                if (faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
                        return 1;
                if (errno != ENOENT)
                        return error_set_errno(e, errno, "Cannot look for %s", path);
        }
        return 0;
}

/* --- Files beside the tree ----------------------------------------------------------------------------- */

int render_read_layers(int key_fd, char **ret)
{
        return read_file_at(key_fd, "layers", LAYERS_SIZE_MAX, ret, NULL);
}

/* The layers of a layer that was itself rendered are included: removing an image only reads this file. */
static int write_layers(const RenderedTree *t, int dir_fd, Error *e)
{
        _cleanup_text_ Text text = {};
        int r = 0;

        for (size_t i = 0; t->layers[i] && r >= 0; i++) {
                _cleanup_free_ char *key = NULL, *nested = NULL;
                _cleanup_close_ int fd = -EBADF;

                text_addf(&text, "%s\n", t->layers[i]);
                if (!startswith(t->layers[i], "rendered/"))
                        continue;
                if (layer_file(t->layers[i], "", &key) < 0)
                        return error_oom(e);
                fd = open_beneath(t->store->fd, key, O_PATH | O_DIRECTORY);
                r = fd < 0 ? fd : render_read_layers(fd, &nested);
                if (r >= 0)
                        text_add(&text, nested);
        }
        if (r >= 0)
                r = text.failed ? -ENOMEM : write_file_new_at(dir_fd, "layers", text.data, text.size, 0644);
        return r < 0 ? error_set_errno(e, r, "Cannot write the list of layers") : 0;
}

static int note_implied(const RenderedTree *t, int dir_fd, Error *e)
{
        _cleanup_layer_fds_ LayerFds l = {};

        int r = layers_imply(t->store, t->layers, strv_length(t->layers), e);
        if (r > 0)
                r = layer_fds_open(t->store, t->layers, &l, e);
        return l.n > 0 && r >= 0 ? attributes_note_implied(t->store, l.fds, l.n, dir_fd, e) : r;
}

/* --- The tree ------------------------------------------------------------------------------------------ */

static int make_key(const RenderedTree *t, char **ret)
{
        unsigned char hash[EVP_MAX_MD_SIZE];
        EVP_MD_CTX *c = EVP_MD_CTX_new();
        unsigned size;

        /* Includes the final NULs, so that different lists never have the same input. */
        bool good = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) == 1;
        STRV_FOREACH (l, t->layers)
                good = good && EVP_DigestUpdate(c, *l, strlen(*l) + 1) == 1;
        good = good && EVP_DigestUpdate(c, "", 1) == 1;
        for (size_t i = 0; i < t->n_paths; i++)
                good = good && EVP_DigestUpdate(c, t->paths[i], strlen(t->paths[i]) + 1) == 1;
        good = good && EVP_DigestFinal_ex(c, hash, &size) == 1;
        EVP_MD_CTX_free(c);
        *ret = good ? hex_encode(hash, size) : NULL;
        return *ret ? 0 : -ENOMEM;
}

static int make(const RenderedTree *t, const char *directory, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary temporary = STORE_TEMPORARY_NULL;

        int r = store_temporary_new(t->store, &temporary, e);
        if (r >= 0)
                r = t->make(temporary.dir_fd, t->userdata, e);
        if (r >= 0)
                r = note_implied(t, temporary.dir_fd, e);
        if (r >= 0)
                r = write_layers(t, temporary.dir_fd, e);
        return r < 0 ? r : store_temporary_publish(&temporary, directory, e);
}

int rendered_get(const RenderedTree *t, char **ret, Error *e)
{
        _cleanup_free_ char *key = NULL, *directory = NULL, *path = NULL;

        int k = library_load(&crypto_library, e);
        if (k < 0)
                return k;
        if (make_key(t, &key) < 0 || xasprintf(&directory, "rendered/%s", key) < 0 ||
            xasprintf(&path, "%s/rootfs", directory) < 0)
                return error_oom(e);
        if (faccessat(t->store->fd, directory, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
                int r = make(t, directory, e);
                if (r < 0)
                        return r;
        }
        if (faccessat(t->store->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : error_set_errno(e, errno, "Cannot look for %s", path);
        *ret = TAKE_PTR(path);
        return 1;
}
