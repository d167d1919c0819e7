/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn prepare: makes a pod that can be run, and prints its UUID alone on stdout. */

#include "stage0/pod-arguments.h"

static int run(Context *c, int argc, char **argv)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_(pod_freep) Pod *p = NULL;

        pod_arguments_init(&a);
        int r = pod_arguments_parse(c, NULL, NULL, argc, argv, &a);
        if (r <= 0)
                return r;
        if (a.request.n_apps == 0 && !a.manifest_file)
                return context_usage(c, "'acnspawn prepare' needs an image, or --pod-manifest=");
        r = context_open_store_as_root(c);
        if (r >= 0)
                r = pod_arguments_prepare(c, &a, &p);
        if (r < 0)
                return r;
        printf("%s\n", p->uuid);
        return EXIT_SUCCESS;
}

const Verb verb_prepare = {
                .group = "Pod Commands",
                .name = "prepare",
                .synopsis = "[POD OPTIONS…] IMAGE [APP OPTIONS…] [-- ARGUMENTS…] [--- IMAGE …]\n"
                            "[POD OPTIONS…] --pod-manifest=FILE",
                .brief = "IMAGE…",
                .summary = "Make a pod that can be run",
                .text = "Makes a pod of one or more images and prints its UUID. An image is a file, an ID "
                        "or a "
                        "prefix of it, or NAME[:VERSION][,LABEL=VALUE…]. Options before the first image are "
                        "for "
                        "the pod, those after an image for its app; '--' begins the app's arguments, '---' "
                        "ends "
                        "them.",
                .words = "image",
                .options = (const Option *const[]){pod_options, app_options, NULL},
                .run = run,
};
