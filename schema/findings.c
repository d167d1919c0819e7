/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list of what is wrong with a document. */

#include "schema/schema.h"

void findings_done(Findings *f)
{
        for (size_t i = 0; i < f->n; i++) {
                free(f->items[i].path);
                free(f->items[i].message);
        }
        free(f->items);
        *f = (Findings){};
}
