/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn prepare: prepares a pod, and prints its UUID alone on stdout. */

#include "stage0/pod-arguments.h"
#include "stage0/pod-plan.h"
#include "stage0/pod-words.h"

typedef struct Arguments {
        bool dry_run, strict;
} Arguments;

static const Option options[] = {
                {"Prepare Options (before the first image)", "dry-run", 0, NULL, false,
                 "Show the plan without making a pod", NULL, option_true, offsetof(Arguments, dry_run)},
                {NULL, "strict", 0, NULL, false,
                 "Refuse the pod, now and when it runs, unless all isolators are enforced", NULL,
                 option_true, offsetof(Arguments, strict)},
                OPTION_END,
};

static int run(Context *c, int argc, char **argv)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_(pod_freep) Pod *p = NULL;
        Arguments own = {};

        pod_arguments_init(&a);
        int r = pod_arguments_parse(c, options, &own, argc, argv, &a);
        if (r <= 0)
                return r;
        if (a.request.n_apps == 0 && !a.manifest_file && a.options.exit_policy != EXIT_NEVER)
                return context_usage(c, "'acnspawn prepare' needs an image, or --pod-manifest=; or, for a "
                                        "pod without apps, --exit-policy=never");
        if (a.options.replace && !a.options.name)
                return pod_arguments_refuse_replace(c);
        a.options.strict = own.strict;
        a.options.dry_run = own.dry_run;
        if (own.dry_run && a.uuid_file)
                return context_usage(c,
                                     "--uuid-file cannot be given together with --dry-run: there is no pod");
        r = context_open_store_as_root(c);
        if (r >= 0)
                r = pod_arguments_prepare(c, &a, &p);
        if (r < 0)
                return r;
        if (own.dry_run) {
                r = context_show_plan(c, p);
                pod_abandon(p);
                return r < 0 ? r : EXIT_SUCCESS;
        }
        r = context_show_pod(c, p);
        if (r < 0) { /* a pod with an unknown UUID is useless */
                (void) pod_remove(p, NULL);
                if (a.uuid_file)
                        (void) unlink(a.uuid_file);
        }
        return r;
}

const Verb verb_prepare = {
                .group = "Pod Commands",
                .name = "prepare",
                .page = "acnspawn-prepare",
                .synopsis = "[POD OPTIONS…] IMAGE [APP OPTIONS…] [-- ARGUMENTS…] [--- IMAGE …]\n"
                            "[POD OPTIONS…] --pod-manifest=FILE\n"
                            "[POD OPTIONS…] --exit-policy=never",
                .brief = "IMAGE…",
                .summary = "Prepare a pod",
                .text = "Makes a pod of one or more images and prints its UUID. An image is an ID or a "
                        "prefix of it, or what 'acnspawn fetch' takes: a name, a file, a URL, "
                        "docker://REFERENCE, oci:DIR[:TAG] and so on. Options before the first image are "
                        "for the pod, those after an image for its app; '--' begins the app's arguments, "
                        "'---' ends them.",
                .words = "image",
                .options = (const Option *const[]){options, pod_options, image_options, app_options, NULL},
                .run = run,
};
