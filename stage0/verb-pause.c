/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn pause: stops every process of pods where it is. */

#include "stage0/pod-words.h"

static int pause_it(Context *c, Pod *p, void *userdata)
{
        return pause_pod(p, true, &c->error);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_store_as_root(c);
        return r < 0 ? r : context_for_each_pod(c, &words, pause_it, NULL);
}

const Verb verb_pause = {
                .name = "pause",
                .synopsis = "POD…",
                .brief = "POD…",
                .summary = "Stop the processes of pods for a while",
                .text = "Stops every process of the pods where it is, until 'acnspawn resume'. A pod that "
                        "is paused can be stopped.",
                .words = "pod",
                .run = run,
};
