/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An image archive at a URL, with its signature beside it.
 *
 * The signature is small and is fetched first: if it is missing, or by no trusted key, the image is not
 * downloaded. If the image is in the store and only checked for changes, the order is reversed.
 *
 * The result of a URL is recorded. With PULL_NEW the record is used; with PULL_UPDATE it is used while it is
 * fresh according to the server, but not for longer than half a day, and after that if the server reports no
 * change. A record without a signature is ignored if a signature is required. What a record says is checked
 * like what comes over the network: it may be an older image than the store has by now; then the server is
 * asked, unless with PULL_NEVER.
 */

#include <sys/stat.h>

#include "prepare/fetch/fetch-internal.h"

/* A server must not keep those that update every day from asking it. */
#define FRESH_MAX_USEC (12 * 3600 * 1000000ULL)

typedef struct Source {
        Fetcher *fetcher;
        const FetchTarget *target;
        const char *url;   /* as requested */
        const char *place; /* the same without user and password, as recorded */
        const char *signature_url;
        char *const *pubkeys;
        const char *what; /* for messages: "the image example.com/app:1.0" */
        Archive archive;
        Trust *trust; /* a temporary one, with keys that were discovered; or NULL */
        StoreTemporary trust_dir;
        Remote known; /* previous result; valid only if KNOWN_IMAGE is set */
        Image *known_image;
} Source;

static void url_source_done(Source *s)
{
        archive_done(&s->archive); /* uses the following members */
        (void) trust_free(s->trust);
        store_temporary_done(&s->trust_dir);
        remote_done(&s->known);
        image_free(s->known_image);
}

/* Without a path, the URL of the signature would have another host. */
static int check_path(const char *url, Error *e)
{
        const char *host = strstr(url, "://");
        _cleanup_free_ char *shown = url_for_display(url);

        if (host && host[3 + strcspn(host + 3, "/?#")] == '/')
                return 0;
        int r = error_set(e, -EINVAL, "'%s' is not a URL of an image: it names a host alone", shown ?: "?");
        return error_hint(e, r, "Write it like 'https://example.com/app.aci'.");
}

int signature_url_of(const char *url, char **ret)
{
        int n = (int) strcspn(url, "?#");

        return xasprintf(ret, "%.*s.asc%s", n, url, url + n);
}

/* --- The signature ------------------------------------------------------------------------------------- */

static bool needs_signature(const Fetcher *f)
{
        return f->options.signature || !(f->options.insecure & INSECURE_SIGNATURE);
}

/* An untrusted key may be one that discovery offers for this image. */
static int begin_check(Source *s, const char *data, size_t size, Error *e)
{
        _cleanup_free_ char *shown = url_for_display(s->signature_url), *what = NULL;
        Fetcher *f = s->fetcher;
        Trust *trust;

        int r = fetcher_trust(f, &trust, e);
        if (r >= 0 && xasprintf(&what, "the signature '%s'", shown ?: "?") < 0)
                r = error_oom(e);
        if (r < 0)
                return r;
        r = signature_check_new(trust, data, size, what, &s->archive.check, e);
        if (r == -EBADMSG && is_web_page(data, size))
                return error_hint(e, r, HINT_PAGE);
        if (r != -ENOKEY || !(f->options.insecure & INSECURE_PUBKEY) || !s->target->name)
                return r;
        error_done(e);
        r = fetch_pubkeys(f, s->target->name, s->pubkeys, &s->trust_dir, &s->trust, e);
        s->archive.offered = true;
        return r < 0 ? r : signature_check_new(s->trust, data, size, what, &s->archive.check, e);
}

