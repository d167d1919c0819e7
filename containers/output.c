/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The output of an app as Mesos sends it: records of JSON, each behind its length in decimal and a line feed (RecordIO), with the
 * bytes in base64. */

#include "containers/containers.h"

static char *encode(const unsigned char *p, size_t n)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char *text = malloc((n + 2) / 3 * 4 + 1), *at = text;

        if (!text)
                return NULL;
        for (size_t i = 0; i < n; i += 3) {
                size_t left = n - i;
                unsigned long v = (unsigned long) p[i] << 16 |
                                  (left > 1 ? (unsigned long) p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
                *at++ = digits[v >> 18 & 63];
                *at++ = digits[v >> 12 & 63];
                *at++ = left > 1 ? digits[v >> 6 & 63] : '=';
                *at++ = left > 2 ? digits[v & 63] : '=';
        }
        *at = 0;
        return text;
}

char *output_record(bool error, const void *p, size_t n)
{
        _cleanup_free_ char *data = encode(p, n), *text = NULL;
        char *record = NULL;

        if (!data || xasprintf(&text, "{\"type\":\"DATA\",\"data\":{\"type\":\"%s\",\"data\":\"%s\"}}",
                               error ? "STDERR" : "STDOUT", data) < 0)
                return NULL;
        return xasprintf(&record, "%zu\n%s", strlen(text), text) < 0 ? NULL : record;
}
