/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Imports an OCI image: from its reference by index and manifest to the config and the layers, each checked
 * against the digest in the referring document.
 *
 * Nothing is published in the store before everything has been read. Then, with the store's lock held, so
 * that layers without an image are not collected, the layers are renamed into place and last the image.
 * Layers that existed at the first check may have been removed by then: they are read after all, and
 * publishing is repeated. If the process is killed, the store has either nothing, or layers that the next
 * collection removes, or the image.
 */

#include "library/libcrypto.h"
#include "prepare/oci/oci-internal.h"

#define INDEX_DEPTH_MAX 4U /* depth of nested indices */
#define PUBLISH_TRIES 8U

typedef struct Import {
        Store *store;
        OciSource *source;
        const OciImportOptions *options;
        char *manifest_digest;
        OciManifest *manifest;
        char *config_text;
        size_t config_size;
        OciConfig *config;
        char *id;
        ImageManifest *image;
        char *image_text;
        ImageInfo info;
        Layer *layers; /* lowest first */
        size_t n_layers;
} Import;

static void import_done(Import *i)
{
        for (size_t k = 0; k < i->n_layers; k++)
                layer_done(&i->layers[k]);
        free(i->layers);
        free(i->manifest_digest);
        (void) oci_manifest_free(i->manifest);
        free(i->config_text);
        (void) oci_config_free(i->config);
        free(i->id);
        (void) image_manifest_free(i->image);
        free(i->image_text);
        image_info_done(&i->info);
}

/* --- Manifest ------------------------------------------------------------------------------------------ */

typedef struct Document {
        char *text, *media_type;
        size_t size;
        OciKind kind;
} Document;

static void document_done(Document *d)
{
        free(d->text);
        free(d->media_type);
        *d = (Document){};
}

/* D: the descriptor of the document; NULL: it is that of the reference. */
static int get_document(Import *i, const OciDescriptor *d, Document *ret, Error *e)
{
        _cleanup_(document_done) Document x = {};

        int r = i->source->vtable->get_manifest(i->source, d ? d->digest : NULL, &x.text, &x.size,
                                                &x.media_type, e);
        if (r < 0)
                return r;
        if (d && x.size != d->size)
                return error_set(e, -EBADMSG, "The manifest %s has %zu bytes instead of %" PRIu64, d->digest,
                                 x.size, d->size);
        if (d)
                r = digest_check_bytes(d->digest, x.text, x.size, "The manifest", e);
        if (r >= 0)
                r = oci_document_kind(x.text, x.size, d ? d->media_type : x.media_type, &x.kind, e);
        if (r < 0)
                return r;
        document_done(ret);
        *ret = TAKE_GENERIC(x, Document, (Document){});
        return 0;
}

/* Follows an index to the image for this host. */
static int follow_index(Import *i, Document *d, Error *e)
{
        _cleanup_(oci_index_freep) OciIndex *index = NULL;
        const OciDescriptor *chosen;

        int r = oci_index_parse(d->text, d->size, &index, NULL, e);
        if (r >= 0)
                r = oci_index_select(index, host_os_label(), host_arch_label(), &chosen, e);
        return r < 0 ? r : get_document(i, chosen, d, e);
}

static int read_manifest(Import *i, Error *e)
{
        _cleanup_(document_done) Document d = {};

        int r = get_document(i, NULL, &d, e);
        for (unsigned depth = 0; r >= 0 && d.kind == OCI_KIND_INDEX; depth++) {
                if (depth >= INDEX_DEPTH_MAX)
                        return error_set(e, -ELOOP, "Image indices are nested more than %u deep",
                                         INDEX_DEPTH_MAX);
                r = follow_index(i, &d, e);
        }
        if (r >= 0)
                r = oci_manifest_parse(d.text, d.size, &i->manifest, NULL, e);
        if (r >= 0)
                r = oci_manifest_check_image(i->manifest, e);
        if (r >= 0 && digest_bytes("sha256:", d.text, d.size, &i->manifest_digest) < 0)
                r = error_oom(e);
        return r;
}

/* --- Config -------------------------------------------------------------------------------------------- */

/* 1: it does not match its digest, and another place can be asked. */
static int try_config_blob(Import *i, Error *e)
{
        const OciDescriptor *d = &i->manifest->config;
        const OciSourceVTable *v = i->source->vtable;
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *text = NULL;

        int r = v->open_blob(i->source, d, &fd, e);
        if (r < 0)
                return r;
        text = malloc(d->size + 1);
        if (!text)
                return error_oom(e);
        ssize_t n = loop_read(fd, text, d->size);
        if (n < 0)
                return error_set_errno(e, (int) n, "Cannot read the image's config");
        if ((uint64_t) n != d->size)
                return error_set(e, -EBADMSG, "The image's config has %zd bytes instead of %" PRIu64, n,
                                 d->size);
        text[n] = 0;
        r = digest_check_bytes(d->digest, text, (size_t) n, "The image's config", e);
        if (r == -EBADMSG && v->reject_blob && v->reject_blob(i->source, d) > 0)
                return 1;
        if (r < 0)
                return r;
        i->config_text = TAKE_PTR(text);
        i->config_size = (size_t) n;
        return 0;
}

