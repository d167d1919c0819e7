/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Updates the apps of a running pod, one after the other.
 *
 * The supervisor of the pod does what has to be done for one app, and undoes it if the new app does not get ready
 * (supervisor-replace.c). An image with which that happened is recorded for the app, so that a timer does not stop the app
 * again and again for it: it is not tried again until the reference means another image, or the user asks for it. */

#include "prepare/transfer/transfer.h"
#include "stage0/update/update-internal.h"

struct Updater {
        Store *store;
        const UpdateOptions *options;
        Resolver *resolver;
};

const char *update_result_to_string(UpdateResult r)
{
        static const char *const words[_UPDATE_RESULT_MAX] = {
                        [UPDATE_CURRENT] = "current",
                        [UPDATE_AVAILABLE] = "available",
                        [UPDATE_REPLACED] = "replaced",
                        [UPDATE_ROLLED_BACK] = "rolled back",
                        [UPDATE_FAILED_BEFORE] = "failed before",
                        [UPDATE_FAILED] = "failed",
        };

        return words[r];
}

int updater_new(Store *s, const UpdateOptions *o, Updater **ret, Error *e)
{
        Updater *u = calloc(1, sizeof(Updater));

        if (!u)
                return error_oom(e);
        *u = (Updater){.store = s, .options = o};
        int r = resolver_new(s, &o->fetch, o->fetch_timeout_usec, &u->resolver, e);
        if (r < 0) {
                free(u);
                return r;
        }
        *ret = u;
        return 0;
}

Updater *updater_free(Updater *u)
{
        if (!u)
                return NULL;
        (void) resolver_free(u->resolver);
        free(u);
        return NULL;
}

static void app_update_done(AppUpdate *a)
{
        free(a->reference);
        free(a->newer_id);
        strv_free(a->warnings);
        error_done(&a->error);
}

/* --- One app ------------------------------------------------------------------------------------------- */

static int replace(Updater *u, Pod *p, AppUpdate *a, const char *reference)
{
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        const AcnReplaceOptions o = {.reference = reference,
                                     .image_id = a->newer_id,
                                     .ready_timeout_usec = u->options->ready_timeout_usec};
        bool replaced = false;

        int r = acn_connect(p, &pod, &a->error);
        if (r >= 0)
                r = acn_replace_app(pod, a->app->name, &o, &replaced, &a->warnings, &a->error);
        if (r >= 0)
                a->result = replaced ? UPDATE_REPLACED : UPDATE_CURRENT;
        if (r != -ECONNABORTED)
                return r;
        a->result = UPDATE_ROLLED_BACK;
        _cleanup_error_ Error e = ERROR_NULL;
        if (pod_failed_image_write(p, a->app, a->newer_id, &e) < 0 && e.message)
                (void) strv_extend(&a->warnings, e.message);
        return r;
}

static int compare(Updater *u, Pod *p, AppUpdate *a, const char *reference)
{
        _cleanup_free_ char *failed = NULL;
        const char *id = NULL;

        int r = resolver_resolve(u->resolver, a->policy, reference, &id, &a->error);
        if (r < 0)
                return r;
        a->result = UPDATE_CURRENT;
        if (streq_ptr(id, a->app->image_id))
                return 0;
        a->newer_id = strdup(id);
        if (!a->newer_id)
                return error_oom(&a->error);
        a->result = UPDATE_FAILED;
        r = check_successor(u->store, a->app, id, u->options->allow_older, &a->error);
        if (r < 0)
                return r;
        if (!u->options->retry && pod_failed_image_read(p, a->app, &failed) >= 0 && streq_ptr(failed, id)) {
                a->result = UPDATE_FAILED_BEFORE;
                return 0;
        }
        a->result = UPDATE_AVAILABLE;
        if (u->options->dry_run)
                return 0;
        a->result = UPDATE_FAILED;
        return replace(u, p, a, reference);
}

/* What the supervisor says, and how to go on. */
static void add_hint(Error *e)
{
        _cleanup_free_ char *hint = TAKE_PTR(e->hint);

        (void) error_hint(e, e->code, "%s%sThis image is not tried again without --retry.", hint ?: "",
                          hint ? " " : "");
}

static int update_app(Updater *u, Pod *p, const Candidate *k, Error *e)
{
        AppUpdate a = {.app = k->app, .policy = k->policy, .result = UPDATE_FAILED};
        _cleanup_free_ char *reference = NULL;

        int r = candidate_reference(p, k->app, &reference, &a.error);
        if (r >= 0) {
                a.reference = reference_for_display(reference);
                r = a.reference ? compare(u, p, &a, reference) : error_oom(&a.error);
        }
        if (operation_ended(r) || r == -ENOMEM) {
                (void) error_move(e, &a.error);
                app_update_done(&a);
                return r;
        }
        if (r < 0)
                (void) error_prefix(&a.error, r, "Pod %s: app %s (%s)", pod_display_name(p), k->app->name,
                                    a.reference ?: "of an unknown image");
        if (a.result == UPDATE_ROLLED_BACK)
                add_hint(&a.error);
        u->options->done(p, &a, u->options->userdata);
        app_update_done(&a);
        return 0;
}

/* --- A pod --------------------------------------------------------------------------------------------- */

int updater_update(Updater *u, Pod *p, size_t *ret_n, Error *e)
{
        _cleanup_free_ Candidate *l = NULL;
        size_t n = 0;

        int r = pod_load(p, e); /* it may have changed since it was listed */
        if (r >= 0)
                r = candidates_list(p, &l, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = update_app(u, p, &l[i], e);
        *ret_n = n;
        return r;
}
