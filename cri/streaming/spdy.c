/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* SPDY/3.1, as far as clients of Kubernetes use it: the client opens each stream, and names it by the header "streamtype".
 * Neither side uses windows or priorities.
 *
 * Streams that forward ports come in pairs, of data and of errors, which have the header "requestid" in common; a pair is used
 * again when both of its streams have ended in both directions.
 *
 * Spec: SPDY Protocol, drafts 3 and 3.1. */

#include "cri/streaming/streaming-internal.h"

#define STREAMS_MAX 16U /* unless ports are forwarded */
#define FRAME_HEAD 8U
#define VERSION_FIELD "X-Stream-Protocol-Version"
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
        unsigned channel;
        bool ended; /* by the client */
        bool sent_end;
} SpdyStream;

/* Streams that have a request in common. */
typedef struct Pair {
        char request[SPDY_REQUEST_SIZE]; /* empty: the pair is free */
        uint16_t port;
} Pair;

typedef struct Spdy {
        Protocol protocol;
        SpdyHeaders headers;
        SpdyStream streams[2 * FORWARDS_MAX];
        Pair pairs[FORWARDS_MAX]; /* of the channels 2n and 2n + 1 */
        size_t n_streams;
        uint32_t last; /* stream of the client */
        bool closed;
} Spdy;

/* --- Frames that are sent ------------------------------------------------------------------------------ */

uint32_t spdy_get32(const uint8_t *p)
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

static SpdyStream *find_channel(Spdy *s, unsigned c)
{
        for (size_t i = 0; i < s->n_streams; i++)
                if (s->streams[i].channel == c)
                        return &s->streams[i];
        return NULL;
}

/* What is sent on a stream that the client has not opened is dropped. */
static int send_data(Protocol *p, unsigned c, const uint8_t *data, size_t n, Text *out)
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

/* Forgets a stream that forwards a port, if it has ended in both directions; and its pair with the second one. */
static void release_stream(Spdy *s, SpdyStream *stream)
{
        unsigned c = stream->channel;

        if (!s->protocol.forwards || !stream->ended || !stream->sent_end)
                return;
        *stream = s->streams[--s->n_streams];
        if (!find_channel(s, c ^ 1))
                s->pairs[c / 2] = (Pair){};
}

static int send_end(Protocol *p, unsigned c, Text *out)
{
        SpdyStream *stream = find_channel((Spdy *) p, c);

        if (!stream || stream->sent_end)
                return 0;
        stream->sent_end = true;
        int r = add_data(out, stream->id, FLAG_FIN, NULL, 0);
        release_stream((Spdy *) p, stream);
        return r;
}

