/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn pause and resume: stop every process of pods where it is, and let them go on. */

#include "stage0/pod-words.h"

static int pause_or_resume(Context *c, Pod *p, void *userdata)
{
        return pause_pod(p, *(const bool *) userdata, &c->error);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};
        bool pause = c->verb == &verb_pause;

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        return r < 0 ? r : context_for_each_pod(c, &words, pause_or_resume, &pause);
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
