/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A strict reader of JSON that builds json-c's tree.
 *
 * json-c's own reader keeps the last of several members with the same name, accepts NaN, truncates numbers,
 * and accepts bytes that are not UTF-8. The documents here are untrusted, are compared and signed, and are
 * read by several programs which must interpret them identically: so this reader accepts exactly the grammar
 * of RFC 8259, refuses documents that two readers could interpret differently, and reports line and column.
 * A check before json-c's reader would mean two grammars that can differ; this is the only one.
 *
 * The reader keeps a stack of open objects and lists instead of using recursion. Depth, number of values and
 * of containers are limited, since an empty object of two bytes takes several hundred bytes of memory.
 */

#include "schema/json-internal.h"

static void reader_done(JsonReader *r)
{
        json_object_put(r->root);
        text_done(&r->string);
        if (r->locale)
                freelocale(r->locale);
        free(r->fault);
}

/* --- Values -------------------------------------------------------------------------------------------- */

static int open_container(JsonReader *r, json_object **ret)
{
        if (r->depth == r->depth_max)
                return json_fault(r, r->p, "nesting deeper than %zu levels", r->depth_max);
        if (++r->n_containers > JSON_CONTAINERS_MAX)
                return json_fault(r, r->p, "more than %u objects and lists", JSON_CONTAINERS_MAX);
        *ret = *r->p == '{' ? json_object_new_object() : json_object_new_array_ext(1);
        if (!*ret)
                return -ENOMEM;
        r->p++;
        return 0;
}

static int make_value(JsonReader *r, json_object **ret)
{
        char c = json_skip_space(r);

        if (c == '{' || c == '[')
                return open_container(r, ret);
        if (c == '"') {
                int q = json_read_string(r);
                if (q < 0)
                        return q;
                if (r->string.size > INT32_MAX)
                        return -EFBIG;
                *ret = json_object_new_string_len(r->string.data, (int) r->string.size);
                return *ret ? 0 : -ENOMEM;
        }
        if (c == '-' || is_digit(c))
                return json_read_number(r, ret);
        return json_read_word(r, ret);
}

/* Reads a value and adds it to PARENT, with KEY if that is an object; without parent it is the root. */
static int read_value(JsonReader *r, json_object *parent, const char *key)
{
        json_object *o = NULL;
        int q = 0;

        if (++r->n_values > r->n_values_max)
                return json_fault(r, r->p, "more than %zu values", r->n_values_max);
        int s = make_value(r, &o);
        if (s < 0)
                return s;
        if (!parent)
                r->root = o;
        else if (key)
                q = json_object_object_add_ex(parent, key, o, JSON_C_OBJECT_ADD_KEY_IS_NEW);
        else
                q = json_object_array_add(parent, o);
        if (q < 0) {
                json_object_put(o);
                return -ENOMEM;
        }
        if (json_object_is_type(o, json_type_object) || json_object_is_type(o, json_type_array))
                r->stack[r->depth++] = (JsonFrame){.container = o};
        return 0;
}

static int read_member(JsonReader *r, json_object *object)
{
        _cleanup_free_ char *key = NULL;

        if (json_skip_space(r) != '"')
                return json_unexpected(r, "a key in quotes");
        const char *at = r->p;
        int q = json_read_string(r);
        if (q < 0)
                return q;
        if (strlen(r->string.data) != r->string.size)
                return json_fault(r, at, "\\u0000 is not allowed in a key");
        key = strdup(r->string.data);
        if (!key)
                return -ENOMEM;
        if (json_object_object_get_ex(object, key, NULL)) {
                _cleanup_free_ char *quoted = quote_value(key);
                return json_fault(r, at, "key %s appears twice in the same object", quoted ?: "");
        }
        if (json_skip_space(r) != ':')
                return json_unexpected(r, "':'");
        r->p++;
        return read_value(r, object, key);
}

/* Reads one member or element of the innermost container, or its end. */
static int step(JsonReader *r)
{
        JsonFrame *f = r->stack + r->depth - 1;
        bool object = json_object_is_type(f->container, json_type_object);
        char c = json_skip_space(r);

        if (c == (object ? '}' : ']')) {
                r->p++;
                r->depth--;
                return 0;
        }
        if (f->started) {
                if (c != ',')
                        return json_unexpected(r, object ? "',' or '}'" : "',' or ']'");
                r->p++;
        }
        f->started = true;
        return object ? read_member(r, f->container) : read_value(r, f->container, NULL);
}

static int read_document(JsonReader *r)
{
        int q = read_value(r, NULL, NULL);

        while (q >= 0 && r->depth > 0)
                q = step(r);
        if (q < 0)
                return q;
        (void) json_skip_space(r);
        return r->p == r->end ? 0 : json_unexpected(r, "the end of the text");
}

/* --- Interface ----------------------------------------------------------------------------------------- */

static int report_fault(const JsonReader *r, Findings *findings, Error *e)
{
        char where[64];
        size_t line = 1, column = 1;

        for (const char *p = r->text; p < r->fault_at; p++) {
                if (*p == '\n') {
                        line++;
                        column = 1;
                } else if (((unsigned char) *p & 0xc0) != 0x80) /* columns count characters, not bytes */
                        column++;
        }
        snprintf(where, sizeof(where), "line %zu, column %zu", line, column);
        if (findings && findings_add(findings, where, r->fault) < 0)
                return error_oom(e);
        return error_set(e, -EBADMSG, "Invalid JSON: %s: %s", where, r->fault);
}

static int parse(const char *text, size_t size, size_t depth_max, size_t n_values_max, bool nul_is_parsed,
                 json_object **ret, Findings *findings, Error *e)
{
        _cleanup_(reader_done) JsonReader r = {
                        .nul_is_parsed = nul_is_parsed,
                        .text = text,
                        .p = text,
                        .end = text + size,
                        .depth_max = MIN(depth_max, JSON_DEPTH_MAX),
                        .n_values_max = MIN(n_values_max, JSON_VALUES_MAX),
        };

        if (size > MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The text has %zu bytes, more than the limit of %u", size,
                                 MANIFEST_SIZE_MAX);
        int q = read_document(&r);
        if (q == -EBADMSG && r.fault)
                return report_fault(&r, findings, e);
        if (q < 0)
                return error_oom(e);
        *ret = TAKE_PTR(r.root);
        return 0;
}

int json_parse_bounded(const char *text, size_t size, size_t depth_max, size_t n_values_max,
                       json_object **ret, Findings *findings, Error *e)
{
        return parse(text, size, depth_max, n_values_max, false, ret, findings, e);
}

int json_parse_strict(const char *text, size_t size, json_object **ret, Findings *findings, Error *e)
{
        return parse(text, size, JSON_DEPTH_MAX, JSON_VALUES_MAX, false, ret, findings, e);
}

int json_parse_with_nul(const char *text, size_t size, json_object **ret, Findings *findings, Error *e)
{
        return parse(text, size, JSON_DEPTH_MAX, JSON_VALUES_MAX, true, ret, findings, e);
}
