/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Verifies that an OCI image in the store still is the image of its ID.
 *
 * The records of files do not cover what names the layers. The ID is the SHA-512 of the config, and the layers
 * follow from the config: their IDs are computed from its digests, repeated ones and those that are hidden by
 * a layer above them are left out, and a layer of implied directories is on top if these layers need one. So
 * config and list of layers are computed, and no record in the store has to be believed.
 */

#include "prepare/oci/oci-internal.h"

typedef struct Verification {
        Store *store;
        RecordCheck *check;
        OciConfig *config;
        char **ids;    /* in the store's list, lowest first */
        Layer *layers; /* of the config, lowest first */
        size_t n_layers;
} Verification;

static void verification_done(Verification *v)
{
        (void) oci_config_free(v->config);
        strv_free(v->ids);
        for (size_t i = 0; i < v->n_layers; i++)
                layer_done(&v->layers[i]);
        free(v->layers);
}

static int report(Verification *v, const char *path, DifferenceKind kind, const char *expected,
                  const char *found, Error *e)
{
        return record_check_add(v->check, path, kind, expected, found) < 0 ? error_oom(e) : 0;
}

/* 1: it is the config of that ID, in V. */
static int verify_config(Verification *v, int dir_fd, const char *id, Error *e)
{
        _cleanup_free_ char *text = NULL, *digest = NULL, *found = NULL;
        _cleanup_error_ Error why = ERROR_NULL;
        size_t size = 0;

        int r = read_file_at(dir_fd, "config", MANIFEST_SIZE_MAX, &text, &size);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return r == -ENOENT ? report(v, "config", DIFFERENCE_MISSING, NULL, NULL, e)
                                    : report(v, "config", DIFFERENCE_ERROR, NULL, strerror(-r), e);
        if (digest_bytes("sha512:", text, size, &digest) < 0 ||
            xasprintf(&found, IMAGE_ID_PREFIX "%s", digest + strlen("sha512:")) < 0)
                return error_oom(e);
        if (!streq(found, id))
                return report(v, "config", DIFFERENCE_CONTENT, id, found, e);
        r = oci_config_parse(text, size, &v->config, NULL, &why);
        if (r < 0)
                return r == -ENOMEM ? error_oom(e)
                                    : report(v, "config", DIFFERENCE_ERROR, NULL, why.message, e);
        return 1;
}

/* 1: it could be read; else image_verify() has reported it. */
static int read_list(Verification *v, int dir_fd, Error *e)
{
        int r = image_read_layer_ids(dir_fd, &v->ids, NULL);

        if (r == -ENOMEM)
                return error_oom(e);
        for (size_t i = 0, n = strv_length(v->ids); i < n / 2; i++) {
                char *upper = v->ids[i];
                v->ids[i] = v->ids[n - 1 - i];
                v->ids[n - 1 - i] = upper;
        }
        return r >= 0;
}

/* Whether ID, in a list of layers, is that of the layer that was made with the ID MADE. Earlier versions named it like a
 * layer that was unpacked; no archive that could be unpacked has that hash, which is of a text. */
static bool is_made(const char *id, const char *made)
{
        const char *digits = startswith(id, LAYER_ID_UNPACKED);

        return streq(id, made) || (digits && streq(digits, made + LAYER_ID_PREFIX_SIZE));
}

static bool matches(const Layer *l, const char *id)
{
        return streq_ptr(id, l->content_id) || (l->chain_id && is_made(id, l->chain_id));
}

/* Gives the layers the IDs of the list, and moves those that the list leaves out from the bottom to
 * *RET_OMITTED. 1: all match. */
static int match_layers(Verification *v, size_t n_listed, size_t *ret_omitted, Error *e)
{
        size_t omitted = v->n_layers - MIN(n_listed, v->n_layers);

        for (size_t i = v->n_layers; i > omitted; i--) {
                Layer *l = &v->layers[i - 1];
                const char *id = v->ids[i - 1 - omitted];
                if (!matches(l, id))
                        return report(v, "layers", DIFFERENCE_CONTENT, l->content_id, id, e);
                free(l->id);
                l->id = strdup(id);
                if (!l->id)
                        return error_oom(e);
        }
        if (n_listed > v->n_layers)
                return report(v, "layers", DIFFERENCE_ADDED, NULL, v->ids[v->n_layers], e);
        *ret_omitted = omitted;
        return 1;
}

/* 1: layers are left out below the lowest of the list only because that hides them. */
static int verify_omitted(Verification *v, size_t omitted, Error *e)
{
        if (omitted == 0)
                return 1;
        int r = omitted < v->n_layers ? layer_hides_all(v->store, &v->layers[omitted], e) : 0;
        return r != 0 ? r
                      : report(v, "layers", DIFFERENCE_MISSING, v->layers[omitted - 1].content_id, NULL, e);
}

/* TOP: the layer of implied directories in the list, or NULL. */
static int verify_top(Verification *v, size_t omitted, const char *top, Error *e)
{
        _cleanup_(layer_done) Layer made = {.temporary = STORE_TEMPORARY_NULL};

        int r = attributes_layer(v->store, v->layers + omitted, v->n_layers - omitted, &made, e);
        if (r < 0 || (made.id && top ? is_made(top, made.id) : made.id == top))
                return r < 0 ? r : 0;
        return report(v, "layers", made.id ? DIFFERENCE_CONTENT : DIFFERENCE_ADDED, made.id, top, e);
}

static int verify_list(Verification *v, Error *e)
{
        size_t n = strv_length(v->ids), omitted = 0;
        const char *top = NULL;

        /* The uppermost one can be no layer of the config. */
        if (n > 0 && (v->n_layers == 0 || !matches(&v->layers[v->n_layers - 1], v->ids[n - 1])))
                top = v->ids[--n];
        int r = match_layers(v, n, &omitted, e);
        for (size_t i = omitted; r > 0 && i < v->n_layers; i++)
                if (!layer_is_there(v->store, &v->layers[i]))
                        return 0; /* image_verify() has reported it */
        if (r > 0)
                r = verify_omitted(v, omitted, e);
        return r > 0 ? verify_top(v, omitted, top, e) : r;
}

int oci_image_verify(Store *s, const char *id, RecordCheck *check, Error *e)
{
        _cleanup_(verification_done) Verification v = {.store = s, .check = check};
        _cleanup_image_info_ ImageInfo info = {};
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = image_id_check(id, e);
        if (r < 0)
                return r;
        if (xasprintf(&path, "images/%s", id) < 0)
                return error_oom(e);
        fd = open_beneath(s->fd, path, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot open the image %s", id);
        /* image_verify() reports an info file that cannot be read. */
        if (image_info_read(fd, &info, NULL) < 0 || info.kind != IMAGE_KIND_OCI)
                return 0;
        r = verify_config(&v, fd, id, e);
        if (r > 0)
                r = read_list(&v, fd, e);
        if (r > 0)
                r = layers_of_config(v.config, &v.layers, &v.n_layers, e);
        return r < 0 || !v.layers ? r : verify_list(&v, e);
}

int oci_image_check_unaltered(Store *s, const char *id, Error *e)
{
        _cleanup_record_check_ RecordCheck check = {.n_max = 1};

        int r = oci_image_verify(s, id, &check, e);
        if (r < 0 || check.n_found == 0)
                return r;
        const Difference *d = check.differences;
        r = error_set(e, -EBADMSG, "The image %s was altered in the store: '%s' (%s)", id, d->path,
                      difference_kind_to_string(d->kind));
        return error_hint(e, r, "'acnspawn image verify all' shows everything that was altered.");
}
