/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn enter: runs a command, or a shell, in a running app. All words after the pod belong to the
 * command, including options. acnspawn exec is the same with the options of podman and docker, where standard input
 * and a terminal have to be asked for. */

#include "stage0/arguments/pod-values.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        EnterOptions enter;
        bool input, terminal; /* --interactive, --tty */
} Arguments;

static int add_variables(const PairList *l, char ***target, Error *e)
{
        for (size_t i = 0; i < l->n; i++)
                if (strv_extendf(target, "%s=%s", l->items[i].name, l->items[i].value) < 0)
                        return error_oom(e);
        return 0;
}

/* A name alone takes the value from acnspawn's environment, as with prepare and run. */
static int option_variable(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_(pair_list_done) PairList pair = {};

        int r = option_environment(o, value, &pair, e);
        return r < 0 ? r : add_variables(&pair, target, e);
}

static int add_file(const Option *o, const char *value, char ***target,
                    int (*read)(const Option *, const char *, void *, Error *), Error *e)
{
        _cleanup_(pair_list_done) PairList all = {};

        if (streq(value, "-"))
                return option_invalid(o, value, e, "standard input is that of the command");
        int r = read(o, value, &all, e);
        return r < 0 ? r : add_variables(&all, target, e);
}

static int option_variables(const Option *o, const char *value, void *target, Error *e)
{
        return add_file(o, value, target, option_environment_file, e);
}

static int option_plain_variables(const Option *o, const char *value, void *target, Error *e)
{
        return add_file(o, value, target, option_env_file, e);
}

static int option_directory(const Option *o, const char *value, void *target, Error *e)
{
        if (!path_is_absolute(value))
                return option_invalid(o, value, e, "must be an absolute path in the app's root");
        return option_string(o, value, target, e);
}

static int option_other_user(const Option *o, const char *value, void *target, Error *e)
{
        if (!*value || streq(value, ":"))
                return option_invalid(o, value, e, "must be USER, USER:GROUP or :GROUP");
        return option_string(o, value, target, e);
}

static const Option common_options[] = {
                {"Options (before the pod)", "app", 'a', "APP", false,
                 "The app to enter, if the pod has several", "app", option_word,
                 offsetof(Arguments, enter.app)},
                {NULL, "user", 'u', "USER[:GROUP]", false,
                 "Run the command as another user of the image that the app could switch to", NULL,
                 option_other_user, offsetof(Arguments, enter.user)},
                {NULL, "environment", 'E', "NAME[=VALUE]", false,
                 "Set a variable in the environment of the command; without a value, to its value in "
                 "acnspawn's own",
                 NULL, option_variable, offsetof(Arguments, enter.environment)},
                {NULL, "env", 'e', "NAME[=VALUE]", false, "Same as --environment", NULL, option_variable,
                 offsetof(Arguments, enter.environment)},
                {NULL, "environment-file", 0, "FILE", false,
                 "Set the variables in FILE in the environment of the command", "file", option_variables,
                 offsetof(Arguments, enter.environment)},
                {NULL, "env-file", 0, "FILE", false,
                 "The same of a file for podman or docker: quotes and blanks belong to the value", "file",
                 option_plain_variables, offsetof(Arguments, enter.environment)},
                {NULL, "working-directory", 'w', "PATH", false, "Start in PATH of the app's root", NULL,
                 option_directory, offsetof(Arguments, enter.directory)},
                {NULL, "workdir", 0, "PATH", false, "Same as --working-directory", NULL, option_directory,
                 offsetof(Arguments, enter.directory)},
                OPTION_END,
};

#define TIMEOUT_HELP "Kill the command, and all that it has started, after TIME; the status is 124 then"

/* 0 stands for none that is given. */
static int option_timeout(const Option *o, const char *value, void *target, Error *e)
{
        int r = option_usec(o, value, target, e);

        return r >= 0 && *(uint64_t *) target == 0 ? option_invalid(o, value, e, "must be longer than 0")
                                                   : r;
}

static const Option enter_options[] = {
                {NULL, "timeout", 't', "TIME", false, TIMEOUT_HELP, NULL, option_timeout,
                 offsetof(Arguments, enter.timeout_usec)},
                OPTION_END,
};

static const Option exec_options[] = {
                {NULL, "interactive", 'i', NULL, false,
                 "Pass standard input on to the command, which is empty otherwise", NULL, option_true,
                 offsetof(Arguments, input)},
                {NULL, "tty", 't', NULL, false,
                 "Give the command a terminal, with standard input; only possible on a terminal", NULL,
                 option_true, offsetof(Arguments, terminal)},
                {NULL, "timeout", 0, "TIME", false, TIMEOUT_HELP, NULL, option_timeout,
                 offsetof(Arguments, enter.timeout_usec)},
                OPTION_END,
};

static int misplaced(Context *c, const char *word)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(word);

        return context_usage(
                        c,
                        "'%s' is given after the pod, where the command begins: put options before the pod",
                        shown ?: "");
}

