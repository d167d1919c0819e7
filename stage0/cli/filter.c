/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters for lists of objects: a table of keys, each with a function that looks at one object. */

#include <fnmatch.h>

#include "stage0/cli/filter.h"

static int refuse_key(const Option *o, const char *value, const FilterKey *keys, size_t n, Error *e)
{
        _cleanup_free_ char *word = strndup(value, n), *shown = word ? text_escape_for_terminal(word) : NULL,
                            *known = NULL;
        _cleanup_strv_free_ char **names = NULL;

        for (const FilterKey *k = keys; k->key; k++)
                if (strv_extend(&names, k->key) < 0)
                        return error_oom(e);
        known = strv_join(names, ", ");
        if (!shown || !known)
                return error_oom(e);
        return option_invalid(o, value, e, "'%s' is none of %s", shown, known);
}

int option_filter(const Option *o, const char *value, void *target, Error *e)
{
        const char *equals = strchr(value, '=');
        _cleanup_error_ Error reason = ERROR_NULL;
        Filters *f = target;
        const FilterKey *k = f->keys;

        if (!equals || equals == value)
                return option_invalid(o, value, e, "must be KEY=VALUE");
        size_t n = (size_t) (equals - value);
        while (k->key && (strlen(k->key) != n || strncmp(k->key, value, n) != 0))
                k++;
        if (!k->key)
                return refuse_key(o, value, f->keys, n, e);
        if (!equals[1])
                return option_invalid(o, value, e, "the value must not be empty");
        if (k->check && k->check(equals + 1, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        if (f->n >= ELEMENTSOF(f->items))
                return option_invalid(o, value, e, "there are more than %u filters", FILTERS_MAX);
        f->items[f->n].key = k;
        f->items[f->n++].value = equals + 1;
        return 0;
}

static bool key_matches(const Filters *f, const FilterKey *k, const void *object)
{
        bool any = false, all = true, given = false;

        for (size_t i = 0; i < f->n; i++) {
                if (f->items[i].key != k)
                        continue;
                bool one = k->matches(object, f->items[i].value);
                given = true;
                any = any || one;
                all = all && one;
        }
        return !given || (k->all ? all : any);
}

bool filters_match(const Filters *f, const void *object)
{
        for (const FilterKey *k = f->keys; k && k->key; k++)
                if (!key_matches(f, k, object))
                        return false;
        return true;
}

bool filter_glob(const char *pattern, const char *s)
{
        return s && fnmatch(pattern, s, 0) == 0;
}

bool filter_glob_any(const char *pattern, char *const *l)
{
        STRV_FOREACH (s, l)
                if (filter_glob(pattern, *s))
                        return true;
        return false;
}

bool filter_pair(const char *pair, const PairList *l)
{
        size_t n = strcspn(pair, "=");

        for (size_t i = 0; i < l->n; i++)
                if (strlen(l->items[i].name) == n && strncmp(l->items[i].name, pair, n) == 0 &&
                    (!pair[n] || streq(l->items[i].value, pair + n + 1)))
                        return true;
        return false;
}
