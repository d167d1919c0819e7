/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn pod create: writes the file that declares a pod, of an existing pod, or of a command line of run.
 *
 * A command line is parsed by the parser of run, so that what run refuses is refused here, and each option is
 * written by its own name, as it was given. What depends on where and when it is given, a relative path or a
 * variable of the environment, is written as it is now. */

#include <sys/stat.h>

#include "prepare/build/build.h"
#include "stage0/arguments/pod-declared.h"
#include "stage0/arguments/pod-values.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        const char *from, *output;
        bool force;
} Arguments;

static const Option options[] = {
                {"Options", "from", 0, "POD", false, "Write what this pod was made of", "pod", option_word,
                 offsetof(Arguments, from)},
                {NULL, "output", 'o', "FILE", false,
                 "Write to FILE, - for standard output (default: NAME.pod where pods are declared)", "file",
                 option_word, offsetof(Arguments, output)},
                {NULL, "force", 'f', NULL, false, "Replace the file if it exists", NULL, option_true,
                 offsetof(Arguments, force)},
                OPTION_END,
};

/* --- A command line of run ----------------------------------------------------------------------------- */

typedef struct Recorded {
        const char *option;
        size_t app;    /* 0: the pod's; or 1 + index */
        bool only_app; /* was given before the only app */
        char *value;
} Recorded;

typedef struct Recorder {
        const PodArguments *arguments;
        Recorded *items;
        size_t n, allocated;
        bool secret; /* one of them is */
} Recorder;

static void recorder_done(Recorder *x)
{
        for (size_t i = 0; i < x->n; i++)
                free(x->items[i].value);
        free(x->items);
}

static int refuse_input(const Option *o, const char *value, Error *e)
{
        int r = option_invalid(o, value, e, "a declared pod cannot read standard input");

        return error_hint(e, r, "Name a file that stays.");
}

static int absolute_value(const Option *o, const char *value, char **ret, Error *e)
{
        bool is_credential = o->handler == option_credential;
        const char *path = is_credential ? strchr(value, ':') + 1 : value;
        _cleanup_free_ char *absolute = NULL;

        if (streq(path, "-"))
                return refuse_input(o, value, e);
        if (path_make_absolute(path, &absolute) < 0 ||
            xasprintf(ret, "%.*s%s", (int) (path - value), value, absolute) < 0)
                return error_oom(e);
        return 0;
}

/* As it will be read elsewhere and later. */
static int fixed_value(const Option *o, const char *value, char **ret, Error *e)
{
        char *fixed = NULL;

        *ret = NULL;
        if (!value)
                return 0;
        if (o->handler == option_credential ||
            (!streq(o->name, "log-file") &&
             (streq_ptr(o->complete, "file") || streq_ptr(o->complete, "directory"))))
                return absolute_value(o, value, ret, e);
        int r = volume_option_make_absolute(o, value, ret);
        if (r != 0)
                return r < 0 ? error_oom(e) : 0;
        r = o->handler == option_environment && !strchr(value, '=')
                            ? xasprintf(&fixed, "%s=%s", value, getenv(value) ?: "")
                            : (fixed = strdup(value), fixed ? 0 : -ENOMEM);
        if (r < 0)
                return error_oom(e);
        *ret = fixed;
        return 0;
}

static int record(const Option *o, const char *value, const AppOverrides *app, void *userdata, Error *e)
{
        Recorder *x = userdata;
        KeySection section = app ? KEY_IN_APP : KEY_IN_POD;
        char *fixed = NULL;

        if (streq(o->name, "interactive")) {
                int r = error_set(e, -EINVAL,
                                  "A declared pod has no terminal: --interactive cannot be written");
                return error_hint(e, r, "--stdin gives an app an open standard input.");
        }
        if (declared_excluded(section, o))
                return 0;
        int r = fixed_value(o, value, &fixed, e);
        if (r < 0)
                return r;
        if (GREEDY_REALLOC(x->items, x->allocated, x->n + 1) < 0) {
                free(fixed);
                return error_oom(e);
        }
        x->secret = x->secret || o->handler == option_set_credential;
        x->items[x->n++] = (Recorded){.option = o->name,
                                      .app = app ? (size_t) (app - x->arguments->request.apps) + 1 : 0,
                                      .only_app = o->handler == option_only_app,
                                      .value = fixed};
        return 0;
}

/* What was given for the only app before it goes into the section of that, if it has one. */
static size_t section_of(const Recorder *x, const Recorded *i)
{
        return i->only_app && x->arguments->request.n_apps == 1 ? 1 : i->app;
}

