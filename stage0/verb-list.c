/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn list: lists pods, one per line. */

#include "stage0/pod-words.h"

static const TableColumn columns[] = {
                {"UUID", "uuid", false, 0},       {"NAME", "name", false, 12},
                {"STATE", "state", false, 0},     {"APPS", "apps", false, 16},
                {"CREATED", "created", false, 0}, {"EXIT", "exitStatus", true, 0},
};

typedef struct Arguments {
        bool full;
        char **states; /* as displayed; NULL: all */
} Arguments;

#define STATES "preparing|aborted-prepare|prepared|running|paused|exited|garbage"

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

static const Option options[] = {
                {"Options", "full", 'l', NULL, false, "Show UUIDs in full on a terminal as well", NULL,
                 option_true, offsetof(Arguments, full)},
                {NULL, "state", 0, "STATE[,…]", false,
                 "Only pods that are preparing, prepared, running, paused, exited, …", STATES, option_states,
                 offsetof(Arguments, states)},
                OPTION_END,
};

/* Only a pod that has ended has one. Failure to read it does not prevent the list. */
static int exit_status_of(Pod *p)
{
        PodReport report = {};
        int status = -1;

        if (p->state != POD_EXITED || !p->manifest)
                return -1;
        if (pod_report(p, NULL, &report, NULL) >= 0)
                status = report.exit_status;
        pod_report_done(&report);
        return status;
}

static int add_apps(Table *t, const Pod *p)
{
        _cleanup_strv_free_ char **names = NULL;

        for (size_t i = 0; p->manifest && i < p->manifest->n_apps; i++)
                if (strv_extend(&names, p->manifest->apps[i]->name) < 0)
                        return -ENOMEM;
        table_add_list(t, names);
        return 0;
}

static int add_pod(Table *t, Pod *p, size_t uuid_length)
{
        _cleanup_free_ char *uuid = strndup(p->uuid, uuid_length);
        int status = exit_status_of(p);

        if (!uuid)
                return -ENOMEM;
        table_add_text_as(t, p->uuid, uuid);
        table_add_text(t, p->config.name);
        table_add_text(t, pod_shown_state(p));
        table_set_color(t, pod_state_color(p->state, status));
        int r = add_apps(t, p);
        table_add_time(t, p->config.created_usec);
        if (status >= 0)
                table_add_number(t, status);
        else
                table_add_none(t);
        if (status > 0)
                table_set_color(t, COLOR_RED);
        return r;
}

static int list(Context *c, const Arguments *a)
{
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));
        Pod **pods = NULL;
        size_t n = 0;

        int r = context_open_store_if_there(c);
        if (r > 0)
                r = pod_list(c->store, &pods, &n, &c->error);
        if (r < 0)
                return r;
        /* In full unless on a terminal, where UUIDs are shortened to a unique prefix. */
        size_t length = a->full || !isatty(STDOUT_FILENO) ? SIZE_MAX : pod_short_uuid_length(pods, n);
        for (size_t i = 0; t && r >= 0 && i < n; i++)
                if (!a->states || strv_contains(a->states, pod_shown_state(pods[i])))
                        r = add_pod(t, pods[i], length);
        pod_list_free(pods, n);
        return !t || r < 0 ? error_oom(&c->error)
                           : context_show_table(c, t, a->states ? "such pods" : "pods");
}

static int run(Context *c, int argc, char **argv)
{
        Arguments a = {};

        int r = context_parse(c, options, &a, argc, argv, NULL);
        if (r > 0)
                r = list(c, &a);
        strv_free(a.states);
        return r;
}

const Verb verb_list = {
                .group = "Inspection Commands",
                .name = "list",
                .page = "acnspawn-status",
                .synopsis = "[OPTIONS…]",
                .summary = "List pods",
                .text = "Lists the pods in the order of their creation. On a terminal UUIDs are "
                        "shortened to unique prefixes; a prefix is sufficient wherever a pod "
                        "is named.",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
