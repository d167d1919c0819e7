/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn logs: shows the output of the apps of a pod, also after the pod has ended. */

#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        LogOptions logs;
        bool reopen;
} Arguments;

#define LOG(member) offsetof(Arguments, logs.member)

static const Option options[] = {
                {"Options", "follow", 'f', NULL, false,
                 "Continue to show new output until the pod has ended", NULL, option_true, LOG(follow)},
                {NULL, "app", 'a', "APP", false, "Show only the output of this app", "app", option_word,
                 LOG(app)},
                {NULL, "lines", 'n', "N", false, "Show only the last N lines (default: all)", NULL,
                 option_lines, LOG(lines)},
                {NULL, "tail", 0, "N", false, "Same as --lines", NULL, option_lines, LOG(lines)},
                {NULL, "since", 'S', "TIME", false,
                 "Show only what was written since then: '2026-01-31 12:00', '12:00', '10min ago', today, …",
                 NULL, option_moment, LOG(since_usec)},
                {NULL, "until", 'U', "TIME", false, "Show only what was written until then", NULL,
                 option_moment, LOG(until_usec)},
                {NULL, "timestamps", 't', NULL, false, "Show the time of each line in front of it", NULL,
                 option_true, LOG(timestamps)},
                {NULL, "raw", 0, NULL, false,
                 "On a terminal, write control characters as they are (default: visibly)", NULL, option_true,
                 LOG(raw)},
                {NULL, "reopen", 0, NULL, false,
                 "Instead, reopen the log files of the pod, or of one app, after they were "
                 "renamed",
                 NULL, option_true, offsetof(Arguments, reopen)},
                OPTION_END,
};

static int reopen(Context *c, Pod *p, const char *app)
{
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;

        int r = acn_connect(p, &pod, &c->error);
        return r < 0 ? r : acn_reopen_logs(pod, app, &c->error);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = A_POD};
        Arguments a = {.logs.lines = UINT64_MAX};
        LogOptions *o = &a.logs;
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = context_parse_pod(c, options, &a, argc, argv, &words, &p);
        if (r <= 0)
                return r;
        if (!p->manifest)
                return error_set(&c->error, -ENODATA, "Pod '%s' has no logs: it is %s", pod_display_name(p),
                                 pod_state_to_string(p->state));
        if (o->app) {
                const PodApp *app;
                r = pod_find_app(p, o->app, &app, &c->error);
                if (r < 0)
                        return r;
        }
        if (a.reopen)
                return reopen(c, p, o->app);
        o->json = c->json != JSON_OFF;
        o->prefix = !o->app && p->manifest->n_apps > 1;
        r = pod_logs(p, o, &c->error);
        return r == -EPIPE ? EXIT_STATUS_FAILURE : r; /* the reader has closed the pipe: no message needed */
}

const Verb verb_logs = {
                .name = "logs",
                .page = "acnspawn-logs",
                .synopsis = "[OPTIONS…] POD",
                .brief = "POD",
                .summary = "Show the output of apps",
                .text = "Shows the output of the pod's apps, each line with its app's name where there are "
                        "several. With --json each entry is an object on a line of its own, with its time.",
                .words = "pod -",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
