/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of grpc/: server.c, connection.c, call.c, header.c. */

#include <nghttp2/nghttp2.h>

#include "grpc/grpc.h"

typedef struct Connection Connection;

struct GrpcServer {
        sd_event *event;
        const GrpcMethod *methods;
        size_t n_methods;
        void *userdata;
        int fd;
        sd_event_source *accept;
        Connection *connections;
        size_t n_connections;
        size_t connections_max;
        uint64_t idle_usec;
        sd_event_source *sweep; /* closes connections that are idle */
        bool draining;
        void (*drained)(void *userdata);
        void *drained_userdata;
        GrpcObserver observer; /* its functions may be NULL */
};

struct Connection {
        Connection *next;
        GrpcServer *server;
        int fd;
        sd_event_source *io;
        nghttp2_session *session;
        GrpcCall *calls;
        size_t requested;      /* bytes of requests in its calls */
        const uint8_t *unsent; /* what nghttp2 has produced, and the socket has not taken */
        size_t n_unsent;
        uint64_t used_usec; /* when something has come last */
        bool leaving;       /* it was told to end */
        bool busy;          /* nghttp2 is at work: it must not be called */
        bool failed;        /* is closed as soon as the event loop gets to it */
};

typedef enum CallState {
        CALL_HEADERS, /* its headers arrive */
        CALL_REQUEST, /* its request arrives */
        CALL_HANDLED, /* the handler has it */
        CALL_FINISHED,
        CALL_GONE,
} CallState;

struct GrpcCall {
        unsigned n_ref;
        GrpcCall *next;
        Connection *connection; /* NULL: the stream is closed */
        GrpcServer *server;
        uint64_t begun_usec;               /* when the handler got it, CLOCK_MONOTONIC */
        char trace_id[GRPC_TRACE_ID_SIZE]; /* empty: the client has sent none, and it was not asked for */
        int32_t stream;
        CallState state;
        const GrpcMethod *method; /* NULL: there is no such method */
        bool is_post, is_grpc, bad_timeout, compressed;
        uint64_t deadline_usec;
        sd_event_source *timer;
        Text request; /* as it is framed */
        Text reply;   /* what was not passed to nghttp2 so far, as it is framed */
        size_t reply_done;
        bool replies, deferred; /* the headers of the response are sent; nghttp2 waits for data */
        GrpcStatus status;
        char *message; /* percent-encoded */
        void (*gone)(GrpcCall *c, void *userdata);
        void *userdata;
};

/* server.c: a connection has ended; or has no more calls, and can be closed for another one. */
void server_has_room(GrpcServer *s);
void server_can_make_room(GrpcServer *s);

/* --- connection.c -------------------------------------------------------------------------------------- */

int connection_new(GrpcServer *s, int fd); /* FD is taken over on success */
void connection_free(Connection *k);
/* Something is to be sent. */
void connection_kick(Connection *k);
/* No new calls. */
void connection_drain(Connection *k);
/* Whether it was not told to end, and has no calls. */
bool connection_is_idle(const Connection *k);

/* --- call.c, for connection.c -------------------------------------------------------------------------- */

int call_new(Connection *k, int32_t stream, GrpcCall **ret);
void call_take_header(GrpcCall *c, const char *name, size_t name_size, const char *value, size_t value_size);
/* All headers are there. END: and no request follows. */
int call_begin(GrpcCall *c, bool end);
int call_take_data(GrpcCall *c, const uint8_t *data, size_t size);
/* The client has sent all. */
int call_end_request(GrpcCall *c);
/* The stream is closed. C may be freed. */
void call_close(GrpcCall *c);

/* --- header.c: pure ------------------------------------------------------------------------------------ */

/* A value of grpc-timeout, "100m", in microseconds, which are at least 1. -EINVAL. */
int grpc_timeout_parse(const char *s, size_t size, uint64_t *ret);
/* The trace ID of a value of traceparent, "00-ID-PARENT-FLAGS". -EINVAL: it is not valid, and ignored. */
int grpc_traceparent_parse(const char *s, size_t size, char ret[static GRPC_TRACE_ID_SIZE]);
/* A value of grpc-message: bytes that are not printable ASCII, and '%', as %XX. NULL: out of memory. */
char *grpc_message_encode(const char *s);
