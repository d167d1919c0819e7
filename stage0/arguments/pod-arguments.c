/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The command line of prepare and run.
 *
 * The parser returns the words; the meaning of a word or an option depends on whether an image was given
 * before. So there are two option tables (pod-options.c) with partly the same names (--name, --mount, …), of
 * which one is active and the other is marked as misplaced, so that messages can say where an option
 * belongs.
 */

#include "stage0/context/fetching.h"
#include "stage0/arguments/pod-arguments.h"

#define DEFAULT_STOP_TIMEOUT_USEC (10 * 1000000ULL)

void pod_arguments_init(PodArguments *a)
{
        *a = (PodArguments){
                        .options.private_users = true,
                        .options.net = NET_NONE,
                        .options.exit_policy = EXIT_ON_FAILURE,
                        .options.stop_timeout_usec = DEFAULT_STOP_TIMEOUT_USEC,
        };
}

void pod_arguments_done(PodArguments *a)
{
        pod_request_done(&a->request);
        free(a->stage1);
        strv_free(a->options.networks);
        strv_free(a->options.dns);
        strv_free(a->options.dns_search);
        strv_free(a->options.dns_options);
        strv_free(a->options.hosts_entries);
        app_overrides_done(&a->only_app);
        pair_list_done(&a->app_settings);
        strv_free(a->strings);
        *a = (PodArguments){};
}

/* --- The grammar --------------------------------------------------------------------------------------- */

enum { SET_VERB, SET_POD, SET_IMAGES, SET_APP, SET_GLOBAL, _SET_MAX };

typedef struct PodParser {
        Context *context;
        PodArguments *arguments;
        OptionSet sets[_SET_MAX];
        OptionParser parser;
        bool wants_image; /* after "---" */
} PodParser;

static AppOverrides *current_app(PodParser *p)
{
        PodRequest *request = &p->arguments->request;

        return request->n_apps > 0 ? &request->apps[request->n_apps - 1] : NULL;
}

/* An image: the options that follow are for its app. */
static int begin_app(PodParser *p, const char *reference)
{
        PodRequest *request = &p->arguments->request;
        AppOverrides *app;

        if (isempty(reference))
                return context_usage(p->context, "The name of an image must not be empty");
        if (GREEDY_REALLOC(request->apps, request->apps_allocated, request->n_apps + 1) < 0)
                return error_oom(&p->context->error);
        app = &request->apps[request->n_apps++];
        *app = (AppOverrides){.reference = strdup(reference)};
        if (!app->reference)
                return error_oom(&p->context->error);

        p->wants_image = false;
        p->sets[SET_VERB].misplaced = p->sets[SET_POD].misplaced = p->sets[SET_IMAGES].misplaced =
                        "is for the whole pod: put it before the first image";
        p->sets[SET_APP].misplaced = NULL;
        p->sets[SET_APP].data = app;
        memset(p->sets[SET_APP].given, 0, sizeof(p->sets[SET_APP].given));
        int r = context_apply_conf(p->context, "App", &p->sets[SET_APP]);
        isolators_mark_conf(&app->isolators, 0); /* options that follow replace them */
        return r;
}

/* Everything up to "---" is passed to the app unchanged. */
static int take_arguments(PodParser *p)
{
        OptionParser *o = &p->parser;
        AppOverrides *app = current_app(p);

        if (!app || p->wants_image)
                return context_usage(p->context,
                                     "'--' begins the arguments of an app and stands after its image");
        if (app->args)
                return context_usage(p->context, "The arguments of '%s' are given twice", app->reference);
        p->arguments->has_arguments = true;
        while (o->index < o->argc && !streq(o->argv[o->index], "---"))
                if (strv_extend(&app->args, o->argv[o->index++]) < 0)
                        return error_oom(&p->context->error);
        return 0;
}

static int next_app(PodParser *p)
{
        if (!current_app(p) || p->wants_image)
                return context_usage(p->context, "'---' stands between one app and the image of the next");
        p->wants_image = true;
        for (size_t i = SET_VERB; i <= SET_APP; i++)
                p->sets[i].misplaced = "cannot stand here: '---' is followed by the image of the next app";
        return 0;
}

