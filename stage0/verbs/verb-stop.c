/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn stop: stops running pods, in order or by killing them, and returns when they have ended. */

#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        bool force;
        uint64_t timeout_usec;
} Arguments;

static const Option options[] = {
                {"Options", "force", 'f', NULL, false,
                 "Kill the pod at once: no orderly end, no post-stop handlers", NULL, option_true,
                 offsetof(Arguments, force)},
                {NULL, "timeout", 't', "TIME", false,
                 "Kill the pod if it has not ended in order after TIME (default: the longest that its apps may take)",
                 NULL, option_usec, offsetof(Arguments, timeout_usec)},
                OPTION_END,
};

/* systemd starts a unit again that it has not stopped itself. It is asked when the pod has ended: it may be slow to answer. */
static void warn_of_restart(const Pod *p, const char *unit, bool killed)
{
        _cleanup_free_ char *restart = unit_is_own(unit) ? NULL : host_unit_restart(unit);

        if (streq_ptr(restart, "always") || streq_ptr(restart, "on-success") ||
            (killed && restart && !streq(restart, "no")))
                log_warning("%s starts a pod again when %s has ended (Restart=%s); 'systemctl stop %s' ends both.",
                            unit, pod_display_name(p), restart, unit);
}

static int stop(Context *c, Pod *p, void *userdata)
{
        _cleanup_free_ char *unit = NULL;
        const Arguments *a = userdata;

        if (p->state == POD_PREPARED) {
                int r = error_set(&c->error, -ESRCH, "Pod %s is not running: it is prepared",
                                  pod_display_name(p));
                return error_hint(&c->error, r, "'acnspawn rm %s' removes it.", pod_display_name(p));
        }
        (void) pod_cgroup_host_unit(p, &unit);
        int r = stop_pod(p, a->force ? 0 : a->timeout_usec, &c->error);
        if (r > 0 && !a->force)
                log_warning("Pod %s had not ended in time, and was killed.", pod_display_name(p));
        if (r >= 0 && unit)
                warn_of_restart(p, unit, r > 0);
        return r < 0 ? r : 0;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};
        Arguments a = {.timeout_usec = STOP_AS_CONFIGURED};

        int r = context_parse_for_store(c, options, &a, argc, argv, &words);
        a.force = a.force || a.timeout_usec == 0;
        return r <= 0 ? r : context_for_many_pods(c, &words, &(PodWork){.function = stop, .userdata = &a});
}

const Verb verb_stop = {
                .name = "stop",
                .page = "acnspawn-stop",
                .synopsis = "[OPTIONS…] POD…",
                .brief = "POD…",
                .summary = "Stop running pods",
                .text = "Stops the apps of the pods, runs their post-stop handlers, and returns when "
                        "the pods have ended. How long an app may take is set with --stop-timeout= when the "
                        "pod is prepared.",
                .words = "pod:running,paused,frozen",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
