/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn list: lists pods, one per line. */

#include "stage0/cli/filter.h"
#include "stage0/verbs/image-json.h"
#include "stage0/verbs/pod-words.h"
#include "stage0/pods/pods.h"

static const TableColumn columns[] = {
                {"UUID", "uuid", false, 0},        {"NAME", "name", false, 12},
                {"STATE", "state", false, 0},      {"APPS", "apps", false, 16},
                {"CREATED", "created", false, 0},  {"EXIT", "exitStatus", true, 0},
                {"ENDED BY", "endedBy", false, 0}, {"HEALTH", "health", false, 0},
                {"IMAGES", "images", false, 16},   {"NETWORKS", "networks", false, 12},
                {"LABELS", "labels", false, 16},   {"ANNOTATIONS", "annotations", false, 16},
};

static const char *const usual[] = {"uuid", "name", "state", "apps", "created", "exitStatus", NULL};

typedef struct Arguments {
        bool full, all;
        Words names;   /* of pods; none: all pods */
        char **states; /* as displayed; NULL: all */
        Filters filters;
        TableFormat format;
} Arguments;

#define STATES "preparing|aborted-prepare|prepared|running|paused|frozen|exited|garbage"

static int option_states(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_strv_free_ char **known = NULL, **words = NULL;

        if (strv_split(STATES, "|", &known) < 0 || strv_split(value, ",", &words) < 0)
                return error_oom(e);
        if (!words)
                return option_invalid(o, value, e, "must be states of pods, as in running,paused");
        STRV_FOREACH (w, words) {
                if (!strv_contains(known, *w))
                        return option_invalid(o, value, e, "'%s' is none of " STATES, *w);
                if (strv_extend(target, streq(*w, "aborted-prepare") ? "aborted prepare" : *w) < 0)
                        return error_oom(e);
        }
        return 0;
}

/* --- Filters ------------------------------------------------------------------------------------------- */

static int check_state(const char *value, Error *e)
{
        _cleanup_strv_free_ char **known = NULL;

        if (strv_split(STATES, "|", &known) < 0)
                return error_oom(e);
        return strv_contains(known, value) ? 0 : error_set(e, -EINVAL, "the state is none of " STATES);
}

static bool state_matches(const void *object, const char *value)
{
        return streq(pod_shown_state((Pod *) object),
                     streq(value, "aborted-prepare") ? "aborted prepare" : value);
}

static bool name_matches(const void *object, const char *value)
{
        return filter_glob(value, ((const Pod *) object)->config.name);
}

static bool app_matches(const void *object, const char *value)
{
        const PodManifest *m = ((const Pod *) object)->manifest;

        for (size_t i = 0; m && i < m->n_apps; i++)
                if (filter_glob(value, pod_app_path_name(m->apps[i])))
                        return true;
        return false;
}

static bool image_matches_one(const PodApp *a, const char *value)
{
        _cleanup_free_ char *full = NULL;
        const char *version = pair_list_get(&a->image_labels, "version");

        if (filter_glob(value, a->image_name) || filter_glob(value, a->image_id))
                return true;
        return a->image_name && version && xasprintf(&full, "%s:%s", a->image_name, version) >= 0 &&
               filter_glob(value, full);
}

/* By name, name:version, or ID. */
static bool image_matches(const void *object, const char *value)
{
        const PodManifest *m = ((const Pod *) object)->manifest;

        for (size_t i = 0; m && i < m->n_apps; i++)
                if (image_matches_one(m->apps[i], value))
                        return true;
        return false;
}

/* The networks of a pod by name, without arguments; or "none" or "host". */
static int pod_network_names(const Pod *p, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;

        if (p->config.net != NET_NETWORKS && strv_extend(&l, net_mode_to_string(p->config.net)) < 0)
                return -ENOMEM;
        STRV_FOREACH (n, p->config.networks)
                if (strv_extendf(&l, "%.*s", (int) strcspn(*n, ":"), *n) < 0)
                        return -ENOMEM;
        *ret = TAKE_PTR(l);
        return 0;
}

static bool network_matches(const void *object, const char *value)
{
        _cleanup_strv_free_ char **l = NULL;

        return pod_network_names(object, &l) >= 0 && filter_glob_any(value, l);
}

static bool label_matches(const void *object, const char *value)
{
        const PodManifest *m = ((const Pod *) object)->manifest;

        return m && filter_pair(value, &m->user_labels);
}

static bool annotation_matches(const void *object, const char *value)
{
        const PodManifest *m = ((const Pod *) object)->manifest;

        return m && (filter_pair(value, &m->annotations) || filter_pair(value, &m->user_annotations));
}

