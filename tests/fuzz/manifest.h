/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the fuzz targets of both manifests share. */

#include "schema/schema.h"

/* A failure has a message and, if the document is invalid, findings, all of which are safe to print. A
 * success has neither. */
__attribute__((unused)) static void check_outcome(int r, const Findings *f, const Error *e)
{
        if ((r < 0) != (e->message != NULL) || r > 0)
                abort();
        if ((r == -EINVAL || r == -EBADMSG) != (f->n > 0))
                abort();
        if (e->message && !utf8_is_valid(e->message, strlen(e->message)))
                abort();
        for (size_t i = 0; i < f->n; i++) {
                const Finding *finding = f->items + i;

                if (!utf8_is_valid(finding->path, strlen(finding->path)) ||
                    !utf8_is_valid(finding->message, strlen(finding->message)))
                        abort();
                for (const char *c = finding->message; *c; c++)
                        if ((unsigned char) *c < 0x20 || *c == 0x7f)
                                abort();
        }
}
