/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a client of the streams of the CRI sends: the first byte chooses the head of a request, WebSocket or SPDY. The rest is
 * taken once as a whole, and once in pieces: the events have to be the same. */

#include "cri/streaming/streaming-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (256U << 10)

typedef struct Events {
        size_t bytes[_STREAM_CHANNEL_MAX];
        unsigned opened, ended[_STREAM_CHANNEL_MAX], closed, checksum;
} Events;

static void check_channel(StreamChannel c)
{
        if (c >= _STREAM_CHANNEL_MAX)
                abort();
}

static int on_opened(void *userdata, StreamChannel c)
{
        Events *e = userdata;

        check_channel(c);
        e->opened |= STREAM_BIT(c);
        return 0;
}

static int on_data(void *userdata, StreamChannel c, const uint8_t *data, size_t n)
{
        Events *e = userdata;

        check_channel(c);
        e->bytes[c] += n;
        for (size_t i = 0; i < n; i++)
                e->checksum = e->checksum * 31 + data[i];
        return 0;
}

static int on_ended(void *userdata, StreamChannel c)
{
        Events *e = userdata;

        check_channel(c);
        e->ended[c]++;
        return 0;
}

static int on_closed(void *userdata)
{
        Events *e = userdata;

        e->closed++;
        return 0;
}

static Protocol *make(bool websocket, unsigned version, Text *out)
{
        char head[256];
        Protocol *p = NULL;
        HttpHead h;

        if (websocket)
                snprintf(head, sizeof(head),
                         "GET /exec/x HTTP/1.1\r\nUpgrade: websocket\r\nConnection: "
                         "Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: "
                         "v%u.channel.k8s.io\r\n\r\n",
                         version);
        else
                snprintf(head, sizeof(head),
                         "POST /exec/x HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n"
                         "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n");
        size_t n = strlen(head);
        if (http_head_parse(head, n, &h) != (ssize_t) n ||
            (websocket ? websocket_accept : spdy_accept)(&h, &p, out) < 0)
                abort();
        return p;
}

/* Returns whether all of it was valid. */
static bool feed(bool websocket, unsigned version, const uint8_t *data, size_t n, size_t step, Events *ret)
{
        const ProtocolEvents events = {.opened = on_opened,
                                       .data = on_data,
                                       .ended = on_ended,
                                       .closed = on_closed,
                                       .userdata = ret};
        _cleanup_text_ Text out = {};
        _cleanup_(protocol_freep) Protocol *p = make(websocket, version, &out);
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
                for (StreamChannel c = 0; c < _STREAM_CHANNEL_MAX; c++)
                        if (p->ops->send(p, c, (const uint8_t *) "x", 1, &out) < 0)
                                abort();
                out.size = 0;
        }
        if (p->ops->close(p, &out) < 0)
                abort();
        return true;
}

static void try_protocol(bool websocket, unsigned version, const uint8_t *data, size_t size)
{
        Events whole = {}, parts = {};
        bool valid = feed(websocket, version, data, size, size + 1, &whole);

        if (feed(websocket, version, data, size, 7, &parts) != valid)
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
                _cleanup_text_ Text out = {};
                Protocol *p = NULL;

                if ((size_t) n > size || *h.path != '/' || strpbrk(h.path, " ?#\r\n") ||
                    h.n_fields > HTTP_FIELDS_MAX)
                        abort();
                for (size_t i = 0; i < h.n_fields; i++)
                        if (strpbrk(h.fields[i].name, " :\r\n") || strpbrk(h.fields[i].value, "\r\n"))
                                abort();
                if (websocket_is_asked_for(&h) && websocket_accept(&h, &p, &out) >= 0)
                        p = protocol_free(p);
                if (spdy_is_asked_for(&h) && spdy_accept(&h, &p, &out) >= 0)
                        p = protocol_free(p);
        }
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0 || size > INPUT_MAX)
                return 0;
        switch (data[0] % 4) {
        case 0:
                try_head(data + 1, size - 1);
                break;
        case 1:
        case 2:
                try_protocol(true, 3 + data[0] % 4, data + 1, size - 1);
                break;
        default:
                try_protocol(false, 4, data + 1, size - 1);
        }
        return 0;
}
