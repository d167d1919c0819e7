/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes JSON trees as text: in one line, or in the canonical form, with two spaces of indentation. Members are in the
 * order they were added.
 *
 * With json-c's own writer the layout of empty containers and of slashes depends on its version; golden
 * files, digests and diffs need identical bytes everywhere. And where memory runs out it leaves out what it could not
 * add, and goes on: text that is not what the tree says, and no error. The depth of recursion is bounded by that of the
 * documents that are read (64 levels) and of the tables.
 */

#include <json-c/printbuf.h>
#include <limits.h>

#include "schema/schema-internal.h"

typedef struct Writer {
        Text text;
        bool compact; /* in one line */
        size_t n_values, n_containers;
} Writer;

static void value_format(Writer *w, json_object *o, unsigned depth);

static void string_escape(Text *t, const char *s, size_t n)
{
        static const char specials[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";

        text_add(t, "\"");
        for (size_t i = 0, start = 0; i <= n; i++) {
                unsigned char c = i < n ? (unsigned char) s[i] : 0;

                if (i < n && c >= 0x20 && c != '"' && c != '\\')
                        continue;
                text_add_bytes(t, s + start, i - start);
                start = i + 1;
                const char *special = c ? strchr(specials, c) : NULL;
                if (special)
                        text_addf(t, "\\%c", letters[special - specials]);
                else if (i < n)
                        text_addf(t, "\\u%04x", c);
        }
        text_add(t, "\"");
}

static void integer_format(Text *t, json_object *o)
{
        int64_t v = json_object_get_int64(o);

        if (v == INT64_MAX)
                text_addf(t, "%" PRIu64, json_object_get_uint64(o));
        else
                text_addf(t, "%" PRId64, v);
}

/* A fraction keeps the digits with which it was read. */
static void fraction_format(Text *t, json_object *o)
{
        const char *s = json_object_get_userdata(o) ?: json_object_to_json_string(o);

        if (s)
                text_add(t, s);
        else
                t->failed = true;
}

static void line_start(Writer *w, unsigned depth)
{
        if (!w->compact)
                text_addf(&w->text, "\n%*s", (int) (2 * depth), "");
}

static void object_members_format(Writer *w, json_object *o, unsigned depth)
{
        const char *separator = "";

        json_object_object_foreach (o, key, member) {
                text_add(&w->text, separator);
                line_start(w, depth);
                string_escape(&w->text, key, strlen(key));
                text_add(&w->text, w->compact ? ":" : ": ");
                value_format(w, member, depth);
                separator = ",";
        }
}

static void array_elements_format(Writer *w, json_object *o, unsigned depth)
{
        for (size_t i = 0; i < json_object_array_length(o); i++) {
                text_add(&w->text, i > 0 ? "," : "");
                line_start(w, depth);
                value_format(w, json_object_array_get_idx(o, i), depth);
        }
}

static void container_format(Writer *w, json_object *o, unsigned depth, bool object)
{
        bool empty = object ? json_object_object_length(o) == 0 : json_object_array_length(o) == 0;

        w->n_containers++;
        text_add(&w->text, object ? "{" : "[");
        if (object)
                object_members_format(w, o, depth + 1);
        else
                array_elements_format(w, o, depth + 1);
        if (!empty)
                line_start(w, depth);
        text_add(&w->text, object ? "}" : "]");
}

static void value_format(Writer *w, json_object *o, unsigned depth)
{
        w->n_values++;
        switch (json_object_get_type(o)) {
        case json_type_object:
                container_format(w, o, depth, true);
                break;
        case json_type_array:
                container_format(w, o, depth, false);
                break;
        case json_type_string:
                string_escape(&w->text, json_object_get_string(o), (size_t) json_object_get_string_len(o));
                break;
        case json_type_int:
                integer_format(&w->text, o);
                break;
        case json_type_null:
                text_add(&w->text, "null");
                break;
        case json_type_boolean:
                text_add(&w->text, json_object_get_boolean(o) ? "true" : "false");
                break;
        case json_type_double:
                fraction_format(&w->text, o);
                break;
        }
}

/* Text that json_parse_strict() would refuse is not written. */
int json_format(json_object *o, char **ret)
{
        Writer w = {};
        size_t size;
        char *text;

        value_format(&w, o, 0);
        text_add(&w.text, "\n");
        int r = text_take(&w.text, &text, &size);
        if (r < 0) {
                text_done(&w.text);
                return r;
        }
        if (size > MANIFEST_SIZE_MAX || w.n_values > JSON_VALUES_MAX ||
            w.n_containers > JSON_CONTAINERS_MAX) {
                free(text);
                return -EFBIG;
        }
        *ret = text;
        return 0;
}

/* As json-c calls it for the text that an object holds. */
static int print_into(json_object *o, struct printbuf *buffer, int level, int flags)
{
        Writer w = {.compact = !(flags & JSON_C_TO_STRING_PRETTY)};

        value_format(&w, o, 0);
        int r = w.text.failed || w.text.size > INT_MAX
                                ? -1
                                : printbuf_memappend(buffer, w.text.data, (int) w.text.size);
        text_done(&w.text);
        return r;
}

static const char *print(json_object *o, int flags)
{
        bool composed = json_object_is_type(o, json_type_object) ||
                        json_object_is_type(o, json_type_array) || json_object_is_type(o, json_type_string);

        if (!composed)
                return json_object_to_json_string_ext(o, flags);
        json_object_set_serializer(o, print_into, NULL, NULL);
        const char *text = json_object_to_json_string_ext(o, flags);
        json_object_set_serializer(o, NULL, NULL, NULL);
        return text;
}

const char *json_print(json_object *o)
{
        return print(o, JSON_C_TO_STRING_PLAIN);
}

const char *json_print_pretty(json_object *o)
{
        return print(o, JSON_C_TO_STRING_PRETTY);
}

int manifest_format(const Type *t, const void *source, char **ret)
{
        _cleanup_json_ json_object *o = NULL;
        int r = t->format(t, source, &o);

        return r < 0 ? r : json_format(o, ret);
}
