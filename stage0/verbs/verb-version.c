/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn version and help. */

#include "stage0/verbs/verb.h"

static int version(Context *c, int argc, char **argv)
{
        int r = context_parse(c, NULL, NULL, argc, argv, NULL);

        return r <= 0 ? r : context_show_version(c);
}

const Verb verb_version = {
                .name = "version",
                .synopsis = "[OPTIONS…]",
                .summary = "Show the version",
                .text = "Shows the version of acnspawn, and that of the App Container specification it "
                        "implements.",
                .run = version,
};

/* Whether it is the first of two words, as "volume" is. */
static bool is_group(const Context *c, const char *word)
{
        size_t n = strlen(word);

        for (const Verb *const *v = c->verbs; *v; v++)
                if (n > 0 && startswith((*v)->name, word) && (*v)->name[n] == ' ')
                        return true;
        return false;
}

static int help(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.max = 2, .what = ""};
        const Verb *verb;

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        if (words.n == 0)
                return context_show_help(c, NULL);
        verb = verb_find(c->verbs, words.list[0], words.n > 1 ? words.list[1] : NULL);
        if (words.n == 1 && !verb && is_group(c, words.list[0]))
                return context_show_group_help(c, words.list[0]);
        if (!verb || (words.n > 1 && !strchr(verb->name, ' '))) {
                _cleanup_free_ char *shown = text_escape_for_terminal(words.list[0]);
                _cleanup_free_ char *second = words.n > 1 ? text_escape_for_terminal(words.list[1]) : NULL;
                c->verb = NULL; /* the general help lists the commands */
                return context_usage(c, "There is no command '%s%s%s'", shown ?: "", second ? " " : "",
                                     second ?: "");
        }
        return context_show_help(c, verb);
}

const Verb verb_help = {
                .group = "Other Commands",
                .name = "help",
                .synopsis = "[OPTIONS…] [COMMAND]",
                .brief = "[COMMAND]",
                .summary = "Show this help, or the help of a command",
                .text = "Shows the list of commands, or the help of one of them.",
                .words = "verb",
                .run = help,
};
