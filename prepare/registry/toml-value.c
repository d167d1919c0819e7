/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The values of the reader of TOML. They nest to a fixed depth, which bounds the recursion. */

#include "prepare/registry/toml-internal.h"

#define VALUE_DEPTH_MAX 8U

/* The name in front of '=' and the sign itself. */
static int read_assignment(TomlReader *r, char **ret)
{
        _cleanup_free_ char *key = NULL;

        int q = toml_read_key(r, &key);
        if (q < 0)
                return q;
        toml_skip_blanks(r);
        if (toml_peek(r) == '.')
                return toml_fault(r,
                                  "dotted names are not understood; a name with dots in it goes in quotes");
        q = toml_expect(r, '=', "behind a name");
        if (q < 0)
                return q;
        toml_skip_blanks(r);
        *ret = TAKE_PTR(key);
        return 0;
}

static int read_value(TomlReader *r, unsigned depth, json_object **ret);

/* KEY = VALUE into TABLE. */
int toml_read_pair(TomlReader *r, json_object *table, unsigned depth)
{
        _cleanup_free_ char *key = NULL;
        _cleanup_json_ json_object *value = NULL;

        int q = read_assignment(r, &key);
        if (q < 0)
                return q;
        if (json_object_object_get_ex(table, key, NULL))
                return toml_fault(r, "'%s' appears twice", key);
        q = read_value(r, depth, &value);
        if (q < 0)
                return q;
        if (json_object_object_add(table, key, value) < 0)
                return error_oom(r->e);
        TAKE_PTR(value);
        return 0;
}

static int read_array(TomlReader *r, unsigned depth, json_object **ret)
{
        _cleanup_json_ json_object *array = json_object_new_array();
        int q;

        if (!array)
                return error_oom(r->e);
        r->p++;
        for (;;) {
                _cleanup_json_ json_object *value = NULL;

                q = toml_skip_space(r);
                if (q < 0)
                        return q;
                if (toml_peek(r) == ']')
                        break;
                q = read_value(r, depth + 1, &value);
                if (q >= 0)
                        q = toml_skip_space(r);
                if (q < 0)
                        return q;
                if (json_object_array_add(array, value) < 0)
                        return error_oom(r->e);
                TAKE_PTR(value);
                if (toml_peek(r) == ',')
                        r->p++;
                else if (toml_peek(r) != ']')
                        return toml_fault(r, "an array is not closed");
        }
        r->p++;
        toml_mark(array, TOML_SEALED);
        *ret = TAKE_PTR(array);
        return 0;
}

static int read_inline_table(TomlReader *r, unsigned depth, json_object **ret)
{
        _cleanup_json_ json_object *table = json_object_new_object();
        int q;

        if (!table)
                return error_oom(r->e);
        r->p++;
        toml_skip_blanks(r);
        for (bool first = true; toml_peek(r) != '}' || !first; first = false) {
                q = toml_read_pair(r, table, depth + 1);
                if (q < 0)
                        return q;
                toml_skip_blanks(r);
                if (toml_peek(r) == '}')
                        break;
                q = toml_expect(r, ',', "between the values of a table");
                if (q < 0)
                        return q;
                toml_skip_blanks(r);
        }
        r->p++;
        toml_mark(table, TOML_SEALED);
        *ret = TAKE_PTR(table);
        return 0;
}

/* Words and decimal integers. */
static int read_word(TomlReader *r, json_object **ret)
{
        size_t n = strcspn(r->p, " \t\r\n,]}#");
        _cleanup_free_ char *word = strndup(r->p, n);
        uint64_t number;

        if (!word)
                return error_oom(r->e);
        if (streq(word, "true") || streq(word, "false"))
                *ret = json_object_new_boolean(streq(word, "true"));
        else if ((word[0] != '0' || n == 1) && parse_u64(word, &number) >= 0 && number <= INT64_MAX)
                *ret = json_object_new_int64((int64_t) number);
        else if (n == 0)
                return toml_fault(r, "a value is missing");
        else
                return toml_fault(r, "the value '%s' is not understood; a string goes in quotes", word);
        r->p += n;
        return *ret ? 0 : error_oom(r->e);
}

static int read_value(TomlReader *r, unsigned depth, json_object **ret)
{
        _cleanup_free_ char *text = NULL;

        if (depth > VALUE_DEPTH_MAX)
                return toml_fault(r, "values are nested more than %u deep", VALUE_DEPTH_MAX);
        if (toml_peek(r) == '[')
                return read_array(r, depth, ret);
        if (toml_peek(r) == '{')
                return read_inline_table(r, depth, ret);
        if (toml_peek(r) != '"' && toml_peek(r) != '\'')
                return read_word(r, ret);
        int q = toml_read_string(r, &text);
        if (q < 0)
                return q;
        *ret = json_object_new_string(text);
        return *ret ? 0 : error_oom(r->e);
}
