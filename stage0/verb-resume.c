/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn resume: lets pods that were paused go on. */

#include "stage0/pod-words.h"

static int resume_it(Context *c, Pod *p, void *userdata)
{
        return pause_pod(p, false, &c->error);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_store_as_root(c);
        return r < 0 ? r : context_for_each_pod(c, &words, resume_it, NULL);
}

const Verb verb_resume = {
                .name = "resume",
                .synopsis = "POD…",
                .brief = "POD…",
                .summary = "Let paused pods go on",
                .text = "Lets the processes of pods that were paused go on. Pods that are not paused are "
                        "left as they are.",
                .words = "pod",
                .run = run,
};
