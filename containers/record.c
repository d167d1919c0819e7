/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What Mesos streams: records, each behind its length in decimal and a line feed (RecordIO), with bytes in base64. The output of an
 * app is written so; its input comes so, in pieces of any size, and records are bounded. */

#include "containers/containers.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char *encode(const unsigned char *p, size_t n)
{
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

/* Four digits. -1: they are not valid. */
static int decode_group(const char *s, bool last, unsigned char ret[static 3])
{
        int n = s[3] != '=' ? 3 : s[2] != '=' ? 2 : 1;
        unsigned long v = 0;

        if (n < 3 && !last)
                return -1;
        for (int i = 0; i < 4; i++) {
                const char *d = i <= n && s[i] ? strchr(digits, s[i]) : NULL;
                if (i <= n && !d)
                        return -1;
                v = v << 6 | (d ? (unsigned long) (d - digits) : 0);
        }
        for (int i = 0; i < 3; i++)
                ret[i] = (unsigned char) (v >> (16 - 8 * i));
        /* Bits that are no byte have to be 0, so that each text is that of other bytes. */
        return n < 3 && ret[n] != 0 ? -1 : n;
}

int base64_decode(const char *s, size_t n, unsigned char **ret, size_t *ret_size)
{
        _cleanup_free_ unsigned char *data = malloc(n / 4 * 3 + 1);
        size_t size = 0;

        if (!data)
                return -ENOMEM;
        if (n % 4 != 0)
                return -EINVAL;
        for (size_t i = 0; i < n; i += 4) {
                unsigned char bytes[3];
                int k = decode_group(s + i, i + 4 == n, bytes);
                if (k < 0)
                        return -EINVAL;
                memcpy(data + size, bytes, (size_t) k);
                size += (size_t) k;
        }
        *ret = TAKE_PTR(data);
        *ret_size = size;
        return 0;
}

/* --- Records that come in pieces ----------------------------------------------------------------------- */

void record_reader_done(RecordReader *r)
{
        free(r->text);
        *r = (RecordReader){};
}

/* One byte of the length. 1: it was the last. */
static int take_length(RecordReader *r, char c)
{
        if (c == '\n')
                return r->n_digits > 0 && r->size > 0 ? 1 : -EBADMSG;
        if (c < '0' || c > '9' || r->n_digits++ >= RECORD_DIGITS_MAX)
                return -EBADMSG;
        r->size = r->size * 10 + (size_t) (c - '0');
        return r->size > CONTROL_BODY_MAX ? -EMSGSIZE : 0;
}

int record_reader_take(RecordReader *r, const char *data, size_t n, size_t *ret_taken)
{
        size_t at = 0;

        if (r->text && r->filled == r->size) /* that one was used */
                record_reader_done(r);
        while (!r->text && at < n) {
                int k = take_length(r, data[at++]);
                if (k < 0)
                        return k;
                if (k > 0 && !(r->text = malloc(r->size)))
                        return -ENOMEM;
        }
        size_t part = r->text ? MIN(n - at, r->size - r->filled) : 0;
        if (part > 0)
                memcpy(r->text + r->filled, data + at, part);
        r->filled += part;
        *ret_taken = at + part;
        return r->text && r->filled == r->size;
}

bool record_reader_is_within(const RecordReader *r)
{
        return r->n_digits > 0 && !(r->text && r->filled == r->size);
}
