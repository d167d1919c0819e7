/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads YAML as the JSON that it stands for, by the events of libyaml.
 *
 * A document can be small and stand for a huge one by references to its parts: anchors and aliases are refused, as are merge keys, types
 * (tags), a second document and keys that are not text or that come twice. So each value of the result is in the text once. Depth and
 * number of values are bounded; the depth is kept in a table, not on the stack.
 *
 * Words without quotes are null, true, false or a number as in JSON, or text. Words that version 1.1 of YAML takes for a boolean and version
 * 1.2 for text (yes, no, on, off, y, n) are refused, as it is not known which one the author had in mind. Other spellings of numbers become
 * a number with a fraction, which is none of the types that are expected anywhere. */

#include <math.h>
#include <strings.h>

#include "cri/cdi/libyaml.h"
#include "cri/cdi/cdi-yaml.h"

#define DEPTH_LIMIT 64U

typedef struct Level {
        json_object *container; /* owned by the level above, the first one by the reader */
        char *key;              /* of an object: the member whose value comes next, or NULL */
} Level;

typedef struct Reader {
        yaml_parser_t parser;
        Level levels[DEPTH_LIMIT];
        size_t depth, depth_max, n_values, n_values_max;
        json_object *root;
        bool has_root;
        Error *e;
} Reader;

static int refuse(const Reader *r, const yaml_event_t *v, const char *what)
{
        return error_set(r->e, -EINVAL, "Line %zu: %s", v->start_mark.line + 1, what);
}

/* --- Values -------------------------------------------------------------------------------------------- */

/* Takes ownership of VALUE; NULL is JSON's null. */
static int add_value(Reader *r, const yaml_event_t *v, json_object *value)
{
        Level *l = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
        int k = 0;

        if (!l) {
                r->root = value;
                r->has_root = true;
                return 0;
        }
        if (json_object_is_type(l->container, json_type_array))
                k = json_object_array_add(l->container, value);
        else if (json_object_object_get_ex(l->container, l->key, NULL)) {
                json_object_put(value);
                return refuse(r, v, "this key is there twice");
        } else {
                k = json_object_object_add(l->container, l->key, value);
                free(TAKE_PTR(l->key));
        }
        if (k >= 0)
                return 0;
        json_object_put(value);
        return error_oom(r->e);
}

static bool is_ambiguous(const char *s)
{
        static const char *const words[] = {"yes", "no", "on", "off", "y", "n"};

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (strcasecmp(s, words[i]) == 0)
                        return true;
        return false;
}

static bool is_one_of(const char *s, const char *a, const char *b, const char *c)
{
        return streq(s, a) || streq(s, b) || streq(s, c);
}

/* As JSON has it: without a leading zero. */
static bool is_integer(const char *s, int64_t *ret)
{
        const char *digits = s + (*s == '-');
        char *end;

        if (!is_digit(*digits) || (*digits == '0' && digits[1]))
                return false;
        errno = 0;
        *ret = strtoll(s, &end, 10);
        return errno == 0 && !*end;
}

/* Underscores are those of version 1.1. */
static bool is_number(const char *s, double *ret)
{
        const char *first = s + strspn(s, "+-");
        char *end;

        if (!is_digit(*first) && *first != '.')
                return false;
        *ret = strtod(s, &end);
        return end > s && isfinite(*ret) && end[strspn(end, "0123456789_")] == 0;
}

static int plain_value(const Reader *r, const yaml_event_t *v, const char *s, json_object **ret)
{
        int64_t integer;
        double number;

        *ret = NULL;
        if (isempty(s) || streq(s, "~") || is_one_of(s, "null", "Null", "NULL"))
                return 0;
        if (is_ambiguous(s))
                return refuse(r, v,
                              "versions of YAML differ about this word: it has to be in quotes, or true or false");
        if (is_one_of(s, "true", "True", "TRUE"))
                *ret = json_object_new_boolean(true);
        else if (is_one_of(s, "false", "False", "FALSE"))
                *ret = json_object_new_boolean(false);
        else if (is_integer(s, &integer))
                *ret = json_object_new_int64(integer);
        else if (is_number(s, &number))
                *ret = json_object_new_double(number);
        else
                *ret = json_object_new_string(s);
        return *ret ? 0 : error_oom(r->e);
}

