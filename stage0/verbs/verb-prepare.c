/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn prepare: prepares a pod, and prints its UUID alone on stdout. */

#include "stage0/arguments/pod-declared.h"
#include "stage0/verbs/pod-plan.h"
#include "stage0/arguments/pod-values.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        bool dry_run, strict;
        const char *declared;
} Arguments;

static const Option options[] = {
                {"Prepare Options (before the first image)", "dry-run", 0, NULL, false,
                 "Show the plan without making a pod", NULL, option_true, offsetof(Arguments, dry_run)},
                {NULL, "strict", 0, NULL, false,
                 "Refuse the pod, now and when it runs, unless all isolators are enforced", NULL,
                 option_true, offsetof(Arguments, strict)},
                {NULL, "declared", 0, "NAME", false,
                 "Prepare the pod that NAME.pod declares (see acnspawn.pod(5))", "declared", option_pod_name,
                 offsetof(Arguments, declared)},
                OPTION_END,
};

/* Replaces A, of the command line, by what the file says. */
static int take_declared(Context *c, const Arguments *own, PodArguments *a)
{
        _cleanup_run_arguments_ RunArguments run;
        bool replace = a->options.replace;

        run_arguments_init(&run);
        if (a->request.n_apps > 0 || a->fetches || (a->describes_whole_pod && !replace))
                return context_usage(c,
                                     "The file says what a declared pod is made of: it cannot be combined "
                                     "with images and options of pods");
        pod_arguments_done(a);
        pod_arguments_init(a);
        int r = context_load_declared(c, own->declared, a, &run);
        a->options.replace = replace;
        a->options.strict = a->options.strict || own->strict;
        return r;
}

static int check_line(Context *c, const PodArguments *a)
{
        if (a->request.n_apps == 0 && !a->manifest_file && !exit_policy_is_open(a->options.exit_policy))
                return context_usage(c, "'acnspawn prepare' needs an image, or --pod-manifest=; or, for a "
                                        "pod without apps, --exit-policy=never or tasks");
        return a->options.replace && !a->options.name ? pod_arguments_refuse_replace(c) : 0;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_(pod_freep) Pod *p = NULL;
        Arguments own = {};

        pod_arguments_init(&a);
        int r = pod_arguments_parse(c, options, &own, argc, argv, &a);
        if (r <= 0)
                return r;
        a.options.strict = own.strict;
        r = own.declared ? take_declared(c, &own, &a) : check_line(c, &a);
        if (r < 0)
                return r;
        a.options.dry_run = own.dry_run;
        if (own.dry_run && a.uuid_file)
                return context_usage(c,
                                     "--uuid-file cannot be given together with --dry-run: there is no pod");
        r = context_open_store_as_root(c);
        if (r >= 0)
                r = own.declared ? context_prepare_declared(c, &a, &p) : pod_arguments_prepare(c, &a, &p);
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
                            "[POD OPTIONS…] --exit-policy=never|tasks\n"
                            "[--replace] --declared=NAME",
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
