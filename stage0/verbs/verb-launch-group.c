/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn launch-group: apps for a running pod that start all or not at all; acnspawn launch: one such app. Their images are fetched here; the rest is done by
 * the supervisor of the pod. */

#include "stage0/arguments/pod-arguments.h"
#include "stage0/arguments/task-group.h"
#include "stage0/context/fetching.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        bool shared; /* fate */
        const char *parent;
} Arguments;

static int option_fate(const Option *o, const char *value, void *target, Error *e)
{
        if (!streq(value, "shared") && !streq(value, "independent"))
                return option_invalid(o, value, e, "must be shared or independent");
        *(bool *) target = streq(value, "shared");
        return 0;
}

static const Option options[] = {
                {"Options (before the first image)", "fate", 0, "shared|independent", false,
                 "Stop all apps of the group if one fails, or only let it end (default)",
                 "shared|independent", option_fate, offsetof(Arguments, shared)},
                {NULL, "parent", 0, "APP", false, "Nest the apps under this one, which runs", "app",
                 option_word, offsetof(Arguments, parent)},
                OPTION_END,
};

static const Option launch_options[] = {
                {"Options (before the image)", "parent", 0, "APP", false,
                 "Nest the app under this one, which runs", "app", option_word, offsetof(Arguments, parent)},
                OPTION_END,
};

/* A file: its name says so, as no reference to an image ends like that. */
static bool is_file(const char *word)
{
        return streq(word, "-") || endswith(word, ".json");
}

static int fetch_images(Context *c, PodArguments *a, char ***ret)
{
        const PodRequest *q = &a->request;
        _cleanup_free_ const char **references = calloc(q->n_apps + 1, sizeof(char *));

        if (!references)
                return error_oom(&c->error);
        for (size_t i = 0; i < q->n_apps; i++)
                references[i] = q->apps[i].reference;
        return context_fetch_images(c, &a->fetch, references, ret);
}

/* Apps that have a group by an option of their own keep it. */
static int share_fate(Context *c, PodRequest *q)
{
        char id[RANDOM_HEX_SIZE];

        int r = random_hex(id);
        if (r < 0)
                return error_set_errno(&c->error, r, "Cannot make a name for the group");
        for (size_t i = 0; r >= 0 && i < q->n_apps; i++)
                if (!pair_list_get(&q->apps[i].annotations, SETTING_PREFIX "fate-group"))
                        r = pair_list_set(&q->apps[i].annotations, SETTING_PREFIX "fate-group", id);
        return r < 0 ? error_oom(&c->error) : 0;
}

static int launch(Context *c, Pod *p, PodArguments *a, const char *parent)
{
        _cleanup_strv_free_ char **ids = NULL, **names = NULL, **warnings = NULL;
        _cleanup_(acn_disconnectp) AcnPod *pod = NULL;

        int r = acn_connect(p, &pod, &c->error); /* before anything is fetched in vain */
        if (r >= 0)
                r = pod_arguments_nest(a, p, parent, &c->error);
        if (r >= 0)
                r = fetch_images(c, a, &ids);
        if (r >= 0)
                r = acn_launch_group(pod, &a->request, (const char *const *) ids, &names, &warnings,
                                     &c->error);
        if (r < 0)
                return r;
        context_show_warnings(warnings);
        STRV_FOREACH (name, names)
                puts(*name);
        return EXIT_SUCCESS;
}

static int check_line(Context *c, const char *pod, const PodArguments *a, const char *file)
{
        if (!pod || a->request.n_apps == 0)
                return context_usage(
                                c,
                                "'acnspawn launch-group' needs a pod, and images or a file, in this order");
        if (a->describes_whole_pod || a->manifest_file)
                return context_usage(c, "An option of a pod cannot be given for one that is running: of the "
                                        "options before the first image, launch-group has --fate=, "
                                        "--parent= and those for fetching images");
        for (size_t i = 0; !file && i < a->request.n_apps; i++) {
                const char *word = a->request.apps[i].reference;
                if (is_file(word))
                        return context_usage(c,
                                             "'%s' is a file with all apps of the group: it is the last "
                                             "word, without images beside it",
                                             word);
        }
        return 0;
}

static int read_text(Context *c, const char *file, char **ret, size_t *ret_size)
{
        _cleanup_close_ int fd = input_open(file, O_RDONLY);
        _cleanup_free_ char *text = malloc(MANIFEST_SIZE_MAX + 1);

        if (fd < 0)
                return error_set(&c->error, fd, "Cannot open '%s': %s", file, input_problem(fd));
        if (!text)
                return error_oom(&c->error);
        ssize_t n = loop_read(fd, text, MANIFEST_SIZE_MAX + 1);
        if (n < 0)
                return error_set_errno(&c->error, (int) n, "Cannot read '%s'", file);
        *ret = TAKE_PTR(text);
        *ret_size = (size_t) n;
        return 0;
}

