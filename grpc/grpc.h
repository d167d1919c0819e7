/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* gRPC services on a Unix socket: HTTP/2 without TLS, methods with one request, and one or several replies.
 *
 * Spec: "gRPC over HTTP2" (PROTOCOL-HTTP2.md) and the status codes of gRPC. Requests are not compressed, and there are no
 * methods whose clients stream. */

#include <systemd/sd-event.h>

#include "basic/basic.h"

#define GRPC_MESSAGE_SIZE_MAX (16U * 1024U * 1024U) /* bytes of a request */
#define GRPC_CALLS_MAX 4096U                        /* at the same time, per connection */
#define GRPC_CONNECTIONS_MAX                                                                                \
        16384U /* or what the limit of descriptors leaves; then those without calls go first */
#define GRPC_DESCRIPTORS_BESIDES                                                                            \
        4096U /* that connections leave to others: workers, streams, and supervisors of pods */
#define GRPC_IDLE_USEC (UINT64_C(1800) * 1000000) /* after which a connection without calls is closed */
#define GRPC_REQUESTS_SIZE_MAX                                                                              \
        (64U * 1024U * 1024U) /* bytes of requests that a connection has not completed */

typedef enum GrpcStatus {
        GRPC_OK = 0,
        GRPC_CANCELLED = 1,
        GRPC_UNKNOWN = 2,
        GRPC_INVALID_ARGUMENT = 3,
        GRPC_DEADLINE_EXCEEDED = 4,
        GRPC_NOT_FOUND = 5,
        GRPC_ALREADY_EXISTS = 6,
        GRPC_PERMISSION_DENIED = 7,
        GRPC_RESOURCE_EXHAUSTED = 8,
        GRPC_FAILED_PRECONDITION = 9,
        GRPC_ABORTED = 10,
        GRPC_OUT_OF_RANGE = 11,
        GRPC_UNIMPLEMENTED = 12,
        GRPC_INTERNAL = 13,
        GRPC_UNAVAILABLE = 14,
        GRPC_DATA_LOSS = 15,
        GRPC_UNAUTHENTICATED = 16,
} GrpcStatus;

typedef struct GrpcServer GrpcServer;
typedef struct GrpcCall GrpcCall;

/* Handles CALL with its REQUEST, SIZE bytes that are lent. The handler finishes the call, at once or later; to finish it later
 * it takes a reference. If it returns a negative errno, the server finishes the call with GRPC_INTERNAL. */
typedef int (*GrpcHandler)(GrpcCall *call, const uint8_t *request, size_t size, void *userdata);

typedef struct GrpcMethod {
        const char *path; /* "/runtime.v1.RuntimeService/Version" */
        GrpcHandler handler;
} GrpcMethod;

/* --- server.c ------------------------------------------------------------------------------------------ */

/* METHODS are lent, as is EVENT. */
int grpc_server_new(sd_event *event, const GrpcMethod *methods, size_t n_methods, void *userdata,
                    GrpcServer **ret, Error *e);
/* Ends all connections; their calls are gone. NULL is fine. */
GrpcServer *grpc_server_free(GrpcServer *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(GrpcServer *, grpc_server_free);
/* Takes FD over, a socket that listens. */
int grpc_server_listen(GrpcServer *s, int fd, Error *e);
/* Takes FD over, a connection. */
int grpc_server_connect(GrpcServer *s, int fd, Error *e);
/* Accepts no connection and no call any more (GOAWAY). Those that were accepted go on; DRAINED is called when the last
 * connection has ended, which may be at once. */
void grpc_server_drain(GrpcServer *s, void (*drained)(void *userdata), void *userdata);
size_t grpc_server_connections(const GrpcServer *s);
/* BEGUN is called when a handler is about to get a call, and ENDED when it is over, in whatever way: it was finished, cancelled by
 * its client, or its deadline is over. MESSAGE may be NULL. Both get the userdata of the methods. */
typedef struct GrpcObserver {
        void (*begun)(GrpcCall *c, void *userdata);
        void (*ended)(GrpcCall *c, GrpcStatus status, const char *message, void *userdata);
} GrpcObserver;
void grpc_server_observe(GrpcServer *s, const GrpcObserver *o);
/* Replaces the limits above, for tests. */
void grpc_server_set_bounds(GrpcServer *s, size_t connections_max, uint64_t idle_usec);

/* --- call.c -------------------------------------------------------------------------------------------- */

GrpcCall *grpc_call_ref(GrpcCall *c);
GrpcCall *grpc_call_unref(GrpcCall *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(GrpcCall *, grpc_call_unref);

/* GONE is called, once and from the event loop, if the call ends before it is finished: it was cancelled by the client, its
 * deadline is over, or the connection has ended. The call is over then, and all that is still sent is dropped. */
void grpc_call_on_gone(GrpcCall *c, void (*gone)(GrpcCall *c, void *userdata), void *userdata);
/* The method that was called, in the table of the server. */
const GrpcMethod *grpc_call_method(const GrpcCall *c);
/* Microseconds of CLOCK_MONOTONIC by which the client wants a reply; UINT64_MAX: it named no time. */
uint64_t grpc_call_deadline(const GrpcCall *c);
/* For how long a handler has had the call, in microseconds. */
uint64_t grpc_call_age(const GrpcCall *c);
/* The name of the call in traces: the trace ID that the client has sent (W3C Trace Context), or a random one; 32 digits. */
#define GRPC_TRACE_ID_SIZE 33U
const char *grpc_call_trace_id(GrpcCall *c);
/* "OK", "INVALID_ARGUMENT" and so on. */
const char *grpc_status_to_string(GrpcStatus status);
#define N_GRPC_STATUSES 17U

/* Sends a reply, SIZE bytes that are copied. -ECONNRESET: the call is over. */
int grpc_call_send(GrpcCall *c, const void *reply, size_t size);
/* Ends the call. MESSAGE, which may be NULL, says why STATUS is not GRPC_OK. */
int grpc_call_finish(GrpcCall *c, GrpcStatus status, const char *message);
/* The one reply of a method, and its end. */
int grpc_call_reply(GrpcCall *c, const void *reply, size_t size);
/* The number of queued bytes that the connection has not sent yet. */
size_t grpc_call_unsent(const GrpcCall *c);
