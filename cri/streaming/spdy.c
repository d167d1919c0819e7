/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* SPDY/3.1, as far as clients of Kubernetes use it: the client opens each stream, and names it by the header "streamtype".
 * Neither side uses windows or priorities.
 *
 * Spec: SPDY Protocol, drafts 3 and 3.1. */

#include <endian.h>
#include <zlib.h>

#include "cri/streaming/streaming-internal.h"

#define STREAMS_MAX 16U
#define HEADERS_SIZE_MAX 16384U /* of one frame, uncompressed */
#define HEADERS_MAX 64U
#define FRAME_HEAD 8U
#define CHUNK_SIZE_MAX 65536U

enum {
        SYN_STREAM = 1,
        SYN_REPLY = 2,
        RST_STREAM = 3,
        SETTINGS = 4,
        PING = 6,
        GOAWAY = 7,
        HEADERS = 8,
        WINDOW_UPDATE = 9,
        CREDENTIAL = 10
};
enum { FLAG_FIN = 1 };
enum { STATUS_REFUSED = 3 };

typedef struct SpdyStream {
        uint32_t id;
        StreamChannel channel;
        bool ended; /* by the client */
        bool sent_end;
} SpdyStream;

typedef struct Spdy {
        Protocol protocol;
        z_stream inflate, deflate;
        bool can_inflate, can_deflate;
        SpdyStream streams[STREAMS_MAX];
        size_t n_streams;
        uint32_t last; /* stream of the client */
        bool closed;
} Spdy;

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

static int init_compression(Spdy *s)
{
        uint8_t dictionary[SPDY_DICTIONARY_SIZE];
        uInt n = (uInt) spdy_dictionary(dictionary);

        if (inflateInit(&s->inflate) != Z_OK)
                return -ENOMEM;
        s->can_inflate = true;
        if (deflateInit(&s->deflate, Z_DEFAULT_COMPRESSION) != Z_OK)
                return -ENOMEM;
        s->can_deflate = true;
        return deflateSetDictionary(&s->deflate, dictionary, n) == Z_OK ? 0 : -EIO;
}

