/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of cri/streaming/ share. */

#include <poll.h>
#include <zlib.h>

#include "cri/streaming/streaming.h"

/* --- http-head.c --------------------------------------------------------------------------------------- */

#define HTTP_HEAD_SIZE_MAX 16384U
#define HTTP_FIELDS_MAX 64U

typedef struct HttpField {
        const char *name, *value;
} HttpField;

typedef struct HttpHead {
        const char *method, *path; /* without a query */
        HttpField fields[HTTP_FIELDS_MAX];
        size_t n_fields;
} HttpHead;

/* Pure, but for DATA, which is changed and lent to RET. Returns the size of the head; 0: it is not complete; -EBADMSG: it is
 * not valid; -EMSGSIZE: it is too large. */
ssize_t http_head_parse(char *data, size_t n, HttpHead *ret);
/* Whether ITEM is in the lists of all fields NAME; letter case does not count. */
bool http_head_lists(const HttpHead *h, const char *name, const char *item);
/* The one field NAME; NULL: there is none, or several. */
const char *http_head_value(const HttpHead *h, const char *name);

/* --- Protocols: websocket.c, spdy.c -------------------------------------------------------------------- */

#define FRAME_SIZE_MAX (1024U * 1024U) /* of a client's frames */

/* Channels of streams that forward ports: connection n has 2n for its data, and 2n + 1 for its errors. Channels of other
 * streams are StreamChannel. */
enum { FORWARD_DATA, FORWARD_ERROR };

#define PORT_FORWARD_PROTOCOL "portforward.k8s.io"
#define TUNNEL_PROTOCOL ("SPDY/3.1+" PORT_FORWARD_PROTOCOL) /* the same in a WebSocket */

/* What a client has sent. */
typedef struct ProtocolEvents {
        /* PORT is 0 unless a port is forwarded. */
        int (*opened)(void *userdata, unsigned c, uint16_t port);
        int (*data)(void *userdata, unsigned c, const uint8_t *data, size_t n);
        int (*ended)(void *userdata, unsigned c);
        int (*reset)(void *userdata, unsigned c); /* it takes nothing more, either; may be NULL: as ended */
        int (*closed)(void *userdata);            /* all of it */
        void *userdata;
} ProtocolEvents;

typedef struct Protocol Protocol;

/* The functions of a protocol. All of them add what is to be sent to OUT. */
typedef struct ProtocolOps {
        /* Takes what is complete of N bytes. Returns how many bytes it has taken; -EPROTO: they are not valid. */
        ssize_t (*take)(Protocol *p, const uint8_t *data, size_t n, const ProtocolEvents *events, Text *out);
        int (*send)(Protocol *p, unsigned c, const uint8_t *data, size_t n, Text *out);
        /* Nothing more is sent on a channel. */
        int (*end)(Protocol *p, unsigned c, Text *out);
        int (*close)(Protocol *p, Text *out);
        void (*done)(Protocol *p);
} ProtocolOps;

struct Protocol {
        const ProtocolOps *ops;
        unsigned version; /* of channel.k8s.io */
        bool implicit;    /* all streams are open from the beginning */
        bool forwards;    /* ports */
};

/* Chooses the version for the request H for the stream O, and adds the head of the response. -EPROTONOSUPPORT: it supports none
 * of ours; -EBADMSG: the request is not valid; -ENODATA: this protocol needs ports, and O has none. */
int websocket_accept(const HttpHead *h, const StreamOffer *o, Protocol **ret, Text *out);
bool websocket_is_asked_for(const HttpHead *h);
int spdy_accept(const HttpHead *h, const StreamOffer *o, Protocol **ret, Text *out);
bool spdy_is_asked_for(const HttpHead *h);
/* Without a handshake. */
int spdy_new(bool forwards, unsigned version, Protocol **ret);
uint32_t spdy_get32(const uint8_t *p);
Protocol *protocol_free(Protocol *p);
DEFINE_TRIVIAL_CLEANUP_FUNC(Protocol *, protocol_free);

/* --- spdy-headers.c ------------------------------------------------------------------------------------ */

