/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The header blocks of SPDY/3.1: compressed, with a dictionary that both sides know, and one state per direction.
 *
 * Spec: SPDY Protocol, draft 3, 2.6.10. */

#include <endian.h>

#include "cri/streaming/streaming-internal.h"

#define HEADERS_SIZE_MAX 16384U /* of one frame, uncompressed */
#define HEADERS_MAX 64U

/* --- The dictionary for header blocks ------------------------------------------------------------------ */

/* Each with its length before it, and "_" for a space. */
static const char *const dictionary_words[] = {
                "options",
                "head",
                "post",
                "put",
                "delete",
                "trace",
                "accept",
                "accept-charset",
                "accept-encoding",
                "accept-language",
                "accept-ranges",
                "age",
                "allow",
                "authorization",
                "cache-control",
                "connection",
                "content-base",
                "content-encoding",
                "content-language",
                "content-length",
                "content-location",
                "content-md5",
                "content-range",
                "content-type",
                "date",
                "etag",
                "expect",
                "expires",
                "from",
                "host",
                "if-match",
                "if-modified-since",
                "if-none-match",
                "if-range",
                "if-unmodified-since",
                "last-modified",
                "location",
                "max-forwards",
                "pragma",
                "proxy-authenticate",
                "proxy-authorization",
                "range",
                "referer",
                "retry-after",
                "server",
                "te",
                "trailer",
                "transfer-encoding",
                "upgrade",
                "user-agent",
                "vary",
                "via",
                "warning",
                "www-authenticate",
                "method",
                "get",
                "status",
                "200 OK",
                "version",
                "HTTP/1.1",
                "url",
                "public",
                "set-cookie",
                "keep-alive",
                "origin",
};
static const char dictionary_text[] =
                "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
                "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 "
                "Unauthorized403 Forbidden"
                "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
                "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, "
                "Sun, GMT"
                "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/"
                "plain,text/javascript,"
                "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

size_t spdy_dictionary(uint8_t ret[static SPDY_DICTIONARY_SIZE])
{
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(dictionary_words); i++) {
                size_t length = strlen(dictionary_words[i]);
                uint32_t head = htobe32((uint32_t) length);
                if (n + sizeof(head) + length > SPDY_DICTIONARY_SIZE)
                        return 0;
                memcpy(ret + n, &head, sizeof(head));
                memcpy(ret + n + sizeof(head), dictionary_words[i], length);
                n += sizeof(head) + length;
        }
        if (n + sizeof(dictionary_text) - 1 > SPDY_DICTIONARY_SIZE)
                return 0;
        memcpy(ret + n, dictionary_text, sizeof(dictionary_text) - 1);
        return n + sizeof(dictionary_text) - 1;
}

int spdy_headers_init(SpdyHeaders *h)
{
        uint8_t dictionary[SPDY_DICTIONARY_SIZE];
        uInt n = (uInt) spdy_dictionary(dictionary);

        if (inflateInit(&h->inflate) != Z_OK)
                return -ENOMEM;
        h->can_inflate = true;
        if (deflateInit(&h->deflate, Z_DEFAULT_COMPRESSION) != Z_OK)
                return -ENOMEM;
        h->can_deflate = true;
        return deflateSetDictionary(&h->deflate, dictionary, n) == Z_OK ? 0 : -EIO;
}

void spdy_headers_done(SpdyHeaders *h)
{
        if (h->can_inflate)
                (void) inflateEnd(&h->inflate);
        if (h->can_deflate)
                (void) deflateEnd(&h->deflate);
}

/* The state goes on from block to block. Returns the size. */
static ssize_t inflate_block(SpdyHeaders *h, const uint8_t *data, size_t n, uint8_t *ret, size_t max)
{
        uint8_t dictionary[SPDY_DICTIONARY_SIZE];
        z_stream *z = &h->inflate;

        z->next_in = (Bytef *) data;
        z->avail_in = (uInt) n;
        z->next_out = ret;
        z->avail_out = (uInt) max;
        while (z->avail_in > 0) {
                int r = inflate(z, Z_SYNC_FLUSH);
                if (r == Z_NEED_DICT)
                        r = inflateSetDictionary(z, dictionary, (uInt) spdy_dictionary(dictionary));
                if (r != Z_OK || (z->avail_out == 0 && z->avail_in > 0))
                        return -EPROTO;
        }
        return (ssize_t) (max - z->avail_out);
}

ssize_t spdy_headers_empty(SpdyHeaders *h, uint8_t *ret, size_t max)
{
        static const uint8_t none[4] = {0};
        z_stream *z = &h->deflate;

        z->next_in = (Bytef *) none;
        z->avail_in = sizeof(none);
        z->next_out = ret;
        z->avail_out = (uInt) max;
        int r = deflate(z, Z_SYNC_FLUSH);
        return r == Z_OK && z->avail_in == 0 && z->avail_out > 0 ? (ssize_t) (max - z->avail_out) : -EIO;
}

/* --- Headers ------------------------------------------------------------------------------------------- */

/* A text with its length before it. */
static bool next_text(const uint8_t **p, size_t *left, const uint8_t **ret, size_t *ret_n)
{
        if (*left < 4)
                return false;
        uint32_t n = spdy_get32(*p);
        if (n > *left - 4)
                return false;
        *ret = *p + 4;
        *ret_n = n;
        *p += 4 + n;
        *left -= 4 + n;
        return true;
}

static bool equals(const uint8_t *data, size_t n, const char *word)
{
        return n == strlen(word) && strncasecmp((const char *) data, word, n) == 0;
}

static void copy_word(char *to, size_t size, const uint8_t *data, size_t n)
{
        if (n >= size || memchr(data, 0, n))
                n = 0;
        memcpy(to, data, n);
        to[n] = 0;
}

static uint16_t read_port(const uint8_t *data, size_t n)
{
        char text[8];
        uint32_t port;

        copy_word(text, sizeof(text), data, n);
        return parse_u32(text, &port) >= 0 && port <= UINT16_MAX ? (uint16_t) port : 0;
}

static int read_pairs(const uint8_t *p, size_t left, SpdyStreamHeaders *ret)
{
        const uint8_t *name, *value;
        size_t n_name, n_value;

        if (left < 4)
                return -EPROTO;
        uint32_t n = spdy_get32(p);
        p += 4;
        left -= 4;
        if (n > HEADERS_MAX)
                return -EPROTO;
        for (uint32_t i = 0; i < n; i++) {
                if (!next_text(&p, &left, &name, &n_name) || !next_text(&p, &left, &value, &n_value))
                        return -EPROTO;
                if (equals(name, n_name, "streamtype"))
                        copy_word(ret->type, sizeof(ret->type), value, n_value);
                else if (equals(name, n_name, "requestid"))
                        copy_word(ret->request, sizeof(ret->request), value, n_value);
                else if (equals(name, n_name, "port"))
                        ret->port = read_port(value, n_value);
        }
        return left == 0 ? 0 : -EPROTO;
}

int spdy_headers_read(SpdyHeaders *h, const uint8_t *data, size_t n, SpdyStreamHeaders *ret)
{
        uint8_t block[HEADERS_SIZE_MAX];
        ssize_t size = inflate_block(h, data, n, block, sizeof(block));

        *ret = (SpdyStreamHeaders){};
        return size < 0 ? (int) size : read_pairs(block, (size_t) size, ret);
}

int spdy_headers_skip(SpdyHeaders *h, const uint8_t *data, size_t n)
{
        uint8_t block[HEADERS_SIZE_MAX];

        return (int) MIN(inflate_block(h, data, n, block, sizeof(block)), (ssize_t) 0);
}
