/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Keys: their properties, and a home of gpg with all trusted keys.
 *
 * The home with the trusted keys is made when it is first needed, and serves all checks. All files are
 * imported at once, as every start of gpg takes its time; they have been looked at before, so that what is
 * in one cannot pass for the end of another.
 */

#include "prepare/trust/trust-internal.h"

/* --- What is to be known of a key ---------------------------------------------------------------------- */

void trust_key_done(TrustKey *k)
{
        free(k->fingerprint);
        strv_free(k->user_ids);
        free(k->algorithm);
        free(k->prefix);
        free(k->path);
        free(k->problem);
        *k = (TrustKey){};
}

void trust_keys_done(TrustKeys *k)
{
        for (size_t i = 0; i < k->n; i++)
                trust_key_done(&k->items[i]);
        free(k->items);
        *k = (TrustKeys){};
}

static uint64_t key_time(long seconds)
{
        return seconds > 0 ? (uint64_t) seconds * 1000000 : 0;
}

int key_describe(gpgme_key_t key, TrustKey *ret)
{
        _cleanup_(trust_key_done) TrustKey k = {.revoked = key->revoked,
                                                .expired = key->expired,
                                                .invalid = key->invalid || key->disabled,
                                                .can_sign = key->can_sign};

        for (gpgme_user_id_t u = key->uids; u; u = u->next)
                if (!u->revoked && !u->invalid && strv_extend(&k.user_ids, u->uid) < 0)
                        return -ENOMEM;
        char *algorithm = key->subkeys ? gpgme_pubkey_algo_string(key->subkeys) : NULL;
        k.algorithm = strdup(algorithm ?: "?");
        gpgme_free(algorithm);
        k.fingerprint = key->fpr ? strdup(key->fpr) : NULL;
        if (!k.algorithm || !k.fingerprint)
                return -ENOMEM;
        k.created_usec = key->subkeys ? key_time(key->subkeys->timestamp) : 0;
        k.expires_usec = key->subkeys ? key_time(key->subkeys->expires) : 0;
        *ret = TAKE_GENERIC(k, TrustKey, (TrustKey){});
        return 0;
}

int key_name(const TrustKey *k, char **ret)
{
        _cleanup_free_ char *id = k->user_ids ? text_escape_for_terminal(k->user_ids[0]) : NULL;

        return xasprintf(ret, "%s%s%s%s", k->fingerprint, id ? " (" : "", id ?: "", id ? ")" : "");
}

static const TrustKey *find_key(const TrustKeys *keys, const char *fingerprint)
{
        for (size_t i = 0; i < keys->n; i++)
                if (streq(keys->items[i].fingerprint, fingerprint))
                        return &keys->items[i];
        return NULL;
}

/* --- Keys in a home of gpg ----------------------------------------------------------------------------- */

int keys_import(const Operation *o, const char *home, const void *data, size_t size, Error *e)
{
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        _cleanup_gpg_data_ gpgme_data_t d = NULL;
        GpgCall call;

        int r = gpg_context_new(o, home, &c, e);
        if (r >= 0)
                r = gpg_call_begin(&call, o, e);
        if (r < 0)
                return r;
        gpgme_error_t err = gpgme_data_new_from_mem(&d, data, size, 0);
        if (!err)
                err = gpgme_op_import(c, d);
        r = gpg_call_end(&call, e);
        if (r < 0)
                return r;
        return err ? gpg_fail(e, err, "Cannot import public keys") : 0;
}

static int list_one(gpgme_ctx_t c, TrustKeys *keys, Error *e)
{
        _cleanup_gpg_key_ gpgme_key_t key = NULL;
        gpgme_error_t err = gpgme_op_keylist_next(c, &key);

        if (gpgme_err_code(err) == GPG_ERR_EOF)
                return 0;
        if (err)
                return gpg_fail(e, err, "Cannot list public keys");
        if (GREEDY_REALLOC(keys->items, keys->allocated, keys->n + 1) < 0 ||
            key_describe(key, &keys->items[keys->n]) < 0)
                return error_oom(e);
        keys->n++;
        return 1;
}

static int list_all(gpgme_ctx_t c, TrustKeys *keys, Error *e)
{
        gpgme_error_t err = gpgme_op_keylist_start(c, NULL, 0);
        int r;

        if (err)
                return gpg_fail(e, err, "Cannot list public keys");
        do
                r = list_one(c, keys, e);
        while (r > 0);
        return r;
}

/* All keys of a home. */
static int list_keys(const Operation *o, const char *home, TrustKeys *ret, Error *e)
{
        _cleanup_trust_keys_ TrustKeys keys = {};
        _cleanup_gpg_context_ gpgme_ctx_t c = NULL;
        GpgCall call;

        int r = gpg_context_new(o, home, &c, e);
        if (r >= 0)
                r = gpg_call_begin(&call, o, e);
        if (r < 0)
                return r;
        int listed = list_all(c, &keys, e);
        r = gpg_call_end(&call, e);
        if (r < 0 || listed < 0)
                return r < 0 ? r : listed;
        *ret = TAKE_GENERIC(keys, TrustKeys, (TrustKeys){});
        return 0;
}

/* The keys of all files that count, in one go. */
static int import_together(Trust *t, const char *home, Error *e)
{
        _cleanup_text_ Text all = {};

        for (size_t i = 0; i < t->n_files; i++) {
                _cleanup_free_ unsigned char *keys = NULL;
                size_t n;

                if (trust_file_counts(&t->files[i]) &&
                    public_keys_decode(t->files[i].data, t->files[i].size, "", &keys, &n, NULL) >= 0)
                        text_add_bytes(&all, keys, n);
        }
        if (all.failed)
                return error_oom(e);
        return all.size > 0 ? keys_import(t->operation, home, all.data, all.size, e) : 0;
}