/* Options of other tools that are not needed, or not possible. */
static int wrong_option(Context *c, int r)
{
        static const struct {
                const char *option, *hint;
        } known[] = {
                        {"-i'", "Standard input is always that of the command, and on a terminal the "
                                "command gets a terminal: -i and -t are not needed; 'acnspawn exec' "
                                "takes them."},
                        {"--interactive'",
                         "Standard input is always that of the command; 'acnspawn exec' takes "
                         "--interactive."},
                        {"--tty'",
                         "On a terminal the command gets a terminal; 'acnspawn exec' takes --tty."},
                        {"-d'", "The command ends with acnspawn, so it cannot be detached; your shell runs "
                                "both in the background with '&'."},
                        {"--detach'",
                         "The command ends with acnspawn, so it cannot be detached; your shell runs both "
                         "in the background with '&'."},
                        {"--privileged'", "The command has the privileges of the app, and never more."},
        };
        const char *option = startswith(c->error.message ?: "", "Unknown option '");

        for (size_t i = 0; option && i < ELEMENTSOF(known); i++)
                if (startswith(option, known[i].option))
                        (void) error_hint(&c->error, r, "%s", known[i].hint);
        return context_usage_error(c, r);
}

/* 1: *RET_POD and the command were given. */
static int parse(Context *c, const Option *own, int argc, char **argv, Arguments *a, const char **ret_pod)
{
        OptionSet sets[] = {{common_options, a}, {own, a}, {global_options, c}};
        OptionParser p = {.sets = sets, .n_sets = ELEMENTSOF(sets), .argc = argc, .argv = argv};
        const char *word = NULL;

        int r = options_next(&p, &word, &c->error);
        if (r < 0)
                return wrong_option(c, r);
        if (c->help || c->version)
                return c->help ? context_show_help(c, c->verb) : context_show_version(c);
        if (r == OPTION_DASHES && p.index < p.argc) {
                word = p.argv[p.index++];
                r = OPTION_WORD;
        }
        if (r != OPTION_WORD)
                return context_usage(c, "'acnspawn %s' needs " A_POD, c->verb->name);
        const char *next = p.index < p.argc ? p.argv[p.index] : "";
        if (*next == '-' && !streq(next, "--"))
                return misplaced(c, next);
        p.index += streq(next, "--");
        a->enter.argv = p.argv + p.index;
        *ret_pod = word;
        return 1;
}

static int enter(Context *c, const char *word, const Arguments *a)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        int status = 0;

        int r = context_open_existing_store_as_root(c);
        if (r >= 0)
                r = context_find_pod(c, word, &p);
        if (r >= 0)
                r = enter_app(p, &a->enter, &status, &c->error);
        if (r >= 0 || status == 0)
                return r < 0 ? r : status;
        error_print(&c->error, r);
        error_done(&c->error);
        return status;
}

static int run_enter(Context *c, int argc, char **argv)
{
        Arguments a = {};
        const char *word = NULL;

        int r = parse(c, enter_options, argc, argv, &a, &word);
        if (r > 0)
                r = enter(c, word, &a);
        strv_free(a.enter.environment);
        return r;
}

/* --- exec ---------------------------------------------------------------------------------------------- */

static int set_streams(Context *c, Arguments *a)
{
        if (a->terminal && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))) {
                int r = error_set(
                                &c->error, -ENOTTY,
                                "--tty is not possible: standard input and output are not both a terminal");
                c->usage = true;
                return error_hint(&c->error, r,
                                  "Leave it out; --interactive (-i) alone passes standard input on.");
        }
        a->enter.no_input = !a->input && !a->terminal;
        a->enter.no_terminal = !a->terminal;
        return 0;
}

static int run_exec(Context *c, int argc, char **argv)
{
        Arguments a = {};
        const char *word = NULL;

        int r = parse(c, exec_options, argc, argv, &a, &word);
        if (r > 0 && !a.enter.argv[0])
                r = context_usage(c, "'acnspawn exec' needs a command after the pod; 'acnspawn enter' "
                                     "without one runs a shell");
        if (r > 0)
                r = set_streams(c, &a) < 0 ? c->error.code : enter(c, word, &a);
        strv_free(a.enter.environment);
        return r;
}

const Verb verb_enter = {
                .name = "enter",
                .page = "acnspawn-enter",
                .synopsis = "[OPTIONS…] POD [COMMAND [ARGUMENTS…]]",
                .brief = "POD [COMMAND…]",
                .summary = "Run a command in a running app",
                .text = "Runs the command, or the shell of the image, confined exactly as the app is: with "
                        "its namespaces, cgroup, user, capabilities, filter of system calls and "
                        "environment. On a terminal the command gets a terminal of the pod. Exits with the "
                        "command's status; 125 to 127 if it could not be started.",
                .words = "pod:running -",
                .options = (const Option *const[]){common_options, enter_options, NULL},
                .run = run_enter,
};

const Verb verb_exec = {
                .name = "exec",
                .page = "acnspawn-enter",
                .synopsis = "[OPTIONS…] POD COMMAND [ARGUMENTS…]",
                .brief = "POD COMMAND…",
                .summary = "The same with podman's options: -i, -t",
                .text = "Runs the command in a running app, as 'acnspawn enter' does, with the options that "
                        "podman and docker have for it: the command gets standard input only with "
                        "--interactive, and a terminal only with --tty.",
                .words = "pod:running -",
                .options = (const Option *const[]){common_options, exec_options, NULL},
                .run = run_exec,
};
