/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn apply: changes a running pod to what its file declares, app by app. */

#include "stage0/apply/apply.h"
#include "stage0/arguments/pod-declared.h"
#include "stage0/verbs/pod-words.h"
#include "stage0/pods/pods.h"

/* How long an app may be changed by another call, as that of an apply that was killed: until it is ready, or put back. */
#define BUSY_USEC (5 * 60 * UINT64_C(1000000))
#define BUSY_POLL_MSEC 100

static const TableColumn columns[] = {
                {"POD", "pod", false, 12},   {"APP", "app", false, 12},      {"CHANGE", "change", false, 0},
                {"WHAT", "what", false, 16}, {"RESULT", "result", false, 0},
};

typedef struct Arguments {
        bool dry_run;
} Arguments;

static const Option options[] = {
                {"Options", "dry-run", 'n', NULL, false,
                 "Fetch images that are missing, and show what would be changed", NULL, option_true,
                 offsetof(Arguments, dry_run)},
                OPTION_END,
};

typedef struct Run {
        bool dry_run, failed;
        Table *table;
} Run;

/* --- The plan ------------------------------------------------------------------------------------------ */

static int add_row(Table *t, const Pod *p, const char *app, const char *change, char *const *what,
                   const char *result)
{
        _cleanup_free_ char *list = strv_join(what, ", ");

        if (!list)
                return -ENOMEM;
        table_add_text(t, pod_display_name(p));
        table_add_text(t, app);
        table_add_text(t, change);
        table_add_text(t, *list ? list : NULL);
        table_add_text(t, result);
        return 0;
}

/* ALL: also steps that were not taken. */
static int show(Context *c, Run *x, const Pod *p, const ApplyPlan *plan, bool all)
{
        int r = plan->new_pod ? add_row(x->table, p, NULL, "new pod", plan->new_pod, "refused") : 0;

        for (size_t i = 0; r >= 0 && i < plan->n; i++) {
                const ApplyStep *s = &plan->steps[i];
                if (!all && s->result != APPLY_DONE)
                        break;
                context_show_warnings(s->warnings);
                r = add_row(x->table, p, s->app, apply_change_to_string(s->change), s->keys,
                            apply_result_to_string(s->result));
        }
        return r < 0 ? error_oom(&c->error) : 0;
}

static int refuse(Context *c, const Pod *p, const ApplyPlan *plan)
{
        _cleanup_free_ char *list = strv_join(plan->new_pod, ", ");
        const char *pod = pod_display_name(p);

        int r = error_set(&c->error, -EBUSY, "Pod %s is left as it is: only a new pod can have another %s",
                          pod, list ?: "");
        return error_hint(&c->error, r,
                          "'systemctl restart acnspawn@%s' makes one; elsewhere 'acnspawn run "
                          "--replace --declared=%s'.",
                          pod, pod);
}

static int warn_of_later(Context *c, const Pod *p, const ApplyPlan *plan)
{
        _cleanup_free_ char *list = strv_join(plan->later, ", ");

        if (!list)
                return error_oom(&c->error);
        log_warning("What is changed of pod %s takes effect when it is started again: %s.",
                    pod_display_name(p), list);
        return 0;
}

/* --- A pod --------------------------------------------------------------------------------------------- */

/* Makes a plan and takes its steps. 0: another call is changing an app, which may be tried again as RETRY says. */
static int apply_once(Context *c, Run *x, Pod *p, PodArguments *a, const Pod *wanted, bool retry)
{
        _cleanup_(apply_plan_freep) ApplyPlan *plan = NULL;
        bool busy = false;

        int r = apply_plan_new(p, wanted, &a->request, &plan, &c->error);
        if (r < 0)
                return r;
        if (plan->n == 0 && !plan->new_pod && !plan->later && !c->quiet)
                log_info("Pod %s is as it is declared.", pod_display_name(p));
        if (!x->dry_run && plan->new_pod)
                r = refuse(c, p, plan);
        else if (!x->dry_run) {
                r = apply_plan_run(plan, p, &a->request, &c->error);
                busy = r == -EBUSY && retry;
        }
        int k = show(c, x, p, plan, !busy);
        if (k >= 0 && !busy && plan->later)
                k = warn_of_later(c, p, plan);
        if (!busy)
                return r < 0 ? r : k < 0 ? k : 1;
        error_done(&c->error);
        return k;
}

static int apply(Context *c, Run *x, Pod *p, PodArguments *a, const Pod *wanted)
{
        uint64_t until = now_usec(CLOCK_MONOTONIC) + BUSY_USEC;
        int r = x->dry_run ? 0 : pod_check_running(p, &c->error);

        while (r >= 0) {
                r = apply_once(c, x, p, a, wanted, now_usec(CLOCK_MONOTONIC) < until);
                if (r != 0)
                        break;
                r = operation_poll(pod_operation(p), -1, 0, BUSY_POLL_MSEC, &c->error);
                if (r >= 0) /* it may have been paused */
                        r = pod_check_running(p, &c->error);
        }
        return r;
}

