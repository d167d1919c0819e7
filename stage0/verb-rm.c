/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn rm: removes pods that do not run, with all that is left of them. */

#include "stage0/pod-words.h"

static int remove_one(Context *c, Pod *p, void *userdata)
{
        _cleanup_free_ char *uuid = strdup(p->uuid);

        if (!uuid)
                return error_oom(&c->error);
        int r = pod_release(p, NULL, &c->error);
        if (r >= 0)
                r = pod_remove(p, &c->error);
        if (r >= 0)
                printf("%s\n", uuid);
        return r;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store(c);
        return r < 0 ? r : context_for_each_pod(c, &words, remove_one, NULL);
}

const Verb verb_rm = {
                .name = "rm",
                .synopsis = "[OPTIONS…] POD…",
                .brief = "POD…",
                .summary = "Remove pods that are not running",
                .text = "Removes pods that are prepared or have ended, with their logs, statuses and empty "
                        "volumes, and prints their UUIDs.",
                .words = "pod",
                .run = run,
};
