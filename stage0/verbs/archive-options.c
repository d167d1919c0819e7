/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Common to verbs that write images: compression, the check of the output, and the message about the
 * result. */

#include "prepare/pack/pack.h"
#include "stage0/verbs/archive-options.h"

int option_compression(const Option *o, const char *value, void *target, Error *e)
{
        int c = compression_from_string(value);

        if (c < 0)
                return option_invalid(o, value, e, "must be one of " COMPRESSION_NAMES);
        *(Compression *) target = (Compression) c;
        return 0;
}

int context_check_archive_output(Context *c, const char *command)
{
        if (c->json != JSON_OFF)
                return context_usage(
                                c, "--json and the image cannot both go to standard output: name a file by "
                                   "--output=");
        if (!isatty(STDOUT_FILENO))
                return 0;
        int r = error_set(&c->error, -ENOTSUP, "An image is not written to a terminal");
        return error_hint(&c->error, r, "Redirect it: %s >FILE.aci", command);
}

int context_show_written(Context *c, const char *id, const char *key, const char *path)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "id", id) < 0 || json_member_add_text(o, key, path) < 0)
                return error_oom(&c->error);
        return context_show_json(c, o);
}
