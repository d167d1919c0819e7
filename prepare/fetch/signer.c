/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signers of images that are in the store.
 *
 * A signature is checked when an image is imported, and the image stays in the store. But if a key is no
 * longer trusted, or was revoked, images signed by it should not be used any more; so an image requested by
 * its name or its URL is used only if the signature would be accepted today. Requests by ID or by file are
 * not checked, since they identify the bytes. Neither are images that were imported without a signature from
 * a file or with INSECURE_SIGNATURE, as the user decided that. A key that discovery offered was trusted for
 * the command that fetched the image; a later command needs the option again, or trust in the key. An image
 * of a registry, which has no signature, is not taken for a name for which a key is trusted.
 *
 * Neither protocol can prove that a server has the newest version. A downgrade can be detected: an image
 * that was signed before the image of the same name and labels in the store is refused, whether it came over
 * the network or is what an earlier request of the same place resulted in.
 */

#include "prepare/fetch/fetch-internal.h"

/* The stored form of S; the strings stay owned by S. */
static ImageSigner describe(const Signer *s)
{
        return (ImageSigner){
                        .fingerprint = s->fingerprint,
                        .user_id = s->user_id,
                        .prefix = s->prefix,
                        .key = s->key,
                        .stamp = s->stamp,
                        .signed_time = s->signed_usec,
                        .expires = s->expires_usec,
                        .key_expires = s->key_expires_usec,
        };
}

/* The inverse of describe(). */
static Signer signer_from_image(const ImageSigner *s)
{
        return (Signer){
                        .fingerprint = s->fingerprint,
                        .user_id = s->user_id,
                        .prefix = s->prefix,
                        .key = s->key,
                        .stamp = s->stamp,
                        .signed_usec = s->signed_time,
                        .expires_usec = s->expires,
                        .key_expires_usec = s->key_expires,
        };
}

int signer_copy(const Signer *s, bool offered, ImageSigner *ret)
{
        ImageSigner x = describe(s);
        char **strings[] = {&x.fingerprint, &x.user_id, &x.prefix, &x.key, &x.stamp, &x.trust};
        int r = 0;

        if (offered) {
                x.stamp = NULL;
                x.trust = (char *) SIGNER_OFFERED;
        }
        for (size_t i = 0; i < ELEMENTSOF(strings); i++)
                if (*strings[i] && !(*strings[i] = strdup(*strings[i])))
                        r = -ENOMEM;
        /* RET owns what was copied, also on failure. */
        *ret = x;
        return r;
}

static bool was_offered(const Image *i)
{
        return streq_ptr(i->info.signer.trust, SIGNER_OFFERED);
}

/* The key was never trusted. */
static int refuse_offered(const Image *i, Error *why, Error *e)
{
        _cleanup_free_ char *hint = TAKE_PTR(why->hint);

        int r = error_set(e, -EKEYREJECTED,
                          "The image %s was signed by the key %s, which was offered by a server and "
                          "accepted for one command only: --insecure-options=pubkey",
                          i->manifest->name, i->info.signer.fingerprint);
        return hint ? error_hint(e, r, "%s", hint) : r;
}

int image_check_signer(const Image *i, const char *const *config_dirs, const Operation *o, Error *e)
{
        const ImageSigner *s = &i->info.signer;
        _cleanup_signer_ Signer now = {};
        _cleanup_error_ Error why = ERROR_NULL;

        if (!s->fingerprint)
                return 0;
        const Signer then = signer_from_image(s);
        int r = signer_check_again(config_dirs, i->manifest->name, &then, o, &now, &why);
        if (r == -EKEYREJECTED && was_offered(i))
                return refuse_offered(i, &why, e);
        if (r < 0)
                return error_move(e, &why);
        if (r > 0) { /* saves running gpg the next time; failure does not matter */
                const ImageSigner kept = describe(&now);
                (void) image_info_note_checked(i->dir_fd, &kept);
        }
        return 0;
}