static int read_config_blob(Import *i, Error *e)
{
        int r;

        if (i->manifest->config.size > MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The image's config is longer than %u bytes", MANIFEST_SIZE_MAX);
        do
                r = try_config_blob(i, e);
        while (r > 0);
        return r;
}

static int make_id(Import *i, Error *e)
{
        _cleanup_free_ char *digest = NULL;

        if (digest_bytes("sha512:", i->config_text, i->config_size, &digest) < 0 ||
            xasprintf(&i->id, IMAGE_ID_PREFIX "%s", digest + strlen("sha512:")) < 0)
                return error_oom(e);
        return 0;
}

static void show_warnings(const Import *i, const Findings *f)
{
        for (size_t k = 0; k < f->n_warnings; k++) {
                _cleanup_free_ char *shown = text_escape_for_terminal(f->warnings[k].path);
                operation_message(i->store->operation, LOG_LEVEL_WARNING,
                                  "The config of the image %s: %s: %s", i->source->image_name, shown ?: "?",
                                  f->warnings[k].message);
        }
}

static int read_config(Import *i, Error *e)
{
        _cleanup_findings_ Findings findings = {};
        int r = read_config_blob(i, e);

        if (r >= 0)
                r = oci_config_parse(i->config_text, i->config_size, &i->config, &findings, e);
        if (r >= 0)
                r = oci_config_to_image_manifest(i->config, i->source->image_name, i->source->image_version,
                                                 &i->image, &findings, e);
        if (r >= 0)
                r = make_id(i, e);
        if (r < 0)
                return r;
        show_warnings(i, &findings);
        r = image_manifest_format(i->image, &i->image_text);
        return r < 0 ? error_set_errno(e, r, "Cannot write the image's manifest") : 0;
}

/* --- Layers -------------------------------------------------------------------------------------------- */

static int list_layers(Import *i, Error *e)
{
        size_t n = strv_length(i->config->diff_ids);

        if (n >= OCI_LAYERS_MAX)
                return error_set(e, -E2BIG, "The image has more than %u layers", OCI_LAYERS_MAX - 1);
        if (n != i->manifest->n_layers)
                return error_set(e, -EBADMSG, "The image's manifest has %zu layers, but its config has %zu",
                                 i->manifest->n_layers, n);
        int r = layers_of_config(i->config, &i->layers, &i->n_layers, e);
        for (size_t k = 0; k < i->n_layers; k++)
                i->layers[k].descriptor = &i->manifest->layers[i->layers[k].number - 1];
        return r;
}

/* Omits layers below one that hides all of them, as overlayfs would not hide them, and adds the additional
 * top layer. */
static int complete_layers(Import *i, Error *e)
{
        size_t lowest = i->n_layers;
        int r = 0;

        while (lowest > 0 && r == 0)
                r = layer_hides_all(i->store, &i->layers[--lowest], e);
        if (r < 0)
                return r;
        for (size_t k = 0; k < lowest; k++)
                layer_done(&i->layers[k]);
        memmove(i->layers, i->layers + lowest, (i->n_layers - lowest) * sizeof(Layer));
        i->n_layers -= lowest;
        r = attributes_layer(i->store, i->layers, i->n_layers, &i->layers[i->n_layers], e);
        if (r > 0)
                i->n_layers++;
        return r;
}

/* The file "layers": uppermost first. */
static int format_layers(const Import *i, Text *t, Error *e)
{
        for (size_t k = i->n_layers; k-- > 0;)
                text_addf(t, "%s\n", i->layers[k].id);
        return t->failed ? error_oom(e) : 0;
}

/* --- The image ----------------------------------------------------------------------------------------- */

static int fill_info(Import *i, Error *e)
{
        i->info = (ImageInfo){
                        .import_time = now_usec(CLOCK_REALTIME),
                        .kind = IMAGE_KIND_OCI,
                        .origin = strdup(i->source->reference),
                        .reference = strdup(i->source->reference),
                        .config_digest = strdup(i->manifest->config.digest),
                        .archive_size = i->manifest->config.size,
        };
        if (!i->source->layers_by_diff_id) /* otherwise the manifest was generated */
                i->info.manifest_digest = TAKE_PTR(i->manifest_digest);
        if (!i->info.origin || !i->info.reference || !i->info.config_digest)
                return error_oom(e);
        for (size_t k = 0; k < i->n_layers; k++) {
                uint64_t size = 0;
                int r = layer_read_size(i->store, &i->layers[k], &size, e);
                if (r < 0)
                        return r;
                if (__builtin_add_overflow(i->info.size, size, &i->info.size) ||
                    __builtin_add_overflow(i->info.archive_size, i->layers[k].descriptor->size,
                                           &i->info.archive_size))
                        return error_set(e, -EOVERFLOW, "The image's layers have an absurd size");
        }
        return 0;
}

static int write_image(Import *i, int dir_fd, Error *e)
{
        _cleanup_text_ Text layers = {};

        int r = format_layers(i, &layers, e);
        if (r < 0)
                return r;
        r = write_file_new_at(dir_fd, "manifest", i->image_text, strlen(i->image_text), 0644);
        if (r >= 0)
                r = write_file_new_at(dir_fd, "config", i->config_text, i->config_size, 0644);
        if (r >= 0)
                r = write_file_new_at(dir_fd, "layers", layers.data ?: "", layers.size, 0644);
        if (r >= 0)
                r = write_file_new_at(dir_fd, "used", "", 0, 0644);
        if (r < 0)
                return error_set_errno(e, r, "Cannot write the image's files to the store");
        r = image_info_write(dir_fd, &i->info, false, e);
        return r < 0 ? r : record_write(dir_fd, NULL, i->store->operation, e);
}

static int publish_layers(Import *i, Error *e)
{
        for (size_t k = 0; k < i->n_layers; k++) {
                Layer *l = &i->layers[k];
                _cleanup_free_ char *path = NULL;

                if (!l->temporary.name)
                        continue;
                if (layer_path(l, &path) < 0)
                        return error_oom(e);
                int r = store_temporary_publish(&l->temporary, path, e);
                if (r < 0)
                        return r;
                if (r == 0) /* it was imported otherwise meanwhile, or was not known to be of this blob */
                        layer_note_blob(i->store, l);
        }
        return 0;
}

/* 1: the image is in the store now; 0: it already was; -EAGAIN: a layer was removed. */
static int publish(Import *i, StoreTemporary *image, Error *e)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int lock = -EBADF;

        if (xasprintf(&path, "images/%s", i->id) < 0)
                return error_oom(e);
        int r = store_lock_shared(i->store, &lock, e);
        if (r < 0)
                return r;
        for (size_t k = 0; k < i->n_layers; k++)
                if (!i->layers[k].temporary.name && !layer_is_there(i->store, &i->layers[k]))
                        return -EAGAIN;
        r = publish_layers(i, e);
        return r < 0 ? r : store_temporary_publish(image, path, e);
}

