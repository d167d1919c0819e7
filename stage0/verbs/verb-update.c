/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn update: replaces apps of running pods by those of newer images, as their image policies say. */

#include "stage0/context/fetching.h"
#include "stage0/verbs/pod-words.h"

static const TableColumn columns[] = {
                {"UUID", "uuid", false, 0},        {"POD", "pod", false, 12},
                {"APP", "app", false, 12},         {"IMAGE", "image", false, 16, true},
                {"POLICY", "policy", false, 0},    {"CURRENT", "currentID", false, 0},
                {"NEWER", "newerID", false, 0},    {"RESULT", "result", false, 0},
                {"MESSAGE", "message", false, 16},
};

static const char *const usual[] = {"pod", "app", "image", "policy", "currentID", "newerID", "result", NULL};

#define FETCH_TIMEOUT_USEC (3600 * UINT64_C(1000000))

typedef struct Arguments {
        UpdateOptions update;
        bool if_running;
        TableFormat format;
} Arguments;

static const Option options[] = {
                {"Options", "dry-run", 'n', NULL, false,
                 "Fetch newer images, and show which apps would be replaced", NULL, option_true,
                 offsetof(Arguments, update.dry_run)},
                {NULL, "retry", 0, NULL, false,
                 "Also try images with which the app did not get ready before", NULL, option_true,
                 offsetof(Arguments, update.retry)},
                {NULL, "allow-older", 0, NULL, false,
                 "Also replace apps by images that are older than their present ones", NULL, option_true,
                 offsetof(Arguments, update.allow_older)},
                {NULL, "if-running", 0, NULL, false,
                 "Pass over named pods that do not run, are paused or changed by another command, or do not exist",
                 NULL, option_true, offsetof(Arguments, if_running)},
                {NULL, "ready-timeout", 0, "TIME", false,
                 "Go back to the old image unless the new app is ready within this time (default: its own "
                 "start time-out, or if it has none 10min; infinity: never)",
                 NULL, option_usec, offsetof(Arguments, update.ready_timeout_usec)},
                {NULL, "fetch-timeout", 0, "TIME", false,
                 "Give up an image that is not fetched within this time, and go on with the next (default: "
                 "1h; infinity: never)",
                 NULL, option_usec, offsetof(Arguments, update.fetch_timeout_usec)},
                {NULL, "format", 0, "FIELD[,…]|TEXT", false,
                 "Show these columns, or for each app a text with fields in braces: '{pod}\\t{result}'",
                 "uuid|pod|app|image|policy|currentID|newerID|result|message", option_table_format,
                 offsetof(Arguments, format)},
                OPTIONS_TRANSFER("Image Options", offsetof(Arguments, update.fetch)),
                OPTION_END,
};

typedef struct Run {
        Context *context;
        Updater *updater;
        Table *table;
        bool failed, passes_over; /* passes_over: what cannot be updated just now is no failure */
} Run;

/* --- Results ------------------------------------------------------------------------------------------- */

static void add_id(Table *t, const char *id)
{
        _cleanup_free_ char *shown = id ? strndup(id, 19) : NULL;

        if (id)
                table_add_text_as(t, id, isatty(STDOUT_FILENO) ? shown : id);
        else
                table_add_none(t);
}

static void add_row(Table *t, const Pod *p, const AppUpdate *u)
{
        static const Color colors[_UPDATE_RESULT_MAX] = {
                        [UPDATE_AVAILABLE] = COLOR_YELLOW, [UPDATE_REPLACED] = COLOR_GREEN,
                        [UPDATE_ROLLED_BACK] = COLOR_RED,  [UPDATE_FAILED_BEFORE] = COLOR_YELLOW,
                        [UPDATE_FAILED] = COLOR_RED,
        };

        table_add_text(t, p->uuid);
        table_add_text_as(t, p->config.name, p->config.name ?: p->uuid);
        table_add_text(t, u->app->name);
        table_add_text(t, u->reference);
        table_add_text(t, image_policy_to_string(u->policy));
        add_id(t, u->app->image_id);
        add_id(t, u->newer_id);
        table_add_text(t, update_result_to_string(u->result));
        table_set_color(t, colors[u->result]);
        table_add_text(t, u->error.message);
}

/* Messages come at once, as an update of many pods takes a while. */
static void on_result(const Pod *p, const AppUpdate *u, void *userdata)
{
        Run *x = userdata;

        STRV_FOREACH (w, u->warnings) {
                _cleanup_free_ char *shown = text_escape_for_terminal(*w);
                log_warning("Pod %s: app %s: %s", pod_display_name(p), u->app->name, shown ?: "");
        }
        if (u->result == UPDATE_FAILED_BEFORE)
                log_warning("Pod %s: app %s: image %.19s (%s) failed before; --retry tries it again",
                            pod_display_name(p), u->app->name, u->newer_id, u->reference);
        if (u->result == UPDATE_PASSED_OVER) {
                if (!x->context->quiet)
                        log_info("%s.", u->error.message ?: "");
        } else if (u->error.message) {
                error_print(&u->error, u->error.code);
                x->failed = true;
        }
        add_row(x->table, p, u);
}

/* --- Pods ---------------------------------------------------------------------------------------------- */

static int report_pod(Run *x, int r)
{
        Context *c = x->context;

        if (r >= 0 || operation_ended(r) || r == -ENOMEM)
                return r;
        context_print_error(c, r);
        error_done(&c->error);
        x->failed = true;
        return 0;
}

