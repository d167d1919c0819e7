/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* OCI and Docker images: from a registry, a layout, or an archive.
 *
 * The importer checks every byte against the requested digest. This file selects the source for a reference,
 * and records its result (known.c), that of a registry's reference with the digest of its manifest, so that one request
 * determines whether it is unchanged. Signatures of registries are not supported; the registry,
 * authenticated by TLS, decides what is fetched, except for a reference with a digest.
 */

#include "prepare/fetch/fetch-internal.h"
#include "prepare/oci/oci.h"
#include "prepare/registry/registry.h"

#define BLOBS_MAX 512U

typedef struct Blob {
        char *what;
        uint64_t done, total;
} Blob;

/* Progress of an image. The blobs are downloaded in parallel, and unpacked meanwhile; the user first sees
 * how much of all layers has been downloaded, and then how much of the downloaded data has been unpacked,
 * each with a constant total. */
typedef struct Pull {
        Fetcher *fetcher;
        const char *what;
        const char *reference;
        pthread_mutex_t lock; /* of what follows */
        Blob blobs[BLOBS_MAX];
        size_t n_blobs;
        uint64_t expected;   /* bytes of the required layers; 0: not known yet */
        uint64_t downloaded; /* of all blobs since the total is known, as far as reported */
        uint64_t before;     /* bytes downloaded before that: the config */
        bool remote;
} Pull;

static void pull_done(Pull *p)
{
        for (size_t i = 0; i < p->n_blobs; i++)
                free(p->blobs[i].what);
        (void) pthread_mutex_destroy(&p->lock);
}

static void blob_progress(const char *what, uint64_t done, uint64_t total, void *userdata)
{
        Pull *p = userdata;
        uint64_t all_done = 0;
        size_t i = 0;

        (void) pthread_mutex_lock(&p->lock);
        while (i < p->n_blobs && !streq(p->blobs[i].what, what))
                i++;
        if (i == p->n_blobs && i < BLOBS_MAX && (p->blobs[i].what = strdup(what)))
                p->n_blobs++;
        if (i < p->n_blobs) {
                p->blobs[i].done = done;
                p->blobs[i].total = total;
        }
        for (i = 0; i < p->n_blobs; i++)
                all_done += p->blobs[i].done;
        if (p->expected == 0) {
                p->before = all_done;
                all_done = 0;
        } else
                all_done = MIN(all_done - MIN(all_done, p->before), p->expected);
        /* Progress does not decrease if a blob is fetched again from elsewhere. */
        p->downloaded = all_done = MAX(p->downloaded, all_done);
        uint64_t expected = p->expected;
        bool show = expected == 0 || all_done < expected;
        (void) pthread_mutex_unlock(&p->lock);
        if (show)
                fetcher_progress(p->fetcher, p->what, OPERATION_DOWNLOADING, all_done, expected);
}

static void give_note(const char *line, void *userdata)
{
        const Pull *p = userdata;

        fetcher_note(p->fetcher, "%s", line);
}

static void import_progress(uint64_t done, uint64_t total, void *userdata)
{
        Pull *p = userdata;

        (void) pthread_mutex_lock(&p->lock);
        if (p->expected == 0)
                p->expected = total;
        bool show = !p->remote || p->downloaded >= p->expected;
        (void) pthread_mutex_unlock(&p->lock);
        if (show)
                fetcher_progress(p->fetcher, p->what, OPERATION_IMPORTING, done, total);
}

static int set_reference(const char *id, const ImageManifest *m, ImageInfo *info, void *userdata, Error *e)
{
        const Pull *p = userdata;
        char *copy = strdup(p->reference);

        if (!copy)
                return error_oom(e);
        free(info->reference);
        info->reference = copy;
        return operation_check(p->fetcher->store->operation, e);
}

static int import(Pull *p, OciSource *source, Image **ret, Error *e)
{
        const OciImportOptions o = {.approve = set_reference, .progress = import_progress, .userdata = p};

        return oci_import(p->fetcher->store, source, &o, ret, e);
}

/* Neither the path exists, nor what is before the name of an image in it. */
static bool is_missing(const char *body)
{
        const char *colon = strrchr(body, ':');
        _cleanup_free_ char *path = colon ? strndup(body, (size_t) (colon - body)) : NULL;

        return access(body, F_OK) < 0 && (!path || access(path, F_OK) < 0);
}

/* Hint for an invalid layout or archive. */
static int add_hint(const Reference *r, int code, Error *e)
{
        if (code == -ENOENT && e && !e->hint && is_missing(r->body))
                return error_hint(e, code, "Check the path.");
        if ((code != -EBADMSG && code != -ENOENT) || !e || e->hint || streq(r->body, "-"))
                return code;
        return error_hint(e, code,
                          "If it was copied or downloaded, repeat that; 'acnspawn validate' with its path "
                          "shows all errors.");
}

