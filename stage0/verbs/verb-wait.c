/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn wait: waits for the end of a pod, or of some of its apps, or of several pods, and exits with their
 * status. */

#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        uint64_t timeout_usec;
        bool pods; /* all words are pods */
} Arguments;

static const Option options[] = {
                {"Options", "timeout", 't', "TIME", false,
                 "Fail if that takes longer than TIME (default: infinity)", NULL, option_usec,
                 offsetof(Arguments, timeout_usec)},
                {NULL, "pods", 'p', NULL, false, "Wait for several pods: all words are pods, not apps", NULL,
                 option_true, offsetof(Arguments, pods)},
                OPTION_END,
};

/* The pods end in any order; the status is that of the first word whose pod has failed. */
static int wait_for_each(Context *c, Pod *const *pods, size_t n, uint64_t timeout)
{
        uint64_t deadline = deadline_after(timeout);
        int result = 0;

        for (size_t i = 0; i < n; i++) {
                int status = 0, r = acn_wait(pods[i], NULL, deadline_left(deadline), &status, &c->error);
                if (r < 0)
                        return r;
                result = result ?: status;
        }
        return result;
}

/* All are found before the first one is waited for. */
static int wait_for_pods(Context *c, const Words *words, uint64_t timeout)
{
        Pod **pods = calloc(words->n, sizeof(Pod *));
        size_t n = 0;
        int r = 0;

        if (!pods)
                return error_oom(&c->error);
        for (; r >= 0 && n < words->n; n += r >= 0)
                r = context_find_pod(c, words->list[n], &pods[n]);
        if (r >= 0)
                r = wait_for_each(c, pods, n, timeout);
        pod_list_free(pods, n);
        return r;
}

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

        int r = context_parse_for_store(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        return a.pods ? wait_for_pods(c, &words, a.timeout_usec) : wait_for(c, &words, &a);
}

const Verb verb_wait = {
                .name = "wait",
                .page = "acnspawn-stop",
                .synopsis = "[OPTIONS…] POD [APP…]\n"
                            "[OPTIONS…] --pods POD…",
                .brief = "POD [APP…]",
                .summary = "Wait for the end of a pod or of apps",
                .text = "Waits until the pod, or each of the apps, has ended, and exits with the status of "
                        "the pod, or of the first of the apps whose status is not 0. What has ended before "
                        "is not waited for. With --pods waits for all of several pods.",
                .words = "pod:running,paused,exited app",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