/* Whether a layer is not in the store any more that was there when it was looked for. */
static bool has_lost_layers(const Import *i)
{
        for (size_t k = 0; k < i->n_layers; k++) {
                const Layer *l = &i->layers[k];
                if (l->need != LAYER_NEEDS_ALL && !l->temporary.name && !layer_is_there(i->store, l))
                        return true;
        }
        return false;
}

/* -EAGAIN: a layer was removed meanwhile; what was read is kept. */
static int read_layers(Import *i, Error *e)
{
        int r = layers_read(i->store, i->source, i->layers, i->n_layers, i->options, e);

        if (operation_ended(r) || r == -ENOMEM || !has_lost_layers(i))
                return r;
        error_done(e);
        return -EAGAIN;
}

static int import_layers(Import *i, StoreTemporary *image, Error *e)
{
        for (unsigned tries = 0; tries < PUBLISH_TRIES; tries++) {
                int r = read_layers(i, e);
                if (r == -EAGAIN)
                        continue;
                if (r < 0)
                        return r;
                if (!image->name) {
                        r = complete_layers(i, e);
                        if (r >= 0)
                                r = fill_info(i, e);
                        if (r >= 0 && i->options->approve)
                                r = i->options->approve(i->id, i->image, &i->info, i->options->userdata, e);
                        if (r >= 0)
                                r = store_temporary_new(i->store, image, e);
                        if (r >= 0)
                                r = write_image(i, image->dir_fd, e);
                        if (r < 0)
                                return r;
                }
                r = publish(i, image, e);
                if (r != -EAGAIN)
                        return r;
        }
        return error_set(e, -EAGAIN, "Layers that the image shares with others were removed repeatedly");
}

static int import(Import *i, Image **ret, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary temporary = STORE_TEMPORARY_NULL;
        _cleanup_(image_freep) Image *image = NULL;

        int r = read_manifest(i, e);
        if (r >= 0)
                r = read_config(i, e);
        if (r >= 0)
                r = list_layers(i, e);
        if (r < 0)
                return r;
        int published = import_layers(i, &temporary, e);
        if (published < 0)
                return published;
        r = image_open(i->store, i->id, &image, e);
        if (r >= 0 && published == 0)
                r = image_info_update(image, &i->info, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(image);
        return 0;
}

int oci_import(Store *s, OciSource *src, const OciImportOptions *o, Image **ret, Error *e)
{
        static const OciImportOptions none = {};
        _cleanup_(import_done) Import i = {.store = s, .source = src, .options = o ?: &none};
        _cleanup_free_ char *shown = text_escape_for_terminal(src->reference);

        int r = library_load(&crypto_library, e);
        if (r >= 0)
                r = import(&i, ret, e);
        return r < 0 ? error_prefix(e, r, "Cannot import %s", shown ?: "the image") : 0;
}
