/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The command line of prepare and run.
 *
 * The parser hands out the words; what a word or an option means depends on whether an image has been named
 * yet. So there are two option tables with partly the same names (--name, --mount, …), and at any time one
 * of them is in force and the other is known but misplaced, which gives messages that say where the option
 * belongs.
 */

#include "schema/settings.h"
#include "stage0/fetching.h"
#include "stage0/pod-arguments.h"

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
        pair_list_done(&a->input);
        *a = (PodArguments){};
}

/* --- The tables ---------------------------------------------------------------------------------------- */

static int option_exit_policy(const Option *o, const char *value, void *target, Error *e)
{
        int r = exit_policy_from_string(value);

        if (r < 0)
                return option_invalid(o, value, e, "must be on-failure, all or any");
        *(ExitPolicy *) target = (ExitPolicy) r;
        return 0;
}

static int option_stage1(const Option *o, const char *value, void *target, Error *e)
{
        PodArguments *a = target;
        char *path = realpath(value, NULL);

        if (!path)
                return option_invalid(o, value, e, "%s", strerror(errno));
        free(a->stage1);
        a->stage1 = path;
        a->options.stage1 = path;
        return 0;
}

#define POD(member) offsetof(PodArguments, member)
#define APP(member) offsetof(AppOverrides, member)

