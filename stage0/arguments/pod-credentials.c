/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials on the command line of prepare and run: NAME:FILE, or NAME:VALUE. FILE may be "-" for standard
 * input, or a socket (see credential_list_add_file()). */

#include "stage0/arguments/pod-values.h"

/* The part after the colon may be a secret, and is never in a message. */
static int split(const Option *o, const char *value, char **ret_name, Error *e)
{
        const char *colon = strchr(value, ':');
        char *name;

        if (!colon)
                return option_invalid(o, "…", e, "must be NAME:%s",
                                      streq(o->name, "set-credential") ? "VALUE" : "FILE");
        name = strndup(value, (size_t) (colon - value));
        if (!name)
                return error_oom(e);
        *ret_name = name;
        return 0;
}

int option_set_credential(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        int r = split(o, value, &name, e);
        if (r < 0)
                return r;
        const char *secret = strchr(value, ':') + 1;
        r = credential_list_add(target, name, secret, strlen(secret), &reason);
        return r < 0 ? option_invalid_because(o, name, e, &reason) : 0;
}

int option_credential(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        int r = split(o, value, &name, e);
        if (r < 0)
                return r;
        r = credential_list_add_file(target, name, strchr(value, ':') + 1, &reason);
        return r < 0 ? option_invalid_because(o, value, e, &reason) : 0;
}
