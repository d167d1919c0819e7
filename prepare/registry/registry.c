/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A registry as a source of OCI images (OCI distribution specification, "Pull").
 *
 * A reference is mapped to one or more places: mirrors, then the registry itself. Each is requested in turn
 * until one has the document; results of earlier requests (a place did not answer, or had the manifest)
 * determine the first place of the next request. Failures of a mirror are reported, and are never fatal.
 *
 * A manifest requested by digest is checked against it here, so that a place with wrong data is skipped like
 * one without the manifest; for blobs see blobs.c. The manifest of a tag is determined by the registry; its
 * digest is computed, and compared with the one that the registry claims.
 */

#include "library/libcrypto.h"
#include "prepare/registry/source.h"

static void registry_source_free(OciSource *s)
{
        RegistrySource *r = (RegistrySource *) s;

        oci_source_done(&r->source);
        registry_reference_done(&r->reference);
        for (size_t i = 0; i < r->n_endpoints; i++)
                endpoint_done(r->endpoints + i);
        free(r->endpoints);
        blob_origins_done(r);
        strv_free(r->accept);
        free(r->digest);
        free(r->kept);
        free(r->kept_media_type);
        (void) pthread_mutex_destroy(&r->lock);
        free(r);
}

/* --- Trying the places --------------------------------------------------------------------------------- */

static bool is_unreachable(Endpoint *p)
{
        (void) pthread_mutex_lock(&p->lock);
        bool unreachable = p->unreachable;
        (void) pthread_mutex_unlock(&p->lock);
        return unreachable;
}

static size_t get_preferred(RegistrySource *r)
{
        (void) pthread_mutex_lock(&r->lock);
        size_t n = r->preferred;
        (void) pthread_mutex_unlock(&r->lock);
        return n;
}

static void set_preferred(RegistrySource *r, size_t n)
{
        (void) pthread_mutex_lock(&r->lock);
        r->preferred = n;
        (void) pthread_mutex_unlock(&r->lock);
}

/* Notes that a place failed and the next one is tried. */
static void note_failure(const RegistrySource *r, const Endpoint *p, const Error *e)
{
        Notes notes = {r->options.note, r->options.userdata};

        notes_add(&notes, "%s '%s' failed, trying the next: %s",
                  p->place.mirror ? "The mirror" : "The registry", p->place.host,
                  e->message ?: "unknown error");
}

/* Keeps WHY as the error to return, if it is of the registry itself, or if there is none of that. */
static void keep_failure(const Endpoint *p, int code, Error *why, int *ret, Error *e)
{
        if (*ret < 0 && p->place.mirror && !operation_ended(code) && code != -ENOMEM)
                return;
        *ret = code;
        (void) error_move(e, why);
}

int ask_places(RegistrySource *r, AskPlace ask, void *userdata, Error *e)
{
        size_t preferred = get_preferred(r), n_left = r->n_endpoints;
        int result = 0;

        for (size_t k = 0; k <= r->n_endpoints; k++) {
                size_t i = k == 0 ? preferred : k - 1;
                Endpoint *p = r->endpoints + i;
                _cleanup_error_ Error why = ERROR_NULL;

                if (k > 0 && i == preferred)
                        continue;
                n_left--;
                if (is_unreachable(p) && (n_left > 0 || result < 0))
                        continue;
                int q = ask(r, p, userdata, &why);
                if (q >= 0) {
                        set_preferred(r, i);
                        return q;
                }
                if (n_left > 0 && !operation_ended(q) && q != -ENOMEM)
                        note_failure(r, p, &why);
                keep_failure(p, q, &why, &result, e);
                if (operation_ended(q) || q == -ENOMEM)
                        return q;
        }
        return result;
}

/* --- Manifests ----------------------------------------------------------------------------------------- */

typedef struct ManifestQuery {
        const char *digest; /* asked for, or NULL: by tag */
        const char *known;  /* the digest that we have already, or NULL */
        /* What came. With a KNOWN that still holds there is no text. */
        char *text, *media_type, *actual;
        size_t size;
} ManifestQuery;

static void manifest_query_done(ManifestQuery *m)
{
        free(m->text);
        free(m->media_type);
        free(m->actual);
}

