/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Building JSON: json-c's own functions leave the ownership of a value that could not be added with the
 * caller, and treat a NULL from a failed allocation as null. With these functions, running out of memory can
 * be checked once after a sequence of calls.
 */

#include "schema/schema.h"

int json_list_append(json_object *list, json_object *item)
{
        if (list && item && json_object_array_add(list, item) >= 0)
                return 0;
        json_object_put(item);
        return -ENOMEM;
}

int json_member_add_nullable(json_object *o, const char *key, json_object *value)
{
        if (o && json_object_object_add(o, key, value) >= 0)
                return 0;
        json_object_put(value);
        return -ENOMEM;
}

int json_member_add(json_object *o, const char *key, json_object *value)
{
        return value ? json_member_add_nullable(o, key, value) : -ENOMEM;
}

int json_member_add_text(json_object *o, const char *key, const char *s)
{
        return s ? json_member_add(o, key, json_new_string_lossy(s))
                 : json_member_add_nullable(o, key, NULL);
}

json_object *json_new_text_member(const char *key, const char *s)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        return json_member_add_text(o, key, s) < 0 ? NULL : TAKE_PTR(o);
}

json_object *json_new_string_list(char *const *l)
{
        _cleanup_json_ json_object *a = json_object_new_array();

        STRV_FOREACH (s, l)
                if (json_list_append(a, json_new_string_lossy(*s)) < 0)
                        return NULL;
        return TAKE_PTR(a);
}

json_object *json_new_string_lossy(const char *s)
{
        _cleanup_text_ Text t = {};
        size_t n = strlen(s);

        if (n > INT32_MAX / 3)
                return NULL;
        if (utf8_is_valid(s, n))
                return json_object_new_string_len(s, (int) n);
        for (const char *p = s, *end = s + n; p < end;) {
                size_t k = utf8_length(p, (size_t) (end - p));

                if (k > 0)
                        text_add_bytes(&t, p, k);
                else
                        text_add(&t, "\xef\xbf\xbd");
                p += k ?: 1;
        }
        return t.failed ? NULL : json_object_new_string_len(t.data, (int) t.size);
}
