/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* acnspawn.conf(5): values of options that are repeated on every command line.
 *
 *     /etc/acnspawn/acnspawn.conf, else /run/acnspawn/…, else /usr/lib/acnspawn/acnspawn.conf
 *     acnspawn.conf.d/(any).conf in all of these directories, in the order of their names
 *
 * Each key is a long option of one or several commands; what it means, and which values are valid, is known by
 * the handler of the option. */

#include "stage0/cli/options.h"

typedef struct ConfKey {
        const char *section, *key;
        const char *option, *other; /* the long option, and another name of it or NULL */
        const char *verbs;          /* the commands that it is for, with spaces between */
        const char *usual;          /* the default without it, as shown */
} ConfKey;

#define CONF_FILE_MAX (1024U * 1024U) /* bytes */
#define N_CONF_KEYS 22U
extern const ConfKey conf_keys[N_CONF_KEYS];

typedef struct ConfValue {
        char *value;      /* NULL: not set */
        const char *file; /* one of the files */
        unsigned line;
} ConfValue;

typedef struct Conf {
        char **files;                  /* that were read, in their order */
        ConfValue values[N_CONF_KEYS]; /* of conf_keys */
        char **warnings;               /* about what was ignored, each with file and line */
} Conf;

/* Reads the files; none is no error. CONFIG_DIR: the only directory to look in, or NULL: the usual ones. */
int conf_load(const char *config_dir, Conf *ret, Error *e);
void conf_done(Conf *c);

/* Gives the options of SET that were not given on the command line of VERB the values that C has for them in
 * SECTION. The error of a value names file and line. */
int conf_apply(const Conf *c, const char *verb, const char *section, const OptionSet *set, Error *e);
/* The directory of the store; *RET stays if none is set. */
int conf_store_directory(const Conf *c, const char **ret, Error *e);
/* Whether images are never fetched, unless a command or a pod says otherwise. */
bool conf_pulls_never(const Conf *c);
/* For programs that need nothing else: reads the files for it if *DIR is NULL, and else does nothing. *DIR is that of
 * C, or the usual one. Warnings are left to 'acnspawn config'. */
int conf_find_store(const char *config_dir, Conf *c, const char **dir, Error *e);
