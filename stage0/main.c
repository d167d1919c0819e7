/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The acnspawn command: finds the verb, runs it, and turns its result into messages and an exit status.
 *
 * Exit status 1 is a failure, 2 a usage error, both with a message on stderr; "run" in the foreground exits
 * with the pod's status.
 */

#include "config.h"
#include "stage0/verbs/verb.h"

static int show_dump(Context *c)
{
        _cleanup_free_ char *text = NULL;

        if (help_dump(verbs, &text) < 0)
                return error_oom(&c->error);
        return context_show_text(c, text);
}

/* Other tools have a word before commands that stand alone here: "container rm", "pod stop", "system df". */
static const char *meant_alone(const char *word, const char *second)
{
        static const char *const before[] = {"container", "pod", "system"};
        bool known = false;

        for (size_t i = 0; i < ELEMENTSOF(before); i++)
                known = known || streq(before[i], word);
        if (!known || !second)
                return NULL;
        for (const Verb *const *v = verbs; *v; v++)
                if (streq((*v)->name, second))
                        return (*v)->name;
        return verb_synonym(second);
}

static int unknown_verb(Context *c, const char *word, const char *second)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(word);
        const char *names[128] = {};
        size_t n = 0;

        for (; verbs[n] && n < ELEMENTSOF(names); n++)
                names[n] = verbs[n]->name;
        const char *near = verb_synonym(word) ?: meant_alone(word, second);
        if (!near)
                near = nearest_match(word, names, n, sizeof(names[0]));

        int r = error_set(&c->error, -EINVAL, "Unknown command '%s'", shown ?: "");
        if (verb_instead(word)) {
                c->usage = true;
                return error_hint(&c->error, r, "%s", verb_instead(word));
        }
        if (near)
                r = error_hint(&c->error, r, "Did you mean '%s'?", near);
        return context_usage_error(c, r);
}

/* Both words of the most similar command; NULL: none. */
static int meant_second_word(const char *word, const char *second, char *const *seconds, char **ret)
{
        const char *near = nearest_match(second, (const char *const *) seconds, strv_length(seconds),
                                         sizeof(*seconds));
        _cleanup_free_ char *both = NULL, *meant = NULL;
        const char *synonym;

        if (xasprintf(&both, "%s %s", word, second) < 0)
                return -ENOMEM;
        synonym = verb_synonym(both) ?: meant_alone(word, second);
        if (synonym)
                meant = strdup(synonym);
        else if (near)
                (void) xasprintf(&meant, "%s %s", word, near);
        if ((synonym || near) && !meant)
                return -ENOMEM;
        *ret = TAKE_PTR(meant);
        return 0;
}

/* "acnspawn image" and "acnspawn image lst": the first word is right. */
static int unknown_second_word(Context *c, const char *word, const char *second)
{
        _cleanup_free_ char *shown = second ? text_escape_for_terminal(second) : NULL;
        _cleanup_strv_free_ char **seconds = NULL;
        size_t n = strlen(word);

        for (const Verb *const *v = verbs; *v; v++)
                if (startswith((*v)->name, word) && (*v)->name[n] == ' ' &&
                    strv_extend(&seconds, (*v)->name + n + 1) < 0)
                        return error_oom(&c->error);
        if (!seconds)
                return unknown_verb(c, word, second);
        if (second && (streq(second, "--help") || streq(second, "-h")))
                return context_show_group_help(c, word);
        _cleanup_free_ char *list = strv_join(seconds, ", "), *meant = NULL;
        if (second && meant_second_word(word, second, seconds, &meant) < 0)
                return error_oom(&c->error);
        int r = shown ? error_set(&c->error, -EINVAL, "Unknown command '%s %s': '%s' has %s", word, shown,
                                  word, list ?: "")
                      : error_set(&c->error, -EINVAL, "'acnspawn %s' needs one of: %s", word, list ?: "");
        c->usage = true;
        if (second && !meant && verb_instead(word))
                return error_hint(&c->error, r, "%s", verb_instead(word));
        if (second && !meant && verb_instead(second))
                return error_hint(&c->error, r, "%s", verb_instead(second));
        if (meant)
                return error_hint(&c->error, r,
                                  "Did you mean '%s'? Try 'acnspawn %s --help' for more information.", meant,
                                  word);
        return error_hint(&c->error, r, "Try 'acnspawn %s --help' for more information.", word);
}

static int dispatch(Context *c, int argc, char **argv)
{
        OptionSet set = {global_options, c};
        OptionParser p = {.sets = &set, .n_sets = 1, .argc = argc - 1, .argv = argv + 1};
        const char *word = NULL, *second;

        int r = options_next(&p, &word, &c->error);
        if (r < 0)
                return context_usage_error(c, r);
        if (r == OPTION_STOP)
                return c->version ? context_show_version(c) : context_show_help(c, NULL);
        if (r == OPTION_DONE)
                return context_usage(c, "No command given");
        if (r != OPTION_WORD)
                return context_usage(c, "A command is needed before '--'");

        second = p.index < p.argc ? p.argv[p.index] : NULL;
        c->verb = verb_find(verbs, word, second);
        if (!c->verb)
                return unknown_second_word(c, word, second);
        if (strchr(c->verb->name, ' '))
                p.index++;
        return c->verb->run(c, p.argc - p.index, p.argv + p.index);
}

static int finish(Context *c, int r)
{
        int k = r < 0 ? r : context_flush(c);

        if (r < 0)
                (void) fflush(stdout); /* results from before the failure */
        if (context_was_interrupted(c, r))
                return EXIT_STATUS_FAILURE; /* the user interrupted it */
        if (k == -EPIPE && r >= 0)
                return r ?: EXIT_STATUS_FAILURE; /* the reader has closed the pipe: no message needed */
        if (k >= 0)
                return r;
        context_print_error(c, k);
        return c->usage ? EXIT_STATUS_USAGE : EXIT_STATUS_FAILURE;
}

int main(int argc, char *argv[])
{
        const char *dir = getenv("ACNSPAWN_DIR");
        Context c = {
                        .verbs = verbs,
                        .dir = isempty(dir) ? NULL : dir,
                        .config_dirs = {getenv("ACNSPAWN_CONFIG_DIR")},
        };
        int r;

        if (program_start(false) < 0)
                return EXIT_STATUS_FAILURE;

        r = context_begin(&c);
        if (r < 0)
                (void) error_set_errno(&c.error, r, "Cannot start");
        else if (argc == 2 && streq(argv[1], "--dump-options"))
                r = show_dump(&c);
        else if (argc >= 4 && streq(argv[1], "--complete"))
                r = context_complete(&c, argv[2], argv[3], argv + 4);
        else
                r = dispatch(&c, argc, argv);
        r = finish(&c, r);
        store_unref(c.store);
        conf_done(&c.conf);
        error_done(&c.error);
        interrupt_release();
        operation_free(c.operation);
        interrupt_raise();
        return r;
}