const Option pod_options[] = {
                {"Pod Options (before the first image)", "name", 0, "NAME", false, "Name the pod", NULL,
                 option_pod_name, POD(options.name)},
                {NULL, "pod-manifest", 0, "FILE", false,
                 "Make the pod from a pod manifest instead of naming images", "file", option_word,
                 POD(manifest_file)},
                {NULL, "verify", 0, NULL, false, "Refuse images that were altered in the store", NULL,
                 option_true, POD(request.verify)},
                {NULL, "volume", 'v', "NAME,kind=KIND[,…]|HOST:PATH", false,
                 "Define a volume: kind=empty[,mode=,uid=,gid=], kind=tmpfs[,size=,nr_inodes=,mode=,…] or "
                 "kind=host,source=PATH[,readOnly=,idmap=,…]; or mount a path of the host, or a volume, in all "
                 "apps: HOST:PATH[:ro]",
                 NULL, option_volume, POD(request)},
                {NULL, "mount", 0, "VOLUME:PATH[:ro]", false,
                 "Mount a volume in all apps; in full: volume=VOLUME,target=PATH[,readOnly=BOOL]", NULL,
                 option_pod_mount, POD(request)},
                {NULL, "net", 0, "none|host|NAME[,…]", false,
                 "Network: a private one with loopback only (default), the host's, or named ones, each with "
                 "arguments if need be: NAME:ARG=VALUE;…",
                 "none|host|default", option_net, POD(options)},
                {NULL, "port", 0, "NAME:[IP:]PORT", false,
                 "Expose the port of an app as a port of the host; or any port: PORT:APPPORT[/udp]", NULL,
                 option_port, POD(request)},
                {NULL, "hostname", 0, "NAME", false, "Set the host name of the pod", NULL, option_hostname,
                 POD(options.hostname)},
                {NULL, "dns", 0, "none|host|ADDRESS", false,
                 "Name server for /etc/resolv.conf of the apps, instead of what the network gives; none: as "
                 "the images have it; host: the host's",
                 "none|host", option_dns, POD(options.dns)},
                {NULL, "dns-search", 0, "DOMAIN", false, "Search names in this domain; '.': in none", NULL,
                 option_dns_search, POD(options.dns_search)},
                {NULL, "dns-option", 0, "OPTION", false, "Option for /etc/resolv.conf: ndots:2, …", NULL,
                 option_dns_option, POD(options.dns_options)},
                {NULL, "hosts-entry", 0, "IP=NAME[,…]", false,
                 "Entry of /etc/hosts of the apps; host: all entries of the host's", "host",
                 option_hosts_entry, POD(options.hosts_entries)},
                {NULL, "environment", 'E', "NAME[=VALUE]", false,
                 "Set an environment variable in all apps; without a value it is taken from here", NULL,
                 option_environment, POD(request.environment)},
                {NULL, "credential", 0, "NAME:FILE", false,
                 "Give all apps a secret as a systemd credential: the content of FILE, - for standard input", "file",
                 option_credential, POD(request.credentials)},
                {NULL, "load-credential", 0, "NAME:FILE", false, "Same as --credential", "file", option_credential,
                 POD(request.credentials)},
                {NULL, "set-credential", 0, "NAME:VALUE", false,
                 "The same with the value itself, which others may see on the command line", NULL,
                 option_set_credential, POD(request.credentials)},
                {NULL, "annotation", 0, "NAME=VALUE", false, "Add an annotation to the pod", NULL,
                 option_annotation, POD(request.annotations)},
                {NULL, "user-annotation", 0, "NAME=VALUE", false, "Add a user annotation to the pod", NULL,
                 option_pair, POD(request.user_annotations)},
                {NULL, "user-label", 0, "NAME=VALUE", false, "Add a user label to the pod", NULL,
                 option_pair, POD(request.user_labels)},
                {NULL, "isolator", 0, "NAME=JSON", false, "Add an isolator for the pod as a whole", NULL,
                 option_isolator, POD(request.isolators)},
                {NULL, "memory", 0, "SIZE", false, "Limit the memory of all apps together: 64Mi, 1G, …", NULL,
                 option_isolator_short, POD(request.isolators)},
                {NULL, "cpu", 0, "AMOUNT", false, "Limit the processor time of all apps together: 500m, 2, …", NULL,
                 option_isolator_short, POD(request.isolators)},
                {NULL, "block-bandwidth", 0, "RATE", false,
                 "Limit the bytes a second that all apps together read, and write: 2M, …", NULL,
                 option_isolator_short, POD(request.isolators)},
                {NULL, "block-iops", 0, "RATE", false,
                 "Limit how often a second all apps together read from disks, and write", NULL,
                 option_isolator_short, POD(request.isolators)},
                {NULL, "sysctl", 0, "NAME=VALUE", false, "Set a kernel parameter of the pod", NULL, option_sysctl,
                 POD(request.isolators)},
                {NULL, "exit-policy", 0, "on-failure|all|any", false,
                 "End the pod when all apps have ended or one failed (default), when all have ended, or "
                 "when any has",
                 "on-failure|all|any", option_exit_policy, POD(options.exit_policy)},
                {NULL, "stop-timeout", 0, "TIME", false,
                 "How long an app may take to end after SIGTERM, and a post-stop handler to run (default: "
                 "10s)",
                 NULL, option_usec, POD(options.stop_timeout_usec)},
                {NULL, "exit-idle-time", 0, "TIME", false,
                 "End the pod when its apps, which connections start, have had nothing to do for so long", NULL,
                 option_usec, POD(options.exit_idle_usec)},
                {NULL, "interactive", 'i', NULL, false,
                 "Give the only app a terminal if standard input is one, else an open standard input", NULL,
                 option_interactive, POD(input)},
                {NULL, "stdin", 0, NULL, false, "Give the only app an open standard input", NULL, option_stdin,
                 POD(input)},
                {NULL, "no-userns", 0, NULL, false,
                 "Do not use a user namespace: root in the pod is root of the host", NULL, option_false,
                 POD(options.private_users)},
                {NULL, "stage1", 0, "DIR", false, "Boot the systemd in DIR instead of the host's",
                 "directory", option_stage1, 0},
                {NULL, "uuid-file", 0, "FILE", false, "Write the pod's UUID to FILE as well", "file",
                 option_word, POD(uuid_file)},
                OPTIONS_FETCH(NULL, offsetof(PodArguments, fetch)),
                OPTION_END,
};

