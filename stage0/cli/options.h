/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Command lines as tables.
 *
 * A verb describes its options in a table; the parser, the --help text, what shells complete, and the test
 * that compares the man page with the program all read that table. Options and other words may be mixed;
 * what the words mean, and what "--" and "---" do, is the caller's business: options_next() hands them out
 * one by one.
 */

#include "basic/basic.h"

typedef struct Option Option;

/* Stores VALUE (NULL if the option has none) at TARGET, that is the data of the option's set plus its
 * offset. Returns OPTION_STOP to end parsing here (for --help), else 0 or a negative errno with the reason
 * in E. */
typedef int (*OptionHandler)(const Option *o, const char *value, void *target, Error *e);

struct Option {
        const char *group;   /* heading that begins with this option, or NULL */
        const char *name;    /* long name without the dashes, or NULL */
        char letter;         /* short name, or 0 */
        const char *value;   /* how the help calls its value; NULL: it takes none */
        bool value_optional; /* the value may be left out, and is given as --name=VALUE only */
        const char *help;
        /* What a shell can offer for the value: "file", "directory", "pod", "image", or words separated by
         * "|". */
        const char *complete;
        OptionHandler handler;
        size_t offset;
};

/* Ends a table of options. */
#define OPTION_END                                                                                          \
        {                                                                                                   \
        }

/* One table together with the structure that its options fill in. */
typedef struct OptionSet {
        const Option *options;
        void *data;
        /* Options that are known but not for this place: says where they belong. NULL: they are for here. */
        const char *misplaced;
        size_t n_seen; /* how many options of this set were given so far */
} OptionSet;

typedef enum OptionEvent {
        OPTION_DONE = 0, /* the command line is at its end */
        OPTION_WORD,     /* a word that is no option */
        OPTION_DASHES,   /* "--" */
        OPTION_NEXT,     /* "---" */
        OPTION_STOP,     /* a handler asked to stop */
} OptionEvent;

typedef struct OptionParser {
        OptionSet *sets; /* of several options of one name the first set's counts */
        size_t n_sets;
        char **argv; /* without the names of program and verb */
        int argc, index;
        const char *cluster; /* the rest of a word of short options */
} OptionParser;

/* Handles options until something else comes up, and returns that. Negative: the command line is wrong. */
int options_next(OptionParser *p, const char **ret_word, Error *e);

/* For verbs with plain words: handles all options and returns the words (which point into argv; the array is
 * the caller's). Everything after "--" is a word. Returns OPTION_DONE or OPTION_STOP. */
int options_words(OptionParser *p, const char ***ret_words, size_t *ret_n, Error *e);

/* Stock handlers. */
int option_true(const Option *o, const char *value, void *target, Error *e);   /* bool */
int option_false(const Option *o, const char *value, void *target, Error *e);  /* bool */
int option_string(const Option *o, const char *value, void *target, Error *e); /* const char *: in argv */
int option_word(const Option *o, const char *value, void *target, Error *e);   /* the same, not empty */
int option_copy(const Option *o, const char *value, void *target, Error *e);   /* char *: owned, replaced */
int option_usec(const Option *o, const char *value, void *target, Error *e);   /* uint64_t */
int option_moment(const Option *o, const char *value, void *target, Error *e); /* uint64_t: see moment.c */
int option_u64(const Option *o, const char *value, void *target, Error *e);    /* uint64_t */

/* An error about the option's value: "Invalid value 'x' for --name: REASON". */
int option_invalid(const Option *o, const char *value, Error *e, const char *reason, ...) _printf_(4, 5);

/* The same with the message of an error of which the value is the cause. */
int option_invalid_because(const Option *o, const char *value, Error *e, const Error *reason);

/* A point in time, in microseconds since 1970, as people write it: "2026-01-31 12:00:00", "12:00", "5min
 * ago", "today", "@SECONDS". NOW_USEC is what it is relative to. -EINVAL, -ERANGE. */
int moment_parse(const char *s, uint64_t now_usec, uint64_t *ret);

/* Whether O is the end of its table. */
static inline bool option_is_end(const Option *o)
{
        return !o->name && o->letter == 0;
}

/* What a command ("ps", "image ls") or an option ("--publish", "-w") of other tools is called here, an
 * option without dashes; NULL: not known (synonyms.c). */
const char *verb_synonym(const char *word);
/* What is done instead of a command that others have, as a sentence; or NULL. */
const char *verb_instead(const char *word);
const char *option_synonym(const char *word);

/* program.c: standard streams that are open, the user's character set, and a SIGPIPE that does no harm. Once,
 * at the start. */
int program_start(void);
