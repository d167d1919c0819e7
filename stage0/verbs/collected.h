/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The objects that verbs such as "gc" removed, or would remove: the table, and their disk space. */

#include "stage0/verbs/verb.h"

typedef struct Collected {
        Table *table;
        char **objects;                /* kind and ID of each */
        const struct Collected *shown; /* only what is in it, sorted, is selected; NULL: everything is */
        uint64_t size;
        bool states; /* with a column for the previous state */
        bool full;   /* IDs in full */
} Collected;

/* -ENOMEM */
int collected_init(Collected *t, bool states);
void collected_done(Collected *t);
/* For GcOptions and ImageGcOptions; USERDATA is the Collected. */
void collected_add(const GcItem *item, void *userdata);
void collected_sort(Collected *t);
/* A GcSelected; USERDATA is the Collected. */
bool collected_select(const char *kind, const char *id, void *userdata);
/* Shows the table, and the sum of disk space on standard error. R and E are the result of the verb: objects
 * removed before a failure are shown as well. Returns the failure, if any, with the error in the context. */
int collected_show(Context *c, const Collected *t, bool dry_run, int r, Error *e);