const Option app_options[] = {
                {"App Options (after an image)", "name", 0, "NAME", false,
                 "Name the app (default: from the image's name)", NULL, option_app_name, APP(name)},
                {NULL, "exec", 0, "PATH", false, "Run this program instead of the image's", NULL,
                 option_exec, APP(exec)},
                {NULL, "user", 0, "USER", false,
                 "Run as this user: a name, a number, or a path in the image whose owner counts", NULL,
                 option_user, APP(user)},
                {NULL, "group", 0, "GROUP", false, "Run as this group", NULL, option_user, APP(group)},
                {NULL, "supplementary-gids", 0, "GID[,…]", false,
                 "Be in these groups, by number, instead of the image's", NULL, option_gids, 0},
                {NULL, "working-directory", 0, "PATH", false, "Run in this directory", NULL,
                 option_working_directory, APP(working_directory)},
                {NULL, "environment", 'E', "NAME[=VALUE]", false, "Set an environment variable", NULL,
                 option_environment, APP(environment)},
                {NULL, "credential", 0, "NAME:FILE", false,
                 "Give the app a secret as a systemd credential: the content of FILE, - for standard input", "file",
                 option_credential, APP(credentials)},
                {NULL, "load-credential", 0, "NAME:FILE", false, "Same as --credential", "file", option_credential,
                 APP(credentials)},
                {NULL, "set-credential", 0, "NAME:VALUE", false,
                 "The same with the value itself, which others may see on the command line", NULL,
                 option_set_credential, APP(credentials)},
                {NULL, "mount", 0, "VOLUME:PATH[:ro]", false,
                 "Mount a volume in this app; in full: volume=VOLUME,target=PATH[,readOnly=BOOL]", NULL,
                 option_app_mount, 0},
                {NULL, "volume", 'v', "HOST:PATH[:ro]", false,
                 "Mount a path of the host in this app, or with a name instead of HOST a volume", NULL,
                 option_app_volume, 0},
                {NULL, "read-only", 0, NULL, false, "Make the app's root read-only", NULL, option_true,
                 APP(read_only_rootfs)},
                {NULL, "readonly-rootfs", 0, NULL, false, "Same as --read-only", NULL, option_true,
                 APP(read_only_rootfs)},
                {NULL, "memory", 0, "SIZE", false, "Limit the app's memory: 64Mi, 1G, …", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "cpu", 0, "AMOUNT", false, "Limit the app's processor time: 500m, 2, …", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "cpu-shares", 0, "NUMBER", false,
                 "Weigh the app among those of the pod: 2 to 262144, usually 1024", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "block-bandwidth", 0, "RATE", false,
                 "Limit the bytes a second that the app reads, and writes", NULL, option_isolator_short,
                 APP(isolators)},
                {NULL, "block-iops", 0, "RATE", false,
                 "Limit how often a second the app reads from disks, and writes", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "oom-score-adj", 0, "SCORE", false,
                 "How soon the app is killed when memory runs out: -1000 (never) to 1000", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "sysctl", 0, "NAME=VALUE", false, "Set a kernel parameter of the pod", NULL,
                 option_sysctl, APP(isolators)},
                {NULL, "seccomp", 0, "mode=MODE[,errno=NAME],CALL[,…]", false,
                 "Retain or remove system calls; what is not allowed fails with the error, or kills", NULL,
                 option_seccomp, APP(isolators)},
                {NULL, "no-new-privileges", 0, NULL, false, "Let no program give the app privileges", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "apparmor-profile", 0, "NAME", false, "Run the app in this AppArmor profile", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "selinux-context", 0, "USER:ROLE:TYPE:LEVEL", false,
                 "Run the app in this SELinux context", NULL, option_selinux_context, APP(isolators)},
                {NULL, "caps-retain", 0, "CAP[,…]", false, "Keep only these capabilities", NULL,
                 option_caps_retain, APP(isolators)},
                {NULL, "caps-remove", 0, "CAP[,…]", false, "Take these capabilities away", NULL,
                 option_caps_remove, APP(isolators)},
                {NULL, "interactive", 'i', NULL, false,
                 "Give the app a terminal if standard input is one, else an open standard input", NULL,
                 option_interactive, APP(annotations)},
                {NULL, "stdin", 0, NULL, false, "Give the app an open standard input", NULL, option_stdin,
                 APP(annotations)},
                {NULL, "input", 0, "null|pipe|terminal", false,
                 "What the app's standard input is: nothing (default), open, or a terminal", "null|pipe|terminal",
                 option_setting, APP(annotations)},
                {NULL, "restart", 0, "no|on-failure|always", false,
                 "Start the app again after it ended: never (default), if it failed, or always",
                 "no|on-failure|always", option_setting, APP(annotations)},
                {NULL, "restart-delay", 0, "TIME", false,
                 "Wait before a restart (default: 100ms), twice as long before the next", NULL,
                 option_setting, APP(annotations)},
                {NULL, "restart-delay-max", 0, "TIME", false, "But never longer than this (default: 1min)",
                 NULL, option_setting, APP(annotations)},
                {NULL, "restart-limit", 0, "NUMBER|infinity", false,
                 "Give the app up after so many restarts in a row (default: 10)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "after", 0, "APP[,…]", false, "Start when these apps of the pod are ready", NULL,
                 option_setting, APP(annotations)},
                {NULL, "notify", 0, "BOOL", false, "The app tells when it is ready (sd_notify)",
                 "true|false", option_setting, APP(annotations)},
                {NULL, "start-timeout", 0, "TIME", false,
                 "How long the app may take until it is ready (default: infinity)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "health-cmd", 0, "COMMAND", false,
                 "Check the app with this command instead of the image's; or none", NULL, option_setting,
                 APP(annotations)},
                {NULL, "health-interval", 0, "TIME", false, "Check it as often as this (default: 30s)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "health-timeout", 0, "TIME", false, "How long a check may take (default: 30s)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "health-retries", 0, "NUMBER", false,
                 "Failures in a row that make the app unhealthy (default: 3)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "health-start-period", 0, "TIME", false,
                 "How long after a start failures do not count (default: 0)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "health-start-interval", 0, "TIME", false,
                 "The longest time between checks until the app is ready (default: 5s)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "health-on-failure", 0, "none|kill|restart|stop", false,
                 "What is done with an unhealthy app (default: none)", "none|kill|restart|stop",
                 option_setting, APP(annotations)},
                {NULL, "no-healthcheck", 0, NULL, false, "Do not check the app, whatever its image says",
                 NULL, option_no_healthcheck, APP(annotations)},
                {NULL, "stop-signal", 0, "SIGNAL", false, "What asks the app to end (default: SIGTERM)",
                 NULL, option_setting, APP(annotations)},
                {NULL, "stop-timeout", 0, "TIME", false,
                 "How long the app may take to end then (default: what holds for the pod)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "oom-group", 0, "BOOL", false,
                 "Without memory kill all processes of the app, not one", "true|false", option_setting,
                 APP(annotations)},
                {NULL, "isolator", 0, "NAME=JSON", false, "Add an isolator", NULL, option_isolator,
                 APP(isolators)},
                {NULL, "annotation", 0, "NAME=VALUE", false, "Add an annotation", NULL, option_app_annotation,
                 APP(annotations)},
                {NULL, "user-annotation", 0, "NAME=VALUE", false, "Add a user annotation", NULL, option_pair,
                 APP(user_annotations)},
                {NULL, "user-label", 0, "NAME=VALUE", false, "Add a user label", NULL, option_pair,
                 APP(user_labels)},
                OPTION_END,
};