static int handle_event(PodParser *p, int event, const char *word)
{
        if (event == OPTION_WORD)
                return begin_app(p, word);
        return event == OPTION_DASHES ? take_arguments(p) : next_app(p);
}

int pod_arguments_refuse_replace(Context *c)
{
        return context_usage(c, "--replace needs --name=, the name of the pod to replace");
}

/* "run --replace POD" runs this pod again. */
static bool replaces_itself(const PodParser *p)
{
        const PodArguments *a = p->arguments;

        return a->options.replace && !a->options.name && p->sets[SET_POD].n_seen == 1 &&
               a->request.n_apps == 1 && !a->has_arguments && p->sets[SET_APP].n_seen == 0;
}

const char *pod_arguments_conflict(const PodArguments *a)
{
        if (a->options.dns && streq(a->options.dns[0], "none") &&
            (a->options.dns_search || a->options.dns_options))
                return "--dns=none leaves /etc/resolv.conf as in the image, and cannot be combined with "
                       "--dns-search= or --dns-option=";
        if (a->options.exit_policy == EXIT_NEVER && a->options.exit_idle_usec != UINT64_MAX &&
            a->options.exit_idle_usec > 0)
                return "--exit-idle-time= ends a pod that is idle, and with --exit-policy=never it ends only when "
                       "it is stopped";
        return NULL;
}

static const struct {
        const char *option;
        IsolatorType type;
} limits[] = {
                {"memory", ISOLATOR_RESOURCE_MEMORY},
                {"cpu", ISOLATOR_RESOURCE_CPU},
                {"cpu-shares", ISOLATOR_CPU_SHARES},
                {"tasks-max", ISOLATOR_RESOURCE_TASKS},
};

void isolators_mark_conf(IsolatorList *l, size_t first)
{
        for (size_t i = first; i < l->n; i++)
                l->items[i].of_conf = true;
}

static void mark_limits(const IsolatorList *l, bool all, OptionSet *set)
{
        for (size_t i = 0; i < ELEMENTSOF(limits); i++)
                if (all || isolator_list_find(l, limits[i].type))
                        option_mark_given(set, limits[i].option);
}

void app_arguments_mark_conf(const AppOverrides *app, OptionSet *set)
{
        mark_limits(&app->isolators, false, set);
}

void pod_arguments_mark_conf(const PodArguments *a, OptionSet *pod)
{
        mark_limits(&a->request.isolators, a->manifest_file, pod);
        if (a->options.dns && streq(a->options.dns[0], "none")) {
                option_mark_given(pod, "dns-search");
                option_mark_given(pod, "dns-option");
        }
}

static int apply_conf(PodParser *p)
{
        OptionSet pod = p->sets[SET_POD];
        Context *c = p->context;

        IsolatorList *isolators = &p->arguments->request.isolators;
        size_t n = isolators->n;

        pod_arguments_mark_conf(p->arguments, &pod);
        int r = context_apply_conf(c, "Pod", &pod);
        isolators_mark_conf(isolators, n);
        const char *conflict = r < 0 ? NULL : pod_arguments_conflict(p->arguments);
        if (conflict)
                r = error_set(&c->error, -EINVAL, "With the defaults of acnspawn.conf: %s", conflict);
        if (r >= 0)
                r = context_apply_conf(c, "Image", &p->sets[SET_IMAGES]);
        return r < 0 ? r : context_apply_conf(c, "Run", &p->sets[SET_VERB]);
}

