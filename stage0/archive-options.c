/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the verbs have in common that write image archives: how these are compressed, and where they do not go. */

#include "prepare/pack/pack.h"
#include "stage0/archive-options.h"

int option_compression(const Option *o, const char *value, void *target, Error *e)
{
        int c = compression_from_string(value);

        if (c < 0)
                return option_invalid(o, value, e, "it is one of " COMPRESSION_NAMES);
        *(Compression *) target = (Compression) c;
        return 0;
}

int context_check_archive_output(Context *c, const char *command)
{
        if (!isatty(STDOUT_FILENO))
                return 0;
        int r = error_set(&c->error, -ENOTSUP, "An image is not written to a terminal");
        return error_hint(&c->error, r, "Redirect it: %s >FILE.aci", command);
}
