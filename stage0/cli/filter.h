/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* --filter KEY=VALUE of commands that list objects. Filters with different keys must all match; of several with
 * the same key one has to, unless the key says that all must. */

#include "schema/schema.h"
#include "stage0/cli/options.h"

typedef struct FilterKey {
        const char *key;
        bool all; /* each of several has to match: labels, which an object has many of */
        /* Whether VALUE is valid; the message says what it must be. NULL: any text. */
        int (*check)(const char *value, Error *e);
        bool (*matches)(const void *object, const char *value);
} FilterKey;

/* Ends a table of keys. */
#define FILTER_KEY_END                                                                                      \
        {                                                                                                   \
        }

#define FILTERS_MAX 64U

typedef struct Filters {
        const FilterKey *keys; /* set by the verb, with FILTER_KEY_END */
        struct {
                const FilterKey *key;
                const char *value; /* in argv */
        } items[FILTERS_MAX];
        size_t n;
} Filters;

int option_filter(const Option *o, const char *value, void *target, Error *e); /* Filters */

bool filters_match(const Filters *f, const void *object);

/* For FilterKey.matches: S (which may be NULL) matches the pattern, with * and ? and [...]; one of a list does. */
bool filter_glob(const char *pattern, const char *s);
/* NAME or NAME=VALUE is in the list. */
bool filter_pair(const char *pair, const PairList *l);
bool filter_glob_any(const char *pattern, char *const *l);
