/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Findings: the errors of a document, with their position.
 *
 * A parser walks the document and keeps the path of the current position; errors are recorded with that
 * path, and parsing continues, so that the user sees all of them at once. The number of findings is limited:
 * a document with a million errors must not cause a million messages. Values that are quoted in messages are
 * escaped, because messages are shown on terminals, and truncated, because they may be megabytes long.
 */

#include "schema/schema-internal.h"

#define FINDINGS_MAX 256U
#define QUOTED_MAX 80U

static void free_items(Finding *items, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                free(items[i].path);
                free(items[i].message);
        }
        free(items);
}

void findings_done(Findings *f)
{
        free_items(f->items, f->n);
        free_items(f->warnings, f->n_warnings);
        *f = (Findings){};
}

static int finding_fill(Finding *i, const char *path, const char *message)
{
        *i = (Finding){.path = strdup(path), .message = strdup(message)};
        if (i->path && i->message)
                return 0;
        free(i->path);
        free(i->message);
        return -ENOMEM;
}

int findings_add(Findings *f, const char *path, const char *message)
{
        if (f->n > FINDINGS_MAX)
                return 0;
        if (f->n == FINDINGS_MAX) {
                path = "";
                message = "there are more errors, which are not listed";
        }
        if (GREEDY_REALLOC(f->items, f->allocated, f->n + 1) < 0 ||
            finding_fill(f->items + f->n, path, message) < 0)
                return -ENOMEM;
        f->n++;
        return 0;
}

/* Beyond the limit warnings are dropped silently: they have no consequences. */
int findings_add_warning(Findings *f, const char *path, const char *message)
{
        if (f->n_warnings >= FINDINGS_MAX)
                return 0;
        if (GREEDY_REALLOC(f->warnings, f->warnings_allocated, f->n_warnings + 1) < 0 ||
            finding_fill(f->warnings + f->n_warnings, path, message) < 0)
                return -ENOMEM;
        f->n_warnings++;
        return 0;
}

char *quote_value(const char *s)
{
        _cleanup_free_ char *cut = NULL, *escaped = NULL;
        char *quoted;
        size_t n = strnlen(s, QUOTED_MAX + 1);
        bool is_long = n > QUOTED_MAX;

        /* Truncated between characters, not within one. */
        for (n = MIN(n, (size_t) QUOTED_MAX); is_long && n > 0 && ((unsigned char) s[n] & 0xc0) == 0x80; n--)
                ;
        cut = strndup(s, n);
        if (!cut)
                return NULL;
        escaped = text_escape_for_terminal(cut);
        if (!escaped || xasprintf(&quoted, "\"%s%s\"", escaped, is_long ? "..." : "") < 0)
                return NULL;
        return quoted;
}

int error_value(Error *e, const char *value, const char *why)
{
        _cleanup_free_ char *quoted = NULL;

        if (!e)
                return -EINVAL;
        quoted = quote_value(value);
        if (!quoted)
                return error_oom(e);
        return error_set(e, -EINVAL, "%s %s", quoted, why);
}

void parser_done(Parser *p)
{
        text_done(&p->path);
}

/* Keys that would be ambiguous within a path are quoted: names of sysctls, for example, contain dots. */
static bool key_is_plain(const char *key)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

        return *key && !key[strspn(key, plain)];
}

size_t parser_enter_key(Parser *p, const char *key)
{
        _cleanup_free_ char *quoted = NULL;
        size_t mark = p->path.size;

        if (key_is_plain(key) && strlen(key) <= QUOTED_MAX) {
                text_addf(&p->path, "%s%s", mark > 0 ? "." : "", key);
                return mark;
        }
        quoted = quote_value(key);
        if (!quoted)
                p->oom = true;
        else
                text_addf(&p->path, "[%s]", quoted);
        return mark;
}

size_t parser_enter_index(Parser *p, size_t i)
{
        size_t mark = p->path.size;

        text_addf(&p->path, "[%zu]", i);
        return mark;
}

