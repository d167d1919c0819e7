/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn logs: what the apps of a pod wrote, also after the pod has ended. */

#include "stage0/pod-words.h"

static const Option options[] = {
                {"Options", "follow", 'f', NULL, false,
                 "Go on showing what is written until the pod has ended", NULL, option_true,
                 offsetof(LogOptions, follow)},
                {NULL, "app", 'a', "APP", false, "Show only what this app wrote", NULL, option_string,
                 offsetof(LogOptions, app)},
                {NULL, "lines", 'n', "N", false, "Show only the last N lines (default: all)", NULL,
                 option_lines, offsetof(LogOptions, lines)},
                OPTION_END,
};

static int check_app(Context *c, const Pod *p, const char *app)
{
        if (pod_manifest_find_app(p->manifest, app))
                return 0;

        _cleanup_free_ char *shown = text_escape_for_terminal(app), *list = NULL;
        _cleanup_strv_free_ char **names = NULL;
        for (size_t i = 0; i < p->manifest->n_apps; i++)
                if (strv_extend(&names, p->manifest->apps[i].name) < 0)
                        return error_oom(&c->error);
        list = strv_join(names, ", ");
        int r = error_set(&c->error, -ENOENT, "Pod '%s' has no app '%s'", pod_display_name(p), shown ?: "");
        return error_hint(&c->error, r, "It has: %s.", list ?: "");
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = A_POD};
        LogOptions o = {.lines = UINT64_MAX};
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = context_parse_pod(c, options, &o, argc, argv, &words, &p);
        if (r <= 0)
                return r;
        if (!p->manifest)
                return error_set(&c->error, -ENODATA, "Pod '%s' has no logs: it is %s", pod_display_name(p),
                                 pod_state_to_string(p->state));
        if (o.app) {
                r = check_app(c, p, o.app);
                if (r < 0)
                        return r;
        }
        o.json = c->json != JSON_OFF;
        o.prefix = !o.app && p->manifest->n_apps > 1;
        r = pod_logs(p, &o, &c->error);
        return r == -EPIPE ? EXIT_STATUS_FAILURE : r; /* whoever read has had enough and needs no message */
}

const Verb verb_logs = {
                .name = "logs",
                .synopsis = "[OPTIONS…] POD",
                .brief = "POD",
                .summary = "Show what the apps of a pod wrote",
                .text = "Shows the output of the pod's apps, each line with its app's name where there are "
                        "several. With --json each entry is an object on a line of its own, with its time.",
                .words = "pod",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
