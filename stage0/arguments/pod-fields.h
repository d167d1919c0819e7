/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Values of options that are lists of KEY=VALUE between commas. */

#include "stage0/cli/options.h"

/* One key of such a list: stores its value, or returns a negative errno and REASON. */
typedef struct Field {
        const char *key;
        int (*store)(const char *key, void *target, const char *value, const char **reason);
        bool alone; /* the key alone means KEY=true */
} Field;

/* Stores TEXTS, which are fields of the option's value WHOLE, into TARGET. -EINVAL with the reason. */
int store_fields(const Option *o, const char *whole, const Field *fields, size_t n_fields,
                 char *const *texts, void *target, Error *e);