static int write_recorded(Context *c, PodWriter *w, const Recorder *x, size_t app)
{
        for (size_t i = 0; i < x->n; i++)
                if (section_of(x, &x->items[i]) == app) {
                        int r = pod_writer_add(w, x->items[i].option, x->items[i].value, &c->error);
                        if (r < 0)
                                return r;
                }
        return 0;
}

/* The name that prepare would give the app. */
static int name_app(Context *c, const AppOverrides *a, char **ret)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_free_ char *name = NULL;

        if (a->name)
                return (*ret = strdup(a->name)) ? 0 : error_oom(&c->error);
        int r = reference_app_name(a->reference, &name);
        if (r == -EINVAL && c->store && image_find(c->store, a->reference, &image, NULL) >= 0)
                r = app_name_from_image_name(image->manifest->name, &name);
        if (r == -EINVAL) { /* fetched later: NAME:VERSION, or NAME,LABEL=VALUE, or a path */
                _cleanup_free_ char *base = strndup(a->reference, strcspn(a->reference, ","));
                char *slash = base ? strrchr(base, '/') : NULL;
                char *end = base ? strrchr(slash ?: base, ':') : NULL;

                if (end)
                        *end = 0;
                if (base && (end = (char *) endswith(base, ".aci")))
                        *end = 0;
                r = base ? app_name_from_image_name(base, &name) : -ENOMEM;
        }
        if (r == -EINVAL) {
                r = error_set(&c->error, r, "No name for an app can be made from '%s'", a->reference);
                return error_hint(&c->error, r, "Name it with --name= after the image.");
        }
        if (r < 0)
                return error_oom(&c->error);
        *ret = TAKE_PTR(name);
        return 0;
}

static int write_app(Context *c, PodWriter *w, const Recorder *x, size_t i, char ***names)
{
        const AppOverrides *a = &x->arguments->request.apps[i];
        _cleanup_free_ char *name = NULL, *reference = NULL;

        if (streq(a->reference, "-"))
                return context_usage(c, "A declared pod cannot read an image from standard input");
        int r = name_app(c, a, &name);
        if (r < 0)
                return r;
        if (strv_contains(*names, name)) {
                r = error_set(&c->error, -EEXIST, "Two apps have the name '%s'", name);
                return error_hint(&c->error, r, "Name one of them with --name= after its image.");
        }
        if (strv_extend(names, name) < 0 || reference_make_absolute(a->reference, &reference) < 0 ||
            pod_writer_app(w, name, reference) < 0)
                return error_oom(&c->error);
        r = write_recorded(c, w, x, i + 1);
        return r < 0 ? r : pod_writer_arguments(w, a->args) < 0 ? error_oom(&c->error) : 0;
}

static int check_words(Context *c, const PodArguments *a)
{
        if (a->request.n_apps == 0 && !a->manifest_file && !exit_policy_is_open(a->options.exit_policy))
                return context_usage(c,
                                     "After '--' stands what 'acnspawn run' would be given: options and at "
                                     "least one image, or --pod-manifest=, or --exit-policy=never or tasks");
        return 0;
}

static int write_words(Context *c, PodWriter *w, int argc, char **argv, bool *ret_secret)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_run_arguments_ RunArguments run;
        _cleanup_(recorder_done) Recorder x = {.arguments = &a};
        _cleanup_strv_free_ char **names = NULL;

        pod_arguments_init(&a);
        run_arguments_init(&run);
        a.on_option = record;
        a.userdata = &x;
        int r = pod_arguments_parse(c, run_options, &run, argc, argv, &a);
        if (r <= 0)
                return r;
        r = run_arguments_take_policy(c, &run, &a);
        if (r >= 0)
                r = check_words(c, &a);
        if (r >= 0 && context_open_store_if_there(c) < 0) /* images in it have names */
                error_done(&c->error);
        if (r >= 0)
                r = write_recorded(c, w, &x, 0);
        if (r >= 0 && run.executor)
                r = pod_writer_add(w, "exit-policy", exit_policy_to_string(EXIT_ON_TASKS), &c->error);
        for (size_t i = 0; r >= 0 && i < a.request.n_apps; i++)
                r = write_app(c, w, &x, i, &names);
        *ret_secret = x.secret;
        return r < 0 ? r : 1;
}

static int write_pod(Context *c, PodWriter *w, const char *reference)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = context_open_existing_store(c);
        if (r >= 0)
                r = context_find_pod(c, reference, &p);
        if (r >= 0)
                r = pod_load(p, &c->error);
        if (r >= 0)
                r = pod_writer_add_pod(w, p, &c->error);
        return r < 0 ? r : 1;
}

/* --- The file ------------------------------------------------------------------------------------------ */

