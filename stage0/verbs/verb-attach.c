/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn attach: connects standard streams with those of a running app. */

#include "stage0/arguments/run-arguments.h"
#include "stage0/verbs/pod-words.h"
#include "stage0/verbs/verb.h"

static const Option options[] = {
                {"Options", "app", 'a', "APP", false, "The app, if several of the pod have a standard input",
                 "app", option_word, offsetof(AttachOptions, app)},
                {NULL, "lines", 'n', "N", false,
                 "Begin with the last N lines that the app wrote before, or all (default: 0)", NULL,
                 option_lines, offsetof(AttachOptions, lines)},
                {NULL, "keep-stdin", 0, NULL, false,
                 "Keep the app's standard input open at the end of acnspawn's", NULL, option_true,
                 offsetof(AttachOptions, keep_input)},
                {NULL, "no-stdin", 0, NULL, false,
                 "Only show the output of the app, which needs no standard input then", NULL, option_true,
                 offsetof(AttachOptions, no_input)},
                {NULL, "detach-keys", 0, "KEY[,…]", false,
                 "Keys that detach from a terminal (default: ctrl-] three times); empty: none", NULL,
                 option_detach_keys, offsetof(AttachOptions, keys)},
                OPTION_END,
};

/* On a raw terminal a newline does not return to the first column. */
static void tell_skipped(uint64_t n, bool raw)
{
        if (raw)
                fprintf(stderr, "\r\n[%llu bytes are left out]\r\n", (unsigned long long) n);
        else
                log_warning("%llu bytes of output are left out: they were not read in time; 'acnspawn logs' "
                            "has all of it",
                            (unsigned long long) n);
}

static int attach(Context *c, const char *word, const AttachOptions *o)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        bool left = false;
        int status = 0;

        int r = context_open_existing_store_as_root(c);
        if (r >= 0)
                r = context_find_pod(c, word, &p);
        if (r >= 0)
                r = attach_app(p, o, &status, &left, &c->error);
        if (r >= 0 && left && !c->quiet)
                log_info("Detached from pod %s, which keeps running.", pod_display_name(p));
        return r < 0 ? r : status;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = A_POD};
        AttachOptions o = {.skipped = tell_skipped};

        (void) detach_keys_parse(DETACH_KEYS_DEFAULT, &o.keys);
        int r = context_parse(c, options, &o, argc, argv, &words);
        return r <= 0 ? r : attach(c, words.list[0], &o);
}

const Verb verb_attach = {
                .name = "attach",
                .page = "acnspawn-attach",
                .synopsis = "[OPTIONS…] POD",
                .brief = "POD",
                .summary = "Attach to a running app",
                .text = "Connects standard input, standard output and standard error with those of an app "
                        "that was started with --interactive or --stdin, until the app ends, whose exit "
                        "status is the command's. Ctrl-] three times within a second leaves a terminal, "
                        "Ctrl-C a pipe; the app keeps running. Several users can be attached to one app.",
                .words = "pod:running -",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