static int send_close(Protocol *p, Text *out)
{
        Spdy *s = (Spdy *) p;
        uint8_t goaway[8] = {0};
        int r = 0;

        if (s->closed)
                return 0;
        for (size_t i = s->n_streams; r >= 0 && i-- > 0;)
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

/* --- Frames of the client ------------------------------------------------------------------------------ */

static int reply_to_stream(Spdy *s, uint32_t id, Text *out)
{
        uint8_t data[4 + 64];

        put32(data, id);
        ssize_t n = spdy_headers_empty(&s->headers, data + 4, sizeof(data) - 4);
        return n < 0 ? (int) n : add_control(out, SYN_REPLY, data, 4 + (size_t) n);
}

/* The pair of the request of a stream, or a free one. FORWARDS_MAX: there is none, or it is for another port. */
static unsigned find_pair(Spdy *s, const SpdyStreamHeaders *h)
{
        unsigned found = FORWARDS_MAX;

        for (unsigned i = FORWARDS_MAX; i-- > 0;)
                if (streq(s->pairs[i].request, h->request))
                        return s->pairs[i].port == h->port ? i : FORWARDS_MAX;
                else if (!*s->pairs[i].request)
                        found = i;
        if (found < FORWARDS_MAX) {
                memcpy(s->pairs[found].request, h->request, sizeof(h->request));
                s->pairs[found].port = h->port;
        }
        return found;
}

/* Clients that give requests no IDs open the stream of data right after that of errors. */
static bool find_forward(Spdy *s, uint32_t id, SpdyStreamHeaders *h, unsigned *ret)
{
        bool data = strcasecmp(h->type, "data") == 0;

        if (h->port == 0 || (!data && strcasecmp(h->type, "error") != 0))
                return false;
        if (!*h->request)
                snprintf(h->request, sizeof(h->request), "of %u", data ? id - 2 : id);
        unsigned pair = find_pair(s, h);
        *ret = 2 * pair + (data ? FORWARD_DATA : FORWARD_ERROR);
        return pair < FORWARDS_MAX;
}

static bool find_type(const char *type, unsigned *ret)
{
        static const char *const types[_STREAM_CHANNEL_MAX] = {
                        [STREAM_STDIN] = "stdin", [STREAM_STDOUT] = "stdout", [STREAM_STDERR] = "stderr",
                        [STREAM_ERROR] = "error", [STREAM_RESIZE] = "resize",
        };
        unsigned c = 0;

        while (c < _STREAM_CHANNEL_MAX && strcasecmp(type, types[c]) != 0)
                c++;
        *ret = c;
        return c < _STREAM_CHANNEL_MAX;
}

static int end_stream(Spdy *s, SpdyStream *stream, const ProtocolEvents *events)
{
        if (!stream || stream->ended)
                return 0;
        unsigned c = stream->channel;
        stream->ended = true;
        release_stream(s, stream);
        return events->ended(events->userdata, c);
}

/* The client takes nothing more on it, either. */
static int reset_stream(Spdy *s, SpdyStream *stream, const ProtocolEvents *events)
{
        if (!stream || !events->reset)
                return end_stream(s, stream, events);
        unsigned c = stream->channel;
        stream->ended = stream->sent_end = true;
        release_stream(s, stream);
        return events->reset(events->userdata, c);
}

static SpdyStream *find_stream(Spdy *s, uint32_t id)
{
        for (size_t i = 0; i < s->n_streams; i++)
                if (s->streams[i].id == id)
                        return &s->streams[i];
        return NULL;
}

/* IDs of the client are odd, and grow. */
static int open_stream(Spdy *s, unsigned flags, const uint8_t *data, size_t n, const ProtocolEvents *events,
                       Text *out)
{
        const size_t max = s->protocol.forwards ? ELEMENTSOF(s->streams) : STREAMS_MAX;
        SpdyStreamHeaders h;
        unsigned c = 0;

        if (n < 10)
                return -EPROTO;
        uint32_t id = spdy_get32(data) & INT32_MAX;
        if (id % 2 == 0 || id <= s->last)
                return -EPROTO;
        s->last = id;
        int r = spdy_headers_read(&s->headers, data + 10, n - 10, &h);
        if (r < 0)
                return r;
        if (s->n_streams >= max ||
            !(s->protocol.forwards ? find_forward(s, id, &h, &c) : find_type(h.type, &c)) ||
            find_channel(s, c))
                return refuse_stream(out, id);
        s->streams[s->n_streams++] = (SpdyStream){.id = id, .channel = c};
        r = reply_to_stream(s, id, out);
        if (r >= 0)
                r = events->opened(events->userdata, c, s->protocol.forwards ? h.port : 0);
        return r >= 0 && (flags & FLAG_FIN) ? end_stream(s, find_stream(s, id), events) : r;
}

/* Blocks that are not used have to be read all the same, for the state of the compression. */
static int skip_headers(Spdy *s, const uint8_t *data, size_t n)
{
        return n < 4 ? -EPROTO : spdy_headers_skip(&s->headers, data + 4, n - 4);
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
                return n < 8 ? -EPROTO
                             : reset_stream(s, find_stream(s, spdy_get32(data) & INT32_MAX), events);
        case PING:
                return n != 4 ? -EPROTO
                       : spdy_get32(data) % 2 == 1
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
        return r >= 0 && (flags & FLAG_FIN) ? end_stream(s, find_stream(s, id), events) : r;
}

static int take_frame(Spdy *s, const uint8_t *head, const uint8_t *data, size_t n,
                      const ProtocolEvents *events, Text *out)
{
        uint32_t first = spdy_get32(head);

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
                size_t size = spdy_get32(data + at + 4) & 0xffffff;

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
        spdy_headers_done(&((Spdy *) p)->headers);
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

static bool offers_versions(const HttpHead *h)
{
        for (size_t i = 0; i < h->n_fields; i++)
                if (strcasecmp(h->fields[i].name, VERSION_FIELD) == 0)
                        return true;
        return false;
}

/* The best of those that the client offers; the first version has no number, and is that of clients which offer none. */
static int choose_version(const HttpHead *h, char name[static 32], unsigned *ret)
{
        for (unsigned v = 4; v >= 1; v--) {
                if (v > 1)
                        snprintf(name, 32, "v%u.channel.k8s.io", v);
                else
                        snprintf(name, 32, "channel.k8s.io");
                *ret = v;
                if (http_head_lists(h, VERSION_FIELD, name))
                        return 0;
        }
        *name = 0;
        return offers_versions(h) ? -EPROTONOSUPPORT : 0;
}

static int choose_forwarding(const HttpHead *h, char name[static 32])
{
        snprintf(name, 32, "%s",
                 http_head_lists(h, VERSION_FIELD, PORT_FORWARD_PROTOCOL) ? PORT_FORWARD_PROTOCOL : "");
        return !*name && offers_versions(h) ? -EPROTONOSUPPORT : 0;
}

int spdy_new(bool forwards, unsigned version, Protocol **ret)
{
        Spdy *s = calloc(1, sizeof(Spdy));

        if (!s)
                return -ENOMEM;
        s->protocol = (Protocol){.ops = &spdy_ops, .version = version, .forwards = forwards};
        int r = spdy_headers_init(&s->headers);
        if (r < 0)
                protocol_free(&s->protocol);
        else
                *ret = &s->protocol;
        return r;
}

int spdy_accept(const HttpHead *h, const StreamOffer *o, Protocol **ret, Text *out)
{
        unsigned version = 0;
        char name[32];

        if (!streq(h->method, "POST") && !streq(h->method, "GET"))
                return -EBADMSG;
        int r = o->forwards ? choose_forwarding(h, name) : choose_version(h, name, &version);
        if (r >= 0)
                r = spdy_new(o->forwards, version, ret);
        if (r < 0)
                return r;
        text_add(out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n");
        if (*name)
                text_addf(out, VERSION_FIELD ": %s\r\n", name);
        text_add(out, "\r\n");
        return 0;
}
