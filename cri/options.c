/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Options of command lines, set by fields of requests: so a value has the same meaning, and is checked by the same code. */

#include "cri/sandbox.h"

static const Option *find(const Option *options, const char *name)
{
        while (!option_is_end(options) && !streq_ptr(options->name, name))
                options++;
        return option_is_end(options) ? NULL : options;
}

int cri_set_option(const Option *options, void *data, const char *name, const char *field, const char *value,
                   Error *e)
{
        const Option *o = find(options, name);

        if (!o)
                return error_set(e, -EINVAL, "The field '%s' of the request is not supported", field);
        Option named = *o;
        named.label = field;
        return o->handler(&named, value, (char *) data + o->offset, e);
}