/* --- Registries ---------------------------------------------------------------------------------------- */

static Image *known_image(Fetcher *f, const char *place, Remote *ret)
{
        Image *i = NULL;

        if (remote_read(f->store, place, ret) < 0)
                return NULL;
        return fetcher_open(f, ret->image, &i, NULL) < 0 ? NULL : i;
}

static int not_known(Fetcher *f, const char *what, Error *e)
{
        int r = error_set(e, -ENOENT, "'%s' was not fetched into the store %s", what, store_path(f->store));

        return error_hint(e, r, "--pull-policy=never keeps it from being fetched.");
}

static int pull(Pull *p, const RegistryOptions *o, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_(oci_source_freep) OciSource *source = NULL;
        _cleanup_(image_freep) Image *known = NULL;
        _cleanup_remote_ Remote m = {};
        Fetcher *f = p->fetcher;
        Transfer *t;

        known = known_image(f, p->reference, &m);
        if (!known && f->options.policy == PULL_NEVER)
                return not_known(f, p->what, e);
        int r = 1;
        if (!known || f->options.policy == PULL_UPDATE) {
                fetcher_progress(f, p->what, OPERATION_LOOKING, 0, 0);
                r = fetcher_transfer(f, &t, e);
                if (r >= 0)
                        r = registry_source_new(t, f->store, p->reference, o, &source, e);
                if (r >= 0)
                        r = known && m.etag ? registry_source_unchanged(source, m.etag, e) : 0;
        }
        if (r > 0) {
                *ret = TAKE_PTR(known);
                *ret_found = true;
                return 0;
        }
        if (r == 0)
                r = import(p, source, ret, e);
        if (r < 0)
                return r;
        const Remote now = {.image = (*ret)->id, .etag = (char *) registry_source_digest(source)};
        (void) remote_write(f->store, p->reference, &now);
        return 0;
}

static int fetch_registry(Pull *p, const char *reference, Image **ret, bool *ret_found, Error *e)
{
        const RegistryOptions o = {
                        .insecure = p->fetcher->options.insecure,
                        .config_dirs = p->fetcher->options.config_dirs,
                        .login = p->fetcher->options.login,
                        .note = give_note,
                        .progress = blob_progress,
                        .userdata = p,
        };
        _cleanup_free_ char *place = NULL;

        int r = registry_reference_resolve(reference, &o, &place, e);
        if (r >= 0)
                r = fetcher_begin(p->fetcher, place, e);
        if (r < 0)
                return r;
        p->reference = place;
        p->remote = true;
        r = pull(p, &o, ret, ret_found, e);
        fetcher_end(p->fetcher, place);
        return r;
}

/* --- Layouts and archives ------------------------------------------------------------------------------ */

static int open_local(Fetcher *f, const Reference *r, OciSource **ret, Error *e)
{
        if (r->kind == REFERENCE_OCI)
                return oci_layout_open(r->body, r->tag, ret, e);
        if (r->kind == REFERENCE_OCI_ARCHIVE)
                return oci_archive_open(f->store, r->body, r->tag, ret, e);
        return docker_archive_open(f->store, r->body, r->tag, ret, e);
}

/* The image itself has only the reference of its last import. */
static void keep_place(Fetcher *f, const Reference *r, const Image *i)
{
        const Remote now = {.image = i->id};
        _cleanup_free_ char *place = NULL;
        _cleanup_remote_ Remote old = {};

        if (fetch_local_place(r, &place) >= 0 &&
            (remote_read(f->store, place, &old) < 0 || !streq_ptr(old.image, i->id)))
                (void) remote_write(f->store, place, &now);
}

int fetch_oci(Fetcher *f, const Reference *r, const char *what, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_(oci_source_freep) OciSource *source = NULL;
        _cleanup_(pull_done) Pull p = {.fetcher = f, .what = what, .lock = PTHREAD_MUTEX_INITIALIZER};

        if (f->options.signature)
                return error_set(e, -ENOTSUP,
                                 "--signature= is for image archives (.aci): '%s' has no signature of that "
                                 "kind",
                                 what);
        if (r->kind == REFERENCE_DOCKER)
                return fetch_registry(&p, r->body, ret, ret_found, e);
        int k = open_local(f, r, &source, e);
        if (k >= 0) {
                p.reference = source->reference;
                k = import(&p, source, ret, e);
        }
        if (k >= 0 && !streq(r->body, "-"))
                keep_place(f, r, *ret);
        return k < 0 ? add_hint(r, k, e) : k;
}
