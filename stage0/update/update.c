/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Updates the apps of running pods: looks for newer images of all of them, and then replaces the apps of each pod one after the
 * other, in a process for each pod (replace.c), so that no pod waits for another one.
 *
 * The supervisor of a pod does what has to be done for one app, and undoes it if the new app does not get ready
 * (supervisor-replace.c). An image with which that happened is recorded for the app, so that a timer does not stop the app
 * again and again for it: it is not tried again until the reference means another image, or the user asks for it. */

#include "stage0/update/update-internal.h"

#define PROCESSES_MAX 64U

struct Updater {
        Store *store;
        const UpdateOptions *options;
        Resolver *resolver;
        PodUpdate *pods;
        size_t n, allocated;
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
                        [UPDATE_PASSED_OVER] = "passed over",
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

static void app_update_done(AppUpdate *a)
{
        free(a->reference);
        free(a->newer_id);
        strv_free(a->warnings);
        error_done(&a->error);
}

static void pod_update_done(PodUpdate *x)
{
        pod_update_kill(x);
        for (size_t i = 0; i < x->n; i++) {
                app_update_done(&x->apps[i].update);
                free(x->apps[i].reference);
        }
        free(x->apps);
        pod_free(x->pod);
}

Updater *updater_free(Updater *u)
{
        if (!u)
                return NULL;
        for (size_t i = 0; i < u->n; i++)
                pod_update_done(&u->pods[i]);
        free(u->pods);
        (void) resolver_free(u->resolver);
        free(u);
        return NULL;
}

/* --- Newer images -------------------------------------------------------------------------------------- */

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
        return 0;
}

static int look(Updater *u, PodUpdate *x, const Candidate *k, Error *e)
{
        AppReplacement *y = &x->apps[x->n++];
        AppUpdate *a = &y->update;

        *a = (AppUpdate){.app = k->app, .policy = k->policy, .result = UPDATE_FAILED};
        int r = candidate_reference(x->pod, k->app, &y->reference, &a->error);
        if (r >= 0) {
                a->reference = reference_for_display(y->reference);
                r = a->reference ? compare(u, x->pod, a, y->reference) : error_oom(&a->error);
        }
        if (operation_ended(r) || r == -ENOMEM)
                return error_move(e, &a->error);
        y->code = r;
        y->pending = a->result == UPDATE_AVAILABLE && !u->options->dry_run;
        x->n_pending += y->pending;
        return 0;
}

static int look_for_all(Updater *u, PodUpdate *x, Error *e)
{
        _cleanup_free_ Candidate *l = NULL;
        size_t n = 0;

        int r = pod_load(x->pod, e); /* the pod may have changed since it was listed */
        if (r >= 0)
                r = candidates_list(x->pod, &l, &n, e);
        if (r >= 0 && !(x->apps = calloc(n + 1, sizeof(AppReplacement))))
                r = error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = look(u, x, &l[i], e);
        return r;
}

int updater_add(Updater *u, Pod *p, size_t *ret_n, Error *e)
{
        PodUpdate x = {.pod = p, .fd = -EBADF};

        for (size_t i = 0; i < u->n; i++)
                if (streq(u->pods[i].pod->uuid, p->uuid)) { /* the pod was named twice: update it once */
                        *ret_n = u->pods[i].n;
                        pod_update_done(&x);
                        return 0;
                }
        int r = GREEDY_REALLOC(u->pods, u->allocated, u->n + 1) < 0 ? error_oom(e) : look_for_all(u, &x, e);
        if (r < 0) {
                pod_update_done(&x);
                return r;
        }
        *ret_n = x.n;
        u->pods[u->n++] = x;
        return 0;
}

/* --- Results ------------------------------------------------------------------------------------------- */

/* The hint of the supervisor, and what to do next. */
static void add_hint(Error *e)
{
        _cleanup_free_ char *hint = TAKE_PTR(e->hint);

        (void) error_hint(e, e->code, "%s%sThis image is not tried again without --retry.", hint ?: "",
                          hint ? " " : "");
}

static bool has_ended(const Updater *u, const Pod *p)
{
        _cleanup_(pod_freep) Pod *now = NULL;
        int r = pod_look(u->store, p->uuid, &now, NULL);

        return r == -ENOENT || (r >= 0 && now->state != POD_RUNNING);
}

static void report_results(const Updater *u, PodUpdate *x)
{
        for (size_t i = 0; i < x->n; i++) {
                AppReplacement *y = &x->apps[i];
                AppUpdate *a = &y->update;

                if (y->pending) /* no result: interrupted */
                        continue;
                if (a->result == UPDATE_FAILED && u->options->passes_over && !y->begun &&
                    has_ended(u, x->pod))
                        a->result = UPDATE_PASSED_OVER;
                if (y->code < 0)
                        (void) error_prefix(&a->error, y->code, "Pod %s: app %s (%s)",
                                            pod_display_name(x->pod), a->app->name,
                                            a->reference ?: "of an unknown image");
                if (a->result == UPDATE_ROLLED_BACK)
                        add_hint(&a->error);
                u->options->done(x->pod, a, u->options->userdata);
        }
}

int updater_finish(Updater *u, Error *e)
{
        size_t n_begun = 0;
        int r = 0;

        (void) fflush(NULL); /* otherwise each child would inherit the buffered output */
        for (size_t i = 0; i < u->n; i++) {
                for (; r >= 0 && n_begun < u->n && n_begun < i + PROCESSES_MAX; n_begun++)
                        if (u->pods[n_begun].n_pending > 0)
                                pod_update_begin(&u->pods[n_begun], u->options);
                /* also after an interruption: other pods may have results */
                int k = i < n_begun ? pod_update_finish(&u->pods[i], store_operation(u->store),
                                                        r < 0 ? NULL : e)
                                    : 0;
                r = r < 0 ? r : k;
                report_results(u, &u->pods[i]);
        }
        return r;
}