/* The state goes on from block to block. Returns the size. */
static ssize_t inflate_block(Spdy *s, const uint8_t *data, size_t n, uint8_t *ret, size_t max)
{
        uint8_t dictionary[SPDY_DICTIONARY_SIZE];
        z_stream *z = &s->inflate;

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

/* A block without headers. */
static ssize_t deflate_empty_block(Spdy *s, uint8_t *ret, size_t max)
{
        static const uint8_t none[4] = {0};
        z_stream *z = &s->deflate;

        z->next_in = (Bytef *) none;
        z->avail_in = sizeof(none);
        z->next_out = ret;
        z->avail_out = (uInt) max;
        int r = deflate(z, Z_SYNC_FLUSH);
        return r == Z_OK && z->avail_in == 0 && z->avail_out > 0 ? (ssize_t) (max - z->avail_out) : -EIO;
}

/* --- Frames that are sent ------------------------------------------------------------------------------ */

static uint32_t get32(const uint8_t *p)
{
        return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

static void put32(uint8_t *p, uint32_t v)
{
        for (size_t i = 0; i < 4; i++)
                p[i] = (uint8_t) (v >> 8 * (3 - i));
}

static int add_control(Text *out, unsigned type, const void *data, size_t n)
{
        uint8_t head[FRAME_HEAD];

        put32(head, 0x80030000U | type);
        put32(head + 4, (uint32_t) n);
        text_add_bytes(out, head, sizeof(head));
        text_add_bytes(out, data, n);
        return out->failed ? -ENOMEM : 0;
}

static int add_data(Text *out, uint32_t id, unsigned flags, const uint8_t *data, size_t n)
{
        uint8_t head[FRAME_HEAD];

        put32(head, id);
        put32(head + 4, flags << 24 | (uint32_t) n);
        text_add_bytes(out, head, sizeof(head));
        text_add_bytes(out, data, n);
        return out->failed ? -ENOMEM : 0;
}

static SpdyStream *find_channel(Spdy *s, StreamChannel c)
{
        for (size_t i = 0; i < s->n_streams; i++)
                if (s->streams[i].channel == c)
                        return &s->streams[i];
        return NULL;
}

/* What is sent on a stream that the client has not opened is dropped. */
static int send_data(Protocol *p, StreamChannel c, const uint8_t *data, size_t n, Text *out)
{
        const SpdyStream *stream = find_channel((Spdy *) p, c);
        int r = 0;

        for (size_t at = 0; r >= 0 && stream && !stream->sent_end && at < n;) {
                size_t chunk = MIN(n - at, (size_t) CHUNK_SIZE_MAX);
                r = add_data(out, stream->id, 0, data + at, chunk);
                at += chunk;
        }
        return r;
}

static int send_end(Protocol *p, StreamChannel c, Text *out)
{
        SpdyStream *stream = find_channel((Spdy *) p, c);

        if (!stream || stream->sent_end)
                return 0;
        stream->sent_end = true;
        return add_data(out, stream->id, FLAG_FIN, NULL, 0);
}

static int send_close(Protocol *p, Text *out)
{
        Spdy *s = (Spdy *) p;
        uint8_t goaway[8] = {0};
        int r = 0;

        if (s->closed)
                return 0;
        for (size_t i = 0; r >= 0 && i < s->n_streams; i++)
                r = send_end(p, s->streams[i].channel, out);
        s->closed = true;
        put32(goaway, s->last);
        return r < 0 ? r : add_control(out, GOAWAY, goaway, sizeof(goaway));
}

static int refuse_stream(Text *out, uint32_t id)
{
        uint8_t data[8];

        put32(data, id);
        put32(data + 4, STATUS_REFUSED);
        return add_control(out, RST_STREAM, data, sizeof(data));
}

/* --- Headers ------------------------------------------------------------------------------------------- */

/* A text with its length before it. */
static bool next_text(const uint8_t **p, size_t *left, const uint8_t **ret, size_t *ret_n)
{
        if (*left < 4)
                return false;
        uint32_t n = get32(*p);
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

static StreamChannel find_type(const uint8_t *name, size_t n)
{
        static const char *const types[_STREAM_CHANNEL_MAX] = {
                        [STREAM_STDIN] = "stdin", [STREAM_STDOUT] = "stdout", [STREAM_STDERR] = "stderr",
                        [STREAM_ERROR] = "error", [STREAM_RESIZE] = "resize",
        };
        StreamChannel c = 0;

        while (c < _STREAM_CHANNEL_MAX && !equals(name, n, types[c]))
                c++;
        return c;
}

/* _STREAM_CHANNEL_MAX: the stream has no type that is known. */
static int read_headers(const uint8_t *p, size_t left, StreamChannel *ret)
{
        const uint8_t *name, *value;
        size_t n_name, n_value;

        *ret = _STREAM_CHANNEL_MAX;
        if (left < 4)
                return -EPROTO;
        uint32_t n = get32(p);
        p += 4;
        left -= 4;
        if (n > HEADERS_MAX)
                return -EPROTO;
        for (uint32_t i = 0; i < n; i++) {
                if (!next_text(&p, &left, &name, &n_name) || !next_text(&p, &left, &value, &n_value))
                        return -EPROTO;
                if (equals(name, n_name, "streamtype"))
                        *ret = find_type(value, n_value);
        }
        return left == 0 ? 0 : -EPROTO;
}

/* --- Frames of the client ------------------------------------------------------------------------------ */

static int reply_to_stream(Spdy *s, uint32_t id, Text *out)
{
        uint8_t data[4 + 64];

        put32(data, id);
        ssize_t n = deflate_empty_block(s, data + 4, sizeof(data) - 4);
        return n < 0 ? (int) n : add_control(out, SYN_REPLY, data, 4 + (size_t) n);
}

/* IDs of the client are odd, and grow. */
static int open_stream(Spdy *s, unsigned flags, const uint8_t *data, size_t n, const ProtocolEvents *events,
                       Text *out)
{
        uint8_t block[HEADERS_SIZE_MAX];
        StreamChannel c = _STREAM_CHANNEL_MAX;

        if (n < 10)
                return -EPROTO;
        uint32_t id = get32(data) & INT32_MAX;
        if (id % 2 == 0 || id <= s->last)
                return -EPROTO;
        s->last = id;
        ssize_t size = inflate_block(s, data + 10, n - 10, block, sizeof(block));
        int r = size < 0 ? (int) size : read_headers(block, (size_t) size, &c);
        if (r < 0)
                return r;
        if (c == _STREAM_CHANNEL_MAX || s->n_streams >= STREAMS_MAX || find_channel(s, c))
                return refuse_stream(out, id);
        s->streams[s->n_streams++] = (SpdyStream){.id = id, .channel = c, .ended = flags & FLAG_FIN};
        r = reply_to_stream(s, id, out);
        if (r >= 0)
                r = events->opened(events->userdata, c);
        return r >= 0 && (flags & FLAG_FIN) ? events->ended(events->userdata, c) : r;
}

static SpdyStream *find_stream(Spdy *s, uint32_t id)
{
        for (size_t i = 0; i < s->n_streams; i++)
                if (s->streams[i].id == id)
                        return &s->streams[i];
        return NULL;
}

static int end_stream(SpdyStream *stream, const ProtocolEvents *events)
{
        if (!stream || stream->ended)
                return 0;
        stream->ended = true;
        return events->ended(events->userdata, stream->channel);
}

/* Blocks that are not used have to be read all the same, for the state of the compression. */
static int skip_headers(Spdy *s, const uint8_t *data, size_t n)
{
        uint8_t block[HEADERS_SIZE_MAX];

        return n < 4 ? -EPROTO
                     : (int) MIN(inflate_block(s, data + 4, n - 4, block, sizeof(block)), (ssize_t) 0);
}

static int take_control(Spdy *s, unsigned type, unsigned flags, const uint8_t *data, size_t n,
                        const ProtocolEvents *events, Text *out)
{
        switch (type) {
        case SYN_STREAM:
                return open_stream(s, flags, data, n, events, out);
        case SYN_REPLY:
        case HEADERS:
                return skip_headers(s, data, n);
        case RST_STREAM:
                return n < 8 ? -EPROTO : end_stream(find_stream(s, get32(data) & INT32_MAX), events);
        case PING:
                return n != 4 ? -EPROTO
                       : get32(data) % 2 == 1
                                       ? add_control(out, PING, data, n) /* of the client, to be sent back */
                                       : 0;
        case GOAWAY:
                return 0; /* no more streams, which there are not any more anyway */
        case SETTINGS:
        case WINDOW_UPDATE:
        case CREDENTIAL:
                return 0;
        default:
                return -EPROTO;
        }
}

static int take_data(Spdy *s, uint32_t id, unsigned flags, const uint8_t *data, size_t n,
                     const ProtocolEvents *events)
{
        SpdyStream *stream = find_stream(s, id);

        if (!stream || stream->ended) /* one that was refused */
                return 0;
        int r = n > 0 ? events->data(events->userdata, stream->channel, data, n) : 0;
        return r >= 0 && (flags & FLAG_FIN) ? end_stream(stream, events) : r;
}

static int take_frame(Spdy *s, const uint8_t *head, const uint8_t *data, size_t n,
                      const ProtocolEvents *events, Text *out)
{
        uint32_t first = get32(head);

        if (!(first & 0x80000000U))
                return take_data(s, first, head[4], data, n, events);
        if ((first >> 16 & 0x7fff) != 3)
                return -EPROTO;
        return take_control(s, first & 0xffff, head[4], data, n, events, out);
}

static ssize_t take(Protocol *p, const uint8_t *data, size_t n, const ProtocolEvents *events, Text *out)
{
        size_t at = 0;

        while (n - at >= FRAME_HEAD) {
                size_t size = get32(data + at + 4) & 0xffffff;

                if (size > FRAME_SIZE_MAX)
                        return -EPROTO;
                if (n - at - FRAME_HEAD < size)
                        break;
                int r = take_frame((Spdy *) p, data + at, data + at + FRAME_HEAD, size, events, out);
                if (r < 0)
                        return r;
                at += FRAME_HEAD + size;
        }
        return (ssize_t) at;
}

static void spdy_done(Protocol *p)
{
        Spdy *s = (Spdy *) p;

        if (s->can_inflate)
                (void) inflateEnd(&s->inflate);
        if (s->can_deflate)
                (void) deflateEnd(&s->deflate);
}

static const ProtocolOps spdy_ops = {
                .take = take,
                .send = send_data,
                .end = send_end,
                .close = send_close,
                .done = spdy_done,
};

/* --- The handshake ------------------------------------------------------------------------------------- */

bool spdy_is_asked_for(const HttpHead *h)
{
        return http_head_lists(h, "Upgrade", "SPDY/3.1") && http_head_lists(h, "Connection", "Upgrade");
}

/* The best of those that the client offers; the first version has no number, and is that of clients which offer none. */
static int choose_version(const HttpHead *h, char name[static 32], unsigned *ret)
{
        static const char field[] = "X-Stream-Protocol-Version";

        for (unsigned v = 4; v >= 1; v--) {
                if (v > 1)
                        snprintf(name, 32, "v%u.channel.k8s.io", v);
                else
                        snprintf(name, 32, "channel.k8s.io");
                *ret = v;
                if (http_head_lists(h, field, name))
                        return 0;
        }
        for (size_t i = 0; i < h->n_fields; i++)
                if (strcasecmp(h->fields[i].name, field) == 0)
                        return -EPROTONOSUPPORT;
        *name = 0;
        return 0;
}

int spdy_accept(const HttpHead *h, Protocol **ret, Text *out)
{
        unsigned version = 0;
        char name[32];

        if (!streq(h->method, "POST") && !streq(h->method, "GET"))
                return -EBADMSG;
        int r = choose_version(h, name, &version);
        if (r < 0)
                return r;
        Spdy *s = calloc(1, sizeof(Spdy));
        if (!s)
                return -ENOMEM;
        s->protocol = (Protocol){.ops = &spdy_ops, .version = version};
        r = init_compression(s);
        if (r < 0) {
                protocol_free(&s->protocol);
                return r;
        }
        text_add(out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n");
        if (*name)
                text_addf(out, "X-Stream-Protocol-Version: %s\r\n", name);
        text_add(out, "\r\n");
        *ret = &s->protocol;
        return 0;
}
