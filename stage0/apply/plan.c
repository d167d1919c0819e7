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

static bool waits_for_its_start(const AcnDescription *d, const PodApp *app)
{
        for (size_t i = 0; i < d->n_apps; i++)
                if (streq_ptr(d->apps[i].name, app->name))
                        return d->apps[i].state == ACN_APP_CREATED && !stage1_app_is_socket_activated(app->app);
        return false;
}

static int plan_change(ApplyPlan *plan, Pod *p, const AcnDescription *now, const PodApp *app, const PodApp *wanted,
                       const AppOverrides *new, Error *e)
{
        _cleanup_strv_free_ char **keys = NULL, **fixed = NULL;
        _cleanup_(pod_definition_done) PodDefinition d = {};
        bool limits = false;

        int r = pod_app_definition_read(p, app, &d, e);
        if (r < 0)
                return r;
        if (differences_of_apps(app, &d.request.apps[0], new, wanted->image_id, &keys, &fixed, &limits) < 0)
                return error_oom(e);
        STRV_FOREACH (key, fixed)
                if (strv_extendf(&plan->new_pod, "app %s: %s", app->name, *key) < 0)
                        return error_oom(e);
        if (fixed || (!keys && !waits_for_its_start(now, app)))
                return 0;
        ApplyChange change = !keys ? APPLY_START : limits ? APPLY_LIMIT : APPLY_REPLACE;
        return add_step(plan, change, app->name, &keys) < 0 ? error_oom(e) : 0;
}

/* The apps of the manifest are those of the request, in the same order. */
static int plan_wanted(ApplyPlan *plan, Pod *p, const AcnDescription *now, const Pod *wanted, const PodRequest *q,
                       Error *e)
{
        _cleanup_free_ size_t *order = NULL;
        int r = start_order(wanted->manifest, &order, e);

        for (size_t i = 0; r >= 0 && i < wanted->manifest->n_apps; i++) {
                const PodApp *new = wanted->manifest->apps[order[i]];
                const PodApp *app = pod_manifest_find_app(p->manifest, new->name);
                size_t before = plan->n;

                if (app)
                        r = plan_change(plan, p, now, app, new, &q->apps[order[i]], e);
                else if (add_step(plan, APPLY_ADD, new->name, NULL) < 0)
                        r = error_oom(e);
                if (plan->n > before) {
                        plan->steps[before].index = order[i];
                        plan->steps[before].image_id = new->image_id;
                }
        }
        return r;
}

/* --- Apps that are not --------------------------------------------------------------------------------- */

static int plan_unwanted(ApplyPlan *plan, const Pod *p, const Pod *wanted, Error *e)
{
        const PodManifest *m = p->manifest;
        _cleanup_free_ size_t *order = NULL;
        int r = start_order(m, &order, e);

        for (size_t i = m->n_apps; r >= 0 && i > 0; i--) {
                const char *name = m->apps[order[i - 1]]->name;
                if (!pod_manifest_find_app(wanted->manifest, name) &&
                    add_step(plan, APPLY_REMOVE, name, NULL) < 0)
                        r = error_oom(e);
        }
        return r;
}

/* --- Altogether ---------------------------------------------------------------------------------------- */

/* The state of the pod first: an app that is added in between is in both, and one that is replaced is the new one. */
static int describe(Pod *p, AcnDescription *ret, Error *e)
{
        _cleanup_(acn_disconnectp) AcnPod *connection = NULL;

        int r = acn_connect(p, &connection, e);
        if (r >= 0)
                r = acn_describe(connection, ret, e);
        return r < 0 ? r : pod_load(p, e);
}

static int fill_plan(ApplyPlan *plan, Pod *p, const Pod *wanted, PodRequest *q, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition old = {};
        _cleanup_(acn_description_done) AcnDescription now = {};

        int r = describe(p, &now, e);
        if (r >= 0)
                r = pod_definition_read(p, &old, e);
        if (r < 0)
                return r;
        plan->steps = calloc(p->manifest->n_apps + wanted->manifest->n_apps + 1, sizeof(ApplyStep));
        if (!plan->steps || pod_request_separate(q) < 0 ||
            differences_of_pods(p, wanted, &old.request, q, &plan->new_pod) < 0)
                return error_oom(e);
        if (old.request.template || q->template) /* which is one thing */
                return 0;
        r = plan_wanted(plan, p, &now, wanted, q, e);
        return r < 0 ? r : plan_unwanted(plan, p, wanted, e);
}

int apply_plan_new(Pod *p, const Pod *wanted, PodRequest *q, ApplyPlan **ret, Error *e)
{
        _cleanup_(apply_plan_freep) ApplyPlan *plan = calloc(1, sizeof(ApplyPlan));

        if (!plan)
                return error_oom(e);
        int r = fill_plan(plan, p, wanted, q, e);
        if (r >= 0)
                *ret = TAKE_PTR(plan);
        return r;
}
