/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks whether an OCI layout or a Docker archive is complete and valid: every document that can be reached
 * is parsed, every blob is read and compared with its size and digest, and the layers of images,
 * uncompressed, with their configs. Nothing is unpacked, and all errors are reported, not only the first.
 * Parts that are referenced more than once are read once; the number of parts is limited.
 */

#include "library/libcrypto.h"
#include "prepare/oci/check-internal.h"

#define BUFFER_SIZE (256U * 1024U)
#define CHECKED_NAME "example.com/image" /* any name: it is not shown */

static void check_done(Check *c)
{
        for (size_t i = 0; i < c->n_blobs; i++)
                oci_descriptor_done(&c->blobs[i].descriptor);
        free(c->blobs);
        for (size_t i = 0; i < c->n_images; i++) {
                free(c->images[i].config);
                strv_free(c->images[i].layers);
        }
        free(c->images);
        strv_free(c->bad);
        strv_free(c->layers);
        c->files = files_free(c->files);
}

/* --- Reporting ----------------------------------------------------------------------------------------- */

void check_report(Check *c, const char *document, const char *path, const char *message)
{
        c->n_findings++;
        c->report(document, path, message, false, c->userdata);
}

/* Reports the findings of a parser; or its error, if there are none. Returns 0, except for -ENOMEM. */
static int report_result(Check *c, const char *document, int r, const Findings *f, const Error *e)
{
        if (r == -ENOMEM)
                return r;
        for (size_t i = 0; i < f->n_warnings; i++)
                c->report(document, f->warnings[i].path, f->warnings[i].message, true, c->userdata);
        for (size_t i = 0; i < f->n; i++)
                check_report(c, document, f->items[i].path, f->items[i].message);
        if (r < 0 && f->n == 0)
                check_report(c, document, "", e->message ?: strerror(-r));
        return 0;
}

static int add_blob(Check *c, const OciDescriptor *d, BlobKind kind)
{
        for (size_t i = 0; i < c->n_blobs; i++)
                if (streq(c->blobs[i].descriptor.digest, d->digest) && c->blobs[i].kind == kind)
                        return 0;
        if (c->n_blobs >= BLOBS_MAX) {
                if (!c->too_many)
                        check_report(c, "index.json", "", "there are more parts than can be checked");
                c->too_many = true;
                return 0;
        }
        if (GREEDY_REALLOC(c->blobs, c->allocated, c->n_blobs + 1) < 0)
                return -ENOMEM;
        Blob *b = &c->blobs[c->n_blobs];
        *b = (Blob){.kind = kind};
        int r = oci_descriptor_copy(d, &b->descriptor);
        c->n_blobs += r >= 0;
        return r;
}

/* --- Documents ----------------------------------------------------------------------------------------- */

static int check_index(Check *c, const char *document, const char *text, size_t size)
{
        _cleanup_(oci_index_freep) OciIndex *index = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = oci_index_parse(text, size, &index, &findings, &e);
        r = report_result(c, document, r, &findings, &e);
        for (size_t i = 0; r >= 0 && index && i < index->n_manifests; i++)
                r = add_blob(c, &index->manifests[i], BLOB_DOCUMENT);
        return r;
}

static int blob_name(const OciDescriptor *d, char **ret)
{
        const char *colon = strchr(d->digest, ':');

        return xasprintf(ret, "blobs/%.*s/%s", (int) (colon - d->digest), d->digest, colon + 1);
}

/* *RET is valid until the next one is added. */
static int add_image(Check *c, CheckImage **ret)
{
        if (GREEDY_REALLOC(c->images, c->images_allocated, c->n_images + 1) < 0)
                return -ENOMEM;
        *ret = &c->images[c->n_images++];
        **ret = (CheckImage){};
        return 0;
}

/* Records an image, to be checked when all blobs have been read. */
static int note_image(Check *c, const OciManifest *m)
{
        CheckImage *i;
        int r = add_image(c, &i);

        if (r >= 0)
                r = blob_name(&m->config, &i->config);
        for (size_t k = 0; r >= 0 && k < m->n_layers; k++) {
                char *name;
                r = blob_name(&m->layers[k], &name);
                if (r >= 0)
                        r = strv_consume(&i->layers, name);
        }
        return r;
}