/* If not, that is the error. */
static int is_declared(Context *c, const char *name)
{
        _cleanup_strv_free_ char **dirs = NULL;
        _cleanup_(declared_freep) Declared *d = NULL;
        _cleanup_error_ Error why = ERROR_NULL;

        if (declared_dirs(c->config_dirs[0], &dirs) < 0)
                return -ENOMEM;
        int r = declared_load(dirs, name, &d, &why);
        if (r >= 0)
                return 0;
        error_done(&c->error);
        return error_move(&c->error, &why);
}

static int find_running(Context *c, const char *name, Pod **ret)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        int r = pod_open_by_name(c->store, name, &p, &c->error);

        if (r >= 0 && p->state != POD_RUNNING)
                r = error_set(&c->error, -ESRCH, "Pod %s is not running, but %s", name,
                              pod_state_to_string(p->state));
        else if (r == -ENOENT) {
                error_done(&c->error);
                r = error_set(&c->error, -ESRCH, "Pod %s does not run", name);
        }
        if (r == -ESRCH && is_declared(c, name) >= 0)
                return error_hint(
                                &c->error, r,
                                "'systemctl start acnspawn@%s' starts it, or 'acnspawn run --declared=%s'.",
                                name, name);
        if (r >= 0)
                r = pod_load(p, &c->error);
        if (r >= 0)
                *ret = TAKE_PTR(p);
        return r;
}

/* systemd reads these sections only at a daemon-reload. */
static void warn_about_units(Context *c, const char *name)
{
        _cleanup_strv_free_ char **dirs = NULL;
        _cleanup_(declared_freep) Declared *d = NULL;

        if (!isempty(c->config_dirs[0]) || access("/run/systemd/system", F_OK) < 0 ||
            declared_dirs(c->config_dirs[0], &dirs) < 0 || declared_load(dirs, name, &d, NULL) < 0 ||
            declared_service_is_known(d, DECLARED_GENERATED) != 0)
                return;
        log_warning("[Unit] or [Service] of pod %s has changed; systemd reads these sections at 'systemctl daemon-reload'.",
                    name);
}

/* The declared pod is prepared, but for its last steps, so that everything is checked and fetched before anything is
 * changed. The file is read with the lock held: of two calls at once the second applies what is declared by then. */
static int apply_one(Context *c, Run *x, const char *name)
{
        _cleanup_(pod_freep) Pod *p = NULL, *wanted = NULL;
        _cleanup_run_arguments_ RunArguments run;
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_close_ int lock_fd = -EBADF;

        run_arguments_init(&run);
        pod_arguments_init(&a);
        int r = find_running(c, name, &p);
        if (r >= 0 && !x->dry_run)
                r = apply_lock(p, &lock_fd, &c->error);
        if (r >= 0)
                r = context_load_declared(c, name, &a, &run);
        if (r < 0)
                return r;
        a.options.name = NULL; /* the pod that runs has it */
        a.options.dry_run = true;
        r = pod_arguments_prepare(c, &a, &wanted);
        if (r < 0)
                return r;
        r = pod_keep_images(wanted, &c->error); /* apps may take long to get ready */
        if (r >= 0) {
                warn_about_units(c, name);
                r = apply(c, x, p, &a, wanted);
        }
        pod_abandon(wanted);
        return r;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = "a declared pod"};
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));
        Arguments own = {};

        int r = t ? context_parse(c, options, &own, argc, argv, &words) : error_oom(&c->error);
        if (r <= 0)
                return r;
        for (size_t i = 0; i < words.n; i++) {
                r = pod_name_check(words.list[i], &c->error);
                if (r < 0)
                        return context_usage_error(c, r);
        }
        r = context_open_store_as_root(c);
        Run x = {.dry_run = own.dry_run, .table = t};
        for (size_t i = 0; r >= 0 && i < words.n; i++) {
                r = apply_one(c, &x, words.list[i]);
                if (r >= 0 || operation_ended(r) || r == -ENOMEM)
                        continue;
                context_print_error(c, r);
                error_done(&c->error);
                x.failed = true;
                r = 0;
        }
        int k = table_n_rows(t) > 0 || c->json != JSON_OFF ? context_show_table(c, t, NULL) : 0;
        if (r < 0 || k < 0)
                return r < 0 ? r : k;
        return x.failed ? EXIT_STATUS_FAILURE : EXIT_SUCCESS;
}

const Verb verb_apply = {
                .name = "apply",
                .page = "acnspawn-apply",
                .synopsis = "[--dry-run] POD…",
                .brief = "POD…",
                .summary = "Change running pods to what their files declare",
                .text = "Compares running pods with what their files declare by now, adds, replaces and "
                        "removes apps, and changes limits. Apps that are the same are not touched. Each app is "
                        "ready before the next is changed; the first that does not get ready is put back, and "
                        "nothing more is done. What only a new pod can have, such as another network, is named, "
                        "and nothing is changed then.",
                .words = "declared",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
