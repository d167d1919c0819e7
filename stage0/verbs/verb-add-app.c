/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn add-app: one more app for a running pod. The image is fetched here, with all that users see of it; the rest is
 * done by the supervisor of the pod. */

#include "stage0/context/fetching.h"
#include "stage0/arguments/pod-arguments.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        bool start;
        const char *parent;
} Arguments;

static const Option options[] = {
                {"Options (before the image)", "start", 0, NULL, false, "Start the app, too", NULL,
                 option_true, offsetof(Arguments, start)},
                {NULL, "parent", 0, "APP", false, "Nest the app under this one, which runs", "app",
                 option_word, offsetof(Arguments, parent)},
                OPTION_END,
};

static int add(Context *c, Pod *p, PodArguments *a, const Arguments *own)
{
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;
        const char *references[] = {a->request.apps[0].reference, NULL};
        _cleanup_strv_free_ char **ids = NULL;
        _cleanup_free_ char *name = NULL;

        int r = acn_connect(p, &pod, &c->error); /* before anything is fetched in vain */
        if (r >= 0)
                r = pod_arguments_nest(a, p, own->parent, &c->error);
        if (r >= 0) {
                references[0] = a->request.apps[0].reference;
                r = context_fetch_images(c, &a->fetch, references, &ids);
        }
        if (r >= 0)
                r = acn_add_app(pod, &a->request, ids[0], &name, &warnings, &c->error);
        if (r < 0)
                return r;
        context_show_warnings(warnings);
        printf("%s\n", name);
        r = own->start ? acn_start_app(pod, name, &c->error) : 0;
        return r < 0 ? error_prefix(&c->error, r, "App %s was added", name) : EXIT_SUCCESS;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_(pod_freep) Pod *p = NULL;
        const char *pod;
        Arguments own = {};

        pod_arguments_init(&a);
        int r = pod_arguments_parse_with_pod(c, options, &own, argc, argv, &a, &pod);
        if (r <= 0)
                return r;
        if (!pod || a.request.n_apps == 0)
                return context_usage(c, "'acnspawn add-app' needs a pod and an image, in this order");
        if (a.request.n_apps > 1 || a.manifest_file)
                return context_usage(c, "One app is added at a time");
        if (a.describes_whole_pod)
                return context_usage(
                                c,
                                "An option of a pod cannot be given for one that is running: of the options "
                                "before the image, add-app has --start, --parent= and those for fetching "
                                "it");
        r = context_open_store_as_root(c);
        if (r >= 0)
                r = context_find_pod(c, pod, &p);
        return r < 0 ? r : add(c, p, &a, &own);
}

const Verb verb_add_app = {
                .name = "add-app",
                .page = "acnspawn-add-app",
                .synopsis = "POD [OPTIONS…] IMAGE [APP OPTIONS…] [-- ARGUMENTS…]",
                .brief = "POD IMAGE…",
                .summary = "Add an app to a running pod",
                .text = "Adds an app to a running pod and prints its name. The app is created: 'acnspawn "
                        "start-app' starts it. The other apps go on undisturbed. Options after the image "
                        "are those of 'acnspawn prepare'.",
                .words = "pod:running image",
                .options = (const Option *const[]){options, image_options, app_options, NULL},
                .run = run,
};