/* --- The grammar --------------------------------------------------------------------------------------- */

enum { SET_VERB, SET_POD, SET_APP, SET_GLOBAL, _SET_MAX };

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

/* An image: from here on options are those of its app. */
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
        p->sets[SET_VERB].misplaced = p->sets[SET_POD].misplaced =
                        "is for the whole pod: put it before the first image";
        p->sets[SET_APP].misplaced = NULL;
        p->sets[SET_APP].data = app;
        return 0;
}

/* Everything up to "---" goes to the app as it is. */
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

/* What was said of the only app before its image. */
static int give_input(PodParser *p)
{
        PodArguments *a = p->arguments;

        if (a->input.n == 0 || a->manifest_file || a->request.n_apps == 0)
                return 0;
        if (a->request.n_apps > 1)
                return context_usage(p->context, "Of several apps it has to be said which one is meant: put "
                                                 "--interactive or --stdin after its image");
        AppOverrides *app = &a->request.apps[0];
        for (size_t i = 0; i < a->input.n; i++)
                if (pair_list_set(&app->annotations, a->input.items[i].name, a->input.items[i].value) < 0)
                        return error_oom(&p->context->error);
        return 0;
}

/* What can only be seen at the end. */
static int check_line(PodParser *p)
{
        PodArguments *a = p->arguments;

        if (p->wants_image)
                return context_usage(p->context, "'---' is followed by the image of the next app");
        if (a->manifest_file && a->request.n_apps > 0)
                return context_usage(p->context,
                                     "Images cannot be named together with --pod-manifest: it names them");
        if (a->options.dns && streq(a->options.dns[0], "none") &&
            (a->options.dns_search || a->options.dns_options))
                return context_usage(p->context, "--dns=none leaves /etc/resolv.conf as the image has it, and cannot "
                                                 "be combined with --dns-search= or --dns-option=");
        a->describes_pod = p->sets[SET_POD].n_seen > 0 || p->sets[SET_APP].n_seen > 0 || a->has_arguments ||
                           a->request.n_apps > 1;
        int r = give_input(p);
        return r < 0 ? r : 1;
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
                                                        [SET_APP] = {app_options, NULL,
                                                                     "is for an app: put it after its "
                                                                     "image"},
                                                        [SET_GLOBAL] = {global_options, c},
                                        },
        };
        const char *word = NULL;
        int event, r = 0;

        p.parser = (OptionParser){.sets = p.sets, .n_sets = _SET_MAX, .argc = argc, .argv = argv};
        while (r >= 0 && (event = options_next(&p.parser, &word, &c->error)) != OPTION_DONE) {
                if (event < 0)
                        return context_usage_error(c, event);
                if (event == OPTION_STOP)
                        return c->help ? context_show_help(c, c->verb) : context_show_version(c);
                r = handle_event(&p, event, word);
        }
        return r < 0 ? r : check_line(&p);
}