static const FilterKey filter_keys[] = {
                {"state", false, check_state, state_matches},
                {"name", false, NULL, name_matches},
                {"app", false, NULL, app_matches},
                {"image", false, NULL, image_matches},
                {"network", false, NULL, network_matches},
                {"label", true, NULL, label_matches},
                {"annotation", true, NULL, annotation_matches},
                FILTER_KEY_END,
};

static const Option options[] = {
                {"Options", "full", 'l', NULL, false, "Show UUIDs in full on a terminal as well", NULL,
                 option_true, offsetof(Arguments, full)},
                {NULL, "all", 'a', NULL, false,
                 "Also pods that had one of the names before those that have it now", NULL, option_true,
                 offsetof(Arguments, all)},
                {NULL, "state", 0, "STATE[,…]", false,
                 "Only pods that are preparing, prepared, running, paused, exited, …", STATES, option_states,
                 offsetof(Arguments, states)},
                {NULL, "filter", 'f', "KEY=VALUE", false,
                 "Only pods with this state, name, app, image, network (as patterns), label or annotation",
                 "state=|name=|app=|image=|network=|label=|annotation=", option_filter,
                 offsetof(Arguments, filters)},
                {NULL, "format", 0, "FIELD[,…]|TEXT", false,
                 "Show these columns, or for each pod a text with fields in braces: '{name}\\t{state}'",
                 "uuid|name|state|apps|created|exitStatus|endedBy|health|images|networks|labels|annotations",
                 option_table_format, offsetof(Arguments, format)},
                OPTION_END,
};

static int add_apps(Table *t, const Pod *p)
{
        _cleanup_strv_free_ char **names = NULL;

        for (size_t i = 0; p->manifest && i < p->manifest->n_apps; i++)
                if (strv_extend(&names, pod_app_path_name(p->manifest->apps[i])) < 0)
                        return -ENOMEM;
        table_add_list(t, names);
        return 0;
}

/* Those without a name by their IDs. */
static int add_images(Table *t, const Pod *p)
{
        _cleanup_strv_free_ char **names = NULL;

        for (size_t i = 0; p->manifest && i < p->manifest->n_apps; i++) {
                const PodApp *a = p->manifest->apps[i];
                const char *version = pair_list_get(&a->image_labels, "version");
                if (strv_extendf(&names, "%s%s%s", a->image_name ?: a->image_id ?: "?", version ? ":" : "",
                                 version ?: "") < 0)
                        return -ENOMEM;
        }
        table_add_list(t, names);
        return 0;
}

/* The fields that are shown on request. */
/* Those of the manifest, and the user's. */
static int add_annotations(Table *t, const Pod *p)
{
        _cleanup_(pair_list_done) PairList all = {};

        int r = p->manifest ? pair_list_copy(&p->manifest->annotations, &all) : 0;
        if (r >= 0 && p->manifest)
                for (size_t i = 0; r >= 0 && i < p->manifest->user_annotations.n; i++)
                        r = pair_list_set(&all, p->manifest->user_annotations.items[i].name,
                                          p->manifest->user_annotations.items[i].value);
        return r < 0 ? r : table_add_pairs(t, &all, NULL);
}

static int add_more(Table *t, const Pod *p)
{
        static const PairList none = {};
        _cleanup_strv_free_ char **networks = NULL;

        int r = add_images(t, p);
        if (r < 0 || pod_network_names(p, &networks) < 0)
                return -ENOMEM;
        table_add_list(t, networks);
        r = table_add_pairs(t, p->manifest ? &p->manifest->user_labels : &none, NULL);
        return r < 0 ? r : add_annotations(t, p);
}

static int add_state(Table *t, Pod *p, const PodEnd *end, const char *health)
{
        const char *more = end->by_reboot ? "reboot" : health;
        _cleanup_free_ char *shown = NULL;

        if (xasprintf(&shown, "%s%s%s%s", pod_shown_state(p), more ? " (" : "", more ?: "",
                      more ? ")" : "") < 0)
                return -ENOMEM;
        table_add_text_as(t, pod_shown_state(p), shown);
        table_set_color(t, streq_ptr(health, "unhealthy") ? COLOR_RED
                                                          : pod_state_color(p->state, end->exit_status));
        return 0;
}