/* Checks at the end of the command line. */
static int check_line(PodParser *p)
{
        PodArguments *a = p->arguments;

        if (p->wants_image)
                return context_usage(p->context, "'---' is followed by the image of the next app");
        if (a->manifest_file && a->request.n_apps > 0)
                return context_usage(p->context,
                                     "Images cannot be named together with --pod-manifest: it names them");
        if (a->options.replace && !a->options.name && a->request.n_apps > 0 && !replaces_itself(p))
                return pod_arguments_refuse_replace(p->context);
        const char *conflict = pod_arguments_conflict(a);
        if (conflict)
                return context_usage(p->context, "%s", conflict);
        if (a->declares_capabilities && !exit_policy_is_open(a->options.exit_policy))
                return context_usage(
                                p->context,
                                "For an app, --caps-retain= stands after its image; before the first one "
                                "it is for apps that are added to a pod with --exit-policy=never or tasks");
        a->describes_pod = (p->sets[SET_POD].n_seen > 0 && !replaces_itself(p)) ||
                           p->sets[SET_APP].n_seen > 0 || a->has_arguments || a->request.n_apps > 1;
        a->describes_whole_pod = p->sets[SET_POD].n_seen > 0;
        a->fetches = p->sets[SET_IMAGES].n_seen > 0;
        int r = apply_conf(p);
        if (r >= 0)
                r = only_app_complete(p->context, a);
        if (r >= 0)
                r = pod_arguments_give_settings(a, &p->context->error);
        return r < 0 ? r : 1;
}

static int record_option(const OptionSet *set, const Option *o, const char *value, void *userdata, Error *e)
{
        const PodParser *p = userdata;
        const PodArguments *a = p->arguments;

        if (set == &p->sets[SET_GLOBAL])
                return 0;
        return a->on_option(o, value, set == &p->sets[SET_APP] ? set->data : NULL, a->userdata, e);
}

/* In other tools the words after the image are the command. */
static int wrong_option(PodParser *p, int r)
{
        Error *e = &p->context->error;

        if (current_app(p) && !p->wants_image && !e->hint && startswith(e->message ?: "", "Unknown option"))
                (void) error_hint(e, r,
                                  "Use --exec= for another program, and give arguments of the app "
                                  "after '--'.");
        return context_usage_error(p->context, r);
}

int pod_arguments_parse(Context *c, const Option *verb_options, void *verb_data, int argc, char **argv,
                        PodArguments *a)
{
        static const Option none[] = {OPTION_END};
        PodParser p = {
                        .context = c,
                        .arguments = a,
                        .sets =
                                        {
                                                        [SET_VERB] = {verb_options ?: none, verb_data},
                                                        [SET_POD] = {pod_options, a},
                                                        [SET_IMAGES] = {image_options, a},
                                                        [SET_APP] = {app_options, NULL,
                                                                     "is for an app: put it after its "
                                                                     "image"},
                                                        [SET_GLOBAL] = {global_options, c},
                                        },
        };
        const char *word = NULL;
        int event, r = 0;

        p.parser = (OptionParser){.sets = p.sets, .n_sets = _SET_MAX, .argc = argc, .argv = argv};
        if (a->on_option) {
                p.parser.on_option = record_option;
                p.parser.userdata = &p;
        }
        while (r >= 0 && (event = options_next(&p.parser, &word, &c->error)) != OPTION_DONE) {
                if (event < 0)
                        return wrong_option(&p, event);
                if (event == OPTION_STOP)
                        return c->help ? context_show_help(c, c->verb) : context_show_version(c);
                r = handle_event(&p, event, word);
        }
        return r < 0 ? r : check_line(&p);
}

int pod_arguments_parse_with_pod(Context *c, const Option *verb_options, void *verb_data, int argc,
                                 char **argv, PodArguments *a, const char **ret_pod)
{
        bool has_pod = argc > 0 && argv[0][0] != '-';

        *ret_pod = has_pod ? argv[0] : NULL;
        return pod_arguments_parse(c, verb_options, verb_data, argc - has_pod, argv + has_pod, a);
}

/* --- Preparing ----------------------------------------------------------------------------------------- */

