/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fetching an image, of whatever kind its reference is: this file has what all kinds share, and the order of
 * things. The kinds are in files of their own, the images that an image depends on in dependencies.c.
 *
 * A fetcher may be used by several threads. What they share is made once, under a lock; and two that want
 * the same place take turns, so that the second finds in the store what the first has put there. Other
 * processes are not kept away: two of them that fetch the same image both succeed, for one of them publishes
 * it.
 *
 * The lock is never held while anything is waited for, and nobody who is at a place waits for another one.
 */

#include "prepare/fetch/fetch-internal.h"
#include "schema/oci.h"

#define WAIT_USEC 100000U /* between looks whether we were interrupted */

static const char *const policies[_PULL_POLICY_MAX] = {
                [PULL_NEW] = "new",
                [PULL_UPDATE] = "update",
                [PULL_NEVER] = "never",
};

int pull_policy_from_string(const char *s)
{
        for (int i = 0; i < _PULL_POLICY_MAX; i++)
                if (streq(policies[i], s))
                        return i;
        return -EINVAL;
}

/* --- The fetcher --------------------------------------------------------------------------------------- */

int fetcher_new(Store *s, const FetchOptions *o, Fetcher **ret, Error *e)
{
        Fetcher *f = calloc(1, sizeof(Fetcher));
        pthread_condattr_t attributes;

        if (!f || image_index_new(s, &f->index, e) < 0) {
                free(f);
                return error_oom(e);
        }
        f->store = s;
        f->options = o ? *o : (FetchOptions){};
        (void) pthread_mutex_init(&f->lock, NULL);
        (void) pthread_mutex_init(&f->told, NULL);
        (void) pthread_mutex_init(&f->looking, NULL);
        (void) pthread_condattr_init(&attributes);
        (void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void) pthread_cond_init(&f->idle, &attributes);
        (void) pthread_condattr_destroy(&attributes);
        *ret = f;
        return 0;
}

Fetcher *fetcher_free(Fetcher *f)
{
        if (!f)
                return NULL;
        (void) transfer_free(f->transfer);
        (void) trust_free(f->trust);
        (void) image_index_free(f->index);
        strv_free(f->busy);
        strv_free(f->notes);
        strv_free(f->signed_well);
        (void) pthread_mutex_destroy(&f->lock);
        (void) pthread_mutex_destroy(&f->told);
        (void) pthread_mutex_destroy(&f->looking);
        (void) pthread_cond_destroy(&f->idle);
        free(f);
        return NULL;
}

static void give_note(const char *line, void *userdata)
{
        Fetcher *f = userdata;

        (void) pthread_mutex_lock(&f->told);
        if (f->options.note && !strv_contains(f->notes, line)) {
                (void) strv_extend(&f->notes, line);
                f->options.note(line, f->options.userdata);
        }
        (void) pthread_mutex_unlock(&f->told);
}

void fetcher_note(Fetcher *f, const char *format, ...)
{
        _cleanup_free_ char *line = NULL;
        va_list ap;

        va_start(ap, format);
        int n = vasprintf(&line, format, ap);
        va_end(ap);
        if (n < 0)
                line = NULL;
        else
                give_note(line, f);
}

void fetcher_progress(Fetcher *f, const char *what, FetchPhase phase, uint64_t done, uint64_t total)
{
        if (!f->options.progress)
                return;
        (void) pthread_mutex_lock(&f->told);
        f->options.progress(what, phase, done, total, f->options.userdata);
        (void) pthread_mutex_unlock(&f->told);
}

int fetcher_transfer(Fetcher *f, Transfer **ret, Error *e)
{
        const TransferOptions o = {
                        .insecure = f->options.insecure,
                        .speed_min = f->options.speed_min,
                        .config_dirs = f->options.config_dirs,
                        .note = give_note,
                        .userdata = f,
        };
        int r = 0;

        (void) pthread_mutex_lock(&f->lock);
        if (!f->transfer)
                r = transfer_new(&o, &f->transfer, e);
        *ret = f->transfer;
        (void) pthread_mutex_unlock(&f->lock);
        return r;
}

int fetcher_trust(Fetcher *f, Trust **ret, Error *e)
{
        int r = 0;

        (void) pthread_mutex_lock(&f->lock);
        if (!f->trust)
                r = trust_open(f->options.config_dirs, &f->trust, e);
        *ret = f->trust;
        (void) pthread_mutex_unlock(&f->lock);
        return r;
}

static void wait_a_moment(Fetcher *f)
{
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_nsec += WAIT_USEC * 1000L;
        t.tv_sec += t.tv_nsec / 1000000000L;
        t.tv_nsec %= 1000000000L;
        (void) pthread_cond_timedwait(&f->idle, &f->lock, &t);
}

int fetcher_begin(Fetcher *f, const char *place, Error *e)
{
        int r = 0;

        (void) pthread_mutex_lock(&f->lock);
        while (r >= 0 && strv_contains(f->busy, place)) {
                wait_a_moment(f);
                r = interrupt_check(e);
        }
        if (r >= 0 && strv_extend(&f->busy, place) < 0)
                r = error_oom(e);
        (void) pthread_mutex_unlock(&f->lock);
        return r;
}