static int add_pod(Table *t, Pod *p, size_t uuid_length)
{
        _cleanup_free_ char *uuid = strndup(p->uuid, uuid_length);
        const char *health = pod_health(p);
        const PodEnd end = pod_end(p);

        if (!uuid)
                return -ENOMEM;
        table_add_text_as(t, p->uuid, uuid);
        table_add_text(t, p->config.name);
        if (add_state(t, p, &end, health) < 0)
                return -ENOMEM;
        int r = add_apps(t, p);
        table_add_time(t, p->config.created_usec);
        if (end.exit_status >= 0)
                table_add_number(t, end.exit_status);
        else
                table_add_none(t);
        if (pod_end_is_failure(end.exit_status))
                table_set_color(t, COLOR_RED);
        table_add_text(t, end.by_reboot ? POD_ENDED_BY_REBOOT : NULL);
        table_add_text(t, health);
        return r < 0 ? r : add_more(t, p);
}

static int show(Context *c, Table *t, const Arguments *a)
{
        return context_show_table_as(c, t, &a->format, usual,
                                     a->states || a->filters.n > 0 || a->names.n > 0 ? "such pods" : "pods");
}

/* The pods that the names on the command line are of. */
typedef struct Named {
        const Arguments *arguments;
        Pod **pods;
        size_t n;
        char **uuids;
} Named;

static bool has_name(const Arguments *a, const Pod *p, const char *name)
{
        return streq_ptr(p->config.name, name) || streq(p->uuid, name) ||
               (a->all && streq_ptr(p->former_name, name));
}

static int add_named(Context *c, const char *name, void *userdata)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        Named *x = userdata;
        bool found = false;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < x->n; i++)
                if (has_name(x->arguments, x->pods[i], name)) {
                        r = strv_extend(&x->uuids, x->pods[i]->uuid);
                        found = true;
                }
        if (r < 0)
                return error_oom(&c->error);
        if (found)
                return 0;
        r = context_find_pod(c, name, &p); /* by the beginning of its UUID */
        if (r < 0)
                return r;
        return strv_extend(&x->uuids, p->uuid) < 0 ? error_oom(&c->error) : 0;
}

static bool is_requested(const Arguments *a, char *const *uuids, Pod *p)
{
        if (a->states && !strv_contains(a->states, pod_shown_state(p)))
                return false;
        return a->names.n == 0 || strv_contains(uuids, p->uuid);
}

static int list(Context *c, const Arguments *a)
{
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));
        _cleanup_strv_free_ char **uuids = NULL;
        Pod **pods = NULL;
        size_t n = 0;

        int r = a->names.n > 0 ? context_open_existing_store(c) : context_open_store_if_there(c);
        if (r > 0)
                r = pod_list(c->store, &pods, &n, &c->error);
        if (r < 0)
                return r;
        Named x = {.arguments = a, .pods = pods, .n = n};
        int status = context_for_each(c, &a->names, add_named, &x);
        uuids = x.uuids;
        if (status < 0) {
                pod_list_free(pods, n);
                return status;
        }
        /* In full unless on a terminal, where UUIDs are shortened to a unique prefix. */
        size_t length = a->full || !isatty(STDOUT_FILENO) ? SIZE_MAX : pod_short_uuid_length(pods, n);
        for (size_t i = 0; t && r >= 0 && i < n; i++)
                if (is_requested(a, uuids, pods[i]) && filters_match(&a->filters, pods[i]))
                        r = add_pod(t, pods[i], length);
        pod_list_free(pods, n);
        if (!t || r < 0)
                return error_oom(&c->error);
        r = show(c, t, a);
        return r < 0 ? r : MAX(r, status);
}

static int run(Context *c, int argc, char **argv)
{
        Arguments a = {.names = {.max = SIZE_MAX, .what = "the name of a pod"},
                       .filters.keys = filter_keys,
                       .format = {.fields = columns, .n_fields = ELEMENTSOF(columns)}};

        int r = context_parse(c, options, &a, argc, argv, &a.names);
        if (r > 0 && context_check_format(c, &a.format) < 0)
                r = -EINVAL;
        if (r > 0)
                r = list(c, &a);
        table_format_done(&a.format);
        words_done(&a.names);
        strv_free(a.states);
        return r;
}

const Verb verb_list = {
                .group = "Inspection Commands",
                .name = "list",
                .page = "acnspawn-status",
                .synopsis = "[OPTIONS…] [NAME…]",
                .brief = "[NAME…]",
                .summary = "List pods",
                .text = "Lists the pods in the order of their creation, or those that are named. On a terminal UUIDs are "
                        "shortened to unique prefixes; a prefix is sufficient wherever a pod "
                        "is named.",
                .words = "pod",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
