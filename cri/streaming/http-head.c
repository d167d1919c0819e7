/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The head of an HTTP/1.1 request that asks for an upgrade of its connection. It has no body.
 *
 * Spec: RFC 9112; RFC 6455, 4.2. */

#include "cri/streaming/streaming-internal.h"

static bool is_token(const char *s, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (s[i] <= ' ' || s[i] > '~' || strchr("\"(),/:;<=>?@[\\]{}", s[i]))
                        return false;
        return n > 0;
}

/* The end of the head: the byte after the empty line. 0: it is not there yet. */
static size_t find_end(const char *data, size_t n)
{
        const char *end = memmem(data, n, "\r\n\r\n", 4);

        return end ? (size_t) (end - data) + 4 : 0;
}

static char *next_line(char **p)
{
        char *line = *p, *end = strstr(line, "\r\n");

        *end = 0;
        *p = end + 2;
        return line;
}

static int parse_request_line(char *line, HttpHead *h)
{
        char *path = strchr(line, ' ');
        char *version = path ? strchr(path + 1, ' ') : NULL;

        if (!version)
                return -EBADMSG;
        *path++ = 0;
        *version++ = 0;
        if (!is_token(line, strlen(line)) || *path != '/' || !streq(version, "HTTP/1.1"))
                return -EBADMSG;
        for (const char *p = path; *p; p++)
                if (*p <= ' ' || *p > '~')
                        return -EBADMSG;
        path[strcspn(path, "?#")] = 0;
        h->method = line;
        h->path = path;
        return 0;
}

static int parse_field(char *line, HttpHead *h)
{
        char *value = strchr(line, ':');

        if (!value || !is_token(line, (size_t) (value - line)) || h->n_fields >= HTTP_FIELDS_MAX)
                return -EBADMSG;
        *value++ = 0;
        value += strspn(value, " \t");
        for (size_t n = strlen(value); n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'); n--)
                value[n - 1] = 0;
        for (const char *p = value; *p; p++)
                if ((*p < ' ' && *p != '\t') || *p == 127)
                        return -EBADMSG;
        h->fields[h->n_fields++] = (HttpField){.name = line, .value = value};
        return 0;
}

ssize_t http_head_parse(char *data, size_t n, HttpHead *ret)
{
        size_t size = find_end(data, n);
        HttpHead h = {};
        char *p = data;

        if (size == 0)
                return n >= HTTP_HEAD_SIZE_MAX ? -EMSGSIZE : 0;
        if (size > HTTP_HEAD_SIZE_MAX)
                return -EMSGSIZE;
        if (memchr(data, 0, size))
                return -EBADMSG;
        data[size - 2] = 0; /* ends the last field's line */
        int r = parse_request_line(next_line(&p), &h);
        while (r >= 0 && *p)
                r = parse_field(next_line(&p), &h);
        if (r < 0)
                return r;
        *ret = h;
        return (ssize_t) size;
}

/* The I-th value of a field that may be repeated, or be a list. Lists are split at commas; *RET is not terminated. */
static bool next_item(const HttpHead *h, const char *name, size_t *field, const char **at, const char **ret,
                      size_t *ret_n)
{
        for (; *field < h->n_fields; (*field)++, *at = NULL) {
                const HttpField *f = &h->fields[*field];
                if (strcasecmp(f->name, name) != 0)
                        continue;
                const char *p = *at ?: f->value;
                p += strspn(p, ", \t");
                size_t n = strcspn(p, ",");
                *at = p + n;
                if (n == 0)
                        continue;
                while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
                        n--;
                *ret = p;
                *ret_n = n;
                return true;
        }
        return false;
}

bool http_head_lists(const HttpHead *h, const char *name, const char *item)
{
        const char *at = NULL, *word = NULL;
        size_t field = 0, n = 0;

        while (next_item(h, name, &field, &at, &word, &n))
                if (strlen(item) == n && strncasecmp(item, word, n) == 0)
                        return true;
        return false;
}

const char *http_head_value(const HttpHead *h, const char *name)
{
        const char *value = NULL;

        for (size_t i = 0; i < h->n_fields; i++)
                if (strcasecmp(h->fields[i].name, name) == 0) {
                        if (value)
                                return NULL;
                        value = h->fields[i].value;
                }
        return value;
}