void fetcher_end(Fetcher *f, const char *place)
{
        (void) pthread_mutex_lock(&f->lock);
        size_t n = strv_length(f->busy), i = 0;
        while (i < n && !streq(f->busy[i], place))
                i++;
        if (i < n) {
                free(f->busy[i]);
                f->busy[i] = f->busy[n - 1];
                f->busy[n - 1] = NULL;
        }
        (void) pthread_cond_broadcast(&f->idle);
        (void) pthread_mutex_unlock(&f->lock);
}

/* --- Names and IDs ------------------------------------------------------------------------------------- */

/* What is in the store and fits. */
static int find_named(Fetcher *f, const Wanted *w, Image **ret, Error *e)
{
        if (w->id)
                return fetcher_open(f, w->id, ret, e);
        int r = fetcher_look_up(f, w->name->name, &w->name->labels, ret, e);
        return r == -ENOENT ? error_set(e, r, "%s is not in the store %s", w->what, store_path(f->store))
                            : r;
}

static int check_found(Fetcher *f, const Wanted *w, const Image *i, Error *e)
{
        int r = check_identity(i->id, i->manifest, w->name, w->id, e);

        if (r < 0)
                return error_prefix(e, r, "The image %s in the store is not the one that is asked for",
                                    i->id);
        return w->id ? 0 : fetcher_check_signer(f, i, e);
}

static int fetch_wanted(Fetcher *f, const Wanted *w, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;
        int r = -ENOENT;

        /* An image with a certain ID never changes. */
        if (f->options.policy != PULL_UPDATE || w->id)
                r = find_named(f, w, &i, e);
        if (r >= 0) {
                *ret_found = true;
                r = check_found(f, w, i, e);
                if (r >= 0)
                        *ret = TAKE_PTR(i);
                return r;
        }
        if (r != -ENOENT)
                return r;
        if (f->options.policy == PULL_NEVER)
                return error_hint(e, r,
                                  "--pull-policy=never keeps it from being fetched; 'acnspawn image list' "
                                  "shows what there is.");
        error_done(e);
        return fetch_name(f, w, ret, ret_found, e);
}

/* The name REFERENCE, which nothing in the store has, or which is to be updated. */
static int fetch_by_name(Fetcher *f, const char *reference, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_(image_name_done) ImageName name = {};
        const Wanted w = {.what = reference, .name = &name};

        int r = image_name_parse(reference, &name, e);
        if (r < 0)
                return r;
        /* Nobody expects the network to be asked for what lies before him. */
        if (access(reference, F_OK) >= 0) {
                r = error_set(e, -ENOENT, "No image in the store %s is named '%s'", store_path(f->store),
                              reference);
                return error_hint(e, r, "If you mean the file, write './%s'.", reference);
        }
        return fetch_name(f, &w, ret, ret_found, e);
}

static bool can_be_fetched(const char *reference)
{
        _cleanup_(image_name_done) ImageName name = {};

        return !startswith(reference, IMAGE_ID_PREFIX) && image_name_parse(reference, &name, NULL) >= 0 &&
               discovery_possible(name.name);
}

/* What cannot be fetched may have been misspelled: what the store has of that kind is worth a word, too. */
static int remind_of_near(Error *e, int r, const Error *in_store)
{
        _cleanup_free_ char *hint = e && e->hint ? strdup(e->hint) : NULL;

        if (r == -EINTR || !in_store->hint ||
            !(startswith(in_store->hint, "Did you mean") || startswith(in_store->hint, "Of that name")))
                return r;
        return error_hint(e, r, "%s%s%s", in_store->hint, hint ? "\n" : "", hint ?: "");
}

/* What a registry calls an image is a name of the same form as those that discovery finds. */
static int remind_of_registries(Error *e, int r, const char *reference)
{
        static const int others[] = {-EINTR, -ENOMEM, -ENOSPC, -EKEYREJECTED, -ENOKEY, -EBADMSG, -EPERM};
        _cleanup_free_ char *hint = e && e->hint ? strdup(e->hint) : NULL;

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (r == others[i])
                        return r;
        if (!oci_reference_is_likely(reference) || (hint && strstr(hint, "docker://")))
                return r;
        return error_hint(e, r, "%s%sIf it is an image of a registry, it is named 'docker://%s'.",
                          hint ?: "", hint ? "\n" : "", reference);
}

/* Discovery asks the host that a name begins with, which may take long where there is none. A name without a dot
 * in front is mostly one of a registry, so that is told before. */
static void note_registries(Fetcher *f, const char *reference)
{
        int n = (int) strcspn(reference, "/");

        if (oci_reference_is_likely(reference) && !memchr(reference, '.', (size_t) n))
                fetcher_note(f,
                             "Looking for %s on the host '%.*s'. If it is an image of a registry, it is "
                             "named "
                             "'docker://%s'.",
                             reference, n, reference, reference);
}