/* The text must be what the reader takes; that it is not would be a defect, or beyond its limits. */
static int check_text(Context *c, const char *name, const char *text)
{
        _cleanup_(declared_freep) Declared *d = declared_new(name);
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_run_arguments_ RunArguments run;

        pod_arguments_init(&a);
        run_arguments_init(&run);
        if (!d || declared_parse(d, "its declaration", text, strlen(text)) < 0)
                return error_oom(&c->error);
        int r = declared_apply(d, &a, &run, &c->error);
        return r < 0 ? r : declared_report(c, d);
}

static int default_path(Context *c, const char *name, char **ret)
{
        _cleanup_strv_free_ char **dirs = NULL;

        if (declared_dirs(c->config_dirs[0], &dirs) < 0 ||
            xasprintf(ret, "%s/%s" DECLARED_SUFFIX, dirs[0], name) < 0)
                return error_oom(&c->error);
        int r = mkdir_p(dirs[0], 0755);
        return r < 0 ? error_set_errno(&c->error, r, "Cannot create '%s'", dirs[0]) : 0;
}

static int write_file(Context *c, const Arguments *a, const char *name, const char *text, bool secret)
{
        _cleanup_(output_done) Output o = OUTPUT_NULL;
        _cleanup_free_ char *path = NULL;

        if (!a->output) {
                int r = default_path(c, name, &path);
                if (r < 0)
                        return r;
        }
        const char *file = a->output ?: path;
        int r = output_open(file, a->force, &o, &c->error);
        if (r < 0)
                return r;
        /* What programs get by their environment is often a password. */
        if (fchmod(o.fd, secret || strstr(text, "\nEnvironment=") ? 0600 : 0644) < 0)
                return error_set_errno(&c->error, -errno, "Cannot write '%s'", file);
        r = loop_write(o.fd, text, strlen(text));
        if (r < 0)
                return error_set_errno(&c->error, r, "Cannot write '%s'", file);
        r = output_publish(&o, a->force, &c->error);
        if (r < 0)
                return r;
        printf("%s\n", file);
        return 0;
}

static int create(Context *c, const Arguments *a, const char *name, bool has_words, int argc, char **argv)
{
        _cleanup_(pod_writer_freep) PodWriter *w = NULL;
        _cleanup_free_ char *text = NULL;
        bool secret = false;

        int r = pod_name_check(name, &c->error);
        if (r < 0)
                return context_usage_error(c, r);
        if (a->from ? has_words : !has_words)
                return context_usage(c,
                                     "A declared pod is made either of an existing one, --from=POD, or of "
                                     "options and images of 'acnspawn run' after '--'");
        if (pod_writer_new(name, &w) < 0)
                return error_oom(&c->error);
        r = a->from ? write_pod(c, w, a->from) : write_words(c, w, argc, argv, &secret);
        if (r <= 0)
                return r;
        if (pod_writer_take(w, &text) < 0)
                return error_oom(&c->error);
        r = check_text(c, name, text);
        if (r < 0)
                return r;
        return streq_ptr(a->output, "-") ? context_show_text(c, text) : write_file(c, a, name, text, secret);
}

static int run(Context *c, int argc, char **argv)
{
        Arguments a = {};
        OptionSet sets[] = {{options, &a}, {global_options, c}};
        OptionParser p = {.sets = sets, .n_sets = ELEMENTSOF(sets), .argc = argc, .argv = argv};
        const char *word = NULL, *name = NULL;
        int event;

        while ((event = options_next(&p, &word, &c->error)) == OPTION_WORD) {
                if (name)
                        return context_usage(c,
                                             "Unexpected argument '%s'; what the pod is made of stands "
                                             "after '--'",
                                             word);
                name = word;
        }
        if (event < 0)
                return context_usage_error(c, event);
        if (event == OPTION_STOP)
                return c->help ? context_show_help(c, c->verb) : context_show_version(c);
        if (event == OPTION_NEXT)
                return context_usage(c, "'---' stands after '--', between apps");
        if (!name)
                return context_usage(c, "'acnspawn pod create' needs the name of the pod");
        return create(c, &a, name, event == OPTION_DASHES, argc - p.index, argv + p.index);
}

const Verb verb_pod_create = {
                .name = "pod create",
                .page = "acnspawn-pod",
                .synopsis = "[OPTIONS…] NAME -- [RUN OPTIONS…] [POD OPTIONS…] IMAGE [APP OPTIONS…] [-- "
                            "ARGUMENTS…] [--- IMAGE …]\n"
                            "[OPTIONS…] NAME --from=POD",
                .brief = "NAME",
                .summary = "Declare a pod",
                .text = "Writes the file that declares a pod, and prints its path: of an existing pod, or "
                        "of what 'acnspawn run' would be given. 'systemctl enable --now acnspawn@NAME' "
                        "makes it a service of the host.",
                .words = "-",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