static int get_signature(Source *s, Error *e)
{
        _cleanup_free_ char *data = NULL;
        Fetcher *f = s->fetcher;
        Transfer *t;
        size_t size;

        if (f->options.signature)
                return archive_read_signature(&s->archive, f->options.signature, e);
        const TransferRequest q = {
                        .url = s->signature_url,
                        .what = "the signature",
                        .size_max = TRUST_SIGNATURE_MAX,
                        .probe = true,
        };
        int r = fetcher_transfer(f, &t, e);
        if (r >= 0)
                r = transfer_get(t, &q, &data, &size, NULL, e);
        if (r == -ENOENT)
                return error_hint(e, r,
                                  "Images from the network have to be signed; --insecure-options=signature "
                                  "accepts them without.");
        return r < 0 ? r : begin_check(s, data, size, e);
}

/* --- The previous result
 * ------------------------------------------------------------------------------------- */

static void find_known(Source *s)
{
        _cleanup_remote_ Remote m = {};
        _cleanup_(image_freep) Image *i = NULL;
        Fetcher *f = s->fetcher;

        if (f->options.signature || remote_read(f->store, s->place, &m) < 0 ||
            (needs_signature(f) && isempty(m.signer)) || fetcher_open(f, m.image, &i, NULL) < 0 ||
            (needs_signature(f) && !i->info.signer.fingerprint) ||
            check_identity(i->id, i->manifest, s->target->name, s->target->id, NULL) < 0)
                return;
        s->known = m;
        m = (Remote){};
        s->known_image = TAKE_PTR(i);
}

/* A record from the future was made by a clock that was wrong. */
static bool is_fresh(const Source *s)
{
        uint64_t now = now_usec(CLOCK_REALTIME), asked = s->known.asked_usec;

        if (!s->known_image || s->fetcher->options.policy != PULL_UPDATE)
                return s->known_image;
        return now < s->known.expires_usec && asked <= now && now - asked < FRESH_MAX_USEC;
}

/* Gives the image that is known. */
static int use_known(Source *s, bool was_asked, Image **ret, bool *ret_found, Error *e)
{
        int r = 0;

        if (needs_signature(s->fetcher))
                r = fetcher_check_age(s->fetcher, s->target->what, s->archive.reference, s->known_image,
                                      was_asked, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s->known_image);
        *ret_found = true;
        return 0;
}

static int not_known(const Source *s, Error *e)
{
        int r = error_set(e, -ENOENT, "'%s' was not fetched into the store %s", s->target->what,
                          store_path(s->fetcher->store));
        return error_hint(e, r, "--pull-policy=never keeps it from being fetched.");
}

/* On failure the image is downloaded again the next time. */
static void keep(Source *s, const Image *i, const TransferReply *reply)
{
        const Remote m = {
                        .image = i->id,
                        .etag = reply->etag ?: s->known.etag,
                        .last_modified = reply->last_modified ?: s->known.last_modified,
                        .signer = s->archive.signer.fingerprint ?: s->known.signer,
                        .expires_usec = reply->expires_usec,
        };

        (void) remote_write(s->fetcher->store, s->place, &m);
        if (!streq(s->archive.reference, s->place)) /* a name: what it has come to (signer.c) */
                (void) remote_write(s->fetcher->store, s->archive.reference, &(Remote){.image = i->id});
}

/* --- The image ----------------------------------------------------------------------------------------- */

static void download_progress(uint64_t done, uint64_t total, void *userdata)
{
        Source *s = userdata;

        fetcher_progress(s->fetcher, s->target->what, OPERATION_DOWNLOADING, done, total);
}

static int download(Source *s, int *ret_fd, TransferReply *reply, Error *e)
{
        const TransferRequest q = {
                        .url = s->url,
                        .etag = s->known.etag,
                        .last_modified = s->known.last_modified,
                        .what = s->what,
                        .progress = download_progress,
                        .userdata = s,
        };
        Transfer *t;

        int r = fetcher_transfer(s->fetcher, &t, e);
        return r < 0 ? r : transfer_download(t, &q, s->fetcher->store, ret_fd, reply, e);
}

