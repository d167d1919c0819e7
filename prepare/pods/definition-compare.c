/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* In what two requests for a pod differ: they are compared member by member in the form that a definition has. */

#include "prepare/pods/reify-internal.h"

/* What separate apps have by themselves, what is no part of the pod that comes out, and isolators, see below. */
static const char *const ignored[] = {"environment", "mounts",    "credentials",
                                      "images",      "isolators", "verify"};
/* Lists of items with a name, whose order says nothing. */
static const char *const named[] = {"annotations", "userAnnotations", "userLabels", "volumes"};

static bool is_one_of(const char *const *l, size_t n, const char *key)
{
        for (size_t i = 0; i < n; i++)
                if (streq(l[i], key))
                        return true;
        return false;
}

static const char *name_of(json_object *item)
{
        return json_object_get_string(json_object_object_get(item, "name"));
}

static json_object *find_item(json_object *list, const char *name)
{
        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                json_object *item = json_object_array_get_idx(list, i);
                if (streq_ptr(name_of(item), name))
                        return item;
        }
        return NULL;
}

/* The items of A that B has otherwise, or (MISSING) does not have. */
static int compare_items(const char *key, json_object *a, json_object *b, bool missing, char ***keys)
{
        for (size_t i = 0; a && i < json_object_array_length(a); i++) {
                json_object *item = json_object_array_get_idx(a, i), *other = find_item(b, name_of(item));
                int r = missing ? other == NULL : other && !json_object_equal(item, other);
                if (r != 0 && strv_extendf(keys, "%s/%s", key, name_of(item)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int compare_member(const char *key, json_object *a, json_object *b, char ***keys)
{
        if (!is_one_of(named, ELEMENTSOF(named), key))
                return json_object_equal(a, b) ? 0 : strv_extend(keys, key);
        int r = compare_items(key, a, b, false, keys);
        if (streq(key,
                  "volumes")) /* one that is new, or not needed any more, is the matter of the apps that mount it */
                return r;
        if (r >= 0)
                r = compare_items(key, a, b, true, keys);
        return r < 0 ? r : compare_items(key, b, a, true, keys);
}

/* --- Isolators ----------------------------------------------------------------------------------------- */

/* The same amount can be written in several ways. */
static bool same_isolator(const Isolator *a, const Isolator *b)
{
        if (json_object_equal(a->value, b->value))
                return true;
        if (!a->has_limit && !a->has_request)
                return a->type == ISOLATOR_CPU_SHARES && a->number == b->number;
        return a->has_limit == b->has_limit && a->has_request == b->has_request &&
               (!a->has_limit || a->limit == b->limit) && (!a->has_request || a->request == b->request);
}

static const Isolator *find_isolator(const IsolatorList *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name))
                        return &l->items[i];
        return NULL;
}

static int compare_isolators(const IsolatorList *a, const IsolatorList *b, bool missing, char ***keys)
{
        for (size_t i = 0; i < a->n; i++) {
                const Isolator *other = find_isolator(b, a->items[i].name);
                bool differs = missing ? !other : other && !same_isolator(&a->items[i], other);
                if (differs && strv_extendf(keys, "isolators/%s", a->items[i].name) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* --- Members ------------------------------------------------------------------------------------------- */

typedef struct Side {
        json_object *members;
        const IsolatorList *isolators;
} Side;

/* Members that A has and, once more, those that only B has. */
static int compare(const Side *a, const Side *b, bool (*counts)(const char *key), char ***ret)
{
        _cleanup_strv_free_ char **keys = NULL;

        int r = compare_isolators(a->isolators, b->isolators, false, &keys);
        if (r >= 0)
                r = compare_isolators(a->isolators, b->isolators, true, &keys);
        if (r >= 0)
                r = compare_isolators(b->isolators, a->isolators, true, &keys);
        json_object_object_foreach (a->members, key, value) {
                if (r >= 0 && counts(key))
                        r = compare_member(key, value, json_object_object_get(b->members, key), &keys);
        }
        json_object_object_foreach (b->members, other, its_value) {
                if (r >= 0 && counts(other) && !json_object_object_get_ex(a->members, other, NULL))
                        r = compare_member(other, NULL, its_value, &keys);
        }
        if (r < 0)
                return r;
        strv_sort(keys);
        *ret = TAKE_PTR(keys);
        return 0;
}

static bool counts_for_pod(const char *key)
{
        return !is_one_of(ignored, ELEMENTSOF(ignored), key);
}

static bool counts_for_app(const char *key)
{
        return !streq(key, "image") && !streq(key, "name") && !streq(key, "separate") &&
               !streq(key, "isolators");
}

int pod_request_compare(const PodRequest *a, const PodRequest *b, char ***ret)
{
        _cleanup_json_ json_object *x = NULL, *y = NULL;

        if (pod_request_members(a, &x) < 0 || pod_request_members(b, &y) < 0)
                return -ENOMEM;
        return compare(&(Side){x, &a->isolators}, &(Side){y, &b->isolators}, counts_for_pod, ret);
}

int app_overrides_compare(const AppOverrides *a, const AppOverrides *b, char ***ret)
{
        _cleanup_json_ json_object *x = NULL, *y = NULL;

        if (app_overrides_members(a, &x) < 0 || app_overrides_members(b, &y) < 0)
                return -ENOMEM;
        return compare(&(Side){x, &a->isolators}, &(Side){y, &b->isolators}, counts_for_app, ret);
}