/* An invalid file may keep gpg from reading those after it: these are imported one by one. */
static int import_missing(Trust *t, const char *home, Error *e)
{
        _cleanup_trust_keys_ TrustKeys keys = {};
        int r = list_keys(t->operation, home, &keys, e);

        for (size_t i = 0; r >= 0 && i < t->n_files; i++) {
                const TrustFile *f = &t->files[i];
                _cleanup_free_ unsigned char *data = NULL;
                size_t n;

                if (trust_file_counts(f) && !find_key(&keys, f->fingerprint) &&
                    public_keys_decode(f->data, f->size, "", &data, &n, NULL) >= 0)
                        r = keys_import(t->operation, home, data, n, e);
        }
        return r;
}

static int make_home(Trust *t, Error *e)
{
        _cleanup_gpg_home_ GpgHome h = GPG_HOME_NULL;

        int r = gpg_home_new("lock-never\n", &h, e);
        if (r >= 0)
                r = import_together(t, h.path, e);
        if (r >= 0)
                r = import_missing(t, h.path, e);
        if (r < 0)
                return r;
        t->home = TAKE_GENERIC(h, GpgHome, GPG_HOME_NULL);
        t->has_home = true;
        return 0;
}

int trust_home(Trust *t, const char **ret, Error *e)
{
        pthread_mutex_lock(&t->mutex);
        int r = t->has_home ? 0 : make_home(t, e);
        if (r >= 0)
                *ret = t->home.path;
        pthread_mutex_unlock(&t->mutex);
        return r;
}

/* --- Looking ------------------------------------------------------------------------------------------- */

static int copy_key(const TrustKey *from, TrustKey *to)
{
        *to = *from;
        to->user_ids = NULL;
        to->fingerprint = strdup(from->fingerprint);
        to->algorithm = strdup(from->algorithm);
        return to->fingerprint && to->algorithm ? strv_copy(from->user_ids, &to->user_ids) : -ENOMEM;
}

static int list_file(const TrustFile *f, const TrustKeys *keys, TrustKey *k)
{
        const TrustKey *known = find_key(keys, f->fingerprint);
        int r = 0;

        if (known) {
                r = copy_key(known, k);
        } else {
                k->fingerprint = strdup(f->fingerprint);
                k->problem = strdup("the file holds no usable key of this fingerprint");
                r = k->fingerprint && k->problem ? 0 : -ENOMEM;
        }
        k->prefix = strdup(f->prefix);
        k->path = strdup(f->path);
        return r < 0 || !k->prefix || !k->path ? -ENOMEM : 0;
}

static int compare_keys(const void *a, const void *b)
{
        const TrustKey *x = a, *y = b;
        int r = strcmp(x->prefix, y->prefix);

        return r ?: strcmp(x->fingerprint, y->fingerprint) ?: strcmp(x->path, y->path);
}

int trust_list(Trust *t, TrustKeys *ret, char ***ret_strays, Error *e)
{
        _cleanup_trust_keys_ TrustKeys known = {}, keys = {};
        _cleanup_strv_free_ char **strays = NULL;
        const char *home;

        int r = trust_home(t, &home, e);
        if (r >= 0)
                r = list_keys(t->operation, home, &known, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < t->n_files; i++) {
                if (!trust_file_counts(&t->files[i]))
                        continue;
                if (GREEDY_REALLOC(keys.items, keys.allocated, keys.n + 1) < 0)
                        return error_oom(e);
                TrustKey *k = &keys.items[keys.n++];
                *k = (TrustKey){};
                if (list_file(&t->files[i], &known, k) < 0)
                        return error_oom(e);
        }
        if (strv_copy(t->strays, &strays) < 0)
                return error_oom(e);
        if (keys.n > 0)
                qsort(keys.items, keys.n, sizeof(TrustKey), compare_keys);
        *ret = TAKE_GENERIC(keys, TrustKeys, (TrustKeys){});
        if (ret_strays)
                *ret_strays = TAKE_PTR(strays);
        return 0;
}

static int import_and_list(const Operation *o, const char *home, const void *data, size_t size,
                           const char *what, TrustKeys *ret, Error *e)
{
        _cleanup_free_ unsigned char *binary = NULL;
        size_t n = 0;

        int r = public_keys_decode(data, size, what, &binary, &n, e);
        if (r >= 0)
                r = keys_import(o, home, binary, n, e);
        if (r >= 0)
                r = list_keys(o, home, ret, e);
        if (r < 0)
                return r;
        if (ret->n > 0)
                return 0;
        r = error_set(e, -EBADMSG, "Cannot use %s: gpg finds no valid key in it", what);
        return error_hint(e, r, "A key needs a user ID with a signature by the key itself.");
}

int trust_inspect_key(const void *data, size_t size, const char *what, const Operation *o, TrustKeys *ret,
                      Error *e)
{
        _cleanup_trust_keys_ TrustKeys keys = {};
        _cleanup_gpg_home_ GpgHome h = GPG_HOME_NULL;

        int r = gpg_home_new(NULL, &h, e);
        if (r >= 0)
                r = import_and_list(o, h.path, data, size, what, &keys, e);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(keys, TrustKeys, (TrustKeys){});
        return 0;
}
