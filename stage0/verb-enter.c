/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn enter: runs a command, or a shell, in a running app. All words after the pod belong to the
 * command, including options. */

#include "stage0/arguments/pod-values.h"
#include "stage0/pod-words.h"

typedef struct Arguments {
        EnterOptions enter;
} Arguments;

/* A name alone takes the value from acnspawn's environment, as with prepare and run. */
static int option_variable(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_(pair_list_done) PairList pair = {};

        int r = option_environment(o, value, &pair, e);
        if (r < 0)
                return r;
        return strv_extendf(target, "%s=%s", pair.items[0].name, pair.items[0].value) < 0 ? error_oom(e) : 0;
}

static int option_directory(const Option *o, const char *value, void *target, Error *e)
{
        if (!path_is_absolute(value))
                return option_invalid(o, value, e, "must be an absolute path in the app's root");
        return option_string(o, value, target, e);
}

static int option_other_user(const Option *o, const char *value, void *target, Error *e)
{
        if (!*value || (*value != '/' && (*value == ':' || endswith(value, ":"))))
                return option_invalid(o, value, e, "must be USER or USER:GROUP");
        return option_string(o, value, target, e);
}

static const Option options[] = {
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
                {NULL, "working-directory", 'w', "PATH", false, "Start in PATH of the app's root", NULL,
                 option_directory, offsetof(Arguments, enter.directory)},
                {NULL, "workdir", 0, "PATH", false, "Same as --working-directory", NULL, option_directory,
                 offsetof(Arguments, enter.directory)},
                {NULL, "timeout", 't', "TIME", false,
                 "Kill the command, and all that it has started, after TIME; the status is 124 then", NULL,
                 option_usec, offsetof(Arguments, enter.timeout_usec)},
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

/* Other tools have to be asked for standard input and a terminal. */
static int wrong_option(Context *c, int r)
{
        const char *message = c->error.message ?: "";

        if (startswith(message, "Unknown option '-i'") || startswith(message, "Unknown option '--interactive'") ||
            startswith(message, "Unknown option '--tty'"))
                (void) error_hint(&c->error, r,
                                  "Standard input is always that of the command, and on a terminal the command "
                                  "gets a terminal: -i and -t are not needed.");
        return context_usage_error(c, r);
}

/* 1: *RET_POD and the command were given. */
static int parse(Context *c, int argc, char **argv, Arguments *a, const char **ret_pod)
{
        OptionSet sets[] = {{options, a}, {global_options, c}};
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
                return context_usage(c, "'acnspawn enter' needs " A_POD);
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

static int run(Context *c, int argc, char **argv)
{
        Arguments a = {};
        const char *word = NULL;

        int r = parse(c, argc, argv, &a, &word);
        if (r > 0)
                r = enter(c, word, &a);
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
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
