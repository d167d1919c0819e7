/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Evaluates a file of signatures.
 *
 * gpg reports for each signature whether it is valid, and by which key; whether that key is trusted for this
 * image is decided here, by its prefixes. One valid signature by such a key is sufficient, regardless of the
 * others. If there is none, the message lists all of them, each with the fingerprint of its key, so that the
 * user can find out which key is missing, or which image is wrong.
 */

#include "prepare/trust/trust-internal.h"

#define FINGERPRINT_MIN 40U /* digits of one in full */

#define HINT_TRUST                                                                                          \
        "If you know whose key this is and trust it for this image, run: acnspawn trust --prefix=%s "       \
        "KEYFILE"
#define HINT_ALTERED "Fetch image and signature again; if that does not help, ask the signer."
#define HINT_RENEW                                                                                          \
        "If its owner has prolonged the key, give the new copy to 'acnspawn trust'; else the image has to " \
        "be "                                                                                               \
        "signed by another key."
#define HINT_SIGN_ANEW "Ask the signer to sign the image again."

typedef struct Reason {
        gpg_err_code_t code; /* what gpg says of the signature */
        const char *text;
        const char *hint;
        int error;
} Reason;

static const Reason reasons[] = {
                {GPG_ERR_BAD_SIGNATURE, "is bad: it was made of something else, or the image was altered",
                 HINT_ALTERED, -EBADMSG},
                {GPG_ERR_KEY_EXPIRED, "does not count, as the key has expired", HINT_RENEW, -EKEYREJECTED},
                {GPG_ERR_CERT_REVOKED, "does not count, as the key has been revoked",
                 "The image has to be signed by another key.", -EKEYREJECTED},
                {GPG_ERR_SIG_EXPIRED, "does not count any more, as it has expired", HINT_SIGN_ANEW,
                 -EKEYREJECTED},
                {GPG_ERR_DIGEST_ALGO, "does not count, as its digest algorithm is too weak", HINT_SIGN_ANEW,
                 -EKEYREJECTED},
                {GPG_ERR_WRONG_KEY_USAGE, "does not count, as the key is not one for signing",
                 HINT_SIGN_ANEW, -EKEYREJECTED},
                {GPG_ERR_NOT_TRUSTED, "is good, but the key is not trusted for it", HINT_TRUST,
                 -EKEYREJECTED},
                {GPG_ERR_NO_PUBKEY, "cannot be checked, as no such key is trusted", HINT_TRUST, -ENOKEY},
                {GPG_ERR_GENERAL, "cannot be checked by gpg", HINT_SIGN_ANEW, -EKEYREJECTED}, /* any other */
};

static const Reason *reason_of(gpg_err_code_t code)
{
        const Reason *r = reasons;

        while (r->code != code && r->code != GPG_ERR_GENERAL)
                r++;
        return r;
}

typedef struct Verdict {
        Trust *trust;
        const char *home, *name;
        Text text; /* of all signatures that do not count */
        const Reason *worst;
        Signer signer;
} Verdict;

void signer_done(Signer *s)
{
        free(s->fingerprint);
        free(s->user_id);
        free(s->prefix);
        free(s->key);
        free(s->stamp);
        *s = (Signer){};
}

/* The key of a signature; that of a subkey has the primary key with it. */
int key_get(const Operation *o, const char *home, const char *fingerprint, gpgme_key_t *ret, Error *e)
{
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        _cleanup_gpg_key_ gpgme_key_t key = NULL;
        GpgCall call;

        *ret = NULL;
        if (!fingerprint)
                return 0;
        int r = gpg_context_new(o, home, &c, e);
        if (r >= 0)
                r = gpg_call_begin(&call, o, e);
        if (r < 0)
                return r;
        gpgme_error_t err = gpgme_get_key(c, fingerprint, &key, 0);
        r = gpg_call_end(&call, e);
        if (r >= 0 && !err)
                *ret = TAKE_PTR(key);
        return r;
}

