/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn stats: resource usage of running pods and their apps. */

#include "stage0/verbs/pod-usage.h"

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.max = SIZE_MAX, .what = A_POD};
        _cleanup_(usage_sample_done) UsageSample sample = {};
        _cleanup_(table_freep) Table *t = NULL;
        int status = 0;

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = words.n > 0 ? context_open_existing_store(c) : context_open_store_if_there(c);
        if (r >= 0 && c->store)
                r = usage_sample_take(c, &words, &sample, &status);
        if (r < 0)
                return r;
        if (sample.n == 0) {
                r = usage_show_none(c, &words);
                return r < 0 ? r : status;
        }
        t = usage_table(&sample, NULL);
        if (!t)
                return error_oom(&c->error);
        r = context_show_table(c, t, NULL);
        if (r >= 0 && c->json == JSON_OFF)
                usage_note(&sample, NULL);
        return r < 0 ? r : status;
}

const Verb verb_stats = {
                .name = "stats",
                .page = "acnspawn-status",
                .synopsis = "[POD…]",
                .brief = "[POD…]",
                .summary = "Show resource usage of running pods",
                .text = "Shows processor time, memory, I/O and number of processes of the pods, or of all "
                        "running pods, and of each of their apps. What this host cannot measure is '-'.",
                .words = "pod:running,paused",
                .run = run,
};