/* Whether what was found as REFERENCE is of that name; else it was meant by its ID. */
static bool is_by_name(const char *reference, const Image *i)
{
        _cleanup_(image_name_done) ImageName name = {};

        return !startswith(reference, IMAGE_ID_PREFIX) && image_name_parse(reference, &name, NULL) >= 0 &&
               streq(name.name, i->manifest->name);
}

/* An ID, the beginning of one, or a name. */
static int fetch_image_reference(Fetcher *f, const Reference *r, const char *what, Image **ret,
                                 bool *ret_found, Error *e)
{
        _cleanup_error_ Error error = ERROR_NULL;
        _cleanup_(image_freep) Image *i = NULL;
        bool fetchable = can_be_fetched(r->body);

        if (fetchable && f->options.policy == PULL_UPDATE) {
                note_registries(f, r->body);
                int k = fetch_by_name(f, r->body, ret, ret_found, e);
                return k < 0 ? remind_of_registries(e, k, r->body) : k;
        }
        int k = fetcher_look_up_reference(f, r->body, &i, &error);
        if (k >= 0) {
                *ret_found = true;
                k = is_by_name(r->body, i) ? fetcher_check_signer(f, i, e) : 0;
                if (k >= 0)
                        *ret = TAKE_PTR(i);
                return k;
        }
        if (k != -ENOENT || !fetchable || f->options.policy == PULL_NEVER)
                return error_move(e, &error);
        note_registries(f, r->body);
        k = fetch_by_name(f, r->body, ret, ret_found, e);
        return k < 0 ? remind_of_registries(e, remind_of_near(e, k, &error), r->body) : k;
}

/* --- Everything ---------------------------------------------------------------------------------------- */

static int fetch_plain_url(Fetcher *f, const Reference *r, const char *what, Image **ret, bool *ret_found,
                           Error *e)
{
        const Wanted w = {.what = what};

        return fetch_url(f, r->body, NULL, &w, NULL, ret, ret_found, e);
}

static int (*const kinds[_REFERENCE_KIND_MAX])(Fetcher *f, const Reference *r, const char *what, Image **ret,
                                               bool *ret_found, Error *e) = {
                [REFERENCE_STANDARD_INPUT] = fetch_file, [REFERENCE_FILE] = fetch_file,
                [REFERENCE_URL] = fetch_plain_url,       [REFERENCE_IMAGE] = fetch_image_reference,
                [REFERENCE_DOCKER] = fetch_oci,          [REFERENCE_OCI] = fetch_oci,
                [REFERENCE_DOCKER_ARCHIVE] = fetch_oci,  [REFERENCE_OCI_ARCHIVE] = fetch_oci,
};

/* Tells how it went, and hands the image over. */
static int conclude(Fetcher *f, const char *what, int r, Image *i, bool found)
{
        if (r >= 0 && !found)
                fetcher_forget(f, i->id);
        fetcher_progress(f, what,
                         r < 0   ? FETCH_FAILED
                         : found ? FETCH_FOUND
                                 : FETCH_FETCHED,
                         0, r < 0 ? 0 : i->info.archive_size);
        return r;
}

int fetcher_fetch(Fetcher *f, const char *reference, Image **ret, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_reference_ Reference x = {};
        _cleanup_free_ char *shown = NULL;
        bool found = false;

        int r = reference_parse(reference, &x, e);
        if (r < 0)
                return r;
        shown = x.kind == REFERENCE_STANDARD_INPUT ? strdup("standard input")
                : x.kind == REFERENCE_URL          ? url_for_display(reference)
                                                   : text_escape_for_terminal(reference);
        if (!shown)
                return error_oom(e);
        r = kinds[x.kind](f, &x, shown, &i, &found, e);
        r = conclude(f, shown, r, i, found);
        if (r >= 0 && !f->options.no_dependencies)
                r = fetch_dependencies(f, i, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(i);
        return 0;
}

int fetch_wanted_image(Fetcher *f, const char *name, const PairList *labels, const char *id, Image **ret,
                       Error *e)
{
        _cleanup_(image_name_done) ImageName n = {.name = strdup(name)};
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_free_ char *shown = NULL;
        bool found = false;

        if (!n.name || pair_list_copy(labels, &n.labels) < 0 || image_name_format(name, labels, &shown) < 0)
                return error_oom(e);
        const Wanted w = {.what = shown, .name = &n, .id = id};
        int r = fetch_wanted(f, &w, &i, &found, e);
        if (r < 0 || !found)
                r = conclude(f, shown, r, i, found);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(i);
        return 0;
}

int fetcher_fetch_named(Fetcher *f, const char *name, const PairList *labels, const char *id, Image **ret,
                        Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;

        int r = fetch_wanted_image(f, name, labels, id, &i, e);
        if (r >= 0 && !f->options.no_dependencies)
                r = fetch_dependencies(f, i, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(i);
        return 0;
}