/* --- Preparing ----------------------------------------------------------------------------------------- */

/* What the command line says of the only app. */
static int give_input_to_template(Context *c, PodArguments *a)
{
        PodManifest *m = a->request.template;

        if (a->input.n > 0 && m->n_apps != 1)
                return context_usage(c, "The pod manifest has %zu apps: which of them reads standard input is said "
                                        "there, by the annotation " SETTING_PREFIX "input", m->n_apps);
        for (size_t i = 0; i < a->input.n; i++)
                if (pair_list_set(&m->apps[0].annotations, a->input.items[i].name, a->input.items[i].value) < 0)
                        return error_oom(&c->error);
        return 0;
}

static int read_template(Context *c, PodArguments *a)
{
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *text = NULL;
        bool standard_input = streq(a->manifest_file, "-");

        fd = standard_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                            : open(a->manifest_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return error_set_errno(&c->error, -errno, "Cannot open the pod manifest '%s'",
                                       a->manifest_file);
        text = malloc(MANIFEST_SIZE_MAX + 1);
        if (!text)
                return error_oom(&c->error);
        ssize_t n = loop_read(fd, text, MANIFEST_SIZE_MAX + 1);
        if (n < 0)
                return error_set_errno(&c->error, (int) n, "Cannot read the pod manifest '%s'",
                                       a->manifest_file);
        int r = pod_manifest_parse(text, (size_t) n, &a->request.template, NULL, &c->error);
        if (r >= 0)
                r = give_input_to_template(c, a);
        if (r >= 0 || c->usage)
                return r;
        error_prefix(&c->error, r, "Cannot use '%s'", standard_input ? "standard input" : a->manifest_file);
        if (standard_input)
                return r;
        return error_hint(&c->error, r, "'acnspawn validate %s' shows all that is wrong with it.",
                          a->manifest_file);
}

static int write_uuid_file(Context *c, const char *file, const char *uuid)
{
        _cleanup_free_ char *line = NULL;

        if (xasprintf(&line, "%s\n", uuid) < 0)
                return error_oom(&c->error);
        int r = write_file_atomic_at(AT_FDCWD, file, line, strlen(line), 0644, false);
        return r < 0 ? error_set_errno(&c->error, r, "Cannot write the pod's UUID to '%s'", file) : 0;
}

/* With what is shown of fetching images; it is gone before anything else is said. */
static int prepare_and_show(Context *c, PodArguments *a, Pod **ret, char ***warnings)
{
        _cleanup_(progress_freep) Progress *progress = NULL;

        int r = context_show_fetching(c, &a->fetch, &progress);
        if (r < 0)
                return r;
        a->request.fetch = &a->fetch;
        a->options.config_dirs = context_config_dirs(c);
        r = prepare_pod(c->store, &a->request, &a->options, ret, warnings, &c->error);
        a->request.fetch = NULL;
        return r;
}

int pod_arguments_prepare(Context *c, PodArguments *a, Pod **ret)
{
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        int r = 0;

        if (a->manifest_file)
                r = read_template(c, a);
        if (r < 0)
                return r;
        (void) interrupt_catch();
        r = prepare_and_show(c, a, &p, &warnings);
        STRV_FOREACH (w, warnings) {
                _cleanup_free_ char *shown = text_escape_for_terminal(*w);
                log_warning("%s", shown ?: "");
        }
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