static int add_ways_out(const Image *i, Error *e, int r)
{
        _cleanup_free_ char *first = e && e->hint ? strdup(e->hint) : NULL;

        return error_hint(e, r,
                          "%s%sIf it has been signed anew, fetch it with --pull-policy=update. 'acnspawn "
                          "image rm %.19s' removes it; --insecure-options=%s uses it all the same.",
                          first ?: "", first ? "\n" : "", i->id, was_offered(i) ? "pubkey" : "signature");
}

/* An image of a registry has the name of its repository. */
static int check_name(Fetcher *f, const Image *i, Error *e)
{
        const char *reference = i->info.reference ?: i->info.origin;
        Trust *trust;

        int r = fetcher_trust(f, &trust, e);
        if (r < 0 || !trust_covers(trust, i->manifest->name))
                return r;
        r = error_set(e, -EKEYREJECTED,
                      "The image %s in the store came from %s without a signature, but a key is trusted for "
                      "images of this name",
                      i->manifest->name, reference);
        return error_hint(e, r,
                          "If that image is meant, name it '%s', or by its ID. 'acnspawn image rm %.19s' "
                          "removes it; --insecure-options=signature uses it for the name.",
                          reference, i->id);
}

static int check(Fetcher *f, const Image *i, Error *e)
{
        if (!i->info.signer.fingerprint)
                return check_name(f, i, e);
        int r = image_check_signer(i, f->options.config_dirs, f->store->operation, e);
        return r == -EKEYREJECTED ? add_ways_out(i, e, r) : r;
}

/* The option by which an image is used nevertheless, or NULL. */
static const char *find_excuse(const Fetcher *f, const Image *i)
{
        if (f->options.insecure & INSECURE_SIGNATURE)
                return "signature";
        return f->options.insecure & INSECURE_PUBKEY && was_offered(i) ? "pubkey" : NULL;
}

/* Whether the check has been done or is not needed. */
static bool is_done(Fetcher *f, const Image *i)
{
        if (!i->info.signer.fingerprint && !image_is_of_registry(i))
                return true;
        f = fetcher_root(f);
        (void) pthread_mutex_lock(&f->lock);
        bool done = strv_contains(f->verified_images, i->id);
        (void) pthread_mutex_unlock(&f->lock);
        return done;
}

static int set_done(Fetcher *f, const Image *i, Error *e)
{
        f = fetcher_root(f);
        (void) pthread_mutex_lock(&f->lock);
        int r = strv_extend(&f->verified_images, i->id);
        (void) pthread_mutex_unlock(&f->lock);
        return r < 0 ? error_oom(e) : 0;
}

int fetcher_check_signer(Fetcher *f, const Image *i, Error *e)
{
        _cleanup_error_ Error error = ERROR_NULL;

        if (is_done(f, i))
                return 0;
        const char *excuse = find_excuse(f, i);
        int r = check(f, i, &error);
        if (r == -ENOMEM || operation_ended(r) || (r < 0 && !excuse))
                return error_move(e, &error);
        if (r < 0)
                fetcher_note(f, "%s; it is used nevertheless: --insecure-options=%s",
                             error.message ?: "The signer of an image cannot be checked", excuse);
        return set_done(f, i, e);
}

/* --- Downgrades ---------------------------------------------------------------------------------------- */

static bool has_same_labels(const ImageManifest *a, const ImageManifest *b)
{
        return a->labels.n == b->labels.n && image_name_matches(a->name, &a->labels, b);
}

/* An image that is about to be used for a reference. */
typedef struct Aged {
        Fetcher *fetcher;
        const char *what; /* for messages */
        const char *reference;
        const char *id;
        const ImageManifest *manifest;
        const char *fingerprint; /* of the key that signed it */
        uint64_t signed_usec;
        bool known; /* it is used without a request: a server has not said anything now */
} Aged;

/* Whether the signature of X counts: it is good today, or is by the same key as that of the image to be used,
 * which may be accepted for one command only. 1, 0; negative: the operation has ended. */
static int signature_counts(const Image *x, const Aged *a, Error *e)
{
        const Operation *o = a->fetcher->store->operation;

        if (streq_ptr(x->info.signer.fingerprint, a->fingerprint))
                return 1;
        int r = image_check_signer(x, a->fetcher->options.config_dirs, o, NULL);
        return r < 0 ? operation_check(o, e) : 1;
}

