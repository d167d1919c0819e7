/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Isolators of tests. */

#include "schema/schema.h"

/* A list of isolators, from pairs of name and JSON value in single quotes, ended by NULL. */
static int list_of(const char *const *texts, IsolatorList *l)
{
        for (; texts[0]; texts += 2) {
                _cleanup_free_ char *json = strdup(texts[1]);
                for (char *c = json; *c; c++)
                        if (*c == '\'')
                                *c = '"';
                if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                        return -ENOMEM;
                int r = isolator_parse(texts[0], json, &l->items[l->n], NULL);
                if (r < 0)
                        return r;
                l->n++;
        }
        return 0;
}
