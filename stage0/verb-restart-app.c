/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn restart-app: restarts apps of a running pod, each with a clean root. */

#include "stage0/pod-words.h"

static int restart_all(Context *c, const Words *words)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        int status = EXIT_SUCCESS;

        int r = context_find_pod(c, words->list[0], &p);
        if (r < 0)
                return r;
        for (size_t i = 1; i < words->n; i++) {
                r = restart_app(p, words->list[i], &c->error);
                if (r >= 0)
                        continue;
                error_print(&c->error, r);
                error_done(&c->error);
                status = EXIT_STATUS_FAILURE;
        }
        return status;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 2, .max = SIZE_MAX, .what = "a pod and its apps"};

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        return r < 0 ? r : restart_all(c, &words);
}

const Verb verb_restart_app = {
                .name = "restart-app",
                .page = "acnspawn-stop",
                .synopsis = "POD APP…",
                .brief = "POD APP…",
                .summary = "Restart apps of a running pod",
                .text = "Ends the apps in order, if they run, and starts them again, each with a clean root "
                        "and its event handlers. The pod does not end because of that, whatever its exit "
                        "policy is.",
                .words = "pod:running app",
                .run = run,
};
