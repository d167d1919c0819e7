/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fetches an image by its name: discovery (spec: discovery.md).
 *
 * Simple discovery comes first, as it needs no page; then the pages of the name and of the paths above it.
 * All locations that these list are tried in order until one has the image, complete, signed, and of the
 * requested name. If all fail, the error lists all attempts.
 */

#include "prepare/fetch/fetch-internal.h"

typedef struct Search {
        Fetcher *fetcher;
        const FetchTarget *target;
        PairList labels;
        char **attempts;
        char **tried; /* URLs of images already tried: pages often list that of simple discovery */
        int code;     /* error code: the first one other than "not found" */
        char *hint;
} Search;

static void search_done(Search *s)
{
        pair_list_done(&s->labels);
        strv_free(s->attempts);
        strv_free(s->tried);
        free(s->hint);
}

/* Local errors, after which further attempts are pointless. */
static bool is_final(int error)
{
        static const int final[] = {-EINTR, -ETIME, -ENOMEM, -ENOSPC, -EDQUOT,
                                    -EIO,   -EROFS, -EMFILE, -ENFILE};

        for (size_t i = 0; i < ELEMENTSOF(final); i++)
                if (error == final[i])
                        return true;
        return false;
}

static bool is_dead(int error)
{
        return error == -EHOSTUNREACH || error == -ECONNREFUSED || error == -ETIMEDOUT;
}

/* --- Trying -------------------------------------------------------------------------------------------- */

static int note_failure(Search *s, int code, Error *error, Error *e)
{
        if (is_final(code))
                return error_move(e, error);
        if (s->code == 0 || (s->code == -ENOENT && code != -ENOENT)) {
                s->code = code;
                free(s->hint);
                s->hint = TAKE_PTR(error->hint);
        }
        return discovery_note_attempt(&s->attempts, code, error) < 0 ? error_oom(e) : 0;
}

/* 1: fetched; 0: none of the locations had it. */
static int try_places(Search *s, const Discovery *d, Image **ret, bool *ret_found, Error *e)
{
        for (size_t i = 0; i < d->n_endpoints; i++) {
                _cleanup_error_ Error error = ERROR_NULL;
                const DiscoveryEndpoint *x = &d->endpoints[i];

                if (strv_contains(s->tried, x->image_url))
                        continue;
                if (strv_extend(&s->tried, x->image_url) < 0)
                        return error_oom(e);
                int r = fetch_url(s->fetcher, x->image_url, x->signature_url, s->target, d->pubkeys, ret,
                                  ret_found, &error);
                if (r >= 0)
                        return 1;
                r = note_failure(s, r, &error, e);
                if (r < 0)
                        return r;
        }
        STRV_FOREACH (u, d->unusable) {
                _cleanup_free_ char *shown = text_escape_for_terminal(*u);
                if (shown && strv_length(s->attempts) < DISCOVERY_ATTEMPTS_MAX &&
                    strv_extendf(&s->attempts, "The template %s", shown) < 0)
                        return error_oom(e);
        }
        return 0;
}

static int try_simple(Search *s, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_discovery_ Discovery d = {};
        bool http = s->fetcher->options.insecure & INSECURE_HTTP;

        if (discovery_add_simple(&d, s->target->name->name, &s->labels, http) < 0)
                return error_oom(e);
        return try_places(s, &d, ret, ret_found, e);
}

static int try_pages(Search *s, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_discovery_ Discovery d = {};
        Transfer *t;

        int r = fetcher_transfer(s->fetcher, &t, e);
        if (r >= 0)
                r = discovery_walk(t, s->target->name->name, &s->labels, DISCOVERY_IMAGE,
                                   s->fetcher->options.insecure, &d, &s->attempts, e);
        return r < 0 ? r : try_places(s, &d, ret, ret_found, e);
}

/* --- Errors -------------------------------------------------------------------------------------------- */

static int report_attempts(Search *s, Error *e)
{
        _cleanup_text_ Text t = {};
        size_t n = strv_length(s->attempts);
        int code = s->code ?: -ENOENT;

        STRV_FOREACH (a, s->attempts)
                text_addf(&t, "%s%s", n > 1 ? "\n  " : " ", *a);
        if (n >= DISCOVERY_ATTEMPTS_MAX)
                text_add(&t, "\n  …");
        if (t.failed)
                return error_oom(e);
        int r = error_set(e, code, "Cannot fetch the image %s:%s", s->target->what,
                          t.data ?: " no location is known");
        return s->hint ? error_hint(e, r, "%s", s->hint) : r;
}