/* The dictionary of header blocks; returns its size. */
#define SPDY_DICTIONARY_SIZE 1423U
size_t spdy_dictionary(uint8_t ret[static SPDY_DICTIONARY_SIZE]);

typedef struct SpdyHeaders {
        z_stream inflate, deflate;
        bool can_inflate, can_deflate;
} SpdyHeaders;

#define SPDY_REQUEST_SIZE 32U

/* Of a stream; what is missing, or not valid, is empty or 0. */
typedef struct SpdyStreamHeaders {
        char type[16], request[SPDY_REQUEST_SIZE];
        uint16_t port;
} SpdyStreamHeaders;

int spdy_headers_init(SpdyHeaders *h);
void spdy_headers_done(SpdyHeaders *h);
/* -EPROTO: the block is not valid. */
int spdy_headers_read(SpdyHeaders *h, const uint8_t *data, size_t n, SpdyStreamHeaders *ret);
int spdy_headers_skip(SpdyHeaders *h, const uint8_t *data, size_t n);
/* A block without headers; returns its size. */
ssize_t spdy_headers_empty(SpdyHeaders *h, uint8_t *ret, size_t max);

/* --- wire.c -------------------------------------------------------------------------------------------- */

/* The connection of a client: a socket that does not block, or TLS on one. */
typedef struct Wire {
        int fd;
        struct ssl_st *ssl; /* NULL: without TLS */
        bool wants_write;   /* the last function of TLS: it can go on when FD is writable */
} Wire;

/* FD is taken over, unless it fails. */
int wire_new(int fd, StreamTls *tls, Wire *ret);
/* Without a word to the client. */
void wire_done(Wire *w);
/* How much was received or sent; 0: the client has ended it; -EAGAIN: nothing is possible now; -ECONNRESET, with TLS: it has
 * failed. */
ssize_t wire_receive(Wire *w, void *p, size_t n);
ssize_t wire_send(Wire *w, const void *p, size_t n);
/* Whether there is something to receive that poll() does not show. */
bool wire_has_data(const Wire *w);
/* Nothing more is sent. */
void wire_end(Wire *w);

/* --- transport.c --------------------------------------------------------------------------------------- */

#define WAITING_MAX (256U * 1024U) /* bytes for one side; then nothing more is read for it */

/* Bytes on their way. */
typedef struct Buffer {
        Text text;
        size_t done; /* bytes that are gone */
} Buffer;

size_t buffer_waiting(const Buffer *b);
void buffer_done(Buffer *b);
/* Writes what FD takes now. */
int buffer_flush(Buffer *b, int fd, bool is_socket);
int buffer_flush_wire(Buffer *b, Wire *w);
int fd_set_nonblocking(int fd);

typedef struct Transport {
        Wire wire;
        Protocol *protocol;
        uint8_t *in; /* what is not complete yet */
        size_t n_in;
        Buffer out;
        bool gone; /* the client */
        ProtocolEvents events;
} Transport;

/* W and P are taken over, also if it fails; REST is what was read after the head, OUT what is to be sent first. */
int transport_init(Transport *t, const Wire *w, Protocol *p, const uint8_t *rest, size_t n, const Text *out);
void transport_done(Transport *t);
/* Takes what was received. */
int transport_take(Transport *t);
int transport_receive(Transport *t);
/* What to wait for; RECEIVES: also for what the client sends. */
struct pollfd transport_poll(const Transport *t, bool receives);
/* Whether there is something to receive. */
bool transport_is_readable(const Transport *t, short revents);
int transport_flush(Transport *t);
/* In order: waits until the client has closed its end, so that it gets all that was sent. */
int transport_close(Transport *t);

/* --- session.c ----------------------------------------------------------------------------------------- */

/* The parameters are those of transport_init(). */
int session_new(const Wire *w, Protocol *p, const uint8_t *rest, size_t n_rest, const Text *out,
                Session **ret);
Session *session_free(Session *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Session *, session_free);
Transport *session_transport(Session *s);
/* Waits until the client has opened all of these streams. -ETIMEDOUT: it has not in time. */
int session_begin(Session *s, unsigned streams);
