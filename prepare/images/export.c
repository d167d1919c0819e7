/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Exports an image as an archive, byte for byte as it was imported (spec: aci.md, "Image ID").
 *
 * The bytes come from the image's recipe and its files; they are correct if their hash is the image's ID.
 * That is known only at the end, so the receiver must not trust the bytes before.
 */

#include "library/libcrypto.h"
#include "prepare/images/images-internal.h"
#include "prepare/unpack/unpack.h"

typedef struct Export {
        EVP_MD_CTX *digest;
        ImageSink sink;
        void *userdata;
} Export;

static int take(const void *p, size_t n, void *userdata, Error *e)
{
        Export *x = userdata;

        if (EVP_DigestUpdate(x->digest, p, n) != 1)
                return error_set(e, -EIO, "Cannot hash the archive");
        return x->sink ? x->sink(p, n, x->userdata, e) : 0;
}

static int check_hash(EVP_MD_CTX *digest, const char *id, Error *e)
{
        _cleanup_free_ char *hex = NULL;
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned n;

        if (EVP_DigestFinal_ex(digest, hash, &n) != 1 || !(hex = hex_encode(hash, n)))
                return error_oom(e);
        if (streq(id + strlen(IMAGE_ID_PREFIX), hex))
                return 0;
        return error_set(e, -EBADMSG, "The resulting archive has another ID, " IMAGE_ID_PREFIX "%.16s…",
                         hex);
}

int image_replay(int image_fd, const char *id, const Operation *o, ImageSink sink, void *userdata, Error *e)
{
        Export x = {.sink = sink, .userdata = userdata};

        int r = library_load(&crypto_library, e);
        if (r < 0)
                return r;
        x.digest = EVP_MD_CTX_new();
        r = x.digest && EVP_DigestInit_ex(x.digest, EVP_sha512(), NULL) == 1 ? 0 : error_oom(e);
        if (r >= 0)
                r = recipe_replay(image_fd, o, take, &x, e);
        if (r >= 0)
                r = check_hash(x.digest, id, e);
        EVP_MD_CTX_free(x.digest);
        return r;
}

int image_export(const Image *i, const Operation *o, ImageSink sink, void *userdata, Error *e)
{
        int r = image_replay(i->dir_fd, i->id, o, sink, userdata, e);

        if (r == -ENOENT) {
                r = error_set(e, r,
                              "The image %s cannot be exported: the store has not kept how its archive was "
                              "made",
                              i->id);
                return error_hint(e, r, "Remove it with 'acnspawn image rm' and import it again.");
        }
        if (r == -EBADMSG) {
                r = error_prefix(e, r, "The image %s was altered in the store", i->id);
                return error_hint(e, r, "'acnspawn image verify %.19s' shows the altered files.", i->id);
        }
        return r;
}
