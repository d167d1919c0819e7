/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fetches an image by a reference of any kind: this file has the code that all kinds share, and selects the
 * kind. The kinds are in files of their own, the images that an image depends on in dependencies.c.
 *
 * A fetcher may be used by several threads. Shared objects are created once, under a lock; and two threads
 * that fetch the same place take turns, so that the second finds in the store what the first has imported.
 * Other processes are not excluded: if two of them fetch the same image, both succeed, and one of them
 * publishes it.
 *
 * The lock is never held while waiting, and a thread that fetches a place never waits for another place.
 */

#include "prepare/fetch/fetch-internal.h"
#include "schema/oci.h"

/* How long each server may take to answer while there is an image in the store that the pod can start with. */
#define ANSWER_TIMEOUT_USEC (30 * UINT64_C(1000000))
#define LOST_MAX_USEC (120 * UINT64_C(1000000))
#define WAIT_USEC 100000U /* interval of checks of the operation */

static const char *const policies[_PULL_POLICY_MAX] = {
                [PULL_NEW] = "new",
                [PULL_UPDATE] = "update",
                [PULL_NEVER] = "never",
};

int pull_policy_from_string(const char *s)
{
        return word_index(policies, ELEMENTSOF(policies), s);
}

/* --- The fetcher --------------------------------------------------------------------------------------- */

Fetcher *fetcher_root(Fetcher *f)
{
        return f->parent ?: f;
}

static int new_fetcher(Store *s, const FetchOptions *o, Fetcher *parent, Fetcher **ret, Error *e)
{
        Fetcher *f = calloc(1, sizeof(Fetcher));
        pthread_condattr_t attributes;

        if (!f || (!parent && image_index_new(s, &f->index, e) < 0)) {
                free(f);
                return error_oom(e);
        }
        f->store = s;
        f->parent = parent;
        f->answer_timeout_usec = parent ? parent->answer_timeout_usec : ANSWER_TIMEOUT_USEC;
        f->options = o ? *o : (FetchOptions){};
        (void) pthread_mutex_init(&f->lock, NULL);
        (void) pthread_mutex_init(&f->notes_lock, NULL);
        (void) pthread_mutex_init(&f->index_lock, NULL);
        (void) pthread_condattr_init(&attributes);
        (void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void) pthread_cond_init(&f->idle, &attributes);
        (void) pthread_condattr_destroy(&attributes);
        *ret = f;
        return 0;
}

int fetcher_new(Store *s, const FetchOptions *o, Fetcher **ret, Error *e)
{
        return new_fetcher(s, o, NULL, ret, e);
}

Fetcher *fetcher_free(Fetcher *f)
{
        if (!f)
                return NULL;
        (void) fetcher_free(f->brief);
        (void) transfer_free(f->transfer);
        (void) trust_free(f->trust);
        (void) image_index_free(f->index);
        strv_free(f->active_places);
        strv_free(f->notes);
        strv_free(f->silent_hosts);
        strv_free(f->verified_images);
        (void) pthread_mutex_destroy(&f->lock);
        (void) pthread_mutex_destroy(&f->notes_lock);
        (void) pthread_mutex_destroy(&f->index_lock);
        (void) pthread_cond_destroy(&f->idle);
        free(f);
        return NULL;
}

static void give_note(const char *line, void *userdata)
{
        Fetcher *f = fetcher_root(userdata);

        (void) pthread_mutex_lock(&f->notes_lock);
        bool is_new = !strv_contains(f->notes, line);
        if (is_new)
                (void) strv_extend(&f->notes, line);
        (void) pthread_mutex_unlock(&f->notes_lock);
        if (is_new)
                operation_message(f->store->operation, LOG_LEVEL_INFO, "%s", line);
}

void fetcher_note(Fetcher *f, const char *format, ...)
{
        _cleanup_free_ char *line = NULL;
        va_list ap;

        va_start(ap, format);
        int r = xvasprintf(&line, format, ap);
        va_end(ap);
        if (r >= 0)
                give_note(line, f);
}

void fetcher_progress(Fetcher *f, const char *what, OperationPhase phase, uint64_t done, uint64_t total)
{
        operation_progress(f->store->operation, &(OperationProgress){what, phase, done, total});
}