static int impossible(const FetchTarget *w, Error *e)
{
        int r = error_set(e, -ENOENT, "The image %s cannot be fetched: its name does not begin with a host",
                          w->what);
        return error_hint(e, r, "Fetch it from a file or a URL.");
}

int fetch_name(Fetcher *f, const FetchTarget *w, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_(search_done) Search s = {.fetcher = f, .target = w};

        if (!discovery_possible(w->name->name))
                return impossible(w, e);
        if (discovery_labels(&w->name->labels, &s.labels) < 0)
                return error_oom(e);
        fetcher_progress(f, w->what, OPERATION_LOOKING, 0, 0);
        int r = try_simple(&s, ret, ret_found, e);
        if (r == 0 && !is_dead(s.code))
                r = try_pages(&s, ret, ret_found, e);
        if (r == 0)
                return report_attempts(&s, e);
        return r < 0 ? r : 0;
}

/* --- Keys ---------------------------------------------------------------------------------------------- */

static int add_keys(Fetcher *f, Trust *trust, const char *name, const char *url, Error *e)
{
        _cleanup_free_ char *data = NULL, *shown = url_for_display(url), *what = NULL;
        const TransferRequest q = {
                        .url = url, .what = "the keys", .size_max = TRUST_KEY_FILE_MAX, .probe = true};
        Transfer *t;
        size_t size;

        if (!shown || xasprintf(&what, "the keys at '%s'", shown) < 0)
                return error_oom(e);
        int r = fetcher_transfer(f, &t, e);
        if (r >= 0)
                r = transfer_get(t, &q, &data, &size, NULL, e);
        if (r >= 0)
                r = trust_add(trust, name, data, size, what, e);
        if (r >= 0)
                fetcher_note(f,
                             "The keys at %s are trusted for %s without confirmation: "
                             "--insecure-options=pubkey",
                             shown, name);
        return r;
}

static int discover_keys(Fetcher *f, const ImageName *name, Discovery *d, Error *e)
{
        _cleanup_strv_free_ char **attempts = NULL;
        PairList labels = {};
        Transfer *t;

        int r = fetcher_transfer(f, &t, e);
        if (r >= 0 && discovery_labels(&name->labels, &labels) < 0)
                r = error_oom(e);
        if (r >= 0)
                r = discovery_walk(t, name->name, &labels, DISCOVERY_PUBKEYS, f->options.insecure, d,
                                   &attempts, e);
        pair_list_done(&labels);
        if (r == 0)
                r = error_set(e, -ENOENT,
                              "The signature is by a key that is not trusted, and no keys are offered for "
                              "%s",
                              name->name);
        return r;
}

/* The default directories of keys, with a temporary one before them. */
static int open_own_trust(Fetcher *f, const StoreTemporary *dir, Trust **ret, Error *e)
{
        const char *const *dirs = f->options.config_dirs ?: usual_config_dirs;
        const char *all[16] = {};
        _cleanup_free_ char *own = NULL;

        if (xasprintf(&own, "%s/%s", store_path(f->store), dir->name) < 0)
                return error_oom(e);
        all[0] = own;
        for (size_t i = 0; dirs[i] && i + 2 < ELEMENTSOF(all); i++)
                all[i + 1] = dirs[i];
        return trust_open(all, f->store->operation, ret, e);
}

static int add_all_keys(Fetcher *f, const StoreTemporary *dir, const char *name, char *const *urls, Error *e)
{
        _cleanup_(trust_freep) Trust *trust = NULL;

        int r = open_own_trust(f, dir, &trust, e);
        STRV_FOREACH (url, urls)
                if (r >= 0)
                        r = add_keys(f, trust, name, *url, e);
        return r;
}

/* The directory is removed when the image has been fetched, and the trust with it. */
int fetch_pubkeys(Fetcher *f, const ImageName *name, char *const *pubkeys, StoreTemporary *ret_dir,
                  Trust **ret, Error *e)
{
        _cleanup_discovery_ Discovery d = {};
        int r = 0;

        if (!pubkeys) {
                r = discover_keys(f, name, &d, e);
                pubkeys = d.pubkeys;
        }
        if (r >= 0)
                r = store_temporary_new(f->store, ret_dir, e);
        if (r >= 0)
                r = add_all_keys(f, ret_dir, name->name, pubkeys, e);
        /* A Trust has the keys that existed when it was opened. */
        return r < 0 ? r : open_own_trust(f, ret_dir, ret, e);
}
