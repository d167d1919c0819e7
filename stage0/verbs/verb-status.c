/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn status: shows the status of pods, as text in the format of "systemctl status" or, with --json, as
 * one object per pod with every field. With --wait it first waits until the pods have ended.
 */

#include "stage0/verbs/pod-status-json.h"
#include "stage0/verbs/pod-status-text.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        bool wait;
        uint64_t timeout_usec;
        uint64_t deadline; /* of CLOCK_MONOTONIC; for all pods together */
        size_t n_shown;
} Arguments;

static int option_wait(const Option *o, const char *value, void *target, Error *e)
{
        Arguments *a = target;

        a->wait = true;
        return value ? option_usec(o, value, &a->timeout_usec, e) : 0;
}

static const Option options[] = {
                {"Options", "wait", 'w', "TIMEOUT", true,
                 "Wait until the pods, which run, have ended, or until TIMEOUT is over", NULL, option_wait,
                 0},
                OPTION_END,
};

static int wait_for(Context *c, Pod *p, const Arguments *a)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), left = UINT64_MAX;

        if (a->deadline != UINT64_MAX)
                left = a->deadline > now ? a->deadline - now : 0;
        return pod_wait(p, left, &c->error);
}

static int show(Context *c, Pod *p, Arguments *a)
{
        _cleanup_(pod_report_done) PodReport report = {};
        _cleanup_free_ char *text = NULL;
        Display d = display_of(STDOUT_FILENO);

        int r = pod_report(p, context_config_dirs(c), &report, &c->error);
        if (r < 0)
                return r;
        if (network_find_missing_rules(p, report.networks, report.n_networks) < 0)
                return error_oom(&c->error);
        if (c->json != JSON_OFF) {
                _cleanup_json_ json_object *o = pod_status_json(p, &report);
                return context_show_json(c, o);
        }
        if (pod_status_text(p, &report, &d, &text) < 0)
                return error_oom(&c->error);
        if (a->n_shown++ > 0)
                (void) fputs("\n", stdout);
        return context_show_text(c, text);
}

static int status(Context *c, Pod *p, void *userdata)
{
        _cleanup_(pod_freep) Pod *again = NULL;
        Arguments *a = userdata;

        if (!a->wait)
                return show(c, p, a);
        /* Such a pod may never be run: there is no end to wait for. */
        if (p->state != POD_RUNNING && p->state != POD_EXITED)
                return pod_not_running(p, &c->error);
        int r = wait_for(c, p, a);
        if (r < 0)
                return r;
        r = context_find_pod(c, p->uuid, &again); /* in its new state */
        return r < 0 ? r : show(c, again, a);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};
        Arguments a = {.timeout_usec = UINT64_MAX};

        int r = context_parse_for_store(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        if (__builtin_add_overflow(now_usec(CLOCK_MONOTONIC), a.timeout_usec, &a.deadline))
                a.deadline = UINT64_MAX;
        return context_for_each_pod(c, &words, status, &a);
}

const Verb verb_status = {
                .name = "status",
                .page = "acnspawn-status",
                .synopsis = "[OPTIONS…] POD…",
                .brief = "POD…",
                .summary = "Show the status of pods",
                .text = "Shows the state of the pods and of each of their apps, how they ended, and which "
                        "isolators are enforced. With --json, one object per pod.",
                .words = "pod",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