/* gpg names the key of a bad signature by the last digits of its fingerprint only. */
static bool is_fingerprint_of(gpgme_subkey_t k, const char *fingerprint)
{
        return k->fpr && endswith(k->fpr, fingerprint);
}

uint64_t key_expiry(gpgme_key_t key, const char *fingerprint)
{
        uint64_t first = 0;

        for (gpgme_subkey_t k = key->subkeys; k; k = k->next) {
                uint64_t t = k->expires > 0 ? (uint64_t) k->expires * 1000000U : 0;
                if (t > 0 && (k == key->subkeys || is_fingerprint_of(k, fingerprint)))
                        first = first > 0 ? MIN(first, t) : t;
        }
        return first;
}

/* gpg has checked all of this as well; it is checked again because the decision depends on it. */
gpg_err_code_t key_evaluate(gpgme_key_t key, const char *fingerprint)
{
        if (!key || !key->fpr)
                return GPG_ERR_NO_PUBKEY;
        if (key->revoked || key->disabled || key->invalid)
                return GPG_ERR_CERT_REVOKED;
        if (key->expired)
                return GPG_ERR_KEY_EXPIRED;
        for (gpgme_subkey_t k = key->subkeys; k; k = k->next)
                if (is_fingerprint_of(k, fingerprint))
                        return k->revoked || k->disabled || k->invalid ? GPG_ERR_CERT_REVOKED
                               : k->expired                            ? GPG_ERR_KEY_EXPIRED
                               : k->can_sign                           ? GPG_ERR_NO_ERROR
                                                                       : GPG_ERR_WRONG_KEY_USAGE;
        return GPG_ERR_NO_PUBKEY;
}

/* gpg itself takes SHA-1, of which two images with the same digest can be made. */
static bool digest_is_weak(gpgme_hash_algo_t digest)
{
        return digest == GPGME_MD_MD5 || digest == GPGME_MD_SHA1 || digest == GPGME_MD_RMD160;
}

/* Whether the signature counts. *RET_PREFIX: by which prefix. */
static gpg_err_code_t evaluate(const Verdict *v, gpgme_signature_t s, gpgme_key_t key,
                               const char **ret_prefix)
{
        gpg_err_code_t code = gpgme_err_code(s->status);

        if (!v->name && code == GPG_ERR_BAD_SIGNATURE)
                code = GPG_ERR_NO_ERROR; /* what it is of is not known yet */
        else if (code == GPG_ERR_NO_ERROR && (!s->fpr || strlen(s->fpr) < FINGERPRINT_MIN))
                code = GPG_ERR_GENERAL; /* good, but by whom? */
        if (code != GPG_ERR_NO_ERROR)
                return code;
        code = key_evaluate(key, s->fpr);
        if (code != GPG_ERR_NO_ERROR)
                return code;
        if (digest_is_weak(s->hash_algo))
                return GPG_ERR_DIGEST_ALGO;
        if (s->wrong_key_usage)
                return GPG_ERR_WRONG_KEY_USAGE;
        *ret_prefix = trust_find(v->trust, key->fpr, v->name);
        if (*ret_prefix)
                return GPG_ERR_NO_ERROR;
        return trust_find(v->trust, key->fpr, NULL) ? GPG_ERR_NOT_TRUSTED : GPG_ERR_NO_PUBKEY;
}

/* "FINGERPRINT (USER ID)", with the subkey if it is by one. */
static char *name_key(gpgme_signature_t s, gpgme_key_t key)
{
        _cleanup_(trust_key_done) TrustKey k = {};
        _cleanup_free_ char *name = NULL;
        char *text;

        if (!key)
                return strdup(s->fpr ?: "of unknown ID");
        if (key_describe(key, &k) < 0 || key_name(&k, &name) < 0)
                return NULL;
        if (!s->fpr || endswith(k.fingerprint, s->fpr))
                return TAKE_PTR(name);
        return xasprintf(&text, "%s, its subkey %s,", name, s->fpr) < 0 ? NULL : text;
}

