/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The additional top layer of an image for directories that its layers only imply: see
 * prepare/images/attributes.c. It is stored and shared like any layer; its name is the hash of the names of
 * the layers it was made from (LAYER_ID_MADE).
 *
 * An image without any layer gets an empty one in the same way, since an overlay needs one.
 */

#include <sys/stat.h>

#include "prepare/oci/oci-internal.h"

typedef struct OpenLayers {
        int *fds;
        size_t n;
} OpenLayers;

static void open_layers_done(OpenLayers *o)
{
        while (o->n > 0)
                safe_close(o->fds[--o->n]);
        free(o->fds);
}

static int open_layers(Store *s, const Layer *layers, size_t n, OpenLayers *o, Error *e)
{
        o->fds = calloc(n + 1, sizeof(int));
        if (!o->fds)
                return error_oom(e);
        for (; o->n < n; o->n++) {
                int fd = layer_open(s, &layers[o->n], e);
                if (fd < 0)
                        return fd;
                o->fds[o->n] = fd;
        }
        return 0;
}

static int finish(const Store *s, int dir_fd, bool is_empty, Error *e)
{
        int r = is_empty && mkdirat(dir_fd, "rootfs", 0755) < 0 ? -errno : 0;

        if (r >= 0)
                r = write_file_new_at(dir_fd, "size", "0\n", 2, 0644);
        return r < 0 ? error_set_errno(e, r, "Cannot write a layer to the store")
                     : record_write(dir_fd, NULL, s->operation, e);
}

static int make_id(const Layer *layers, size_t n, char **ret, Error *e)
{
        _cleanup_free_ char *digest = NULL;
        _cleanup_text_ Text t = {};

        text_add(&t, "acnspawn attributes\n");
        for (size_t i = 0; i < n; i++)
                text_addf(&t, "%s\n", layers[i].id);
        if (t.failed || digest_bytes("sha256:", t.data, t.size, &digest) < 0 ||
            xasprintf(ret, LAYER_ID_MADE "%s", digest + strlen("sha256:")) < 0)
                return error_oom(e);
        return 0;
}

int attributes_layer(Store *s, const Layer *layers, size_t n, Layer *ret, Error *e)
{
        static const OciDescriptor none = {};
        _cleanup_(store_temporary_done) StoreTemporary temporary = STORE_TEMPORARY_NULL;
        _cleanup_(open_layers_done) OpenLayers open = {};
        char *id = NULL;

        int r = open_layers(s, layers, n, &open, e);
        if (r >= 0)
                r = store_temporary_new(s, &temporary, e);
        if (r >= 0)
                r = attributes_make(s, open.fds, n, temporary.dir_fd, e);
        if (r < 0 || (r == 0 && n > 0))
                return r;
        r = finish(s, temporary.dir_fd, r == 0, e);
        if (r >= 0)
                r = make_id(layers, n, &id, e);
        if (r < 0)
                return r;
        *ret = (Layer){.descriptor = &none,
                       .diff_id = "",
                       .id = id,
                       .number = (unsigned) n + 1,
                       .temporary = temporary};
        temporary = STORE_TEMPORARY_NULL;
        return 1;
}
