/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn kill: sends a signal to the main processes of apps. */

#include "schema/settings.h"
#include "stage0/verbs/pod-words.h"

#include <signal.h>

typedef struct Arguments {
        const char *app;
        int signal;
} Arguments;

static int option_signal(const Option *o, const char *value, void *target, Error *e)
{
        int s = signal_from_string(value);

        if (s <= 0)
                return option_invalid(o, value, e, "must be a signal, such as SIGTERM or 15");
        *(int *) target = s;
        return 0;
}

static const Option options[] = {
                {"Options", "app", 'a', "APP", false,
                 "Send it to this app only (default: every running app)", "app", option_word,
                 offsetof(Arguments, app)},
                {NULL, "signal", 's', "SIGNAL", false,
                 "Signal to send, by name or number (default: SIGTERM)", "signal", option_signal,
                 offsetof(Arguments, signal)},
                OPTION_END,
};

static int kill_it(Context *c, Pod *p, void *userdata)
{
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        const Arguments *a = userdata;

        int r = acn_connect(p, &pod, &c->error);
        if (r < 0)
                return r;
        return a->app ? acn_signal_app(pod, a->app, a->signal, &c->error)
                      : acn_signal_apps(pod, a->signal, &c->error);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};
        Arguments a = {.signal = SIGTERM};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        return r < 0 ? r : context_for_many_pods(c, &words, &(PodWork){.function = kill_it, .userdata = &a});
}

const Verb verb_kill = {
                .name = "kill",
                .page = "acnspawn-stop",
                .synopsis = "[OPTIONS…] POD…",
                .brief = "POD…",
                .summary = "Send a signal to apps",
                .text = "Sends a signal to the main process of every running app, or of one. The effect "
                        "depends on the app, its restart policy and the exit policy of the pod.",
                .words = "pod:running",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