int fetcher_transfer(Fetcher *f, Transfer **ret, Error *e)
{
        const TransferOptions o = {
                        .insecure = f->options.insecure,
                        .speed_min = f->options.speed_min,
                        .config_dirs = f->options.config_dirs,
                        .operation = f->store->operation,
                        .answer_timeout_usec = f->is_brief ? f->answer_timeout_usec : 0,
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

        f = fetcher_root(f);
        (void) pthread_mutex_lock(&f->lock);
        if (!f->trust)
                r = trust_open(f->options.config_dirs, f->store->operation, &f->trust, e);
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

        f = fetcher_root(f);
        (void) pthread_mutex_lock(&f->lock);
        while (r >= 0 && strv_contains(f->active_places, place)) {
                wait_a_moment(f);
                r = operation_check(f->store->operation, e);
        }
        if (r >= 0 && strv_extend(&f->active_places, place) < 0)
                r = error_oom(e);
        (void) pthread_mutex_unlock(&f->lock);
        return r;
}

void fetcher_end(Fetcher *f, const char *place)
{
        f = fetcher_root(f);
        (void) pthread_mutex_lock(&f->lock);
        size_t n = strv_length(f->active_places), i = 0;
        while (i < n && !streq(f->active_places[i], place))
                i++;
        if (i < n) {
                free(f->active_places[i]);
                f->active_places[i] = f->active_places[n - 1];
                f->active_places[n - 1] = NULL;
        }
        (void) pthread_cond_broadcast(&f->idle);
        (void) pthread_mutex_unlock(&f->lock);
}

/* --- Names and IDs ------------------------------------------------------------------------------------- */

/* Finds a matching image in the store. */
static int find_named(Fetcher *f, const FetchTarget *w, Image **ret, Error *e)
{
        if (w->id)
                return fetcher_open(f, w->id, ret, e);
        int r = fetcher_look_up(f, w->name->name, &w->name->labels, ret, e);
        return r == -ENOENT ? error_set(e, r, "%s is not in the store %s", w->what, store_path(f->store))
                            : r;
}

static int check_found(Fetcher *f, const FetchTarget *w, const Image *i, Error *e)
{
        int r = check_identity(i->id, i->manifest, w->name, w->id, e);

        if (r < 0)
                return error_prefix(e, r, "The image %s in the store is not the requested one", i->id);
        return w->id ? 0 : fetcher_check_signer(f, i, e);
}

static int fetch_target(Fetcher *f, const FetchTarget *w, Image **ret, bool *ret_found, Error *e)
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
                                  "shows the images in the store.");
        error_done(e);
        return fetch_name(f, w, ret, ret_found, e);
}

/* Fetches the name REFERENCE, which is not in the store, or is to be updated. */
static int fetch_by_name(Fetcher *f, const char *reference, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_(image_name_done) ImageName name = {};
        const FetchTarget w = {.what = reference, .name = &name};

        int r = image_name_parse(reference, &name, e);
        if (r < 0)
                return r;
        /* If a file of that name exists, do not access the network. */
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

/* A name that cannot be fetched may be misspelled: the hint lists similar names in the store. */
static int add_hint_of_near_names(Error *e, int r, const Error *in_store)
{
        _cleanup_free_ char *hint = e && e->hint ? strdup(e->hint) : NULL;

        if (operation_ended(r) || !in_store->hint ||
            !(startswith(in_store->hint, "Did you mean") || startswith(in_store->hint, "Of that name")))
                return r;
        return error_hint(e, r, "%s%s%s", in_store->hint, hint ? "\n" : "", hint ?: "");
}

/* References of registries have the same form as names for discovery. */
static int add_hint_of_registries(Error *e, int r, const char *reference)
{
        static const int others[] = {-EINTR,       -ETIME,  -ENOMEM,  -ENOSPC, -EKEYREJECTED,
                                     -EKEYEXPIRED, -ENOKEY, -EBADMSG, -EPERM};
        _cleanup_free_ char *hint = e && e->hint ? strdup(e->hint) : NULL;

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (r == others[i])
                        return r;
        if (!oci_reference_is_likely(reference) || (hint && strstr(hint, "docker://")))
                return r;
        return error_hint(e, r, "%s%sIf it is an image of a registry, it is named 'docker://%s'.",
                          hint ?: "", hint ? "\n" : "", reference);
}

/* Discovery contacts the host with which a name begins, which may take long if there is none. A name without a
 * dot in its first component is most likely one of a registry, so the user is told before. */
static void note_registries(Fetcher *f, const char *reference)
{
        int n = (int) strcspn(reference, "/");

        if (oci_reference_is_likely(reference) && !memchr(reference, '.', (size_t) n))
                fetcher_note(f,
                             "Looking for %s on the host '%.*s'. If it is an image of a registry, it is "
                             "named 'docker://%s'.",
                             reference, n, reference, reference);
}

/* Whether the image found for REFERENCE has that name; otherwise it was found by its ID. */
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
                return k < 0 ? add_hint_of_registries(e, k, r->body) : k;
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
        return k < 0 ? add_hint_of_registries(e, add_hint_of_near_names(e, k, &error), r->body) : k;
}

