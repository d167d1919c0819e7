/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn wait: waits for the end of a pod, or of some of its apps, and exits with their status. */

#include "stage0/pod-words.h"

typedef struct Arguments {
        uint64_t timeout_usec;
} Arguments;

static const Option options[] = {
                {"Options", "timeout", 't', "TIME", false,
                 "Fail if that takes longer than TIME (default: infinity)", NULL, option_usec,
                 offsetof(Arguments, timeout_usec)},
                OPTION_END,
};

static int wait_for(Context *c, const Words *words, const Arguments *a)
{
        _cleanup_strv_free_ char **apps = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        int status = 0;

        for (size_t i = 1; i < words->n; i++)
                if (strv_extend(&apps, words->list[i]) < 0)
                        return error_oom(&c->error);
        int r = context_find_pod(c, words->list[0], &p);
        if (r < 0)
                return r;
        r = acn_wait(p, apps, a->timeout_usec, &status, &c->error);
        return r < 0 ? r : status;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};
        Arguments a = {.timeout_usec = UINT64_MAX};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store(c);
        return r < 0 ? r : wait_for(c, &words, &a);
}

const Verb verb_wait = {
                .name = "wait",
                .page = "acnspawn-stop",
                .synopsis = "[OPTIONS…] POD [APP…]",
                .brief = "POD [APP…]",
                .summary = "Wait for the end of a pod or of apps",
                .text = "Waits until the pod, or each of the apps, has ended, and exits with the status of "
                        "the "
                        "pod, or of the first of the apps whose status is not 0. What has ended before is "
                        "not "
                        "waited for.",
                .words = "pod:running,paused,exited app",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
