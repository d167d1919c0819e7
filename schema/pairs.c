/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pairs of names and values: labels, annotations, environment, user annotations and user labels.
 *
 * In the document the first three are lists of objects with "name" and "value", the last two are objects
 * whose members are the pairs. Names are unique in all of them. All annotations have AC Identifiers as
 * names: the pods chapter of the specification requires AC Names, the images chapter and the reference AC
 * Identifiers, and an app's annotations are merged from both.
 */

#include "schema/schema-internal.h"

static void pair_done(Pair *p)
{
        free(p->name);
        free(p->value);
}

void pair_list_done(PairList *l)
{
        for (size_t i = 0; i < l->n; i++)
                pair_done(l->items + i);
        free(l->items);
        *l = (PairList){};
}

static Pair *pair_list_find(const PairList *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].name && streq(l->items[i].name, name))
                        return l->items + i;
        return NULL;
}

const char *pair_list_get(const PairList *l, const char *name)
{
        const Pair *p = pair_list_find(l, name);

        return p ? p->value : NULL;
}

static int pair_list_append(PairList *l, const char *name, const char *value)
{
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                return -ENOMEM;
        Pair p = {.name = strdup(name), .value = strdup(value)};
        if (!p.name || !p.value) {
                pair_done(&p);
                return -ENOMEM;
        }
        l->items[l->n++] = p;
        return 0;
}

void pair_list_remove(PairList *l, const char *name)
{
        size_t i = 0;

        while (i < l->n && !streq(l->items[i].name, name))
                i++;
        if (i == l->n)
                return;
        free(l->items[i].name);
        free(l->items[i].value);
        memmove(l->items + i, l->items + i + 1, (--l->n - i) * sizeof(Pair));
}

int pair_list_set(PairList *l, const char *name, const char *value)
{
        Pair *p = pair_list_find(l, name);

        if (!p)
                return pair_list_append(l, name, value);
        char *copy = strdup(value);
        if (!copy)
                return -ENOMEM;
        free(p->value);
        p->value = copy;
        return 0;
}

int pair_list_copy(const PairList *l, PairList *ret)
{
        PairList copy = {};

        for (size_t i = 0; i < l->n; i++) {
                int r = pair_list_append(&copy, l->items[i].name, l->items[i].value);
                if (r < 0) {
                        pair_list_done(&copy);
                        return r;
                }
        }
        *ret = copy;
        return 0;
}

/* --- Lists of objects ---------------------------------------------------------------------------------- */

static const Type type_environment_name = {
                STRING_OPS,
                .size = sizeof(char *),
                .check = environment_name_check,
};

