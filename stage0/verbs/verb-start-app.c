/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn start-app, stop-app, restart-app and rm-app: single apps of a running pod, one after the other. */

#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        uint64_t timeout_usec;
        bool force;
} Arguments;

static const Option stop_options[] = {
                {"Options", "timeout", 't', "TIME", false,
                 "Kill an app that has not ended in order after TIME (default: its own stop time-out)", NULL,
                 option_usec, offsetof(Arguments, timeout_usec)},
                OPTION_END,
};

static const Option remove_options[] = {
                {"Options", "force", 'f', NULL, false, "Stop an app that runs", NULL, option_true,
                 offsetof(Arguments, force)},
                {NULL, "timeout", 't', "TIME", false,
                 "With --force, kill an app that has not ended in order after TIME (default: its own stop "
                 "time-out)",
                 NULL, option_usec, offsetof(Arguments, timeout_usec)},
                OPTION_END,
};

static int change(Context *c, AcnPod *pod, const char *app, const Arguments *a)
{
        if (c->verb == &verb_start_app)
                return acn_start_app(pod, app, &c->error);
        if (c->verb == &verb_stop_app)
                return acn_stop_app(pod, app, a->timeout_usec, &c->error);
        if (c->verb == &verb_rm_app)
                return acn_remove_app(pod, app, a->force, a->timeout_usec, &c->error);
        return acn_restart_app(pod, app, &c->error);
}

/* One that fails does not keep the others from their turn, unless the supervisor is gone. */
static int change_all(Context *c, AcnPod *pod, const Words *words, const Arguments *a)
{
        int status = EXIT_SUCCESS;

        for (size_t i = 1; i < words->n; i++) {
                int r = change(c, pod, words->list[i], a);
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

        const Option *options = c->verb->options ? c->verb->options[0] : NULL;
        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        if (c->verb == &verb_rm_app && a.timeout_usec != UINT64_MAX && !a.force)
                return context_usage_error(c, error_set(&c->error, -EINVAL, "--timeout= is for --force"));
        r = context_open_existing_store_as_root(c);
        if (r < 0)
                return r;
        r = context_find_pod(c, words.list[0], &p);
        if (r < 0)
                return r;
        r = acn_connect(p, &pod, &c->error);
        return r < 0 ? r : change_all(c, pod, &words, &a);
}

const Verb verb_start_app = {
                .name = "start-app",
                .page = "acnspawn-stop",
                .synopsis = "POD APP…",
                .brief = "POD APP…",
                .summary = "Start apps of a running pod",
                .text = "Starts apps that have ended, or were not started yet, each with a clean root and "
                        "its event handlers, and returns when they are started. An app that runs is an "
                        "error.",
                .words = "pod:running app",
                .run = run,
};

const Verb verb_stop_app = {
                .name = "stop-app",
                .page = "acnspawn-stop",
                .synopsis = "[OPTIONS…] POD APP…",
                .brief = "POD APP…",
                .summary = "Stop apps of a running pod",
                .text = "Stops the apps in order, with their post-stop handlers, and returns when they have "
                        "ended. An app that has ended already is left as it is. Whether the pod ends with "
                        "an app depends on its exit policy.",
                .words = "pod:running app",
                .options = (const Option *const[]){stop_options, NULL},
                .run = run,
};

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

const Verb verb_rm_app = {
                .name = "rm-app",
                .page = "acnspawn-add-app",
                .synopsis = "[OPTIONS…] POD APP…",
                .brief = "POD APP…",
                .summary = "Remove apps from a running pod",
                .text = "Removes apps that have ended, or were not started, from a running pod, with all "
                        "that they have written but for their logs. Empty volumes that came with an app go "
                        "with it. The name of the app can then be used again.",
                .words = "pod:running app",
                .options = (const Option *const[]){remove_options, NULL},
                .run = run,
};