void parser_leave(Parser *p, size_t mark)
{
        if (p->path.failed)
                p->oom = true;
        else if (p->path.data) {
                p->path.size = mark;
                p->path.data[mark] = 0;
        }
}

void parser_finding(Parser *p, const char *format, ...)
{
        _cleanup_free_ char *s = NULL;
        va_list ap;

        va_start(ap, format);
        (void) xvasprintf(&s, format, ap);
        va_end(ap);
        if (!s || findings_add(p->findings, p->path.data ?: "", s) < 0)
                p->oom = true;
}

void parser_finding_at(Parser *p, const char *key, const char *message)
{
        size_t mark = parser_enter_key(p, key);

        parser_finding(p, "%s", message);
        parser_leave(p, mark);
}

void parser_warning(Parser *p, const char *message)
{
        if (findings_add_warning(p->findings, p->path.data ?: "", message) < 0)
                p->oom = true;
}

void parser_unknown_key(Parser *p, const char *key)
{
        if (p->extensible)
                return;
        size_t mark = parser_enter_key(p, key);

        parser_warning(p, "is not in the specification, and is ignored");
        parser_leave(p, mark);
}

void parser_finding_error(Parser *p, Error *e)
{
        if (e->code == -ENOMEM || !e->message)
                p->oom = true;
        else
                parser_finding(p, "%s", e->message);
        error_done(e);
}

void parser_wrong_type(Parser *p, const char *expected, json_object *v)
{
        static const char *const names[] = {
                        [json_type_null] = "null",         [json_type_boolean] = "a boolean",
                        [json_type_double] = "a fraction", [json_type_int] = "a number",
                        [json_type_object] = "an object",  [json_type_array] = "a list",
                        [json_type_string] = "a string",
        };

        parser_finding(p, "must be %s, not %s", expected, names[json_object_get_type(v)]);
}

/* Sorted, because a quadratic search would take very long for a document with four megabytes of labels. */
typedef struct Named {
        const char *name;
        size_t index;
} Named;

static int compare_named(const void *a, const void *b)
{
        const Named *x = a, *y = b;
        int c = strcmp(x->name, y->name);

        return c ?: (x->index > y->index) - (x->index < y->index);
}

void parser_check_unique(Parser *p, const void *items, size_t n, size_t item_size)
{
        _cleanup_free_ Named *sorted = NULL;
        size_t k = 0;

        if (n < 2)
                return;
        sorted = calloc(n, sizeof(Named));
        if (!sorted) {
                p->oom = true;
                return;
        }
        for (size_t i = 0; i < n; i++) {
                const char *name = *(char *const *) ((const char *) items + i * item_size);
                if (name) /* NULL: not valid, which has already been reported */
                        sorted[k++] = (Named){name, i};
        }
        qsort(sorted, k, sizeof(Named), compare_named);
        for (size_t i = 1; i < k; i++) {
                _cleanup_free_ char *quoted = NULL;

                if (!streq(sorted[i].name, sorted[i - 1].name))
                        continue;
                size_t mark = parser_enter_index(p, sorted[i].index);
                (void) parser_enter_key(p, "name");
                quoted = quote_value(sorted[i].name);
                parser_finding(p, "%s appears twice; names must be unique", quoted ?: "this");
                parser_leave(p, mark);
        }
}

int parser_conclude(Parser *p, const char *what, size_t first, Error *e)
{
        const Findings *f = p->findings;

        if (p->oom || p->path.failed)
                return error_oom(e);
        if (f->n <= first)
                return 0;
        const Finding *i = f->items + first;
        const char *separator = i->path[0] ? ": " : "";
        if (f->n - first == 1)
                return error_set(e, -EINVAL, "Invalid %s: %s%s%s", what, i->path, separator, i->message);
        return error_set(e, -EINVAL, "Invalid %s: %s%s%s (and %zu more)", what, i->path, separator,
                         i->message, f->n - first - 1);
}