/* Adds P, which is taken over. 1: it has ended by now, and is passed over, as the user has not named it. */
static int add(Run *x, Pod *p, size_t *ret_n)
{
        _cleanup_(pod_freep) Pod *now = NULL;
        _cleanup_free_ char *uuid = strdup(p->uuid);
        Context *c = x->context;

        int r = updater_add(x->updater, p, ret_n, &c->error);
        if (r >= 0 || operation_ended(r) || !uuid || !x->passes_over)
                return r;
        int k = pod_look(c->store, uuid, &now, NULL);
        if (k != -ENOENT && (k < 0 || now->state == POD_RUNNING))
                return r;
        error_done(&c->error);
        return 1;
}

/* With --if-running that a pod does not run is no failure: timers of pods elapse whether these run or not. */
static int add_named(Run *x, const char *word, bool if_running)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        Context *c = x->context;
        size_t n = 0;

        int r = context_find_pod(c, word, &p);
        if (if_running && (r == -ENOENT || (r >= 0 && p->state != POD_RUNNING))) {
                error_done(&c->error);
                return 0;
        }
        if (r >= 0 && p->state != POD_RUNNING)
                r = error_set(&c->error, -ESRCH, "Pod %s is not running, but %s", pod_display_name(p),
                              pod_state_to_string(p->state));
        _cleanup_free_ char *name = r >= 0 ? strdup(pod_display_name(p)) : NULL;
        if (r >= 0)
                r = add(x, TAKE_PTR(p), &n);
        if (r == 0 && n == 0 && !c->quiet)
                log_info("No app of pod %s has an image policy; --image-policy= of prepare and run says it.",
                         name ?: word);
        return report_pod(x, r);
}

static int add_all(Run *x)
{
        Context *c = x->context;
        size_t n_pods = 0, n_apps = 0, n_passed = 0;
        Pod **pods = NULL;

        int r = pod_list(c->store, &pods, &n_pods, &c->error);
        for (size_t i = 0; r >= 0 && i < n_pods; i++) {
                size_t n = 0;
                if (pods[i]->state != POD_RUNNING)
                        continue;
                r = report_pod(x, add(x, TAKE_PTR(pods[i]), &n));
                n_apps += n;
                n_passed += r > 0;
        }
        pod_list_free(pods, n_pods);
        if (r >= 0 && n_apps == 0 && n_passed == 0 && !c->quiet)
                log_info("No app of a running pod has an image policy.");
        return r;
}

/* Without a store no pod runs, which is no failure of the timers. */
static int update_all(Run *x, const Words *words, Arguments *a)
{
        Context *c = x->context;

        if (!c->store) {
                if (!c->quiet)
                        log_info("There is no store at '%s', and no pod to update.", c->dir);
                return 0;
        }
        (void) interrupt_catch(c->operation);
        int r = context_show_fetching(c, &a->update.fetch);
        if (r >= 0)
                r = updater_new(c->store, &a->update, &x->updater, &c->error);
        for (size_t i = 0; r >= 0 && i < words->n; i++)
                r = add_named(x, words->list[i], a->if_running);
        if (r >= 0 && words->n == 0)
                r = add_all(x);
        if (r >= 0)
                r = updater_finish(x->updater, &c->error);
        context_end_fetching(c);
        return r;
}

static int update(Context *c, const Words *words, Arguments *a)
{
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));
        Run x = {.context = c, .table = t, .passes_over = words->n == 0 || a->if_running};

        if (!t)
                return error_oom(&c->error);
        a->update.passes_over = x.passes_over;
        a->update.done = on_result;
        a->update.userdata = &x;
        int r = update_all(&x, words, a);
        updater_free(x.updater);
        /* What was done is shown, also if it ended early. */
        int k = table_n_rows(t) > 0 || c->json != JSON_OFF
                                ? context_show_table_as(c, t, &a->format, usual, NULL)
                                : 0;
        if (r < 0 || k < 0)
                return r < 0 ? r : k;
        return x.failed ? EXIT_STATUS_FAILURE : EXIT_SUCCESS;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.max = SIZE_MAX, .what = A_POD};
        Arguments a = {.update.ready_timeout_usec = UPDATE_READY_DEFAULT,
                       .update.fetch_timeout_usec = FETCH_TIMEOUT_USEC,
                       .format = {.fields = columns, .n_fields = ELEMENTSOF(columns)}};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r > 0 && a.update.ready_timeout_usec == 0)
                r = context_usage(c, "--ready-timeout= must be longer than 0");
        if (r > 0 && a.update.fetch_timeout_usec == 0)
                r = context_usage(c, "--fetch-timeout= must be longer than 0");
        if (r > 0 && a.if_running && words.n == 0)
                r = context_usage(c, "--if-running is for pods that are named; without names, only pods "
                                     "that run are updated");
        if (r > 0 && context_check_format(c, &a.format) < 0)
                r = -EINVAL;
        if (r > 0) {
                r = words.n > 0 && !a.if_running ? context_open_existing_store_as_root(c)
                                                 : context_open_store_if_there_as_root(c);
                if (r >= 0)
                        r = update(c, &words, &a);
        }
        table_format_done(&a.format);
        return r;
}

const Verb verb_update = {
                .name = "update",
                .page = "acnspawn-update",
                .synopsis = "[OPTIONS…] [POD…]",
                .brief = "[POD…]",
                .summary = "Replace apps by those of newer images",
                .text = "Looks for newer images of the apps of running pods that were made with "
                        "--image-policy=registry or local, and replaces these apps, one after the other, as "
                        "'acnspawn update-app --image=' does. An app that does not get ready is put back, "
                        "and that image is not tried again without --retry. Without names, all running pods "
                        "are updated.",
                .words = "pod:running",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