static int check_manifest(Check *c, const char *document, const char *text, size_t size)
{
        _cleanup_(oci_manifest_freep) OciManifest *m = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = oci_manifest_parse(text, size, &m, &findings, &e);
        r = report_result(c, document, r, &findings, &e);
        if (r < 0 || !m)
                return r;
        /* Artifacts that are not images are also allowed in a layout; their blobs are not parsed. */
        bool is_image = oci_manifest_check_image(m, NULL) >= 0;
        r = add_blob(c, &m->config, is_image ? BLOB_CONFIG : BLOB_LAYER);
        if (r >= 0 && is_image)
                r = note_image(c, m);
        for (size_t i = 0; r >= 0 && i < m->n_layers; i++)
                r = add_blob(c, &m->layers[i], BLOB_LAYER);
        return r;
}

/* A warning: an image can be valid and not usable on this host, for example one for another system in a multi-platform
 * index. */
static void report_unusable(Check *c, const char *document, const Error *why)
{
        c->report(document, "", why->message ?: "it cannot be used on this host", true, c->userdata);
}

/* Also converts the config, as a fetch does: the conversion reports members that are ignored. */
static int check_config(Check *c, const char *document, const char *text, size_t size)
{
        _cleanup_(image_manifest_freep) ImageManifest *image = NULL;
        _cleanup_(oci_config_freep) OciConfig *config = NULL;
        _cleanup_error_ Error e = ERROR_NULL, unusable = ERROR_NULL;
        _cleanup_findings_ Findings findings = {};

        int r = oci_config_parse(text, size, &config, &findings, &e);
        int k = r < 0 ? 0
                      : oci_config_to_image_manifest(config, CHECKED_NAME, NULL, &image, &findings,
                                                     &unusable);
        if (k == -ENOMEM)
                return k;
        r = report_result(c, document, r, &findings, &e);
        if (r >= 0 && k < 0)
                report_unusable(c, document, &unusable);
        return r;
}

static int check_document(Check *c, const Blob *b, const char *name, const char *text, size_t size)
{
        _cleanup_findings_ Findings none = {};
        _cleanup_error_ Error e = ERROR_NULL;
        OciKind kind;

        if (b->kind == BLOB_CONFIG)
                return check_config(c, name, text, size);
        int r = oci_document_kind(text, size, b->descriptor.media_type, &kind, &e);
        if (r < 0)
                return report_result(c, name, r, &none, &e);
        return kind == OCI_KIND_INDEX ? check_index(c, name, text, size)
                                      : check_manifest(c, name, text, size);
}

/* --- Blobs --------------------------------------------------------------------------------------------- */

/* Reads SIZE bytes, into TEXT if that is not NULL. 0: they match the digest; 1: they do not, which was
 * reported. */
static int compare_blob(Check *c, const OciDescriptor *d, const char *name, int fd, char *text, Error *e)
{
        _cleanup_free_ char *buffer = text ? NULL : malloc(BUFFER_SIZE), *digest = NULL;
        _cleanup_digester_ Digester digester = {};
        uint64_t done = 0;

        if ((!text && !buffer) || digester_init(&digester, d->digest) < 0)
                return error_oom(e);
        while (done < d->size) {
                size_t n = (size_t) MIN(d->size - done, (uint64_t) BUFFER_SIZE);
                char *p = text ? text + done : buffer;
                ssize_t k = loop_read(fd, p, n);
                int r = k < 0 ? error_set_errno(e, (int) k, "Cannot read %s", name)
                              : operation_check(c->operation, e);
                if (r < 0)
                        return r;
                digester_add(&digester, p, (size_t) k);
                done += (uint64_t) k;
                if ((size_t) k < n)
                        break;
        }
        if (digester_finish(&digester, &digest) < 0)
                return error_oom(e);
        if (streq(digest, d->digest))
                return 0;
        check_report(c, name, "", "its content does not match the digest in its name");
        return 1;
}

static int read_blob(Check *c, const Blob *b, const char *name, int fd, Error *e)
{
        const OciDescriptor *d = &b->descriptor;
        _cleanup_free_ char *text = NULL;

        if (b->kind != BLOB_LAYER && d->size > MANIFEST_SIZE_MAX) {
                check_report(c, name, "", "the document exceeds the size limit of documents");
                return 0;
        }
        if (b->kind != BLOB_LAYER && !(text = calloc(1, (size_t) d->size + 1)))
                return error_oom(e);
        int r = compare_blob(c, d, name, fd, text, e);
        if (r != 0 || !text)
                return MIN(r, 0);
        r = check_document(c, b, name, text, (size_t) d->size);
        return r == -ENOMEM ? error_oom(e) : r;
}

