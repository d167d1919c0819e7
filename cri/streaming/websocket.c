/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* WebSocket, with the subprotocols of Kubernetes: the first byte of a message is its channel. In version 5 a message of the
 * byte 255 and a channel closes that channel. In the base64 subprotocols, for clients that can only send text, the channel
 * is a digit and the rest is base64. channel.k8s.io is version 1, and is also used for clients that request no subprotocol.
 * A tunnel has no channels: its messages are the bytes of SPDY, cut anywhere.
 *
 * Spec: RFC 6455. */

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "cri/streaming/streaming-internal.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define KEY_LENGTH 24U /* 16 bytes as base64 */
#define PROTOCOL_FIELD "Sec-WebSocket-Protocol"
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
        unsigned channels;
        bool base64;
        char group[4]; /* base64 characters that are not decoded yet */
        size_t n_group;
        Protocol *inner; /* of a tunnel */
        Text inner_in;   /* what is not complete yet */
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

/* What the protocol in the tunnel has to send. */
static int add_tunnelled(Text *inner, int r, Text *out)
{
        if (r >= 0 && inner->size > 0)
                add_frame(out, OP_BINARY, NULL, 0, inner->data, inner->size);
        return r < 0 ? r : inner->failed || out->failed ? -ENOMEM : 0;
}

static int send_base64(unsigned c, const uint8_t *data, size_t n, Text *out)
{
        _cleanup_free_ unsigned char *text = malloc((n + 2) / 3 * 4 + 1);
        const char channel = (char) ('0' + c);

        if (!text)
                return -ENOMEM;
        int k = EVP_EncodeBlock(text, data, (int) n);
        add_frame(out, OP_TEXT, &channel, 1, text, (size_t) MAX(k, 0));
        return out->failed ? -ENOMEM : 0;
}

static int send_data(Protocol *p, unsigned c, const uint8_t *data, size_t n, Text *out)
{
        Protocol *inner = ((WebSocket *) p)->inner;
        const uint8_t channel = (uint8_t) c;

        if (inner) {
                _cleanup_text_ Text text = {};
                int r = inner->ops->send(inner, c, data, n, &text);
                return add_tunnelled(&text, r, out);
        }
        if (((WebSocket *) p)->base64)
                return send_base64(c, data, n, out);
        add_frame(out, OP_BINARY, &channel, 1, data, n);
        return out->failed ? -ENOMEM : 0;
}

/* Before version 5 there is no way to say so but the end of all. */
static int send_end(Protocol *p, unsigned c, Text *out)
{
        Protocol *inner = ((WebSocket *) p)->inner;
        const uint8_t message[] = {CLOSE_CHANNEL, (uint8_t) c};

        if (inner) {
                _cleanup_text_ Text text = {};
                int r = inner->ops->end(inner, c, &text);
                return add_tunnelled(&text, r, out);
        }
        if (p->version >= 5)
                add_frame(out, OP_BINARY, message, sizeof(message), NULL, 0);
        return out->failed ? -ENOMEM : 0;
}

static int send_close(Protocol *p, Text *out)
{
        static const uint8_t normal[] = {1000 >> 8, 1000 & 255};
        WebSocket *w = (WebSocket *) p;

        if (!w->closed && w->inner) {
                _cleanup_text_ Text text = {};
                int r = w->inner->ops->close(w->inner, &text);
                r = add_tunnelled(&text, r, out);
                if (r < 0)
                        return r;
        }
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
        if (w->close.size != 1 || (uint8_t) w->close.data[0] >= w->channels)
                return -EPROTO;
        unsigned c = (uint8_t) w->close.data[0];
        text_done(&w->close);
        return events->ended(events->userdata, c);
}

/* At most an incomplete frame is kept. */
static int take_tunnelled(WebSocket *w, const uint8_t *data, size_t n, const ProtocolEvents *events,
                          Text *out)
{
        _cleanup_text_ Text text = {};
        Text *in = &w->inner_in;

        text_add_bytes(in, data, n);
        if (in->failed)
                return -ENOMEM;
        ssize_t taken = w->inner->ops->take(w->inner, (const uint8_t *) in->data, in->size, events, &text);
        if (taken > 0) {
                in->size -= (size_t) taken;
                memmove(in->data, in->data + taken, in->size);
        }
        return add_tunnelled(&text, taken < 0 ? (int) taken : 0, out);
}

/* Decodes four characters to three bytes; the last group of a message can be padded with "=" to one or two bytes. */
static int decode_group(const char *group, uint8_t ret[static 3])
{
        static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char text[5];

        memcpy(text, group, 4);
        text[4] = 0;
        size_t n = strspn(text, alphabet), rest = strspn(text + n, "=");
        if (n < 2 || n + rest != 4 || EVP_DecodeBlock(ret, (const unsigned char *) text, 4) != 3)
                return -EPROTO;
        return (int) n - 1;
}