#define PAIR_TYPE(variable, name_type)                                                                      \
        static const Field variable##_fields[] = {                                                          \
                        {"name", (name_type), offsetof(Pair, name), FIELD_REQUIRED},                        \
                        {"value", &type_string, offsetof(Pair, value), FIELD_REQUIRED},                     \
                        {},                                                                                 \
        };                                                                                                  \
        static const Type variable = {OBJECT_OPS, .size = sizeof(Pair), .fields = variable##_fields}

PAIR_TYPE(type_identifier_pair, &type_ac_identifier);
PAIR_TYPE(type_environment_pair, &type_environment_name);

static size_t enter_value(Parser *p, const PairList *l, const Pair *pair)
{
        size_t mark = parser_enter_index(p, (size_t) (pair - l->items));

        (void) parser_enter_key(p, "value");
        return mark;
}

static void environment_finish(Parser *p, void *target)
{
        PairList *l = target;

        parser_check_unique(p, l->items, l->n, sizeof(Pair));
}

/* --- Labels -------------------------------------------------------------------------------------------- */

/* The combinations of the reference's table, which the specification allows implementations to extend:
 * riscv64 and loongarch64 are added here. */
static const struct {
        const char *os, *archs;
} known_platforms[] = {
                {"linux", "amd64 i386 aarch64 aarch64_be armv6l armv7l armv7b ppc64 ppc64le s390x riscv64 "
                          "loongarch64"},
                {"freebsd", "amd64 i386 arm"},
                {"darwin", "x86_64 i386"},
};

static bool word_in(const char *words, const char *word)
{
        size_t n = strlen(word);

        for (const char *w = words; *w; w += strspn(w, " ")) {
                size_t k = strcspn(w, " ");
                if (k == n && strncmp(w, word, n) == 0)
                        return true;
                w += k;
        }
        return false;
}

static void platform_check(Parser *p, const PairList *l)
{
        _cleanup_free_ char *quoted = NULL;
        const Pair *os = pair_list_find(l, "os"), *arch = pair_list_find(l, "arch"), *bad = os;
        const char *archs = NULL;

        /* The architecture has a meaning only together with the system. */
        if (!os || !os->value)
                return;
        for (size_t i = 0; i < ELEMENTSOF(known_platforms); i++)
                if (streq(os->value, known_platforms[i].os))
                        archs = known_platforms[i].archs;
        if (archs) {
                if (!arch || !arch->value || word_in(archs, arch->value))
                        return;
                bad = arch;
        }
        size_t mark = enter_value(p, l, bad);
        quoted = quote_value(bad->value);
        parser_finding(p, "%s is not known; it must be one of %s%s%s", quoted ?: "this",
                       archs ?: "linux, freebsd, darwin", archs ? " for " : "", archs ? os->value : "");
        parser_leave(p, mark);
}

static void labels_finish(Parser *p, void *target)
{
        PairList *l = target;
        const Pair *name = pair_list_find(l, "name");

        parser_check_unique(p, l->items, l->n, sizeof(Pair));
        if (name) {
                size_t mark = parser_enter_index(p, (size_t) (name - l->items));
                (void) parser_enter_key(p, "name");
                parser_finding(p, "\"name\" is not a valid name of a label");
                parser_leave(p, mark);
        }
        platform_check(p, l);
}

/* --- Annotations --------------------------------------------------------------------------------------- */

static int homepage_check(const char *s, Error *e)
{
        const char *rest = strncasecmp(s, "http://", 7) == 0    ? s + 7
                           : strncasecmp(s, "https://", 8) == 0 ? s + 8
                                                                : NULL;
        bool valid = rest && *rest && !strchr("/?#:", *rest);

        for (const unsigned char *c = (const unsigned char *) s; *c && valid; c++)
                valid = *c > 0x20 && *c != 0x7f;
        return valid ? 0 : error_value(e, s, "is not a URL that begins with http:// or https://");
}

/* The specification's rules for recognized annotations. Like the reference, they are also applied to those
 * of pods. */
static const struct {
        const char *name;
        int (*check)(const char *s, Error *e);
} recognized_annotations[] = {
                {"created", timestamp_check},
                {"homepage", homepage_check},
                {"documentation", homepage_check},
};

static void annotations_finish(Parser *p, void *target)
{
        PairList *l = target;

        parser_check_unique(p, l->items, l->n, sizeof(Pair));
        for (size_t i = 0; i < ELEMENTSOF(recognized_annotations); i++) {
                const Pair *a = pair_list_find(l, recognized_annotations[i].name);
                Error e = {};

                if (!a || !a->value || recognized_annotations[i].check(a->value, &e) >= 0)
                        continue;
                size_t mark = enter_value(p, l, a);
                parser_finding_error(p, &e);
                parser_leave(p, mark);
        }
}

const Type type_environment = {
                LIST_OPS,         .size = sizeof(PairList),     .item = &type_environment_pair,
                .growable = true, .finish = environment_finish,
};
const Type type_labels = {
                LIST_OPS,         .size = sizeof(PairList), .item = &type_identifier_pair,
                .growable = true, .finish = labels_finish,
};
const Type type_annotations = {
                LIST_OPS,         .size = sizeof(PairList),     .item = &type_identifier_pair,
                .growable = true, .finish = annotations_finish,
};

/* --- Maps ---------------------------------------------------------------------------------------------- */

/* The JSON reader has refused duplicate keys. */
static void user_map_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        PairList *l = target;

        if (!json_object_is_type(v, json_type_object)) {
                parser_wrong_type(p, "an object", v);
                return;
        }
        json_object_object_foreach (v, key, value) {
                size_t mark = parser_enter_key(p, key);
                if (!json_object_is_type(value, json_type_string))
                        parser_wrong_type(p, "a string", value);
                else if (json_string_has_nul(value))
                        parser_warning(p, "contains a NUL character, and is ignored");
                else if (pair_list_append(l, key, json_object_get_string(value)) < 0)
                        p->oom = true;
                parser_leave(p, mark);
        }
}

static int user_map_add(json_object *o, const Pair *pair)
{
        _cleanup_json_ json_object *key = json_new_string_lossy(pair->name);

        return key ? json_member_add(o, json_object_get_string(key), json_new_string_lossy(pair->value))
                   : -ENOMEM;
}

static int user_map_format(const Type *t, const void *source, json_object **ret)
{
        _cleanup_json_ json_object *o = NULL;
        const PairList *l = source;

        if (l->n == 0)
                return 0;
        o = json_object_new_object();
        if (!o)
                return -ENOMEM;
        for (size_t i = 0; i < l->n; i++)
                if (user_map_add(o, l->items + i) < 0)
                        return -ENOMEM;
        *ret = TAKE_PTR(o);
        return 1;
}

static int user_map_copy(const Type *t, const void *source, void *target)
{
        return pair_list_copy(source, target);
}

static void user_map_done(const Type *t, void *target)
{
        pair_list_done(target);
}

const Type type_user_map = {
                .parse = user_map_parse,
                .format = user_map_format,
                .copy = user_map_copy,
                .done = user_map_done,
                .size = sizeof(PairList),
};

int annotations_format(const PairList *l, char **ret)
{
        _cleanup_json_ json_object *o = NULL;
        Type t = type_annotations;

        t.keep_empty = true;
        int r = t.format(&t, l, &o);
        return r < 0 ? r : json_format(o, ret);
}