/* --- All kinds ----------------------------------------------------------------------------------------- */

static int fetch_plain_url(Fetcher *f, const Reference *r, const char *what, Image **ret, bool *ret_found,
                           Error *e)
{
        const FetchTarget w = {.what = what};

        return fetch_url(f, r->body, NULL, &w, NULL, ret, ret_found, e);
}

static int (*const kinds[_REFERENCE_KIND_MAX])(Fetcher *f, const Reference *r, const char *what, Image **ret,
                                               bool *ret_found, Error *e) = {
                [REFERENCE_STANDARD_INPUT] = fetch_file, [REFERENCE_FILE] = fetch_file,
                [REFERENCE_URL] = fetch_plain_url,       [REFERENCE_IMAGE] = fetch_image_reference,
                [REFERENCE_DOCKER] = fetch_oci,          [REFERENCE_OCI] = fetch_oci,
                [REFERENCE_DOCKER_ARCHIVE] = fetch_oci,  [REFERENCE_OCI_ARCHIVE] = fetch_oci,
};

/* --- Without the network ------------------------------------------------------------------------------- */

/* The server was not reached, or did not do its work, or this host's clock is wrong, which says nothing about the image. */
static bool is_unreachable(int code)
{
        static const int codes[] = {-EHOSTUNREACH, -ENETUNREACH, -ENETDOWN,  -ECONNREFUSED,  -ECONNRESET,
                                    -ETIMEDOUT,    -EBUSY,       -EREMOTEIO, -EADDRNOTAVAIL, -EKEYEXPIRED};

        for (size_t i = 0; i < ELEMENTSOF(codes); i++)
                if (code == codes[i])
                        return true;
        return false;
}

static int only_stored(Fetcher *f, Fetcher **ret)
{
        FetchOptions o = f->options;

        o.policy = PULL_NEVER;
        return new_fetcher(f->store, &o, f, ret, NULL);
}

/* F itself if there is no memory. */
static Fetcher *brief_of(Fetcher *f)
{
        if (f->parent)
                return f;
        (void) pthread_mutex_lock(&f->lock);
        if (!f->brief && new_fetcher(f->store, &f->options, f, &f->brief, NULL) >= 0)
                f->brief->is_brief = true;
        Fetcher *brief = f->brief ?: f;
        (void) pthread_mutex_unlock(&f->lock);
        return brief;
}

static bool looks_for_newer(const Fetcher *f)
{
        return f->options.or_stored && f->options.policy == PULL_UPDATE;
}

static bool may_be_stored(const Fetcher *f, int r)
{
        return looks_for_newer(f) && is_unreachable(r);
}

/* What names the host of an image: the first component of a name, or of a URL without scheme and password. */
static char *host_of(const char *name)
{
        const char *scheme = strstr(name, "://"), *s = scheme ? scheme + 3 : name;
        size_t n = strcspn(s, "/");
        const char *at = scheme ? memrchr(s, '@', n) : NULL;

        return at ? strndup(at + 1, n - (size_t) (at + 1 - s)) : strndup(s, n);
}

static bool is_of_server(const Reference *x)
{
        return x->kind == REFERENCE_URL || x->kind == REFERENCE_DOCKER ||
               (x->kind == REFERENCE_IMAGE && can_be_fetched(x->body));
}

/* A host that does not answer costs 10 s, or a minute and more. It is not asked for another image that is in the store, and when two
 * minutes were lost no host is. 0, or -EHOSTUNREACH. */
static int check_silent(Fetcher *f, const char *name, Error *e)
{
        _cleanup_free_ char *host = host_of(name);

        (void) pthread_mutex_lock(&f->lock);
        bool is_known = host && strv_contains(f->silent_hosts, host),
             is_late = f->lost_usec >= LOST_MAX_USEC;
        (void) pthread_mutex_unlock(&f->lock);
        if (is_known)
                return error_set(e, -EHOSTUNREACH, "%s was not reached before", host);
        return is_late ? error_set(e, -EHOSTUNREACH, "too much time was lost with other servers") : 0;
}

/* R: what a request failed with. A host that has answered is asked for other images. */
static void note_lost(Fetcher *f, int r, const char *name, uint64_t begun_usec)
{
        bool answered = r == -EBUSY || r == -EREMOTEIO || r == -EKEYEXPIRED;
        _cleanup_free_ char *host = answered ? NULL : host_of(name);

        (void) pthread_mutex_lock(&f->lock);
        f->lost_usec += now_usec(CLOCK_MONOTONIC) - begun_usec;
        if (host && !strv_contains(f->silent_hosts, host))
                (void) strv_extend(&f->silent_hosts, host);
        (void) pthread_mutex_unlock(&f->lock);
}