int pod_arguments_read_manifest(Context *c, PodArguments *a)
{
        _cleanup_close_ int fd = input_open(a->manifest_file, O_RDONLY);
        _cleanup_free_ char *text = NULL;
        bool standard_input = streq(a->manifest_file, "-");

        if (fd < 0)
                return error_set(&c->error, fd, "Cannot open the pod manifest '%s': %s", a->manifest_file,
                                 input_problem(fd));
        text = malloc(MANIFEST_SIZE_MAX + 1);
        if (!text)
                return error_oom(&c->error);
        ssize_t n = loop_read(fd, text, MANIFEST_SIZE_MAX + 1);
        if (n < 0)
                return error_set_errno(&c->error, (int) n, "Cannot read the pod manifest '%s'",
                                       a->manifest_file);
        int r = pod_manifest_parse(text, (size_t) n, &a->request.template, NULL, &c->error);
        if (r >= 0)
                r = only_app_complete_template(c, a);
        if (r >= 0)
                r = pod_arguments_give_settings(a, &c->error);
        if (r >= 0 || c->usage)
                return r;
        error_prefix(&c->error, r, "Cannot use '%s'", standard_input ? "standard input" : a->manifest_file);
        if (standard_input)
                return r;
        return error_hint(&c->error, r, "'acnspawn validate %s' shows all errors.", a->manifest_file);
}

static int write_uuid_file(Context *c, const char *file, const char *uuid)
{
        _cleanup_free_ char *line = NULL;

        if (xasprintf(&line, "%s\n", uuid) < 0)
                return error_oom(&c->error);
        int r = write_file_atomic_at(AT_FDCWD, file, line, strlen(line), 0644, false);
        return r < 0 ? error_set_errno(&c->error, r, "Cannot write the pod's UUID to '%s'", file) : 0;
}

/* Shows progress of fetching images, which is cleared before other output. */
static int prepare_and_show(Context *c, PodArguments *a, Pod **ret, char ***warnings)
{
        int r = context_show_fetching(c, &a->fetch);
        if (r < 0)
                return r;
        a->request.fetch = &a->fetch;
        a->options.config_dirs = context_config_dirs(c);
        r = prepare_pod(c->store, &a->request, &a->options, ret, warnings, &c->error);
        a->request.fetch = NULL;
        context_end_fetching(c);
        return r;
}

/* A word without a dot or colon that is not an image was probably intended as an argument of the app before
 * it. */
static int explain_word(Context *c, const PodArguments *a, int r)
{
        const PodRequest *request = &a->request;

        for (size_t i = 1; i < request->n_apps && !a->declared; i++) {
                const char *word = request->apps[i].reference;
                _cleanup_free_ char *quoted = NULL;

                if (strpbrk(word, ".:"))
                        continue;
                if (xasprintf(&quoted, *word == '/' ? "%s" : "'%s'", word) < 0)
                        return error_oom(&c->error);
                if (strstr(c->error.message ?: "", quoted))
                        return error_hint(&c->error, r,
                                          "Each word is an image. Another program of %s is named by "
                                          "--exec=, and arguments of its app after '--'.",
                                          request->apps[i - 1].reference);
        }
        return r;
}

int pod_arguments_prepare_again(Context *c, PodArguments *a, Pod *old, bool resolve, bool as_prepared,
                                Pod **ret)
{
        _cleanup_strv_free_ char **warnings = NULL;
        const SuccessorOptions o = {.fetch = resolve ? &a->fetch : NULL,
                                    .as_prepared = as_prepared,
                                    .replace = a->options.replace,
                                    .config_dirs = context_config_dirs(c)};

        (void) interrupt_catch(c->operation);
        int r = resolve ? context_show_fetching(c, &a->fetch) : 0;
        if (r >= 0)
                r = make_successor(old, &o, ret, &warnings, &c->error);
        context_end_fetching(c);
        context_show_warnings(warnings);
        return r;
}

int pod_arguments_prepare(Context *c, PodArguments *a, Pod **ret)
{
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        int r = 0;

        if (a->manifest_file)
                r = pod_arguments_read_manifest(c, a);
        if (r < 0)
                return r;
        (void) interrupt_catch(c->operation);
        r = prepare_and_show(c, a, &p, &warnings);
        if (r < 0)
                r = explain_word(c, a, r);
        context_show_warnings(warnings);
        if (r >= 0 && a->uuid_file) {
                r = write_uuid_file(c, a->uuid_file, p->uuid);
                if (r < 0)
                        (void) pod_remove(p, NULL);
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}