static int look_at_blob(Check *c, const Blob *b, const char *name, Error *e)
{
        const OciDescriptor *d = &b->descriptor;
        _cleanup_free_ char *message = NULL;
        _cleanup_close_ int fd = -EBADF;
        uint64_t size;

        int r = c->files->open(c->files, name, &fd, &size, e);
        if (r == -ENOENT) {
                check_report(c, name, "", "it does not exist");
                return 0;
        }
        if (r < 0)
                return r;
        if (size == d->size)
                return read_blob(c, b, name, fd, e);
        if (xasprintf(&message, "it has %" PRIu64 " bytes instead of %" PRIu64, size, d->size) < 0)
                return error_oom(e);
        check_report(c, name, "", message);
        return 0;
}

static int check_blob(Check *c, const Blob *b, Error *e)
{
        _cleanup_free_ char *name = NULL;
        uint64_t before = c->n_findings;

        if (blob_name(&b->descriptor, &name) < 0)
                return error_oom(e);
        int r = look_at_blob(c, b, name, e);
        if (r >= 0 && c->n_findings > before && strv_extend(&c->bad, name) < 0)
                r = error_oom(e);
        return r;
}

/* --- Layouts ------------------------------------------------------------------------------------------- */

typedef int (*DocumentCheck)(Check *c, const char *document, const char *text, size_t size);

/* Checks a mandatory document by its name. */
static int check_named(Check *c, const char *name, DocumentCheck check, Error *e)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = files_read(c->files, name, &text, &size, e);
        if (r == -ENOENT) {
                check_report(c, name, "", "it does not exist");
                return 0;
        }
        if (r >= 0 && check(c, name, text, size) < 0)
                return error_oom(e);
        return r;
}

static int check_marker(Check *c, const char *document, const char *text, size_t size)
{
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error why = ERROR_NULL;

        int r = oci_layout_parse(text, size, &findings, &why);
        return report_result(c, document, r, &findings, &why);
}

/* Checks an image whose config is valid. MANIFEST: the document that lists its layers. */
static int check_image(Check *c, const CheckImage *i, const char *manifest, Error *e)
{
        _cleanup_(oci_config_freep) OciConfig *config = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;

        if (strv_contains(c->bad, i->config))
                return 0;
        int r = files_read(c->files, i->config, &text, &size, e);
        if (r >= 0)
                r = oci_config_parse(text, size, &config, NULL, NULL);
        if (r < 0)
                return r == -ENOMEM ? error_oom(e) : 0; /* it was already reported */
        return check_layers(c, i->config, config, i->layers, manifest, e);
}

static int check_layout(Check *c, Error *e)
{
        int r = check_named(c, "oci-layout", check_marker, e);

        if (r >= 0)
                r = check_named(c, "index.json", check_index, e);
        for (size_t i = 0; r >= 0 && i < c->n_blobs; i++) {
                const Blob b = c->blobs[i]; /* the list may move */
                r = check_blob(c, &b, e);
        }
        for (size_t i = 0; r >= 0 && i < c->n_images; i++)
                r = check_image(c, &c->images[i], "the manifest", e);
        return r;
}

/* --- Docker archives ----------------------------------------------------------------------------------- */

static int check_docker_manifest(Check *c, const char *document, const char *text, size_t size)
{
        _cleanup_(docker_archive_freep) DockerArchive *a = NULL;
        _cleanup_findings_ Findings findings = {};
        _cleanup_error_ Error why = ERROR_NULL;

        int r = docker_archive_parse(text, size, &a, &findings, &why);
        r = report_result(c, document, r, &findings, &why);
        for (size_t i = 0; r >= 0 && a && i < a->n_images; i++) {
                CheckImage *image;
                r = add_image(c, &image);
                if (r >= 0)
                        *image = (CheckImage){.config = TAKE_PTR(a->images[i].config),
                                              .layers = TAKE_PTR(a->images[i].layers)};
        }
        return r;
}

static int check_docker(Check *c, Error *e)
{
        int r = check_named(c, "manifest.json", check_docker_manifest, e);

        for (size_t i = 0; r >= 0 && i < c->n_images; i++) {
                r = check_named(c, c->images[i].config, check_config, e);
                if (r >= 0)
                        r = check_image(c, &c->images[i], "manifest.json", e);
        }
        return r;
}

int oci_check(const char *path, OciCheckKind kind, const Operation *o, OciReport f, void *userdata, Error *e)
{
        _cleanup_(check_done) Check c = {.operation = o, .report = f, .userdata = userdata};

        int r = library_load(&crypto_library, e);
        if (r < 0)
                return r;
        r = kind == OCI_CHECK_LAYOUT ? files_open_directory(path, &c.files, e)
                                     : files_open_archive(NULL, path, o, &c.files, e);
        if (r >= 0)
                r = kind == OCI_CHECK_DOCKER_ARCHIVE ? check_docker(&c, e) : check_layout(&c, e);
        return r < 0 ? r : c.n_findings > 0;
}
