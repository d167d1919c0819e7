/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/context/: what all verbs share: their tables, the global options, the store, output of results and errors.
 *
 * Results are written to stdout, messages to stderr. A verb returns the exit status (0…255), or a negative errno with
 * the reason in the context's error object; main() prints it.
 */

#include "prepare/prepare.h"
#include "stage0/cli/conf.h"
#include "stage0/cli/interrupt.h"
#include "stage0/cli/options.h"
#include "stage0/cli/table.h"

#define EXIT_STATUS_FAILURE 1
#define EXIT_STATUS_USAGE 2

typedef struct Verb Verb;

typedef enum JsonMode { JSON_OFF, JSON_SHORT, JSON_PRETTY, _JSON_MODE_MAX } JsonMode;

typedef struct Context {
        const Verb *const *verbs; /* all of them, NULL at the end */
        const Verb *verb;         /* of the command line; NULL: none yet */
        const char *dir; /* the store's directory; NULL: neither an option nor the environment says it */
        const char *config_dirs[2]; /* --config-dir and NULL; see context_config_dirs() */
        JsonMode json;
        bool no_legend, quiet, debug, help, version;
        Error error;
        bool usage;           /* the error is a usage error */
        Operation *operation; /* of the whole program: signals to end it cancel this, see interrupt_catch() */
        struct Progress *progress; /* where the operation's progress is shown now, or NULL */
        /* Of the latest message that extends the time of a unit to start: when it was sent, and after how many bytes. */
        uint64_t extended_usec, extended_done;
        Store *store;  /* filled in by context_open_store() */
        Conf conf;     /* read by context_read_conf(), … */
        bool has_conf; /* … which was called */
} Context;

struct Verb {
        const char *group;    /* heading in the list of verbs that begins with this one, or NULL */
        const char *name;     /* "list", "image list" */
        const char *also;     /* one word by which podman and docker call the same, or NULL */
        const char *page;     /* the man page in section 1 that describes it; NULL: acnspawn(1) */
        const char *synopsis; /* the arguments, one or more lines */
        const char *brief;    /* the arguments in the list of verbs, or NULL: none */
        const char *summary;  /* a few words for the list of verbs */
        const char *text;     /* a paragraph for the verb's own help, or NULL */
        /* Shell completion of its words, as in Option.complete; or two kinds separated by a space, for the
         * first word and for the others; or NULL. */
        const char *words;
        const Option *const *options;                  /* its option tables, NULL at the end; or NULL */
        int (*run)(Context *c, int argc, char **argv); /* without the names of program and verb */
};

extern const Option global_options[]; /* context.c; data: the Context */

/* --- Command lines (context.c) ------------------------------------------------------------------------- */

/* A usage error: the message, and a reference to the help. Returns -EINVAL. */
int context_usage(Context *c, const char *format, ...) _printf_(2, 3);
/* The same for an error of the option parser in the context. Returns R. */
int context_usage_error(Context *c, int r);

/* Parses a command line of plain words and the options of one table (or NULL), and checks the number of
 * words. Returns 1 to go on, 0 if there is nothing more to do (the help was shown), or a negative errno.
 * WORDS may be NULL if max is 0. */
typedef struct Words {
        size_t min, max;   /* limits of their number */
        const char *what;  /* description for messages: "a pod" */
        const char **list; /* result: the array is owned by the caller, the strings are in argv */
        size_t n;
} Words;

void words_done(Words *w);
#define _cleanup_words_ _cleanup_(words_done)
int context_parse(Context *c, const Option *options, void *data, int argc, char **argv, Words *words);

/* Prints the error of the context, with the limit of the host that caused it, if any. */
void context_print_error(Context *c, int r);

void context_show_warnings(char *const *warnings); /* of what was done all the same */

/* Calls FUNCTION for each word. A failure (a negative errno, whose message is printed at once, or a positive
 * value) does not prevent the others. Returns the exit status. */
int context_for_each(Context *c, const Words *words,
                     int (*function)(Context *c, const char *word, void *userdata), void *userdata);

/* The configuration directories, in the format of prepare/: NULL means the usual directories. */
const char *const *context_config_dirs(const Context *c);

/* Reads acnspawn.conf and its drop-ins, once, and prints warnings about what is ignored in them. */
int context_read_conf(Context *c);
/* Sets the options of SET that are not on the command line to the values of SECTION of acnspawn.conf for this verb. */
int context_apply_conf(Context *c, const char *section, const OptionSet *set);
/* The same with the values for another verb. */
int context_apply_conf_as(Context *c, const char *verb, const char *section, const OptionSet *set);
/* Determines the directory of the store, and sets c->dir. */
int context_find_dir(Context *c);

/* Creates the operation of the program, whose messages and progress go to stderr. (fetching.c) */
int context_begin(Context *c);
/* Whether R is the failure of a verb whose operation was cancelled by a signal, which needs no message. */
bool context_was_interrupted(const Context *c, int r);

/* --- The store ----------------------------------------------------------------------------------------- */

/* Opens the store of --dir, and creates it if it is missing. There is one message for a lack of
 * privileges. */
int context_open_store(Context *c);
/* For verbs that only read. 1: open; 0: there is none. */
int context_open_store_if_there(Context *c);
/* For verbs that need existing objects: -ENOENT, with a message, if there is no store. */
int context_open_existing_store(Context *c);
/* context_parse(), and then the same: for verbs that need words and existing objects. Returns as context_parse(). */
int context_parse_for_store(Context *c, const Option *options, void *data, int argc, char **argv,
                            Words *words);
/* The same as the first and the last for verbs that always require root, independent of the owner of the
 * store. */
int context_open_store_as_root(Context *c);
int context_open_existing_store_as_root(Context *c);

/* --- Results ------------------------------------------------------------------------------------------- */

/* Shows a table as text or JSON, as requested. If there are no rows, a message on stderr says that there are
 * none of WHAT ("pods") in the store; NULL: no message. */
int context_show_table(Context *c, const Table *t, const char *what);
/* The same of a table with all fields, in the format F; without --format the USUAL fields are shown. */
int context_show_table_as(Context *c, Table *t, const TableFormat *f, const char *const *usual,
                          const char *what);
/* A usage error if F is a text and JSON is requested, too. */
int context_check_format(Context *c, const TableFormat *f);
int context_show_json(Context *c, json_object *o); /* O may be NULL: out of memory */
/* For verbs that remove objects: a line for each as soon as it is removed, or in JSON all of them at the end, as T. */
void context_add_removed(Context *c, Table *t, const char *name);
/* Shows T if JSON is requested. Returns STATUS, the result of the verb, unless that fails. */
int context_show_removed(Context *c, const Table *t, int status);
/* Shows untrusted text: unchanged, but escaped on a terminal. */
int context_show_document(Context *c, const char *text, size_t size);
/* Shows text made by acnspawn. */
int context_show_text(Context *c, const char *text);
int context_show_version(Context *c);
/* Flushes all output; fails if it could not be written. -EPIPE if the reader has closed the pipe. */
int context_flush(Context *c);

/* --- Help (help.c) ------------------------------------------------------------------------------------- */

/* All verbs and options in a machine-readable form, for shell completions and tests. */
int help_dump(const Verb *const *verbs, char **ret);
int context_show_help(Context *c, const Verb *verb);
/* The help of all verbs whose first word is WORD. */
int context_show_group_help(Context *c, const char *word);
/* The verb of VERBS with this NAME (of one or two words), or NULL. */
const Verb *verb_find(const Verb *const *verbs, const char *name, const char *second);