/* E: why a newer one could not be looked for. */
static void warn_stored(const Fetcher *f, const char *what, Error *e)
{
        operation_message(
                        f->store->operation, LOG_LEVEL_WARNING,
                        "The image %s of the store is used, as its server cannot be asked for a newer one: %s.",
                        what, e && e->message ? e->message : "for an unknown reason");
        error_done(e);
}

/* The result of what failed with R, or R. */
static int stored_reference(Fetcher *f, int r, const Reference *x, const char *what, Image **ret,
                            bool *ret_found, Error *e)
{
        _cleanup_(fetcher_freep) Fetcher *local = NULL;

        if (!may_be_stored(f, r) || only_stored(f, &local) < 0 ||
            kinds[x->kind](local, x, what, ret, ret_found, NULL) < 0)
                return r;
        warn_stored(f, what, e);
        return 0;
}

static int stored_target(Fetcher *f, int r, const FetchTarget *w, Image **ret, bool *ret_found, Error *e)
{
        _cleanup_(fetcher_freep) Fetcher *local = NULL;

        if (!may_be_stored(f, r) || only_stored(f, &local) < 0 ||
            fetch_target(local, w, ret, ret_found, NULL) < 0)
                return r;
        warn_stored(f, w->what, e);
        return 0;
}

/* The fetcher to look for a newer image with. */
static Fetcher *looking_for_reference(Fetcher *f, const Reference *x, const char *what)
{
        _cleanup_(fetcher_freep) Fetcher *local = NULL;
        _cleanup_(image_freep) Image *i = NULL;
        bool found;

        if (!looks_for_newer(f) || !is_of_server(x) || only_stored(f, &local) < 0)
                return f;
        return kinds[x->kind](local, x, what, &i, &found, NULL) < 0 ? f : brief_of(f);
}

static Fetcher *looking_for_target(Fetcher *f, const FetchTarget *w)
{
        _cleanup_(fetcher_freep) Fetcher *local = NULL;
        _cleanup_(image_freep) Image *i = NULL;
        bool found;

        if (!looks_for_newer(f) || only_stored(f, &local) < 0)
                return f;
        return fetch_target(local, w, &i, &found, NULL) < 0 ? f : brief_of(f);
}

/* Reports the result, and returns the image. */
static int conclude(Fetcher *f, const char *what, int r, Image *i, bool found)
{
        if (r >= 0 && !found)
                fetcher_forget(f, i->id);
        fetcher_progress(f, what,
                         r < 0   ? OPERATION_FAILED
                         : found ? OPERATION_UNCHANGED
                                 : OPERATION_DONE,
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
        shown = reference_for_display(reference);
        if (!shown)
                return error_oom(e);
        r = is_of_server(&x) ? check_silent(f, x.body, e) : 0;
        r = stored_reference(f, r, &x, shown, &i, &found, e);
        if (!i) {
                uint64_t begun_usec = now_usec(CLOCK_MONOTONIC);

                error_done(e);
                r = kinds[x.kind](looking_for_reference(f, &x, shown), &x, shown, &i, &found, e);
                if (is_of_server(&x) && may_be_stored(f, r))
                        note_lost(f, r, x.body, begun_usec);
                r = stored_reference(f, r, &x, shown, &i, &found, e);
        }
        r = conclude(f, shown, r, i, found);
        if (r >= 0 && !f->options.no_dependencies)
                r = fetch_dependencies(f, i, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(i);
        return 0;
}

int fetch_image_by_name(Fetcher *f, const char *name, const PairList *labels, const char *id, Image **ret,
                        Error *e)
{
        _cleanup_(image_name_done) ImageName n = {.name = strdup(name)};
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_free_ char *shown = NULL;
        bool found = false;

        if (!n.name || pair_list_copy(labels, &n.labels) < 0 || image_name_format(name, labels, &shown) < 0)
                return error_oom(e);
        const FetchTarget w = {.what = shown, .name = &n, .id = id};
        int r = id ? 0 : check_silent(f, name, e);
        r = stored_target(f, r, &w, &i, &found, e);
        if (!i) {
                uint64_t begun_usec = now_usec(CLOCK_MONOTONIC);

                error_done(e);
                r = fetch_target(looking_for_target(f, &w), &w, &i, &found, e);
                if (may_be_stored(f, r))
                        note_lost(f, r, name, begun_usec);
                r = stored_target(f, r, &w, &i, &found, e);
        }
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

        int r = fetch_image_by_name(f, name, labels, id, &i, e);
        if (r >= 0 && !f->options.no_dependencies)
                r = fetch_dependencies(f, i, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(i);
        return 0;
}