/* The digest of TEXT, by the algorithm of LIKE. */
static int compute_digest(const char *text, size_t size, const char *like, char **ret)
{
        const char *algorithm = startswith(like ?: "", "sha512:") ? "sha512" : "sha256";
        unsigned char hash[EVP_MAX_MD_SIZE];
        _cleanup_free_ char *hex = NULL;
        unsigned n = 0;

        if (EVP_Digest(text, size, hash, &n, EVP_get_digestbyname(algorithm), NULL) != 1)
                return -ENOMEM;
        hex = hex_encode(hash, n);
        return hex ? xasprintf(ret, "%s:%s", algorithm, hex) : -ENOMEM;
}

/* That it is what was asked for, and what the registry says it is. */
static int check_manifest(const RegistrySource *r, const Endpoint *p, ManifestQuery *m, const char *claimed,
                          Error *e)
{
        _cleanup_free_ char *other = NULL, *shown = NULL;

        if (compute_digest(m->text, m->size, m->digest, &m->actual) < 0)
                return error_oom(e);
        if (m->digest && !streq(m->digest, m->actual))
                return error_set(e, -EBADMSG,
                                 "What the registry '%s' sends as the manifest %s of '%s' has the digest %s",
                                 p->place.host, m->digest, r->source.reference, m->actual);
        if (!claimed || m->digest)
                return 0;
        if (registry_digest_check(claimed, NULL) >= 0 &&
            compute_digest(m->text, m->size, claimed, &other) >= 0 && streq(other, claimed))
                return 0;
        shown = text_escape_for_terminal(claimed);
        return error_set(e, -EBADMSG,
                         "What the registry '%s' sends as the manifest of '%s' has the digest %s, but it "
                         "says '%s'",
                         p->place.host, r->source.reference, m->actual, shown ?: "?");
}

static int ask_manifest(RegistrySource *r, Endpoint *p, void *userdata, Error *e)
{
        _cleanup_(transfer_reply_done) TransferReply reply = TRANSFER_REPLY_NULL;
        _cleanup_free_ char *path = NULL, *what = NULL, *etag = NULL;
        ManifestQuery *m = userdata;

        manifest_query_done(m);
        m->text = m->media_type = m->actual = NULL;
        if (xasprintf(&path, "manifests/%s", m->digest ?: r->reference.tag) < 0 ||
            xasprintf(&what, "the manifest of %s", r->source.reference) < 0 ||
            (m->known && xasprintf(&etag, "\"%s\"", m->known) < 0))
                return error_oom(e);
        const EndpointRequest q = {.path = path,
                                   .what = what,
                                   .headers = r->accept,
                                   .etag = etag,
                                   .size_max = MANIFEST_SIZE_MAX,
                                   .has_alternatives = p->place.mirror};
        int k = endpoint_get(p, &q, &m->text, &m->size, &reply, e);
        if (k < 0)
                return k;
        if (reply.not_modified) {
                m->actual = strdup(m->known);
                return m->actual ? 0 : error_oom(e);
        }
        m->media_type = TAKE_PTR(reply.content_type);
        return check_manifest(r, p, m, reply.digest, e);
}

/* Requests the manifest of the reference. */
static int ask_reference(RegistrySource *r, const char *known, Error *e)
{
        _cleanup_(manifest_query_done) ManifestQuery m = {.digest = r->reference.digest, .known = known};

        int k = ask_places(r, ask_manifest, &m, e);
        if (k < 0)
                return k;
        free(r->digest);
        r->digest = TAKE_PTR(m.actual);
        free(r->kept);
        r->kept = TAKE_PTR(m.text);
        r->kept_size = m.size;
        free(r->kept_media_type);
        r->kept_media_type = TAKE_PTR(m.media_type);
        return 0;
}

static int registry_get_manifest(OciSource *s, const char *digest, char **ret, size_t *ret_size,
                                 char **ret_media_type, Error *e)
{
        RegistrySource *r = (RegistrySource *) s;
        _cleanup_(manifest_query_done) ManifestQuery m = {.digest = digest};
        int k;

        if (!digest) {
                k = r->kept ? 0 : ask_reference(r, NULL, e);
                if (k < 0)
                        return k;
                *ret = TAKE_PTR(r->kept);
                *ret_size = r->kept_size;
                *ret_media_type = TAKE_PTR(r->kept_media_type);
                return 0;
        }
        k = registry_digest_check(digest, e);
        if (k >= 0)
                k = ask_places(r, ask_manifest, &m, e);
        if (k < 0)
                return k;
        *ret = TAKE_PTR(m.text);
        *ret_size = m.size;
        *ret_media_type = TAKE_PTR(m.media_type);
        return 0;
}

