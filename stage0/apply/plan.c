/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which apps of a running pod have to be added, changed and removed, and in which order. */

#include "stage0/apply/apply-internal.h"
#include "stage1/stage1.h"

static void step_done(ApplyStep *s)
{
        free(s->app);
        strv_free(s->keys);
        strv_free(s->warnings);
}

ApplyPlan *apply_plan_free(ApplyPlan *plan)
{
        if (!plan)
                return NULL;
        for (size_t i = 0; i < plan->n; i++)
                step_done(&plan->steps[i]);
        free(plan->steps);
        strv_free(plan->new_pod);
        strv_free(plan->later);
        free(plan);
        return NULL;
}

/* KEYS is taken over. */
static int add_step(ApplyPlan *plan, ApplyChange change, const char *app, char ***keys)
{
        ApplyStep *s = &plan->steps[plan->n];

        *s = (ApplyStep){.change = change, .app = strdup(app), .keys = keys ? TAKE_PTR(*keys) : NULL};
        plan->n++;
        return s->app ? 0 : -ENOMEM;
}

/* --- Apps that are wanted ------------------------------------------------------------------------------ */

typedef struct Planner {
        ApplyPlan *plan;
        Pod *pod;
        AcnPod *connection;
        AcnDescription now;
        HostFeatures features;
} Planner;

static bool waits_for_its_start(const AcnDescription *d, const PodApp *app)
{
        for (size_t i = 0; i < d->n_apps; i++)
                if (streq_ptr(d->apps[i].name, app->name))
                        return d->apps[i].state == ACN_APP_CREATED &&
                               !stage1_app_is_socket_activated(app->app);
        return false;
}

/* Only the supervisor of the pod knows their content. */
static int compare_credentials(const Planner *x, const AppOverrides *old, const AppOverrides *new,
                               char ***ret, Error *e)
{
        _cleanup_error_ Error why = ERROR_NULL;

        if (old->credentials.n + new->credentials.n == 0)
                return 0;
        int r = acn_compare_credentials(x->connection, new->name, &new->credentials, ret, &why);
        if (r != -EOPNOTSUPP)
                return r < 0 ? error_move(e, &why) : 0;
        log_warning("Whether the content of credentials of app %s has changed is not known: %s", new->name,
                    why.message);
        return 0;
}

static int plan_change(const Planner *x, const PodApp *app, const PodApp *wanted, const AppOverrides *new,
                       Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_strv_free_ char **keys = NULL, **credentials = NULL;
        bool limits = false;

        int r = pod_app_definition_read(x->pod, app, &d, e);
        if (r >= 0)
                r = compare_credentials(x, &d.request.apps[0], new, &credentials, e);
        if (r < 0)
                return r;
        if (differences_of_apps(app, &d.request.apps[0], new, wanted->image_id, credentials, &x->features,
                                &keys, &limits) < 0)
                return error_oom(e);
        if (!keys && !waits_for_its_start(&x->now, app))
                return 0;
        ApplyChange change = !keys ? APPLY_START : limits ? APPLY_LIMIT : APPLY_REPLACE;
        return add_step(x->plan, change, app->name, &keys) < 0 ? error_oom(e) : 0;
}

/* The apps of the manifest are those of the request, in the same order. */
static int plan_wanted(const Planner *x, const Pod *wanted, const PodRequest *q, Error *e)
{
        _cleanup_free_ size_t *order = NULL;
        ApplyPlan *plan = x->plan;
        int r = start_order(wanted->manifest, &order, e);

        for (size_t i = 0; r >= 0 && i < wanted->manifest->n_apps; i++) {
                const PodApp *new = wanted->manifest->apps[order[i]];
                const PodApp *app = pod_manifest_find_app(x->pod->manifest, new->name);
                size_t before = plan->n;

                if (app)
                        r = plan_change(x, app, new, &q->apps[order[i]], e);
                else if (add_step(plan, APPLY_ADD, new->name, NULL) < 0)
                        r = error_oom(e);
                if (plan->n > before) {
                        plan->steps[before].index = order[i];
                        plan->steps[before].image_id = new->image_id;
                        plan->steps[before].wanted = new;
                }
        }
        return r;
}

/* --- Apps that are not --------------------------------------------------------------------------------- */

static int plan_unwanted(const Planner *x, const Pod *wanted, Error *e)
{
        const PodManifest *m = x->pod->manifest;
        _cleanup_free_ size_t *order = NULL;
        int r = start_order(m, &order, e);

        for (size_t i = m->n_apps; r >= 0 && i > 0; i--) {
                const char *name = m->apps[order[i - 1]]->name;
                /* What is nested under an app goes with it. */
                if (!nested_is_name(name) && !pod_manifest_find_app(wanted->manifest, name) &&
                    add_step(x->plan, APPLY_REMOVE, name, NULL) < 0)
                        r = error_oom(e);
        }
        return r;
}

/* --- Altogether ---------------------------------------------------------------------------------------- */

/* The state of the pod first: an app that is added in between is in both, and one that is replaced is the new one. */
static int describe(Planner *x, Error *e)
{
        int r = acn_connect(x->pod, &x->connection, e);

        if (r >= 0)
                r = acn_describe(x->connection, &x->now, e);
        return r < 0 ? r : pod_load(x->pod, e);
}

int apply_features(Pod *p, HostFeatures *ret, Error *e)
{
        int r = pod_features(p, false, ret);

        return r < 0 ? error_set_errno(e, r, "Cannot determine the features of this host for pod %s",
                                       pod_display_name(p))
                     : 0;
}

static int fill_plan(Planner *x, const Pod *wanted, PodRequest *q, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition old = {};
        ApplyPlan *plan = x->plan;
        Pod *p = x->pod;

        int r = describe(x, e);
        if (r >= 0)
                r = apply_features(p, &x->features, e);
        if (r >= 0)
                r = pod_definition_read(p, &old, e);
        if (r < 0)
                return r;
        plan->steps = calloc(p->manifest->n_apps + wanted->manifest->n_apps + 1, sizeof(ApplyStep));
        if (!plan->steps || pod_request_separate(q) < 0 ||
            differences_of_pods(p, wanted, &old.request, q, &plan->new_pod) < 0 ||
            differences_of_runs(p, wanted, &plan->later) < 0 ||
            differences_of_images(p, wanted, &old.request, q, &plan->later) < 0)
                return error_oom(e);
        if (old.request.template || q->template) /* which is one thing */
                return 0;
        r = plan_wanted(x, wanted, q, e);
        return r < 0 ? r : plan_unwanted(x, wanted, e);
}

int apply_plan_new(Pod *p, const Pod *wanted, PodRequest *q, ApplyPlan **ret, Error *e)
{
        _cleanup_(apply_plan_freep) ApplyPlan *plan = calloc(1, sizeof(ApplyPlan));
        Planner x = {.plan = plan, .pod = p};

        if (!plan)
                return error_oom(e);
        int r = fill_plan(&x, wanted, q, e);
        acn_disconnect(x.connection);
        acn_description_done(&x.now);
        if (r >= 0)
                *ret = TAKE_PTR(plan);
        return r;
}
