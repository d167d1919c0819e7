/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Command lines as tables.
 *
 * A verb describes its options in a table, which is used by the parser, the --help text, shell completion,
 * and the test that compares the man page with the program. Options and other words may be mixed; the
 * meaning of the words, and of "--" and "---", is up to the caller: options_next() returns them one by one.
 */

#include "basic/basic.h"

typedef struct Option Option;

/* What an option that is given several times means; and how its values are written in files that have a key for
 * each option (see acnspawn.pod(5)). */
typedef enum OptionRepeat {
        OPTION_ONCE = 0, /* the last one counts */
        OPTION_WORDS,    /* they add up; in a file, each word is one value */
        OPTION_LINES,    /* they add up; in a file, each assignment is one value */
        OPTION_JOINED,   /* the last one counts; in a file, all words are one value, with commas between */
} OptionRepeat;

/* Stores VALUE (NULL if the option has none) at TARGET, that is the data of the option's set plus its
 * offset. Returns OPTION_STOP to end parsing here (for --help), else 0 or a negative errno with the reason
 * in E. */
typedef int (*OptionHandler)(const Option *o, const char *value, void *target, Error *e);

struct Option {
        const char *group;   /* heading that begins with this option, or NULL */
        const char *name;    /* long name without the dashes, or NULL */
        char letter;         /* short name, or 0 */
        const char *value;   /* name of its value in the help; NULL: it takes none */
        bool value_optional; /* the value is optional, and given as --name=VALUE only */
        const char *help;
        /* Completion of the value: "file", "directory", "pod", "image", or words separated by "|". */
        const char *complete;
        OptionHandler handler;
        size_t offset;
        OptionRepeat repeat;
        const char *label; /* its name in messages; NULL: --NAME, or -LETTER */
        bool by_letter;    /* for the handler: it was given by its letter, by which messages name it then */
};

#define OPTION_LABEL_MAX 64

/* Ends a table of options. */
#define OPTION_END                                                                                          \
        {                                                                                                   \
        }

#define OPTIONS_MAX 256U /* in a table */

/* One table together with the structure that its options fill in. */
typedef struct OptionSet {
        const Option *options;
        void *data;
        /* For options that are not valid at this position: where they belong. NULL: they are valid. */
        const char *misplaced;
        size_t n_seen; /* number of options of this set given so far */
        uint64_t given[OPTIONS_MAX /
                       64]; /* which of them, by their place in the table: see option_was_given() */
} OptionSet;

typedef enum OptionEvent {
        OPTION_DONE = 0, /* the end of the command line */
        OPTION_WORD,     /* a word that is not an option */
        OPTION_DASHES,   /* "--" */
        OPTION_NEXT,     /* "---" */
        OPTION_STOP,     /* a handler requested to stop */
} OptionEvent;

typedef struct OptionParser {
        OptionSet *sets; /* of several options of one name that of the first set is used */
        size_t n_sets;
        char **argv; /* without the names of program and verb */
        int argc, index;
        const char *cluster; /* the rest of a word of short options */
        /* Called for each option that was accepted; or NULL. */
        int (*on_option)(const OptionSet *set, const Option *o, const char *value, void *userdata, Error *e);
        void *userdata;
} OptionParser;

/* Handles options until another word, and returns that. Negative: the command line is not valid. */
int options_next(OptionParser *p, const char **ret_word, Error *e);

/* For verbs with plain words: handles all options and returns the words (which point into argv; the array is
 * owned by the caller). Everything after "--" is a word. Returns OPTION_DONE or OPTION_STOP. */
int options_words(OptionParser *p, const char ***ret_words, size_t *ret_n, Error *e);

/* Stock handlers. */
int option_true(const Option *o, const char *value, void *target, Error *e);   /* bool */
int option_stop(const Option *o, const char *value, void *target, Error *e);   /* bool; ends parsing */
int option_false(const Option *o, const char *value, void *target, Error *e);  /* bool */
int option_string(const Option *o, const char *value, void *target, Error *e); /* const char *: in argv */
int option_word(const Option *o, const char *value, void *target, Error *e);   /* the same, not empty */
int option_copy(const Option *o, const char *value, void *target, Error *e);   /* char *: owned, replaced */
int option_usec(const Option *o, const char *value, void *target, Error *e);   /* uint64_t */
int option_moment(const Option *o, const char *value, void *target, Error *e); /* uint64_t: see moment.c */
int option_u64(const Option *o, const char *value, void *target, Error *e);    /* uint64_t */

/* The option as it was given: "--name" or "-n". */
void option_label(const Option *o, char ret[static OPTION_LABEL_MAX]);

/* An error about the option's value: "Invalid value 'x' for --name: REASON". */
int option_invalid(const Option *o, const char *value, Error *e, const char *reason, ...) _printf_(4, 5);

/* The same with the message of an error caused by the value. */
int option_invalid_because(const Option *o, const char *value, Error *e, const Error *reason);

/* A point in time, in microseconds since 1970, in one of these formats: "2026-01-31 12:00:00", "12:00",
 * "5min ago", "today", "@SECONDS". NOW_USEC: the base of relative times. -EINVAL, -ERANGE. */
int moment_parse(const char *s, uint64_t now_usec, uint64_t *ret);

/* Whether the option of this long name was given. */
bool option_was_given(const OptionSet *set, const char *name);
/* As if it had been. */
void option_mark_given(OptionSet *set, const char *name);

/* Whether O is the end of its table. */
static inline bool option_is_end(const Option *o)
{
        return !o->name && o->letter == 0;
}

/* The equivalent of a command ("ps", "image ls") or an option ("--publish", "-w") of other tools, an option
 * without dashes; NULL: none (synonyms.c). */
const char *verb_synonym(const char *word);
/* The alternative to a command of other tools, as a sentence; or NULL. */
const char *verb_instead(const char *word);
const char *option_synonym(const char *word);
const char *option_instead(const char *word);

/* program.c: the help of a helper program: INTRODUCTION, which ends with an empty line, and a line for each option. */
int program_show_help(const char *introduction, const Option *options);

/* program.c: opens missing standard streams, sets the locale and the umask, catches SIGPIPE, and undoes signal masks and the
 * like of the parent; WAITS_FOR_SIGNALS: but for signals that stop a pod. To be called once, at the start. */
int program_start(bool waits_for_signals);
/* For OperationOptions.message: the line to stderr, as a message of the program. */
void program_message(LogLevel level, const char *line, void *userdata);
