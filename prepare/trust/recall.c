/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks again whether a signature that was valid at import is still valid.
 *
 * Trust ends in three ways. The file of the key was removed, or is for other names only: that is visible in
 * the directories. The key was revoked: that is known only from a new copy of the key, that is from a change
 * of its file. Or the key, or the signature, has expired: that time was known when it was checked. So the
 * stored information about a signature is these times, and the state of the files of its key; while these
 * are unchanged, gpg's result would be the same, and gpg is not run. This makes pods start faster.
 */

#include "prepare/trust/trust-internal.h"

#define HINT_TRUST "If you trust the key nevertheless, run: acnspawn trust --prefix=%s KEYFILE"
#define CANNOT_TELL "Cannot determine whether the signature of the image %s is still valid"
#define HINT_RENEW "If its owner has prolonged the key, give the new copy to 'acnspawn trust'."

/* A signature that is asked about. */
typedef struct Recheck {
        const char *image_name;
        const Signer *signer;
        Trust *trust; /* the files of its key */
} Recheck;

static int refuse(const Recheck *x, const char *why, uint64_t when, const char *hint, Error *e)
{
        const Signer *s = x->signer;
        _cleanup_free_ char *day = when > 0 ? format_utc(when) : NULL, *user = NULL;

        user = text_escape_for_terminal(s->user_id ?: "");
        int r = error_set(e, -EKEYREJECTED, "The image %s was signed by the key %s%s%s%s, %s%s%s",
                          x->image_name, s->fingerprint, isempty(user) ? "" : " (", user ?: "",
                          isempty(user) ? "" : ")", why, day ? " on " : "", day ?: "");
        return hint ? error_hint(e, r, "%s", hint) : r;
}

static int refuse_untrusted(const Recheck *x, Error *e)
{
        const char *fingerprint = x->signer->fingerprint;
        _cleanup_free_ char *why = NULL, *hint = NULL;
        _cleanup_text_ Text t = {};

        text_add(&t, "which is ");
        if (trust_find(x->trust, fingerprint, NULL)) {
                text_add(&t, "trusted");
                trust_add_prefixes(&t, x->trust, fingerprint);
        } else
                text_add(&t, "not trusted any more");
        if (text_take(&t, &why, NULL) < 0 || xasprintf(&hint, HINT_TRUST, x->image_name) < 0)
                return error_oom(e);
        return refuse(x, why, 0, hint, e);
}

/* gpg's current result for the key. */
static int evaluate(const Recheck *x, uint64_t *ret_expires, Error *e)
{
        const char *by = x->signer->key ?: x->signer->fingerprint, *home;
        _cleanup_gpg_key_ gpgme_key_t key = NULL;

        int r = trust_home(x->trust, &home, e);
        if (r < 0)
                return error_prefix(e, r, CANNOT_TELL, x->image_name);
        r = key_get(x->trust->operation, home, by, &key, e);
        if (r < 0)
                return error_prefix(e, r, CANNOT_TELL, x->image_name);
        switch (key_evaluate(key, by)) {
        case GPG_ERR_NO_ERROR:
                *ret_expires = key_expiry(key, by);
                return 0;
        case GPG_ERR_KEY_EXPIRED:
                return refuse(x, "which has expired", key_expiry(key, by), HINT_RENEW, e);
        case GPG_ERR_CERT_REVOKED:
                return refuse(x, "which has been revoked", 0, NULL, e);
        case GPG_ERR_NO_PUBKEY:
                return refuse(x, "of which there is no usable copy any more", 0, HINT_RENEW, e);
        default:
                return refuse(x, "which is not one for signing any more", 0, NULL, e);
        }
}

/* Takes the stamp. */
static int renew(const Signer *s, const char *prefix, char *stamp, uint64_t key_expires, Signer *ret)
{
        _cleanup_signer_ Signer n = {
                        .fingerprint = strdup(s->fingerprint),
                        .user_id = strdup(s->user_id ?: ""),
                        .prefix = strdup(prefix),
                        .key = strdup(s->key ?: s->fingerprint),
                        .stamp = stamp,
                        .signed_usec = s->signed_usec,
                        .expires_usec = s->expires_usec,
                        .key_expires_usec = key_expires,
        };

        if (!n.fingerprint || !n.user_id || !n.prefix || !n.key)
                return -ENOMEM;
        *ret = TAKE_GENERIC(n, Signer, (Signer){});
        return 1;
}

static int check(const Recheck *x, Signer *ret, Error *e)
{
        const Signer *s = x->signer;
        uint64_t now = now_usec(CLOCK_REALTIME), key_expires = s->key_expires_usec;
        _cleanup_free_ char *stamp = NULL;

        const char *prefix = trust_find(x->trust, s->fingerprint, x->image_name);
        if (!prefix)
                return refuse_untrusted(x, e);
        if (s->expires_usec > 0 && now >= s->expires_usec)
                return refuse(x, "and the signature has expired", s->expires_usec, NULL, e);
        stamp = trust_stamp(x->trust, s->fingerprint);
        if (!stamp)
                return error_oom(e);
        bool same = streq_ptr(stamp, s->stamp) && (key_expires == 0 || now < key_expires);
        if (same && streq_ptr(prefix, s->prefix))
                return 0;
        int r = same ? 0 : evaluate(x, &key_expires, e);
        if (r >= 0 && (r = renew(s, prefix, TAKE_PTR(stamp), key_expires, ret)) < 0)
                r = error_oom(e);
        return r;
}

int signer_check_again(const char *const *config_dirs, const char *image_name, const Signer *s,
                       const Operation *o, Signer *ret, Error *e)
{
        _cleanup_(trust_freep) Trust *t = NULL;

        int r = trust_open_key(config_dirs, s->fingerprint, o, &t, e);
        if (r < 0)
                return error_prefix(e, r, CANNOT_TELL, image_name);
        return check(&(Recheck){.image_name = image_name, .signer = s, .trust = t}, ret, e);
}