static int check_node(const Reader *r, const yaml_event_t *v, const yaml_char_t *anchor,
                      const yaml_char_t *tag)
{
        if (anchor)
                return refuse(r, v, "anchors are not supported");
        return tag ? refuse(r, v, "types of values ('!') are not supported") : 0;
}

static bool is_key(const Reader *r)
{
        const Level *l = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;

        return l && json_object_is_type(l->container, json_type_object) && !l->key;
}

static int take_scalar(Reader *r, const yaml_event_t *v)
{
        const char *s = (const char *) v->data.scalar.value;
        bool plain = v->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        json_object *value;

        int k = check_node(r, v, v->data.scalar.anchor, v->data.scalar.tag);
        if (k < 0)
                return k;
        if (strlen(s) != v->data.scalar.length)
                return refuse(r, v, "text with a NUL is not supported");
        if (is_key(r)) {
                if (plain && streq(s, "<<"))
                        return refuse(r, v, "merge keys are not supported");
                char *key = r->levels[r->depth - 1].key = strdup(s);
                return key ? 0 : error_oom(r->e);
        }
        if (plain)
                k = plain_value(r, v, s, &value);
        else if (!(value = json_object_new_string(s)))
                k = error_oom(r->e);
        return k < 0 ? k : add_value(r, v, value);
}

static int begin(Reader *r, const yaml_event_t *v, bool object)
{
        int k = object ? check_node(r, v, v->data.mapping_start.anchor, v->data.mapping_start.tag)
                       : check_node(r, v, v->data.sequence_start.anchor, v->data.sequence_start.tag);
        if (k < 0)
                return k;
        if (is_key(r))
                return refuse(r, v, "keys that are not text are not supported");
        if (r->depth >= r->depth_max)
                return refuse(r, v, "it is nested too deeply");
        json_object *container = object ? json_object_new_object() : json_object_new_array();
        if (!container)
                return error_oom(r->e);
        k = add_value(r, v, container);
        if (k >= 0)
                r->levels[r->depth++] = (Level){.container = container};
        return k;
}

/* --- The document -------------------------------------------------------------------------------------- */

/* 1: the text has ended. */
static int take_event(Reader *r, const yaml_event_t *v)
{
        if (v->type == YAML_SCALAR_EVENT || v->type == YAML_SEQUENCE_START_EVENT ||
            v->type == YAML_MAPPING_START_EVENT)
                if (++r->n_values > r->n_values_max)
                        return refuse(r, v, "there are too many values");
        switch (v->type) {
        case YAML_DOCUMENT_START_EVENT:
                return r->has_root ? refuse(r, v, "there is a second document") : 0;
        case YAML_ALIAS_EVENT:
                return refuse(r, v, "aliases are not supported");
        case YAML_SCALAR_EVENT:
                return take_scalar(r, v);
        case YAML_SEQUENCE_START_EVENT:
                return begin(r, v, false);
        case YAML_MAPPING_START_EVENT:
                return begin(r, v, true);
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
                r->depth--;
                return 0;
        default:
                return v->type == YAML_STREAM_END_EVENT;
        }
}

static int read_events(Reader *r)
{
        int k = 0;

        while (k == 0) {
                yaml_event_t v;
                if (!yaml_parser_parse(&r->parser, &v))
                        return error_set(r->e, -EINVAL, "Line %zu: %s", r->parser.problem_mark.line + 1,
                                         r->parser.problem ?: "it is not valid YAML");
                k = take_event(r, &v);
                yaml_event_delete(&v);
        }
        return MIN(k, 0);
}

int yaml_parse(const char *text, size_t size, size_t depth_max, size_t n_values_max, json_object **ret,
               Error *e)
{
        Reader r = {.depth_max = MIN(depth_max, DEPTH_LIMIT), .n_values_max = n_values_max, .e = e};

        int k = library_load(&yaml_library, e);
        if (k < 0)
                return k;
        if (!yaml_parser_initialize(&r.parser))
                return error_oom(e);
        yaml_parser_set_input_string(&r.parser, (const unsigned char *) text, size);
        k = read_events(&r);
        yaml_parser_delete(&r.parser);
        for (size_t i = 0; i < ELEMENTSOF(r.levels); i++)
                free(r.levels[i].key);
        if (k < 0)
                json_object_put(r.root);
        else
                *ret = r.root;
        return k;
}
