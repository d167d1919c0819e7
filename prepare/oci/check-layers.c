/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks the uncompressed layers of an image against its config. Their blobs have already been compared with
 * their own digests, except in a Docker archive, which has no digests of blobs.
 */

#include "prepare/oci/check-internal.h"

#define BUFFER_SIZE (256U * 1024U)
#define UNCOMPRESSED_MAX (1ULL << 40) /* bytes of one layer, as it is not limited by a disk */

/* 1: it has to be read; 0: it was already, or there are too many. */
static int note_layer(Check *c, const char *name, const char *diff_id)
{
        _cleanup_free_ char *layer = NULL;

        if (xasprintf(&layer, "%s %s", diff_id, name) < 0)
                return -ENOMEM;
        if (strv_contains(c->layers, layer))
                return 0;
        if (strv_length(c->layers) < BLOBS_MAX)
                return strv_consume(&c->layers, TAKE_PTR(layer)) < 0 ? -ENOMEM : 1;
        if (!c->too_many)
                check_report(c, name, "", "there are more parts than can be checked");
        c->too_many = true;
        return 0;
}

/* Adds all of S to D. */
static int read_layer(const Operation *o, Stream *s, Digester *d, void *buffer, Error *e)
{
        ssize_t n;

        while ((n = stream_read(s, buffer, BUFFER_SIZE, e)) > 0) {
                int r = operation_check(o, e);
                if (r < 0)
                        return r;
                digester_add(d, buffer, (size_t) n);
                if (d->size > UNCOMPRESSED_MAX)
                        return error_set(e, -EFBIG, "it is longer than %llu bytes, uncompressed",
                                         UNCOMPRESSED_MAX);
        }
        return (int) n;
}

static int check_layer(Check *c, const char *name, const char *diff_id, Error *e)
{
        _cleanup_free_ char *buffer = malloc(BUFFER_SIZE), *digest = NULL;
        _cleanup_(stream_freep) Stream *s = NULL;
        _cleanup_digester_ Digester digester = {};
        _cleanup_error_ Error why = ERROR_NULL;
        _cleanup_close_ int fd = -EBADF;
        uint64_t size;

        int k = note_layer(c, name, diff_id);
        if (k < 0 || !buffer || digester_init(&digester, diff_id) < 0)
                return error_oom(e);
        if (k == 0)
                return 0;
        int r = c->files->open(c->files, name, &fd, &size, e);
        if (r == -ENOENT)
                check_report(c, name, "", "it does not exist");
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        const StreamHooks hooks = {.length = size, .operation = c->operation};
        r = stream_new(fd, -EBADF, &hooks, &s, &why);
        if (r >= 0)
                r = read_layer(c->operation, s, &digester, buffer, &why);
        if (operation_ended(r))
                return operation_check(c->operation, e);
        if (r < 0)
                check_report(c, name, "", why.message ?: strerror(-r));
        if (r < 0 || digester_finish(&digester, &digest) < 0)
                return r < 0 ? 0 : error_oom(e);
        if (!streq(digest, diff_id))
                check_report(c, name, "", "its content does not match the image's config");
        return 0;
}

int check_layers(Check *c, const char *config_name, const OciConfig *config, char *const *layers,
                 const char *manifest, Error *e)
{
        _cleanup_free_ char *message = NULL;
        size_t n = strv_length(layers);
        int r = 0;

        if (n != strv_length(config->diff_ids)) {
                if (xasprintf(&message, "there are more or fewer than layers in %s", manifest) < 0)
                        return error_oom(e);
                check_report(c, config_name, "rootfs.diff_ids", message);
                return 0;
        }
        for (size_t i = 0; r >= 0 && i < n; i++)
                if (!strv_contains(c->bad, layers[i]))
                        r = check_layer(c, layers[i], config->diff_ids[i], e);
        return r;
}
