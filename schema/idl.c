/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Varlink's interface language: compares a JSON value with a description while parsing the description, so
 * that no parsed form has to be kept. Without a value the text is only skipped.
 *
 * Descriptions are trusted. A declared type is always a struct or an enum, never an alias: so the recursion
 * is as deep as the value, whose depth is bounded, even if types contain themselves. */

#include "schema/idl.h"

#define IDL_DEPTH_MAX 64U

typedef struct Reader {
        const char *text, *p;
        unsigned depth;
        char *where;
} Reader;

static int read_type(Reader *r, json_object *v, bool compare);

static bool skip(Reader *r, const char *token)
{
        while (r->p += strspn(r->p, " \t\r\n"), *r->p == '#')
                r->p += strcspn(r->p, "\n");
        const char *end = startswith(r->p, token);

        if (!end || (is_alphanumeric(*token) && is_alphanumeric(*end))) /* a word must end here */
                return false;
        r->p = end;
        return true;
}

static bool read_name(Reader *r, char name[static IDL_NAME_MAX])
{
        size_t n = 0;

        (void) skip(r, "");
        while (is_alphanumeric(r->p[n]) || strchr("_.-", r->p[n] ?: ' '))
                n++;
        snprintf(name, IDL_NAME_MAX, "%.*s", (int) n, r->p);
        r->p += n;
        return n > 0 && n < IDL_NAME_MAX;
}

/* R is a copy, positioned after the "(" of a struct. */
static bool has_field(Reader r, const char *key)
{
        char name[IDL_NAME_MAX];

        while (read_name(&r, name) && skip(&r, ":")) {
                if (streq(name, key))
                        return true;
                if (read_type(&r, NULL, false) < 0 || !skip(&r, ","))
                        break;
        }
        return false;
}

static int refuse_field(Reader *r, const char *name)
{
        (void) snprintf(r->where, IDL_NAME_MAX, "%s", name);
        return -EINVAL;
}

/* "(a: int, b: string)" or "(a, b)" */
static int read_members(Reader *r, json_object *v, bool compare)
{
        json_type type = json_object_get_type(v);
        json_object *o = type == json_type_object ? v : NULL;
        const char *word = type == json_type_string ? json_object_get_string(v) : "";
        bool is_enum = false, is_word = false;
        char name[IDL_NAME_MAX];

        if (!skip(r, "("))
                return -EBADMSG;
        const Reader begin = *r;
        for (bool first = true; !skip(r, ")"); first = false) {
                if ((!first && !skip(r, ",")) || !read_name(r, name))
                        return -EBADMSG;
                if (!skip(r, ":")) {
                        is_enum = true;
                        is_word = is_word || streq(word, name);
                        continue;
                }
                int k = read_type(r, json_object_object_get(o, name), o);
                if (k < 0)
                        return k == -EINVAL ? refuse_field(r, name) : k;
        }
        if (!compare || is_enum)
                return !compare || is_word ? 0 : -EINVAL;
        if (!o)
                return -EINVAL;
        json_object_object_foreach (o, key, value) {
                (void) value;
                if (!has_field(begin, key))
                        return refuse_field(r, key);
        }
        return 0;
}

static int read_list(Reader *r, json_object *v, bool compare)
{
        const Reader element = *r;
        int k = read_type(r, NULL, false);

        if (k < 0 || !compare)
                return k;
        if (!json_object_is_type(v, json_type_array))
                return -EINVAL;
        for (size_t i = 0; i < json_object_array_length(v) && k >= 0; i++) {
                *r = element;
                k = read_type(r, json_object_array_get_idx(v, i), true);
        }
        return k;
}

static int read_named(Reader *r, json_object *v, bool compare)
{
        Reader type = *r;
        char name[IDL_NAME_MAX];

        if (!read_name(r, name) || !is_upper(*name))
                return -EBADMSG;
        if (!compare)
                return 0;
        int k = idl_find(r->text, "type", name, &type.p);
        return k < 0 ? -EBADMSG : read_members(&type, v, true);
}

static int read_plain(Reader *r, json_object *v, bool compare)
{
        static const struct {
                const char *word;
                json_type type;
        } plain[] = {
                        {"bool", json_type_boolean},
                        {"int", json_type_int},
                        {"string", json_type_string},
                        {"object", json_type_object},
        };

        for (size_t i = 0; i < ELEMENTSOF(plain); i++) {
                if (!skip(r, plain[i].word))
                        continue;
                bool matches = json_object_is_type(v, plain[i].type) &&
                               (plain[i].type != json_type_int || json_object_get_uint64(v) <= INT64_MAX);
                return !compare || matches ? 0 : -EINVAL;
        }
        return *r->p == '(' ? read_members(r, v, compare) : read_named(r, v, compare);
}

static int read_type(Reader *r, json_object *v, bool compare)
{
        bool nullable = skip(r, "?"), missing = compare && !v;

        if (r->depth == IDL_DEPTH_MAX)
                return -EBADMSG;
        r->depth++;
        compare = compare && v;
        int k = skip(r, "[]") ? read_list(r, v, compare) : read_plain(r, v, compare);
        r->depth--;
        return k >= 0 && missing && !nullable ? -EINVAL : k;
}

int idl_find(const char *text, const char *kind, const char *name, const char **ret)
{
        static const char *const kinds[] = {"type", "method", "error"};
        char declared[IDL_NAME_MAX];
        Reader r = {.text = text, .p = text};

        if (!skip(&r, "interface") || !read_name(&r, declared))
                return -EBADMSG;
        while (skip(&r, ""), *r.p) {
                size_t i = 0;
                while (i < ELEMENTSOF(kinds) && !skip(&r, kinds[i]))
                        i++;
                if (i == ELEMENTSOF(kinds) || !read_name(&r, declared))
                        return -EBADMSG;
                if (streq(kinds[i], kind) && streq(declared, name)) {
                        *ret = r.p;
                        return 0;
                }
                if (read_members(&r, NULL, false) < 0 ||
                    (streq(kinds[i], "method") && (!skip(&r, "->") || read_members(&r, NULL, false) < 0)))
                        return -EBADMSG;
        }
        return -ENOENT;
}

int idl_compare(const char *text, const char *p, json_object *v, char where[static IDL_NAME_MAX])
{
        Reader r = {.text = text, .p = p, .where = where};

        where[0] = 0;
        return read_type(&r, v, true);
}