/* The form is recognized by the members: a pod manifest, or a group of tasks of Mesos. */
static int read_group(Context *c, const Pod *p, PodArguments *a, const char *file, bool nested)
{
        PodRequest *q = &a->request;
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        int r = read_text(c, file, &text, &size);
        if (r < 0)
                return r;
        if (task_group_is(text, size))
                return task_group_parse(text, size, p->manifest, nested, q, &c->error);
        r = pod_manifest_parse(text, size, &q->template, NULL, &c->error);
        if (r >= 0)
                r = only_app_complete_template(c, a);
        if (r >= 0)
                r = pod_arguments_give_settings(a, &c->error);
        return r < 0 ? r : pod_request_take_template(q, &c->error);
}

static int read_file(Context *c, const Pod *p, PodArguments *a, const char *file, bool nested)
{
        PodRequest *q = &a->request;

        app_overrides_done(&q->apps[0]);
        q->n_apps = 0;
        int r = read_group(c, p, a, file, nested);
        if (r >= 0 && q->n_apps == 0)
                r = error_set(&c->error, -EINVAL, "The group has no apps");
        return r < 0 ? error_prefix(&c->error, r, "Cannot use '%s'",
                                    streq(file, "-") ? "standard input" : file)
                     : 0;
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
        const char *last = pod && argc > 1 ? argv[argc - 1] : "";
        const char *file = a.request.n_apps == 1 && is_file(last) ? last : NULL;
        r = check_line(c, pod, &a, file);
        if (r >= 0)
                r = context_open_store_as_root(c);
        if (r >= 0)
                r = context_find_pod(c, pod, &p);
        if (r >= 0 && file)
                r = read_file(c, p, &a, file, own.parent);
        if (r >= 0 && own.shared)
                r = share_fate(c, &a.request);
        return r < 0 ? r : launch(c, p, &a, own.parent);
}

static int run_launch(Context *c, int argc, char **argv)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_(pod_freep) Pod *p = NULL;
        const char *pod;
        Arguments own = {};

        pod_arguments_init(&a);
        int r = pod_arguments_parse_with_pod(c, launch_options, &own, argc, argv, &a, &pod);
        if (r <= 0)
                return r;
        if (!pod || a.request.n_apps == 0)
                return context_usage(c, "'acnspawn launch' needs a pod and an image, in this order");
        if (a.request.n_apps > 1 || a.manifest_file)
                return context_usage(
                                c,
                                "One app is launched at a time; 'acnspawn launch-group' launches several");
        if (a.describes_whole_pod)
                return context_usage(c, "An option of a pod cannot be given for one that is running: of the "
                                        "options before the image, launch has --parent= and those for "
                                        "fetching it");
        r = context_open_store_as_root(c);
        if (r >= 0)
                r = context_find_pod(c, pod, &p);
        return r < 0 ? r : launch(c, p, &a, own.parent);
}

const Verb verb_launch = {
                .name = "launch",
                .page = "acnspawn-add-app",
                .synopsis = "POD [OPTIONS…] IMAGE [APP OPTIONS…] [-- ARGUMENTS…]",
                .brief = "POD IMAGE…",
                .summary = "Add an app to a running pod and start it",
                .text = "Adds an app to a running pod, starts it, and prints its name. If its program "
                        "cannot be executed, it does not stay. The other apps go on undisturbed.",
                .words = "pod:running image",
                .options = (const Option *const[]){launch_options, image_options, app_options, NULL},
                .run = run_launch,
};

const Verb verb_launch_group = {
                .name = "launch-group",
                .page = "acnspawn-add-app",
                .synopsis = "POD [OPTIONS…] IMAGE [APP OPTIONS…] [-- ARGUMENTS…] [--- IMAGE…]…\nPOD "
                            "[OPTIONS…] FILE.json|-",
                .brief = "POD IMAGE…",
                .summary = "Add apps to a running pod and start them, all or none",
                .text = "Adds apps to a running pod, starts them together, and prints their names. If one "
                        "of them cannot be added or its program cannot be executed, none of them stays. The "
                        "other apps go on undisturbed. The apps are those of the command line, with options "
                        "as for 'acnspawn prepare', or of a file in the form of a pod manifest.",
                .words = "pod:running image",
                .options = (const Option *const[]){options, image_options, app_options, NULL},
                .run = run,
};
