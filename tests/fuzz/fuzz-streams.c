/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a client of the streams of the CRI sends: the first byte chooses the head of a request, WebSocket or SPDY, and whether
 * ports are forwarded. The rest is taken once as a whole, and once in pieces: the events have to be the same. */

#include "cri/streaming/streaming-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (256U << 10)

#define PORTS 3U
#define CHANNELS_MAX (2 * FORWARDS_MAX)

/* The first byte from which on ports are forwarded. */
#define FORWARDING 0xf0

typedef enum Kind {
        WEBSOCKET_4,
        WEBSOCKET_5,
        SPDY,
        FORWARD_SPDY,
        FORWARD_TUNNEL,
        FORWARD_WEBSOCKET,
} Kind;

typedef struct Counts {
        size_t bytes[CHANNELS_MAX];
        unsigned opened[CHANNELS_MAX], ended[CHANNELS_MAX], closed, checksum;
} Counts;

typedef struct Events {
        Counts counts;
        Kind kind;
        Protocol *protocol;
        Text *out;
} Events;

static void check_channel(const Events *e, unsigned c)
{
        if (c >= (e->kind == FORWARD_WEBSOCKET ? 2 * PORTS
                  : e->kind > SPDY             ? CHANNELS_MAX
                                               : _STREAM_CHANNEL_MAX))
                abort();
}

static int on_opened(void *userdata, unsigned c, uint16_t port)
{
        Events *e = userdata;

        check_channel(e, c);
        if ((port == 0) != (e->kind <= SPDY))
                abort();
        e->counts.opened[c]++;
        return 0;
}

static int on_data(void *userdata, unsigned c, const uint8_t *data, size_t n)
{
        Events *e = userdata;

        check_channel(e, c);
        e->counts.bytes[c] += n;
        for (size_t i = 0; i < n; i++)
                e->counts.checksum = e->counts.checksum * 31 + data[i];
        return 0;
}

/* Also of a stream that is reset. The pair of channels of a port is used again when both have ended in both directions. */
static int on_ended(void *userdata, unsigned c)
{
        Events *e = userdata;

        check_channel(e, c);
        e->counts.ended[c]++;
        return e->kind > SPDY ? e->protocol->ops->end(e->protocol, c, e->out) : 0;
}

static int on_closed(void *userdata)
{
        Events *e = userdata;

        e->counts.closed++;
        return 0;
}

static Protocol *make(Kind kind, Text *out)
{
        static const char *const protocols[] = {
                        [WEBSOCKET_4] = "v4.channel.k8s.io",
                        [WEBSOCKET_5] = "v5.channel.k8s.io",
                        [SPDY] = "v4.channel.k8s.io",
                        [FORWARD_SPDY] = PORT_FORWARD_PROTOCOL,
                        [FORWARD_TUNNEL] = TUNNEL_PROTOCOL,
                        [FORWARD_WEBSOCKET] = "v4.channel.k8s.io",
        };
        const StreamOffer o = {.forwards = kind > SPDY, .n_ports = PORTS};
        bool websocket = kind != SPDY && kind != FORWARD_SPDY;
        char head[256];
        Protocol *p = NULL;
        HttpHead h;

        if (websocket)
                snprintf(head, sizeof(head),
                         "GET /exec/x HTTP/1.1\r\nUpgrade: websocket\r\nConnection: "
                         "Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                         protocols[kind]);
        else
                snprintf(head, sizeof(head),
                         "POST /exec/x HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n"
                         "X-Stream-Protocol-Version: %s\r\n\r\n",
                         protocols[kind]);
        size_t n = strlen(head);
        if (http_head_parse(head, n, &h) != (ssize_t) n ||
            (websocket ? websocket_accept : spdy_accept)(&h, &o, &p, out) < 0)
                abort();
        return p;
}

static void send_on_all(Protocol *p, Kind kind, Text *out)
{
        const unsigned n = kind == FORWARD_WEBSOCKET ? 2 * PORTS
                           : kind > SPDY             ? CHANNELS_MAX
                                                     : _STREAM_CHANNEL_MAX;

        for (unsigned c = 0; c < n; c++)
                if (p->ops->send(p, c, (const uint8_t *) "x", 1, out) < 0)
                        abort();
        out->size = 0;
}

/* Returns whether all of it was valid. */
static bool feed(Kind kind, const uint8_t *data, size_t n, size_t step, Counts *ret)
{
        _cleanup_text_ Text out = {};
        _cleanup_(protocol_freep) Protocol *p = make(kind, &out);
        Events e = {.kind = kind, .protocol = p, .out = &out};
        const ProtocolEvents events = {.opened = on_opened,
                                       .data = on_data,
                                       .ended = on_ended,
                                       .reset = kind > SPDY ? on_ended : NULL,
                                       .closed = on_closed,
                                       .userdata = &e};
        size_t begin = 0, end = 0;

        while (end < n) {
                end = MIN(n, end + step);
                uint8_t *copy = malloc(end - begin + 1); /* exactly as much as there is */
                if (!copy)
                        abort();
                memcpy(copy, data + begin, end - begin);
                ssize_t taken = p->ops->take(p, copy, end - begin, &events, &out);
                free(copy);
                if (taken < 0)
                        return false;
                if ((size_t) taken > end - begin)
                        abort();
                begin += (size_t) taken;
                send_on_all(p, kind, &out);
        }
        if (p->ops->close(p, &out) < 0)
                abort();
        *ret = e.counts;
        return true;
}

static void try_protocol(Kind kind, const uint8_t *data, size_t size)
{
        Counts whole = {}, parts = {};
        bool valid = feed(kind, data, size, size + 1, &whole);

        if (feed(kind, data, size, 7, &parts) != valid)
                abort();
        if (valid && memcmp(&whole, &parts, sizeof(whole)) != 0)
                abort();
}

static void try_head(const uint8_t *data, size_t size)
{
        char *copy = malloc(size + 1);
        HttpHead h;

        if (!copy)
                abort();
        memcpy(copy, data, size);
        ssize_t n = http_head_parse(copy, size, &h);
        if (n > 0) {
                static const StreamOffer offers[] = {
                                {}, {.forwards = true}, {.forwards = true, .n_ports = 1}};
                _cleanup_text_ Text out = {};
                Protocol *p = NULL;

                if ((size_t) n > size || *h.path != '/' || strpbrk(h.path, " ?#\r\n") ||
                    h.n_fields > HTTP_FIELDS_MAX)
                        abort();
                for (size_t i = 0; i < h.n_fields; i++)
                        if (strpbrk(h.fields[i].name, " :\r\n") || strpbrk(h.fields[i].value, "\r\n"))
                                abort();
                for (size_t i = 0; i < ELEMENTSOF(offers); i++) {
                        if (websocket_is_asked_for(&h) && websocket_accept(&h, &offers[i], &p, &out) >= 0)
                                p = protocol_free(p);
                        if (spdy_is_asked_for(&h) && spdy_accept(&h, &offers[i], &p, &out) >= 0)
                                p = protocol_free(p);
                }
        }
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0 || size > INPUT_MAX)
                return 0;
        if (data[0] >= FORWARDING)
                try_protocol(FORWARD_SPDY + (data[0] - FORWARDING) % 3U, data + 1, size - 1);
        else if (data[0] % 4 == 0)
                try_head(data + 1, size - 1);
        else
                try_protocol((Kind) (data[0] % 4 - 1), data + 1, size - 1);
        return 0;
}
