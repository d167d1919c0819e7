/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn update-app: changes limits of an app that runs. */

#include "stage0/pod-arguments.h"
#include "stage0/pod-words.h"

static const Option options[] = {
                {"Options", "memory", 0, "SIZE", false, "Limit the app's memory: 64Mi, 1G, …", NULL,
                 option_isolator_short, 0},
                {NULL, "cpu", 0, "AMOUNT", false, "Limit the app's processor time: 500m, 2, …", NULL,
                 option_isolator_short, 0},
                {NULL, "cpu-shares", 0, "NUMBER", false,
                 "Set the CPU weight among the apps of the pod: 2 to 262144", NULL, option_isolator_short,
                 0},
                {NULL, "tasks-max", 0, "NUMBER", false, "Limit the app's processes and threads", NULL,
                 option_isolator_short, 0},
                OPTION_END,
};

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 2, .max = 2, .what = "a pod and one of its apps"};
        _cleanup_(isolator_list_done) IsolatorList limits = {};
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = context_parse(c, options, &limits, argc, argv, &words);
        if (r <= 0)
                return r;
        if (limits.n == 0) {
                (void) error_set(&c->error, -EINVAL, "No limit is given");
                return error_hint(&c->error, -EINVAL, "'acnspawn update-app --help' lists them.");
        }
        r = context_open_existing_store_as_root(c);
        if (r >= 0)
                r = context_find_pod(c, words.list[0], &p);
        if (r >= 0)
                r = acn_connect(p, &pod, &c->error);
        return r < 0 ? r : acn_update_app(pod, words.list[1], &limits, &c->error);
}

const Verb verb_update_app = {
                .name = "update-app",
                .page = "acnspawn-stop",
                .synopsis = "[OPTIONS…] POD APP",
                .brief = "[OPTIONS…] POD APP",
                .summary = "Change limits of a running app",
                .text = "Changes limits of an app of a running pod, at once and for its later starts in "
                        "this "
                        "pod; those that are not given stay as they are. Below what the app uses, memory is "
                        "reclaimed, and processes are killed if that does not suffice. What this host has "
                        "no cgroup controller for is refused.",
                .words = "pod:running app",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