const char *registry_source_digest(const OciSource *src)
{
        return ((const RegistrySource *) src)->digest;
}

int registry_source_unchanged(OciSource *src, const char *digest, Error *e)
{
        RegistrySource *r = (RegistrySource *) src;

        int k = registry_digest_check(digest, e);
        /* What a digest refers to does not change; but the registry has to give the document to the caller,
         * who may not be the one that fetched it. */
        if (k >= 0)
                k = ask_reference(r, r->reference.digest ? NULL : digest, e);
        return k < 0 ? k : streq(r->digest, digest);
}

/* --- Making one ---------------------------------------------------------------------------------------- */

/* Parses and completes. */
static int resolve(const char *s, const RegistriesConf *c, RegistryReference *ret, Error *e)
{
        _cleanup_(registry_reference_done) RegistryReference r = {};

        int k = registry_reference_parse(s, &r, e);
        if (k >= 0)
                k = registries_conf_complete(c, &r, e);
        if (k < 0)
                return k;
        *ret = r;
        r = (RegistryReference){};
        return 0;
}

static int format_url(const RegistryReference *r, char **ret)
{
        _cleanup_free_ char *text = NULL;

        int k = registry_reference_format(r, &text);
        return k < 0 ? k : xasprintf(ret, "docker://%s", text);
}

int registry_reference_resolve(const char *s, const RegistryOptions *o, char **ret, Error *e)
{
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_(registry_reference_done) RegistryReference r = {};

        /* What there is to say of the files is said by the source. */
        int k = registries_conf_load(o ? o->config_dirs : NULL, NULL, &c, e);
        if (k >= 0)
                k = resolve(s, &c, &r, e);
        if (k < 0)
                return k;
        return format_url(&r, ret) < 0 ? error_oom(e) : 0;
}

static int set_names(RegistrySource *r, Error *e)
{
        _cleanup_free_ char *text = NULL;

        if (format_url(&r->reference, &r->source.reference) < 0 ||
            registry_reference_format(&r->reference, &text) < 0)
                return error_oom(e);
        int k = oci_name_from_reference(text, &r->source.image_name, &r->source.image_version, e);
        for (size_t i = 0; k >= 0 && oci_manifest_media_types[i]; i++)
                if (strv_extendf(&r->accept, "Accept: %s", oci_manifest_media_types[i]) < 0)
                        return error_oom(e);
        return k;
}

static int set_places(RegistrySource *r, const RegistriesConf *c, Error *e)
{
        _cleanup_(registry_places_done) RegistryPlaces places = {};

        int k = registries_conf_places(c, &r->reference, &places, e);
        if (k < 0)
                return k;
        r->endpoints = calloc(places.n, sizeof(Endpoint));
        if (!r->endpoints)
                return error_oom(e);
        for (; r->n_endpoints < places.n; r->n_endpoints++)
                endpoint_init(r->endpoints + r->n_endpoints, places.items + r->n_endpoints, r->transfer,
                              &r->options);
        return 0;
}

int registry_source_new(Transfer *t, Store *s, const char *reference, const RegistryOptions *o,
                        OciSource **ret, Error *e)
{
        static const OciSourceVTable vtable = {
                        .get_manifest = registry_get_manifest,
                        .open_blob = registry_open_blob,
                        .free = registry_source_free,
                        .reject_blob = registry_reject_blob,
        };
        _cleanup_(registries_conf_done) RegistriesConf c = {};
        _cleanup_(oci_source_freep) OciSource *source = NULL;

        RegistrySource *r = calloc(1, sizeof(RegistrySource));
        if (!r)
                return error_oom(e);
        *r = (RegistrySource){
                        .source.vtable = &vtable, .transfer = t, .store = s, .options = o ? *o : r->options};
        (void) pthread_mutex_init(&r->lock, NULL);
        source = &r->source;
        const Notes notes = {r->options.note, r->options.userdata};
        int k = registries_conf_load(r->options.config_dirs, &notes, &c, e);
        if (k >= 0)
                k = resolve(reference, &c, &r->reference, e);
        if (k >= 0)
                k = set_names(r, e);
        if (k >= 0)
                k = set_places(r, &c, e);
        if (k < 0)
                return k;
        *ret = TAKE_PTR(source);
        return 0;
}