static int take_base64(WebSocket *w, const uint8_t *data, size_t n, bool final, const ProtocolEvents *events)
{
        _cleanup_text_ Text decoded = {};
        bool ends = false;

        for (size_t i = 0; i < n; i++) {
                uint8_t bytes[3];

                if (ends)
                        return -EPROTO;
                w->group[w->n_group++] = (char) data[i];
                if (w->n_group < sizeof(w->group))
                        continue;
                w->n_group = 0;
                int k = decode_group(w->group, bytes);
                if (k < 0)
                        return k;
                text_add_bytes(&decoded, bytes, (size_t) k);
                ends = k < 3;
        }
        if (final ? w->n_group > 0 : ends)
                return -EPROTO;
        if (decoded.failed)
                return -ENOMEM;
        return decoded.size == 0 ? 0
                                 : events->data(events->userdata, w->channel, (const uint8_t *) decoded.data,
                                                decoded.size);
}

/* A part of a message, which may be all of it. */
static int take_part(WebSocket *w, const uint8_t *data, size_t n, bool final, const ProtocolEvents *events,
                     Text *out)
{
        int r = 0;

        if (w->inner) {
                w->in_message = !final;
                return take_tunnelled(w, data, n, events, out);
        }
        if (!w->has_channel && n > 0) {
                w->channel = (uint8_t) (*data++ - (w->base64 ? '0' : 0));
                w->has_channel = true;
                n--;
        }
        if (w->has_channel && w->channel == CLOSE_CHANNEL && !w->base64) {
                text_add_bytes(&w->close, data, n);
                r = w->close.failed ? -ENOMEM : take_close_message(w, final, events);
        } else if (w->has_channel && w->channel >= w->channels)
                r = -EPROTO;
        else if (w->base64)
                r = take_base64(w, data, n, final, events);
        else if (n > 0)
                r = events->data(events->userdata, w->channel, data, n);
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
                return w->in_message ? -EPROTO : take_part(w, data, f->size, f->final, events, out);
        case OP_CONTINUATION:
                return w->in_message ? take_part(w, data, f->size, f->final, events, out) : -EPROTO;
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
        text_done(&w->inner_in);
        protocol_free(w->inner);
}

static const ProtocolOps websocket_ops = {
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

/* In order of preference. */
static const struct {
        const char *name;
        unsigned version;
        bool base64;
        bool forwards; /* also offered for port forwarding */
} subprotocols[] = {
                {"v5.channel.k8s.io", 5, false, false},      {"v4.channel.k8s.io", 4, false, true},
                {"v4.base64.channel.k8s.io", 4, true, true}, {"channel.k8s.io", 1, false, false},
                {"base64.channel.k8s.io", 1, true, false},
};

/* *NAME is empty if the client requests no subprotocol; *ret_version is 0 for a tunnel. */
static int choose_version(const HttpHead *h, const StreamOffer *o, const char **name, unsigned *ret_version,
                          bool *ret_base64)
{
        *ret_version = 0;
        *ret_base64 = false;
        *name = TUNNEL_PROTOCOL;
        if (o->forwards && http_head_lists(h, PROTOCOL_FIELD, *name))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(subprotocols); i++) {
                *name = subprotocols[i].name;
                if ((o->forwards && !subprotocols[i].forwards) || !http_head_lists(h, PROTOCOL_FIELD, *name))
                        continue;
                *ret_version = subprotocols[i].version;
                *ret_base64 = subprotocols[i].base64;
                return o->forwards && o->n_ports == 0 ? -ENODATA : 0;
        }
        *name = "";
        *ret_version = 1;
        return o->forwards || http_head_value(h, PROTOCOL_FIELD) ? -EPROTONOSUPPORT : 0;
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

static int make_protocol(const StreamOffer *o, unsigned version, bool base64, Protocol **ret)
{
        WebSocket *w = calloc(1, sizeof(WebSocket));

        if (!w)
                return -ENOMEM;
        w->protocol = (Protocol){.ops = &websocket_ops,
                                 .version = version,
                                 .forwards = o->forwards,
                                 .implicit = version > 0};
        w->base64 = base64;
        w->channels = o->forwards ? 2 * MIN(o->n_ports, FORWARDS_MAX) : _STREAM_CHANNEL_MAX;
        int r = version > 0 ? 0 : spdy_new(o->forwards, 0, &w->inner);
        if (r < 0)
                protocol_free(&w->protocol);
        else
                *ret = &w->protocol;
        return r;
}

int websocket_accept(const HttpHead *h, const StreamOffer *o, Protocol **ret, Text *out)
{
        const char *key = http_head_value(h, "Sec-WebSocket-Key"),
                   *version = http_head_value(h, "Sec-WebSocket-Version");
        unsigned subprotocol = 0;
        const char *name = NULL;
        bool base64 = false;
        char answer[29];

        if (!streq(h->method, "GET") || !key || !streq_ptr(version, "13"))
                return -EBADMSG;
        int r = make_answer(key, answer);
        if (r >= 0)
                r = choose_version(h, o, &name, &subprotocol, &base64);
        if (r >= 0)
                r = make_protocol(o, subprotocol, base64, ret);
        if (r < 0)
                return r;
        text_addf(out,
                  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Accept: %s\r\n",
                  answer);
        if (*name)
                text_addf(out, PROTOCOL_FIELD ": %s\r\n", name);
        text_add(out, "\r\n");
        return 0;
}

Protocol *protocol_free(Protocol *p)
{
        if (p)
                p->ops->done(p);
        free(p);
        return NULL;
}
