/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A strict reader of TOML that builds json-c's tree.
 *
 * registries.conf is TOML, and often exists already for podman, CRI-O and skopeo. As no maintained C library
 * reads TOML, this is a reader for the part that such files use: comments, tables, arrays of tables, bare
 * and quoted keys, strings on one line, integers, booleans, arrays and inline tables. The rest of TOML
 * (dates, floating point numbers, strings over several lines, dotted keys) is refused with an error that
 * names it. Errors of the language are refused as well: duplicate keys or tables, and additions to closed
 * tables.
 *
 * Here are the tables; toml-text.c has space and strings, toml-value.c has values.
 */

#include "prepare/registry/toml-internal.h"

#define TABLE_DEPTH_MAX 8U

/* Adds NEW, whose reference is taken, to TABLE or ARRAY. */
static int adopt(TomlReader *r, json_object *table, const char *key, json_object *array, json_object *new)
{
        if (new &&
            (array ? json_object_array_add(array, new) : json_object_object_add(table, key, new)) >= 0)
                return 0;
        json_object_put(new);
        return error_oom(r->e);
}

/* One step down, into the table KEY of *TABLE, or the last of an array of tables; made if missing. */
static int step(TomlReader *r, const char *key, json_object **table)
{
        json_object *next;

        if (!json_object_object_get_ex(*table, key, &next)) {
                next = json_object_new_object();
                int q = adopt(r, *table, key, NULL, next);
                if (q < 0)
                        return q;
        }
        if (next && toml_get_mark(next) == TOML_SEALED)
                return toml_fault(r, "'%s' is a value, to which nothing can be added", key);
        if (json_object_is_type(next, json_type_array))
                next = json_object_array_get_idx(next, json_object_array_length(next) - 1);
        if (!json_object_is_type(next, json_type_object))
                return toml_fault(r, "'%s' is not a table", key);
        *table = next;
        return 0;
}

/* [KEY]: a table, which may have been created implicitly for a table inside of it, but not explicitly. */
static int open_table(TomlReader *r, json_object *parent, const char *key)
{
        json_object *o;

        if (json_object_object_get_ex(parent, key, &o) &&
            (!json_object_is_type(o, json_type_object) || toml_get_mark(o) != 0))
                return toml_fault(r, "'%s' appears twice", key);
        r->table = parent;
        int q = step(r, key, &r->table);
        if (q >= 0)
                toml_mark(r->table, TOML_OPENED);
        return q;
}

/* [[KEY]]: one more element of an array of tables. */
static int open_element(TomlReader *r, json_object *parent, const char *key)
{
        json_object *array, *element;
        int q = 0;

        if (!json_object_object_get_ex(parent, key, &array)) {
                array = json_object_new_array();
                q = adopt(r, parent, key, NULL, array);
        } else if (!json_object_is_type(array, json_type_array) || toml_get_mark(array) == TOML_SEALED)
                return toml_fault(r, "'%s' already exists, and is not an array of tables", key);
        if (q < 0)
                return q;
        element = json_object_new_object();
        q = adopt(r, NULL, NULL, array, element);
        if (q < 0)
                return q;
        r->table = element;
        return 0;
}

/* [a.b] or [[a.b]]. */
static int read_header(TomlReader *r)
{
        bool element = r->end - r->p >= 2 && r->p[1] == '[';
        json_object *parent = r->root;
        int q;

        r->p += element ? 2 : 1;
        for (unsigned depth = 0;; depth++) {
                _cleanup_free_ char *key = NULL;

                if (depth == TABLE_DEPTH_MAX)
                        return toml_fault(r, "tables are nested more than %u deep", TABLE_DEPTH_MAX);
                toml_skip_blanks(r);
                q = toml_read_key(r, &key);
                if (q < 0)
                        return q;
                toml_skip_blanks(r);
                if (toml_peek(r) != '.') {
                        q = toml_expect(r, ']', "behind the name of a table");
                        if (q >= 0 && element)
                                q = toml_expect(r, ']', "behind the name of a table");
                        if (q >= 0)
                                q = element ? open_element(r, parent, key) : open_table(r, parent, key);
                        return q;
                }
                r->p++;
                q = step(r, key, &parent);
                if (q < 0)
                        return q;
        }
}

static int read_document(TomlReader *r)
{
        for (;;) {
                int q = toml_skip_space(r);
                if (q < 0 || r->p == r->end)
                        return q;
                q = toml_peek(r) == '[' ? read_header(r) : toml_read_pair(r, r->table, 0);
                if (q >= 0)
                        q = toml_expect_line_end(r);
                if (q < 0)
                        return q;
        }
}

int toml_parse(const char *text, size_t size, const char *what, json_object **ret, Error *e)
{
        TomlReader r = {.what = what, .line = 1, .e = e};

        if (size > TOML_SIZE_MAX)
                return error_set(e, -EFBIG, "%s is larger than %u bytes", what, TOML_SIZE_MAX);
        if (!utf8_is_valid(text, size) || memchr(text, 0, size))
                return error_set(e, -EBADMSG, "%s is not text: it has bytes that are not UTF-8, or zeros",
                                 what);
        /* With a NUL behind it, where searching for the end of a word stops. */
        _cleanup_free_ char *copy = strndup(text, size);
        _cleanup_json_ json_object *root = json_object_new_object();
        if (!copy || !root)
                return error_oom(e);
        r.root = r.table = root;
        r.p = copy;
        r.end = copy + size;
        int q = read_document(&r);
        if (q < 0)
                return q;
        *ret = TAKE_PTR(root);
        return 0;
}