static void add_reason(Verdict *v, gpgme_signature_t s, gpgme_key_t key, gpg_err_code_t code)
{
        _cleanup_free_ char *name = name_key(s, key);
        const Reason *r = reason_of(code);

        text_addf(&v->text, "%sthe signature by the key %s %s", v->worst ? "; " : "", name ?: "?", r->text);
        if (code == GPG_ERR_NOT_TRUSTED) {
                text_add(&v->text, ",");
                trust_add_prefixes(&v->text, v->trust, key->fpr);
        }
        if (r->code == GPG_ERR_GENERAL) {
                char text[128] = "";
                (void) gpgme_strerror_r(s->status, text, sizeof(text));
                text_addf(&v->text, " (%s)", text);
        }
        if (!v->worst || r < v->worst)
                v->worst = r;
}

static int take_signer(const Trust *t, gpgme_signature_t s, gpgme_key_t key, const char *prefix, Signer *ret)
{
        _cleanup_signer_ Signer signer = {
                        .signed_usec = (uint64_t) s->timestamp * 1000000U,
                        .expires_usec = (uint64_t) s->exp_timestamp * 1000000U,
                        .key_expires_usec = key_expiry(key, s->fpr),
        };

        signer.fingerprint = strdup(key->fpr);
        signer.user_id = strdup(key->uids ? key->uids->uid : "");
        signer.prefix = strdup(prefix);
        signer.key = strdup(s->fpr);
        signer.stamp = trust_stamp(t, key->fpr);
        if (!signer.fingerprint || !signer.user_id || !signer.prefix || !signer.key || !signer.stamp)
                return -ENOMEM;
        *ret = TAKE_GENERIC(signer, Signer, (Signer){});
        return 1;
}

/* 1: this one counts. */
static int evaluate_signature(Verdict *v, gpgme_signature_t s, Signer *ret, Error *e)
{
        _cleanup_gpg_key_ gpgme_key_t key = NULL;
        const char *prefix = NULL;

        int r = key_get(v->trust->operation, v->home, s->fpr, &key, e);
        if (r < 0)
                return r;
        gpg_err_code_t code = evaluate(v, s, key, &prefix);
        if (code == GPG_ERR_NO_ERROR)
                return take_signer(v->trust, s, key, prefix, ret) < 0 ? error_oom(e) : 1;
        add_reason(v, s, key, code);
        return 0;
}

static int refuse(Verdict *v, const char *what, Error *e)
{
        _cleanup_free_ char *text = NULL, *hint = NULL;

        if (!v->worst)
                return error_set(e, -EBADMSG, "Cannot accept %s: gpg finds no signature in it", what);
        if (text_take(&v->text, &text, NULL) < 0 ||
            xasprintf(&hint, v->worst->hint, v->name ?: "PREFIX") < 0)
                return error_oom(e);
        int r = error_set(e, v->worst->error, "Cannot accept %s%s%s%s: %s", what,
                          v->name ? " for the image '" : "", v->name ?: "", v->name ? "'" : "", text);
        return error_hint(e, r, "%s", hint);
}

int verdict(Trust *t, gpgme_ctx_t context, const char *what, const char *name, Signer *ret, Error *e)
{
        gpgme_verify_result_t result = gpgme_op_verify_result(context);
        Verdict v = {.trust = t, .name = name};
        _cleanup_signer_ Signer signer = {};

        int r = trust_home(t, &v.home, e);
        if (r < 0)
                return r;
        for (gpgme_signature_t s = result ? result->signatures : NULL; s && r == 0; s = s->next)
                r = evaluate_signature(&v, s, &signer, e);
        r = r > 0 ? 0 : r < 0 ? r : refuse(&v, what, e);
        text_done(&v.text);
        if (r >= 0 && ret)
                *ret = TAKE_GENERIC(signer, Signer, (Signer){});
        return r;
}
