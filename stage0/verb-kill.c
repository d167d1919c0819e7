/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn kill: a signal to the main processes of apps. */

#include "schema/settings.h"
#include "stage0/pod-words.h"

#include <signal.h>

typedef struct Arguments {
        const char *app;
        int signal;
} Arguments;

static int option_signal(const Option *o, const char *value, void *target, Error *e)
{
        int s = signal_from_string(value);

        if (s <= 0)
                return option_invalid(o, value, e, "must be a signal, as SIGTERM or 15");
        *(int *) target = s;
        return 0;
}

static const Option options[] = {
                {"Options", "app", 'a', "APP", false, "Only to this app; else to every app that runs", NULL,
                 option_word, offsetof(Arguments, app)},
                {NULL, "signal", 's', "SIGNAL", false,
                 "The signal, by name or number; SIGTERM if none is given", NULL, option_signal,
                 offsetof(Arguments, signal)},
                OPTION_END,
};

static int kill_it(Context *c, Pod *p, void *userdata)
{
        const Arguments *a = userdata;

        return kill_app(p, a->app, a->signal, &c->error);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = A_POD};
        Arguments a = {.signal = SIGTERM};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        return r < 0 ? r : context_for_each_pod(c, &words, kill_it, &a);
}

const Verb verb_kill = {
                .name = "kill",
                .synopsis = "[OPTIONS…] POD…",
                .brief = "POD…",
                .summary = "Send a signal to apps",
                .text = "Sends a signal to the main process of each app that runs, or of one. What follows "
                        "from that is the app's, its restart policy's and the pod's exit policy's.",
                .words = "pod",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
