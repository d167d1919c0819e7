/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn pause and resume: suspend and resume all processes of pods. */

#include "stage0/verbs/pod-words.h"

static int pause_or_resume(Context *c, Pod *p, void *userdata)
{
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        const bool *pause = userdata;

        int r = acn_connect(p, &pod, &c->error);
        if (r < 0)
                return r;
        return *pause ? acn_pause(pod, &c->error) : acn_resume(pod, &c->error);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};
        bool pause = c->verb == &verb_pause;

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        return r < 0 ? r
                     : context_for_many_pods(c, &words,
                                             &(PodWork){.function = pause_or_resume, .userdata = &pause});
}

const Verb verb_pause = {
                .name = "pause",
                .page = "acnspawn-stop",
                .synopsis = "POD…",
                .brief = "POD…",
                .summary = "Suspend pods",
                .text = "Suspends all processes of the pods until 'acnspawn resume'. A paused pod can be "
                        "stopped.",
                .words = "pod:running",
                .run = run,
};

const Verb verb_resume = {
                .name = "resume",
                .page = "acnspawn-stop",
                .synopsis = "POD…",
                .brief = "POD…",
                .summary = "Resume paused pods",
                .text = "Resumes the processes of paused pods. Pods that are not paused remain "
                        "unchanged.",
                .words = "pod:paused",
                .run = run,
};
