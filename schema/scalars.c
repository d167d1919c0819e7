/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Strings, lists of strings, booleans and integers as values of fields.
 *
 * Strings from a document are valid UTF-8 without NUL, as the JSON reader has checked; those from a command
 * line may not be, and are written with replacement characters.
 */

#include "schema/schema-internal.h"

static int string_take(const Type *t, const char *s, char **ret, Error *e)
{
        int r = 0;

        if (t->constant && !streq(s, t->constant)) {
                _cleanup_free_ char *quoted = quote_value(s);
                return error_set(e, -EINVAL, "must be \"%s\", not %s", t->constant, quoted ?: "that");
        }
        if (t->convert)
                return t->convert(s, ret, e);
        if (t->check)
                r = t->check(s, e);
        if (r < 0)
                return r;
        char *copy = strdup(s);
        if (!copy)
                return error_oom(e);
        *ret = copy;
        return 0;
}

bool json_string_has_nul(json_object *string)
{
        return strlen(json_object_get_string(string)) != (size_t) json_object_get_string_len(string);
}

void string_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        _cleanup_error_ Error e = {};
        char **place = target;

        if (!json_object_is_type(v, json_type_string)) {
                parser_wrong_type(p, "a string", v);
                return;
        }
        const char *s = json_object_get_string(v);
        if (json_string_has_nul(v)) {
                parser_finding(p, "must not contain a NUL character");
                return;
        }
        if (t->empty_is_absent && !*s)
                return;
        if (string_take(t, s, place, &e) < 0)
                parser_finding_error(p, &e);
}

static int string_to_json(const char *s, json_object **ret)
{
        json_object *o = json_new_string_lossy(s);

        if (!o)
                return -ENOMEM;
        *ret = o;
        return 1;
}

int string_format(const Type *t, const void *source, json_object **ret)
{
        char *const *place = source;

        return *place ? string_to_json(*place, ret) : 0;
}

int string_copy(const Type *t, const void *source, void *target)
{
        char *const *from = source;
        char **to = target;

        if (!*from)
                return 0;
        *to = strdup(*from);
        return *to ? 0 : -ENOMEM;
}

void string_done(const Type *t, void *target)
{
        char **place = target;

        free(*place);
        *place = NULL;
}

void constant_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        char *unused = NULL;

        string_parse(p, t, v, &unused);
        free(unused);
}

int constant_format(const Type *t, const void *source, json_object **ret)
{
        *ret = json_object_new_string(t->constant);
        return *ret ? 1 : -ENOMEM;
}

void strings_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        _cleanup_strv_free_ char **l = NULL;
        char ***place = target;
        size_t k = 0;

        if (!json_object_is_type(v, json_type_array)) {
                parser_wrong_type(p, "a list of strings", v);
                return;
        }
        size_t n = json_object_array_length(v);
        if (n == 0) {
                if (t->not_empty)
                        parser_finding(p, "must not be empty");
                return;
        }
        l = calloc(n + 1, sizeof(char *));
        if (!l) {
                p->oom = true;
                return;
        }
        for (size_t i = 0; i < n; i++) {
                size_t mark = parser_enter_index(p, i);
                t->item->parse(p, t->item, json_object_array_get_idx(v, i), l + k);
                if (l[k])
                        k++;
                parser_leave(p, mark);
        }
        *place = TAKE_PTR(l);
}

int strings_format(const Type *t, const void *source, json_object **ret)
{
        _cleanup_json_ json_object *a = NULL;
        char **const *place = source;

        if (!*place || !**place)
                return 0;
        a = json_object_new_array();
        if (!a)
                return -ENOMEM;
        STRV_FOREACH (s, *place) {
                json_object *v;

                int r = string_to_json(*s, &v);
                if (r >= 0)
                        r = json_list_append(a, v);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(a);
        return 1;
}

/* Not strv_copy(), which searches the end of the list for every string it appends. */
int strings_copy(const Type *t, const void *source, void *target)
{
        char **const *from = source;
        char ***to = target;
        size_t n = strv_length(*from);

        if (n == 0)
                return 0;
        *to = calloc(n + 1, sizeof(char *));
        if (!*to)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                (*to)[i] = strdup((*from)[i]);
                if (!(*to)[i])
                        return -ENOMEM;
        }
        return 0;
}

