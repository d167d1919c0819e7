/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* WebSocket, with the subprotocols of Kubernetes: the first byte of a message is its channel. With version 5 the message 255
 * and a channel closes that channel.
 *
 * Spec: RFC 6455. */

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "cri/streaming/streaming-internal.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define KEY_LENGTH 24U /* 16 bytes as base64 */
#define CLOSE_CHANNEL 255U
#define CONTROL_SIZE_MAX 125U

enum { OP_CONTINUATION = 0, OP_TEXT = 1, OP_BINARY = 2, OP_CLOSE = 8, OP_PING = 9, OP_PONG = 10 };

typedef struct WebSocket {
        Protocol protocol;
        bool in_message; /* a message has begun, and goes on in the next frame */
        bool has_channel;
        uint8_t channel; /* of that message */
        bool closed;     /* we have sent a close frame */
        Text close;      /* a message with CLOSE_CHANNEL, as far as it came */
} WebSocket;

/* --- Frames that are sent ------------------------------------------------------------------------------ */

/* A complete message of the server, which is not masked. */
static void add_frame(Text *out, unsigned opcode, const void *first, size_t n_first, const void *data,
                      size_t n)
{
        uint64_t size = n_first + n;
        uint8_t head[10] = {(uint8_t) (0x80 | opcode)};
        size_t n_head = 2;

        if (size <= CONTROL_SIZE_MAX)
                head[1] = (uint8_t) size;
        else {
                size_t bytes = size <= UINT16_MAX ? 2 : 8;
                head[1] = bytes == 2 ? 126 : 127;
                for (size_t i = 0; i < bytes; i++)
                        head[n_head++] = (uint8_t) (size >> 8 * (bytes - 1 - i));
        }
        text_add_bytes(out, head, n_head);
        text_add_bytes(out, first, n_first);
        text_add_bytes(out, data, n);
}

static int send_data(Protocol *p, StreamChannel c, const uint8_t *data, size_t n, Text *out)
{
        const uint8_t channel = (uint8_t) c;

        add_frame(out, OP_BINARY, &channel, 1, data, n);
        return out->failed ? -ENOMEM : 0;
}

/* Before version 5 there is no way to say so but the end of all. */
static int send_end(Protocol *p, StreamChannel c, Text *out)
{
        const uint8_t message[] = {CLOSE_CHANNEL, (uint8_t) c};

        if (p->version >= 5)
                add_frame(out, OP_BINARY, message, sizeof(message), NULL, 0);
        return out->failed ? -ENOMEM : 0;
}

static int send_close(Protocol *p, Text *out)
{
        static const uint8_t normal[] = {1000 >> 8, 1000 & 255};
        WebSocket *w = (WebSocket *) p;

        if (!w->closed)
                add_frame(out, OP_CLOSE, normal, sizeof(normal), NULL, 0);
        w->closed = true;
        return out->failed ? -ENOMEM : 0;
}

/* --- Frames of the client ------------------------------------------------------------------------------ */

typedef struct Frame {
        bool final;
        unsigned opcode;
        const uint8_t *mask, *data;
        size_t size;
} Frame;

/* Returns the size of the whole frame; 0: it is not complete. */
static ssize_t parse_frame(const uint8_t *p, size_t n, Frame *ret)
{
        size_t extra, at = 2;
        uint64_t size;

        if (n < 2)
                return 0;
        bool control = p[0] & 0x08;
        size = p[1] & 0x7f;
        if ((p[0] & 0x70) || !(p[1] & 0x80) || (control && (size > CONTROL_SIZE_MAX || !(p[0] & 0x80))))
                return -EPROTO;
        extra = size == 126 ? 2 : size == 127 ? 8 : 0;
        if (n < at + extra)
                return 0;
        if (extra > 0)
                size = 0;
        for (size_t i = 0; i < extra; i++)
                size = size << 8 | p[at++];
        if (size > FRAME_SIZE_MAX)
                return -EPROTO;
        *ret = (Frame){.final = p[0] & 0x80,
                       .opcode = p[0] & 0x0f,
                       .mask = p + at,
                       .data = p + at + 4,
                       .size = (size_t) size};
        return n < at + 4 + size ? 0 : (ssize_t) (at + 4 + size);
}

static int take_close_message(WebSocket *w, bool final, const ProtocolEvents *events)
{
        if (w->close.size > 1 || w->protocol.version < 5)
                return -EPROTO;
        if (!final)
                return 0;
        if (w->close.size != 1 || (uint8_t) w->close.data[0] >= _STREAM_CHANNEL_MAX)
                return -EPROTO;
        StreamChannel c = (StreamChannel) (uint8_t) w->close.data[0];
        text_done(&w->close);
        return events->ended(events->userdata, c);
}

