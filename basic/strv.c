/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists of strings: NULL-terminated arrays, as for execve(). A NULL pointer is the empty list. */

#include "basic/basic.h"

char **strv_free(char **l)
{
        STRV_FOREACH (s, l)
                free(*s);
        free(l);
        return NULL;
}

size_t strv_length(char *const *l)
{
        size_t n = 0;

        STRV_FOREACH (s, l)
                n++;
        return n;
}

bool strv_contains(char *const *l, const char *s)
{
        STRV_FOREACH (i, l)
                if (streq(*i, s))
                        return true;
        return false;
}

int strv_consume(char ***l, char *s)
{
        size_t n = strv_length(*l);

        if (!s)
                return -ENOMEM;
        char **p = reallocarray(*l, n + 2, sizeof(char *));
        if (!p) {
                free(s);
                return -ENOMEM;
        }
        p[n] = s;
        p[n + 1] = NULL;
        *l = p;
        return 0;
}

int strv_extend(char ***l, const char *s)
{
        return strv_consume(l, strdup(s));
}

int strv_extendf(char ***l, const char *format, ...)
{
        char *s;
        va_list ap;

        va_start(ap, format);
        int r = vasprintf(&s, format, ap);
        va_end(ap);
        return strv_consume(l, r < 0 ? NULL : s);
}

int strv_copy(char *const *l, char ***ret)
{
        _cleanup_strv_free_ char **copy = NULL;
        size_t n = strv_length(l);

        copy = calloc(n + 1, sizeof(char *));
        if (!copy)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                copy[i] = strdup(l[i]);
                if (!copy[i])
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(copy);
        return 0;
}

int strv_split(const char *s, const char *separators, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;

        for (const char *p = s + strspn(s, separators); *p; p += strspn(p, separators)) {
                size_t n = strcspn(p, separators);
                int r = strv_consume(&l, strndup(p, n));
                if (r < 0)
                        return r;
                p += n;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

int strv_split_fields(const char *s, char ***ret)
{
        _cleanup_strv_free_ char **fields = NULL;

        for (bool more = true; more;) {
                _cleanup_text_ Text field = {};
                char *text;

                for (; *s && *s != ','; s++) {
                        if (*s == '\\' && (s[1] == ',' || s[1] == '\\'))
                                s++;
                        text_add_bytes(&field, s, 1);
                }
                more = *s == ',';
                s += more;
                if (text_take(&field, &text, NULL) < 0 || strv_consume(&fields, text) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(fields);
        return 0;
}

char *strv_join(char *const *l, const char *separator)
{
        _cleanup_text_ Text t = {};
        char *joined;

        STRV_FOREACH (s, l) {
                if (s != l)
                        text_add(&t, separator);
                text_add(&t, *s);
        }
        return text_take(&t, &joined, NULL) < 0 ? NULL : joined;
}

static int compare(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

void strv_sort(char **l)
{
        if (l)
                qsort(l, strv_length(l), sizeof(char *), compare);
}
