/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The objects that "gc" and "image gc" removed, or would remove: the table, and their disk space. */

#include "stage0/verb.h"

typedef struct Collected {
        Table *table;
        uint64_t size;
        bool states; /* with a column for the previous state */
        bool full;   /* IDs in full */
} Collected;

/* -ENOMEM */
int collected_init(Collected *t, bool states);
void collected_done(Collected *t);
/* For GcOptions and ImageGcOptions; USERDATA is the Collected. */
void collected_add(const GcItem *item, void *userdata);
/* Shows the table, and the sum of disk space on standard error. */
int collected_show(Context *c, const Collected *t, bool dry_run);