/* A part of a message, which may be all of it. */
static int take_part(WebSocket *w, const uint8_t *data, size_t n, bool final, const ProtocolEvents *events)
{
        int r = 0;

        if (!w->has_channel && n > 0) {
                w->channel = *data++;
                w->has_channel = true;
                n--;
        }
        if (w->has_channel && w->channel == CLOSE_CHANNEL) {
                text_add_bytes(&w->close, data, n);
                r = w->close.failed ? -ENOMEM : take_close_message(w, final, events);
        } else if (w->has_channel && w->channel >= _STREAM_CHANNEL_MAX)
                r = -EPROTO;
        else if (n > 0)
                r = events->data(events->userdata, (StreamChannel) w->channel, data, n);
        w->in_message = !final;
        if (final)
                w->has_channel = false;
        return r;
}

static int take_frame(WebSocket *w, const Frame *f, const ProtocolEvents *events, Text *out)
{
        _cleanup_free_ uint8_t *data = malloc(f->size + 1);

        if (!data)
                return -ENOMEM;
        for (size_t i = 0; i < f->size; i++)
                data[i] = f->data[i] ^ f->mask[i % 4];
        switch (f->opcode) {
        case OP_PING:
                add_frame(out, OP_PONG, data, f->size, NULL, 0);
                return out->failed ? -ENOMEM : 0;
        case OP_PONG:
                return 0;
        case OP_CLOSE: {
                int r = send_close(&w->protocol, out);
                return r < 0 ? r : events->closed(events->userdata);
        }
        case OP_TEXT:
        case OP_BINARY:
                return w->in_message ? -EPROTO : take_part(w, data, f->size, f->final, events);
        case OP_CONTINUATION:
                return w->in_message ? take_part(w, data, f->size, f->final, events) : -EPROTO;
        default:
                return -EPROTO;
        }
}

static ssize_t take(Protocol *p, const uint8_t *data, size_t n, const ProtocolEvents *events, Text *out)
{
        WebSocket *w = (WebSocket *) p;
        size_t at = 0;

        for (;;) {
                Frame f;
                ssize_t size = parse_frame(data + at, n - at, &f);

                if (size <= 0)
                        return size < 0 ? size : (ssize_t) at;
                int r = take_frame(w, &f, events, out);
                if (r < 0)
                        return r;
                at += (size_t) size;
        }
}

static void websocket_done(Protocol *p)
{
        WebSocket *w = (WebSocket *) p;

        text_done(&w->close);
}

static const ProtocolOps websocket_ops = {
                .implicit = true,
                .take = take,
                .send = send_data,
                .end = send_end,
                .close = send_close,
                .done = websocket_done,
};

/* --- The handshake ------------------------------------------------------------------------------------- */

bool websocket_is_asked_for(const HttpHead *h)
{
        return http_head_lists(h, "Upgrade", "websocket") && http_head_lists(h, "Connection", "Upgrade");
}

/* The best of those that the client offers. */
static int choose_version(const HttpHead *h, unsigned *ret)
{
        char name[32];

        for (unsigned v = 5; v >= 4; v--) {
                snprintf(name, sizeof(name), "v%u.channel.k8s.io", v);
                if (http_head_lists(h, "Sec-WebSocket-Protocol", name)) {
                        *ret = v;
                        return 0;
                }
        }
        return -EPROTONOSUPPORT;
}

static int make_answer(const char *key, char ret[static 29])
{
        unsigned char digest[SHA_DIGEST_LENGTH];
        char text[KEY_LENGTH + sizeof(GUID)];

        if (strlen(key) != KEY_LENGTH)
                return -EBADMSG;
        snprintf(text, sizeof(text), "%s" GUID, key);
        if (!SHA1((const unsigned char *) text, strlen(text), digest))
                return -EIO;
        (void) EVP_EncodeBlock((unsigned char *) ret, digest, sizeof(digest));
        return 0;
}

int websocket_accept(const HttpHead *h, Protocol **ret, Text *out)
{
        const char *key = http_head_value(h, "Sec-WebSocket-Key"),
                   *version = http_head_value(h, "Sec-WebSocket-Version");
        unsigned subprotocol = 0;
        char answer[29];

        if (!streq(h->method, "GET") || !key || !streq_ptr(version, "13"))
                return -EBADMSG;
        int r = make_answer(key, answer);
        if (r >= 0)
                r = choose_version(h, &subprotocol);
        if (r < 0)
                return r;
        WebSocket *w = calloc(1, sizeof(WebSocket));
        if (!w)
                return -ENOMEM;
        w->protocol = (Protocol){.ops = &websocket_ops, .version = subprotocol};
        text_addf(out,
                  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: v%u.channel.k8s.io\r\n\r\n",
                  answer, subprotocol);
        *ret = &w->protocol;
        return 0;
}

Protocol *protocol_free(Protocol *p)
{
        if (p)
                p->ops->done(p);
        free(p);
        return NULL;
}
