/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn rm: removes pods that are not running, or are stopped first, with all of their resources. */

#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        bool force;
        Table *removed;
} Arguments;

static const TableColumn columns[] = {{"UUID", "uuid", false, 0}};

static const Option options[] = {
                {"Options", "force", 'f', NULL, false, "Stop running pods first", NULL, option_true,
                 offsetof(Arguments, force)},
                OPTION_END,
};

static int remove_one(Context *c, Pod *p, void *userdata)
{
        const Arguments *a = userdata;

        return p->state == POD_RUNNING && !a->force ? pod_remove(p, &c->error) : discard_pod(p, &c->error);
}

static void show_removed(Context *c, const char *uuid, void *userdata)
{
        const Arguments *a = userdata;

        context_add_removed(c, a->removed, uuid);
}

static int remove_all(Context *c, const Words *words, Arguments *a)
{
        const PodWork work = {.function = remove_one, .done = show_removed, .userdata = a};
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));

        if (!t)
                return error_oom(&c->error);
        a->removed = t;
        return context_show_removed(c, t, context_for_many_pods(c, words, &work));
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};
        Arguments a = {};

        int r = context_parse_for_store(c, options, &a, argc, argv, &words);
        return r <= 0 ? r : remove_all(c, &words, &a);
}

const Verb verb_rm = {
                .name = "rm",
                .page = "acnspawn-stop",
                .synopsis = "[OPTIONS…] POD…",
                .brief = "POD…",
                .summary = "Remove pods that are not running",
                .text = "Removes pods that are prepared or have ended, with their logs, statuses and empty "
                        "volumes, and prints their UUIDs. With --force running pods are stopped first.",
                .words = "pod:prepared,exited",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
