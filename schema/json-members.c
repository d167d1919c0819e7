/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Members of objects in documents whose type is not described by a table (table.c): formats of others, of which a part is read. */

#include "schema/schema.h"

static const char *type_name(json_type type)
{
        switch (type) {
        case json_type_string:
                return "a string";
        case json_type_array:
                return "a list";
        case json_type_int:
                return "an integer";
        default:
                return "an object";
        }
}

int json_member_read(json_object *o, const char *key, json_type type, const char *of, json_object **ret,
                     Error *e)
{
        json_object *value = NULL;

        if (!json_object_is_type(o, json_type_object))
                return error_set(e, -EINVAL, "There is something else where an object is expected");
        if (json_object_object_get_ex(o, key, &value) && value && !json_object_is_type(value, type))
                return error_set(e, -EINVAL, "\"%s\"%s is not %s", key, of, type_name(type));
        *ret = value;
        return 0;
}

int json_member_read_text(json_object *o, const char *key, const char *of, const char **ret, Error *e)
{
        json_object *value;

        int r = json_member_read(o, key, json_type_string, of, &value, e);
        if (r >= 0)
                *ret = value ? json_object_get_string(value) : NULL;
        return r;
}

int json_member_read_list(json_object *o, const char *key, const char *of, size_t max, json_object **ret,
                          size_t *ret_n, Error *e)
{
        int r = json_member_read(o, key, json_type_array, of, ret, e);

        if (r < 0)
                return r;
        *ret_n = *ret ? json_object_array_length(*ret) : 0;
        return *ret_n <= max ? 0 : error_set(e, -EINVAL, "\"%s\"%s has more than %zu entries", key, of, max);
}
