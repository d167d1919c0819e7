/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What references mean now.
 *
 * By the policy "registry" the registry or server is asked, as 'acnspawn fetch --pull-policy=update' does: a digest or a
 * date is compared, and only an image that has changed is downloaded, verified as always. By the policy "local" nothing goes
 * over the network: what the store has by that reference is taken, and files, layouts and archives are read again. */

#include "stage0/update/update-internal.h"

typedef struct Answer {
        ImagePolicy policy;
        char *reference;
        char *id;    /* NULL: there is an error */
        Error error; /* for everyone that asks */
} Answer;

struct Resolver {
        Store *store;
        FetchOptions options;
        uint64_t timeout_usec;
        Fetcher *fetchers[_IMAGE_POLICY_MAX]; /* made on first use */
        Answer *answers;
        size_t n_answers, answers_allocated;
};

int resolver_new(Store *s, const FetchOptions *o, uint64_t timeout_usec, Resolver **ret, Error *e)
{
        Resolver *x = calloc(1, sizeof(Resolver));

        if (!x)
                return error_oom(e);
        *x = (Resolver){.store = s, .options = *o, .timeout_usec = timeout_usec};
        *ret = x;
        return 0;
}

Resolver *resolver_free(Resolver *x)
{
        if (!x)
                return NULL;
        for (size_t i = 0; i < _IMAGE_POLICY_MAX; i++)
                (void) fetcher_free(x->fetchers[i]);
        for (size_t i = 0; i < x->n_answers; i++) {
                free(x->answers[i].reference);
                free(x->answers[i].id);
                error_done(&x->answers[i].error);
        }
        free(x->answers);
        free(x);
        return NULL;
}

static int fetch(Resolver *x, ImagePolicy policy, const char *reference, char **ret, Error *e)
{
        _cleanup_(image_freep) Image *i = NULL;
        int r = 0;

        if (!x->fetchers[policy]) {
                FetchOptions o = x->options;
                o.policy = policy == IMAGE_POLICY_REGISTRY ? PULL_UPDATE : PULL_NEVER;
                r = fetcher_new(x->store, &o, &x->fetchers[policy], e);
        }
        if (r >= 0)
                r = image_policy_check(policy, reference, e);
        if (r >= 0)
                r = fetcher_fetch(x->fetchers[policy], reference, &i, e);
        if (r < 0)
                return r;
        *ret = strdup(i->id);
        return *ret ? 0 : error_oom(e);
}

/* A server that sends slowly, but not too slowly, would otherwise keep all other apps from their updates. */
static int fetch_in_time(Resolver *x, ImagePolicy policy, const char *reference, char **ret, Error *e)
{
        Operation *o = store_operation(x->store);
        uint64_t now = now_usec(CLOCK_MONOTONIC), end = now + x->timeout_usec;
        int r = 0;

        if (end > now) /* not infinity */
                r = operation_limit(o, end);
        if (r < 0)
                return error_set_errno(e, r, "Cannot set a timer");
        r = fetch(x, policy, reference, ret, e);
        (void) operation_limit(o, 0);
        if (r != -ETIME || operation_check(o, NULL) < 0)
                return r;
        error_done(e);
        r = error_set(e, -ETIMEDOUT, "Fetching the image took longer than %g s",
                      (double) x->timeout_usec / 1e6);
        return error_hint(e, r,
                          "What was downloaded is continued the next time, if the server can do that; "
                          "--fetch-timeout= sets another limit.");
}

static int repeat(const Answer *a, const char **ret, Error *e)
{
        if (a->id) {
                *ret = a->id;
                return 0;
        }
        int r = error_set(e, a->error.code, "%s", a->error.message ?: strerror(-a->error.code));
        return a->error.hint ? error_hint(e, r, "%s", a->error.hint) : r;
}

int resolver_resolve(Resolver *x, ImagePolicy policy, const char *reference, const char **ret, Error *e)
{
        for (size_t i = 0; i < x->n_answers; i++)
                if (x->answers[i].policy == policy && streq(x->answers[i].reference, reference))
                        return repeat(&x->answers[i], ret, e);

        Answer a = {.policy = policy, .reference = strdup(reference)};
        if (!a.reference || GREEDY_REALLOC(x->answers, x->answers_allocated, x->n_answers + 1) < 0) {
                free(a.reference);
                return error_oom(e);
        }
        int r = fetch_in_time(x, policy, reference, &a.id, &a.error);
        if (r < 0 && (operation_ended(r) || r == -ENOMEM)) {
                free(a.reference);
                return error_move(e, &a.error);
        }
        a.error.code = r < 0 ? r : 0;
        x->answers[x->n_answers++] = a;
        return repeat(&x->answers[x->n_answers - 1], ret, e);
}