static int import(Source *s, int fd, Image **ret, Error *e)
{
        struct stat st;

        s->archive.total = fstat(fd, &st) >= 0 ? (uint64_t) st.st_size : 0;
        if (!needs_signature(s->fetcher))
                fetcher_note(s->fetcher, "The signature of %s is not checked: --insecure-options=signature",
                             s->target->what);
        return archive_import(&s->archive, fd, ret, e);
}

static int fetch_source(Source *s, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_(transfer_reply_done) TransferReply reply = TRANSFER_REPLY_NULL;
        bool check = needs_signature(s->fetcher);
        _cleanup_close_ int fd = -EBADF;
        int r = 0;

        fetcher_progress(s->fetcher, s->target->what, OPERATION_LOOKING, 0, 0);
        if (check && !s->known.etag && !s->known.last_modified)
                r = get_signature(s, e);
        if (r >= 0)
                r = download(s, &fd, &reply, e);
        if (r < 0)
                return r;
        if (reply.not_modified) {
                keep(s, s->known_image, &reply);
                return use_known(s, true, ret, ret_found, e);
        }
        remote_done(&s->known); /* the record is of another image */
        if (check && !s->archive.check)
                r = get_signature(s, e);
        if (r >= 0)
                r = import(s, fd, ret, e);
        if (r >= 0)
                keep(s, *ret, &reply);
        return r;
}

/* If its signature is not valid any more, the record is not used: an update fetches the image again, with
 * its current signature. */
static int check_known(Source *s, Error *e)
{
        _cleanup_error_ Error error = ERROR_NULL;
        int r = s->known_image ? fetcher_check_signer(s->fetcher, s->known_image, &error) : 0;

        if (r != -EKEYREJECTED || s->fetcher->options.policy != PULL_UPDATE)
                return r < 0 ? error_move(e, &error) : r;
        remote_done(&s->known);
        s->known_image = image_free(s->known_image);
        return 0;
}

static int fetch_alone(Source *s, Image **ret, bool *ret_found, Error *e)
{
        find_known(s);
        int r = check_known(s, e);
        if (r < 0)
                return r;
        if (is_fresh(s)) {
                r = use_known(s, false, ret, ret_found, e);
                if (r != -ESTALE || s->fetcher->options.policy == PULL_NEVER)
                        return r;
                /* It is older than another one of the store: perhaps the server has that by now. */
                error_done(e);
        }
        if (s->fetcher->options.policy == PULL_NEVER)
                return not_known(s, e);
        return fetch_source(s, ret, ret_found, e);
}

int fetch_url(Fetcher *f, const char *url, const char *signature_url, const FetchTarget *w,
              char *const *pubkeys, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_free_ char *place = NULL, *signature = NULL, *reference = NULL, *what = NULL, *shown = NULL;

        int r = url_check(url, f->options.insecure, e);
        if (r >= 0 && !signature_url)
                r = check_path(url, e);
        if (r < 0)
                return r;
        shown = url_for_display(url);
        if (!shown || url_without_credentials(url, &place) < 0 ||
            (!signature_url && signature_url_of(url, &signature) < 0) ||
            (w->name && image_name_format(w->name->name, &w->name->labels, &reference) < 0) ||
            xasprintf(&what, "the image%s%s", w->name ? " " : "", w->name ? w->what : "") < 0)
                return error_oom(e);
        _cleanup_(url_source_done) Source s = {
                        .fetcher = f,
                        .target = w,
                        .url = url,
                        .place = place,
                        .signature_url = signature_url ?: signature,
                        .pubkeys = pubkeys,
                        .what = what,
                        .trust_dir = STORE_TEMPORARY_NULL,
                        .archive = {.fetcher = f,
                                    .what = w->what,
                                    .origin = shown,
                                    .reference = reference ?: place,
                                    .name = w->name,
                                    .id = w->id},
        };
        r = fetcher_begin(f, place, e);
        if (r < 0)
                return r;
        r = fetch_alone(&s, ret, ret_found, e);
        fetcher_end(f, place);
        return r;
}
