/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signers of images that are in the store.
 *
 * A signature is checked when an image is imported, and the image stays in the store. But if a key is no
 * longer trusted, or was revoked, images signed by it should not be used any more; so an image requested by
 * its name or its URL is used only if the signature would be accepted today. Requests by ID or by file are
 * not checked, since they identify the bytes. Neither are images that were imported without a signature, as
 * the user decided that, or with a key offered by discovery, which was trusted only once.
 *
 * Neither protocol can prove that a server has the newest version. A downgrade can be detected: an image
 * that was signed before the image of the same name and labels in the store is refused.
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

int image_check_signer(const Image *i, const char *const *config_dirs, const Operation *o, Error *e)
{
        const ImageSigner *s = &i->info.signer;
        _cleanup_signer_ Signer now = {};

        if (!s->fingerprint || streq_ptr(s->trust, SIGNER_OFFERED))
                return 0;
        const Signer then = signer_from_image(s);
        int r = signer_check_again(config_dirs, i->manifest->name, &then, o, &now, e);
        if (r > 0) { /* saves running gpg the next time; failure does not matter */
                const ImageSigner kept = describe(&now);
                (void) image_info_note_checked(i->dir_fd, &kept);
        }
        return r < 0 ? r : 0;
}

static int add_ways_out(const Image *i, Error *e, int r)
{
        _cleanup_free_ char *first = e && e->hint ? strdup(e->hint) : NULL;

        return error_hint(e, r,
                          "%s%sIf it has been signed anew, fetch it with --pull-policy=update. 'acnspawn "
                          "image rm %.19s' removes it; --insecure-options=signature uses it all the same.",
                          first ?: "", first ? "\n" : "", i->id);
}

/* Whether the check has been done or is not needed. */
static bool is_done(Fetcher *f, const Image *i)
{
        if (!i->info.signer.fingerprint)
                return true;
        (void) pthread_mutex_lock(&f->lock);
        bool done = strv_contains(f->verified_images, i->id);
        (void) pthread_mutex_unlock(&f->lock);
        return done;
}

static int set_done(Fetcher *f, const Image *i, Error *e)
{
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
        int r = image_check_signer(i, f->options.config_dirs, f->store->operation, &error);
        if (r == -ENOMEM || operation_ended(r) || (r < 0 && !(f->options.insecure & INSECURE_SIGNATURE))) {
                r = error_move(e, &error);
                return r == -EKEYREJECTED ? add_ways_out(i, e, r) : r;
        }
        if (r < 0)
                fetcher_note(f, "%s; it is used nevertheless: --insecure-options=signature",
                             error.message ?: "The signer of an image cannot be checked");
        return set_done(f, i, e);
}

/* --- Downgrades ---------------------------------------------------------------------------------------- */

static bool has_same_labels(const ImageManifest *a, const ImageManifest *b)
{
        return a->labels.n == b->labels.n && image_name_matches(a->name, &a->labels, b);
}

/* Whether X is of a later version than M, and was fetched from the same place. */
static bool is_later_version_of_same_origin(const Image *x, const Archive *a, const ImageManifest *m)
{
        return streq_ptr(x->info.reference, a->reference) && streq(x->manifest->name, m->name) &&
               image_version_compare(pair_list_get(&x->manifest->labels, "version"),
                                     pair_list_get(&m->labels, "version")) > 0;
}

static int refuse_older_signature(const Image *newer, const Archive *a, const ImageManifest *m, Error *e)
{
        _cleanup_free_ char *name = NULL, *then = format_utc(newer->info.signer.signed_time),
                            *now = format_utc(a->signer.signed_usec);

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

static void note_step_back(const Image *newer, const Archive *a, const ImageManifest *m)
{
        _cleanup_free_ char *before = NULL, *after = NULL;

        if (image_name_format(newer->manifest->name, &newer->manifest->labels, &before) >= 0 &&
            image_name_format(m->name, &m->labels, &after) >= 0)
                fetcher_note(a->fetcher,
                             "%s came to %s before, and comes to %s now, which was signed earlier: if the "
                             "former was not withdrawn, an attacker may be withholding updates",
                             a->what, before, after);
}

/* Compares with the images in the store; INDEX is locked. */
static int compare(ImageIndex *index, const Archive *a, const char *id, const ImageManifest *m, Error *e)
{
        size_t n;
        int r = image_index_refresh(index, e);

        if (r < 0)
                return r;
        Image *const *images = image_index_images(index, &n);
        for (size_t i = 0; i < n; i++) {
                const Image *x = images[i];
                if (x->info.signer.signed_time <= a->signer.signed_usec || streq(x->id, id))
                        continue;
                r = image_check_signer(x, a->fetcher->options.config_dirs, a->fetcher->store->operation,
                                       NULL);
                if (r < 0 && operation_check(a->fetcher->store->operation, e) < 0)
                        return r;
                if (r < 0)
                        continue;
                if (has_same_labels(x->manifest, m))
                        return refuse_older_signature(x, a, m, e);
                if (is_later_version_of_same_origin(x, a, m))
                        note_step_back(x, a, m);
        }
        return 0;
}

int archive_check_age(const Archive *a, const char *id, const ImageManifest *m, Error *e)
{
        int r = compare(fetcher_lock_index(a->fetcher), a, id, m, e);

        fetcher_unlock_index(a->fetcher);
        return r;
}