void strings_done(const Type *t, void *target)
{
        char ***place = target;

        *place = strv_free(*place);
}

static void bool_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        bool *place = target;

        if (!json_object_is_type(v, json_type_boolean))
                parser_wrong_type(p, "true or false", v);
        else
                *place = json_object_get_boolean(v);
}

static int bool_to_json(bool b, json_object **ret)
{
        *ret = json_object_new_boolean(b);
        return *ret ? 1 : -ENOMEM;
}

static int bool_format(const Type *t, const void *source, json_object **ret)
{
        const bool *place = source;

        return *place ? bool_to_json(true, ret) : 0;
}

static void optional_bool_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        bool *place = target;

        place[0] = true;
        bool_parse(p, t, v, place + 1);
}

static int optional_bool_format(const Type *t, const void *source, json_object **ret)
{
        const bool *place = source;

        return place[0] ? bool_to_json(place[1], ret) : 0;
}

bool parse_integer(Parser *p, json_object *v, int64_t min, int64_t max, int64_t *ret)
{
        if (!json_object_is_type(v, json_type_int)) {
                parser_wrong_type(p, "a whole number", v);
                return false;
        }
        /* json-c clamps numbers beyond the signed range to its limit, which is outside of every range used
         * here, except the one that ends there. */
        int64_t i = json_object_get_int64(v);
        if (i < min || i > max || (i == INT64_MAX && json_object_get_uint64(v) > (uint64_t) INT64_MAX)) {
                parser_finding(p, "must be a number from %" PRId64 " to %" PRId64, min, max);
                return false;
        }
        *ret = i;
        return true;
}

void u32_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        uint32_t *place = target;
        int64_t i;

        if (parse_integer(p, v, t->min, t->max, &i))
                *place = (uint32_t) i;
}

int u32_format(const Type *t, const void *source, json_object **ret)
{
        const uint32_t *place = source;

        *ret = json_object_new_int64(*place);
        return *ret ? 1 : -ENOMEM;
}

static int nonempty_check(const char *s, Error *e)
{
        return *s ? 0 : error_set(e, -EINVAL, "must not be empty");
}

static int absolute_path_check(const char *s, Error *e)
{
        return path_is_absolute(s) ? 0 : error_value(e, s, "is not an absolute path");
}

/* The reference accepts any characters after "sha512-", the specification requires the digest in hex. This
 * follows the specification: an incomplete digest identifies no image. Digits are stored in lower case. */
static int image_id_convert(const char *s, char **ret, Error *e)
{
        int r = image_id_check(s, e);

        if (r < 0)
                return r;
        char *id = strdup(s);
        if (!id)
                return error_oom(e);
        for (char *c = id; *c; c++)
                if (*c >= 'A' && *c <= 'F')
                        *c = (char) (*c - 'A' + 'a');
        *ret = id;
        return 0;
}

const Type type_string = {STRING_OPS, .size = sizeof(char *)};
const Type type_string_required = {STRING_OPS, .size = sizeof(char *), .check = nonempty_check};
const Type type_ac_name = {STRING_OPS, .size = sizeof(char *), .check = ac_name_check};
const Type type_ac_identifier = {STRING_OPS, .size = sizeof(char *), .check = ac_identifier_check};
const Type type_ac_version = {STRING_OPS, .size = sizeof(char *), .check = ac_version_check};
const Type type_image_id = {STRING_OPS, .size = sizeof(char *), .convert = image_id_convert};
/* The reference writes an empty string if there is none. */
const Type type_absolute_path = {
                STRING_OPS,
                .size = sizeof(char *),
                .check = absolute_path_check,
                .empty_is_absent = true,
};
const Type type_strings = {STRINGS_OPS, .size = sizeof(char **), .item = &type_string};
const Type type_bool = {.parse = bool_parse, .format = bool_format, .size = sizeof(bool)};
const Type type_optional_bool = {
                .parse = optional_bool_parse,
                .format = optional_bool_format,
                .size = 2 * sizeof(bool),
};
/* (uid_t) -1 means "no user" to the kernel. */
const Type type_uid = {U32_OPS, .max = UINT32_MAX - 1};
const Type type_port_number = {U32_OPS, .min = 1, .max = 65535};
