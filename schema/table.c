/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Interprets tables of fields: objects, lists of them, and pointers to them.
 *
 * Keys are matched exactly or, failing that, ignoring the case of ASCII letters. The reference
 * implementation does so, real manifests rely on it (the specification itself writes both supplementaryGIDs
 * and supplementaryGids), and ignoring "Isolators" as unknown would silently drop a confinement. The same
 * field in two spellings is an error. Keys that are in no table are ignored, as in the reference: later
 * versions of the specification add some. But a misspelt key would silently have no effect, so unknown keys
 * are recorded as warnings, which "validate" shows. null means an absent value, since the reference writes
 * empty lists in this way.
 *
 * The depth of recursion is that of the tables, which are constant.
 */

#include "schema/schema-internal.h"

static int field_find(const Field *fields, const char *key)
{
        for (int i = 0; fields[i].name; i++)
                if (strcasecmp(fields[i].name, key) == 0)
                        return i;
        return -ENOENT;
}

static void member_parse(Parser *p, const Type *t, const char *key, json_object *v, void *target,
                         uint64_t *seen)
{
        int i = field_find(t->fields, key);

        if (i < 0) {
                parser_unknown_key(p, key);
                return;
        }
        if (!v && !(t->fields[i].flags & FIELD_NULL_COUNTS))
                return;
        const Field *f = t->fields + i;
        size_t mark = parser_enter_key(p, key);
        if (*seen & (UINT64_C(1) << i))
                parser_finding(p, "is given twice, in two spellings");
        else
                f->type->parse(p, f->type, v, (char *) target + f->offset);
        *seen |= UINT64_C(1) << i;
        parser_leave(p, mark);
}

static void missing_report(Parser *p, const Field *fields, uint64_t seen)
{
        for (unsigned i = 0; fields[i].name; i++) {
                if (!(fields[i].flags & FIELD_REQUIRED) || seen & (UINT64_C(1) << i))
                        continue;
                parser_finding_at(p, fields[i].name, "is required, but missing");
        }
}

void object_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        size_t before = p->findings->n;
        uint64_t seen = 0;

        if (!json_object_is_type(v, json_type_object)) {
                parser_wrong_type(p, "an object", v);
                return;
        }
        if (t->init)
                t->init(target);
        json_object_object_foreach (v, key, member)
                member_parse(p, t, key, member, target, &seen);
        missing_report(p, t->fields, seen);
        /* Conflicts between fields are not reported if one of the fields is itself not valid. */
        if (t->finish && p->findings->n == before)
                t->finish(p, target);
}

int object_format(const Type *t, const void *source, json_object **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (!o)
                return -ENOMEM; /* even if it has no members */
        for (const Field *f = t->fields; f->name; f++) {
                json_object *v = NULL;
                int r = f->type->format(f->type, (const char *) source + f->offset, &v);

                if (r < 0)
                        return r;
                if (r == 0)
                        continue;
                r = json_member_add_nullable(o, f->name, v);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(o);
        return 1;
}

static int field_copy(const Type *t, const void *source, void *target)
{
        if (t->copy)
                return t->copy(t, source, target);
        if (t->size == 0)
                return -EOPNOTSUPP;
        memcpy(target, source, t->size);
        return 0;
}

int object_copy(const Type *t, const void *source, void *target)
{
        for (const Field *f = t->fields; f->name; f++) {
                int r = field_copy(f->type, (const char *) source + f->offset, (char *) target + f->offset);
                if (r < 0)
                        return r;
        }
        return 0;
}

void object_done(const Type *t, void *target)
{
        for (const Field *f = t->fields; f->name; f++)
                if (f->type->done)
                        f->type->done(f->type, (char *) target + f->offset);
        memset(target, 0, t->size);
}

static int list_allocate(const Type *t, List *l, size_t n)
{
        if (n == 0)
                return 0;
        l->items = calloc(n, t->item->size);
        if (!l->items)
                return -ENOMEM;
        l->n = n;
        if (t->growable)
                l->allocated = n;
        return 0;
}

static void *list_item(const Type *t, const List *l, size_t i)
{
        return (char *) l->items + i * t->item->size;
}

void list_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        List *l = target;

        if (!json_object_is_type(v, json_type_array)) {
                parser_wrong_type(p, "a list", v);
                return;
        }
        if (list_allocate(t, l, json_object_array_length(v)) < 0) {
                p->oom = true;
                return;
        }
        for (size_t i = 0; i < l->n; i++) {
                size_t mark = parser_enter_index(p, i);
                t->item->parse(p, t->item, json_object_array_get_idx(v, i), list_item(t, l, i));
                parser_leave(p, mark);
        }
        if (t->finish)
                t->finish(p, target);
}

int list_format(const Type *t, const void *source, json_object **ret)
{
        _cleanup_json_ json_object *a = NULL;
        const List *l = source;

        if (l->n == 0 && !t->keep_empty)
                return 0;
        a = json_object_new_array();
        if (!a)
                return -ENOMEM;
        for (size_t i = 0; i < l->n; i++) {
                json_object *v = NULL;
                int r = t->item->format(t->item, list_item(t, l, i), &v);

                if (r >= 0)
                        r = json_list_append(a, v);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(a);
        return 1;
}

int list_copy(const Type *t, const void *source, void *target)
{
        const List *from = source;
        List *to = target;

        if (list_allocate(t, to, from->n) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < from->n; i++) {
                int r = field_copy(t->item, list_item(t, from, i), list_item(t, to, i));
                if (r < 0)
                        return r;
        }
        return 0;
}

void list_done(const Type *t, void *target)
{
        List *l = target;

        for (size_t i = 0; t->item->done && i < l->n; i++)
                t->item->done(t->item, list_item(t, l, i));
        free(l->items);
        l->items = NULL;
        l->n = 0;
        if (t->growable)
                l->allocated = 0;
}

void pointer_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        void **place = target;

        *place = calloc(1, t->item->size);
        if (!*place) {
                p->oom = true;
                return;
        }
        t->item->parse(p, t->item, v, *place);
}

int pointer_format(const Type *t, const void *source, json_object **ret)
{
        void *const *place = source;

        return *place ? t->item->format(t->item, *place, ret) : 0;
}

int pointer_copy(const Type *t, const void *source, void *target)
{
        void *const *from = source;
        void **to = target;

        if (!*from)
                return 0;
        *to = calloc(1, t->item->size);
        if (!*to)
                return -ENOMEM;
        return field_copy(t->item, *from, *to);
}

void pointer_done(const Type *t, void *target)
{
        void **place = target;

        if (*place && t->item->done)
                t->item->done(t->item, *place);
        free(*place);
        *place = NULL;
}
