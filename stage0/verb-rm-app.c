/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn rm-app: removes apps from a running pod. */

#include "stage0/pod-words.h"

typedef struct Arguments {
        bool force;
        uint64_t timeout_usec;
} Arguments;

static const Option options[] = {
                {"Options", "force", 'f', NULL, false, "Stop an app that runs", NULL, option_true,
                 offsetof(Arguments, force)},
                {NULL, "timeout", 't', "TIME", false,
                 "With --force, kill an app that has not ended in order after TIME (default: its own stop "
                 "time-out)",
                 NULL, option_usec, offsetof(Arguments, timeout_usec)},
                OPTION_END,
};

static int remove_app(Context *c, AcnPod *pod, const char *app, const Arguments *a)
{
        int r = a->force ? acn_stop_app(pod, app, a->timeout_usec, &c->error) : 0;

        return r < 0 ? r : acn_remove_app(pod, app, &c->error);
}

static int remove_all(Context *c, AcnPod *pod, const Words *words, const Arguments *a)
{
        int status = EXIT_SUCCESS;

        for (size_t i = 1; i < words->n; i++) {
                int r = remove_app(c, pod, words->list[i], a);
                if (r >= 0)
                        continue;
                if (r == -ECONNRESET || r == -ETIMEDOUT || r == -EINTR)
                        return r;
                context_print_error(c, r);
                error_done(&c->error);
                status = EXIT_STATUS_FAILURE;
        }
        return status;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 2, .max = SIZE_MAX, .what = "a pod and its apps"};
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        Arguments a = {.timeout_usec = UINT64_MAX};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        if (r >= 0)
                r = context_find_pod(c, words.list[0], &p);
        if (r >= 0)
                r = acn_connect(p, &pod, &c->error);
        return r < 0 ? r : remove_all(c, pod, &words, &a);
}

const Verb verb_rm_app = {
                .name = "rm-app",
                .page = "acnspawn-add-app",
                .synopsis = "[OPTIONS…] POD APP…",
                .brief = "POD APP…",
                .summary = "Remove apps from a running pod",
                .text = "Removes apps that have ended, or were not started, from a running pod, with all "
                        "that they "
                        "have written but for their logs. Empty volumes that came with an app go with it. "
                        "The name of "
                        "the app can then be used again.",
                .words = "pod:running app",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