/* Whether X was fetched from the same place, and is not of an earlier version. BEFORE is the image that last came from there, or
 * NULL; the reference in the info of X is that of its last import, which may have been from elsewhere. */
static bool is_later_of_same_origin(const Image *x, const Aged *a, const char *before)
{
        return (streq_ptr(x->info.reference, a->reference) || streq_ptr(x->id, before)) &&
               streq(x->manifest->name, a->manifest->name) &&
               image_version_compare(pair_list_get(&x->manifest->labels, "version"),
                                     pair_list_get(&a->manifest->labels, "version")) >= 0;
}

static int refuse_older_signature(const Image *newer, const Aged *a, Error *e)
{
        const ImageManifest *m = a->manifest;
        _cleanup_free_ char *name = NULL, *then = format_utc(newer->info.signer.signed_time),
                            *now = format_utc(a->signed_usec);

        if (!then || !now || image_name_format(m->name, &m->labels, &name) < 0)
                return error_oom(e);
        int r = error_set(e, -ESTALE,
                          "The image %s was signed on %s, before the one of the same name and labels that "
                          "is in the store, which was on %s",
                          name, now, then);
        return error_hint(e, r,
                          "An attacker may offer an old image instead of a newer one. To use it "
                          "nevertheless, remove the other: acnspawn image rm %.19s",
                          newer->id);
}

static void note_step_back(const Image *newer, const Aged *a)
{
        _cleanup_free_ char *before = NULL, *after = NULL;

        if (image_name_format(newer->manifest->name, &newer->manifest->labels, &before) >= 0 &&
            image_name_format(a->manifest->name, &a->manifest->labels, &after) >= 0)
                fetcher_note(a->fetcher,
                             "%s came to %s before, and comes to %s now, which was signed earlier: if the "
                             "former was not withdrawn, an attacker may be withholding updates",
                             a->what, before, after);
}

/* Compares with the images in the store; INDEX is locked. */
static int compare(ImageIndex *index, const Aged *a, Error *e)
{
        _cleanup_remote_ Remote before = {};
        size_t n;
        int r = image_index_refresh(index, e);

        if (r < 0)
                return r;
        if (a->reference)
                (void) remote_read(a->fetcher->store, a->reference, &before);
        Image *const *images = image_index_images(index, &n);
        for (size_t i = 0; i < n; i++) {
                const Image *x = images[i];
                if (x->info.signer.signed_time <= a->signed_usec || streq(x->id, a->id))
                        continue;
                if (!has_same_labels(x->manifest, a->manifest) &&
                    !is_later_of_same_origin(x, a, before.image))
                        continue;
                r = signature_counts(x, a, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        continue;
                if (has_same_labels(x->manifest, a->manifest))
                        return refuse_older_signature(x, a, e);
                if (!a->known)
                        note_step_back(x, a);
        }
        return 0;
}

static int check_age(const Aged *a, Error *e)
{
        int r = compare(fetcher_lock_index(a->fetcher), a, e);

        fetcher_unlock_index(a->fetcher);
        return r;
}

int archive_check_age(const Archive *a, const char *id, const ImageManifest *m, Error *e)
{
        const Signer *s = &a->signer;

        return check_age(&(Aged){.fetcher = a->fetcher,
                                 .what = a->what,
                                 .reference = a->reference,
                                 .id = id,
                                 .manifest = m,
                                 .fingerprint = s->fingerprint,
                                 .signed_usec = s->signed_usec},
                         e);
}

int fetcher_check_age(Fetcher *f, const char *what, const char *reference, const Image *i, bool was_asked,
                      Error *e)
{
        const ImageSigner *s = &i->info.signer;
        const Aged a = {.fetcher = f,
                        .what = what,
                        .reference = reference,
                        .id = i->id,
                        .manifest = i->manifest,
                        .fingerprint = s->fingerprint,
                        .signed_usec = s->signed_time,
                        .known = !was_asked};

        return s->signed_time > 0 ? check_age(&a, e) : 0; /* an earlier version may not have recorded it */
}
