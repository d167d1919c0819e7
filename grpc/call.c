/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls: the headers and the request of one, its replies, and its end.
 *
 * A request or reply is framed by five bytes, a flag for compression and the size. A method has one request; it is complete
 * when the client has ended its side of the stream, and then the handler gets it. The status is in the trailers, or, of a
 * call without a reply, in the headers.
 */

#include <endian.h>
#include <sys/random.h>

#include "grpc/grpc-internal.h"
#include "library/libsystemd.h"

#define FRAME_HEADER 5U

/* --- References ---------------------------------------------------------------------------------------- */

GrpcCall *grpc_call_ref(GrpcCall *c)
{
        if (c)
                c->n_ref++;
        return c;
}

GrpcCall *grpc_call_unref(GrpcCall *c)
{
        if (!c || --c->n_ref > 0)
                return NULL;
        sd_event_source_disable_unref(c->timer);
        text_done(&c->request);
        text_done(&c->reply);
        free(c->message);
        free(c);
        return NULL;
}

int call_new(Connection *k, int32_t stream, GrpcCall **ret)
{
        GrpcCall *c = calloc(1, sizeof(GrpcCall));

        if (!c)
                return -ENOMEM;
        *c = (GrpcCall){.n_ref = 1,
                        .next = k->calls,
                        .connection = k,
                        .server = k->server,
                        .stream = stream,
                        .deadline_usec = UINT64_MAX};
        k->calls = c;
        *ret = c;
        return 0;
}

static void forget_request(GrpcCall *c)
{
        if (c->connection)
                c->connection->requested -= c->request.size;
        text_done(&c->request);
}

static void observe_end(GrpcCall *c, GrpcStatus status, const char *message)
{
        if (c->server->observer.ended)
                c->server->observer.ended(c, status, message, c->server->userdata);
}

/* The client or the connection has ended it. */
static void set_gone(GrpcCall *c)
{
        bool handled = c->state == CALL_HANDLED;

        if (handled)
                observe_end(c, GRPC_CANCELLED, NULL);
        c->state = CALL_GONE;
        c->timer = sd_event_source_disable_unref(c->timer);
        if (handled && c->gone)
                c->gone(c, c->userdata);
}

void call_close(GrpcCall *c)
{
        GrpcCall **i = &c->connection->calls;

        while (*i != c)
                i = &(*i)->next;
        *i = c->next;
        if (!c->connection->calls)
                server_can_make_room(c->connection->server);
        forget_request(c);
        (void) nghttp2_session_set_stream_user_data(c->connection->session, c->stream, NULL);
        c->connection = NULL;
        if (c->state != CALL_FINISHED && c->state != CALL_GONE)
                set_gone(c);
        grpc_call_unref(c);
}

void grpc_call_on_gone(GrpcCall *c, void (*gone)(GrpcCall *c, void *userdata), void *userdata)
{
        c->gone = gone;
        c->userdata = userdata;
}

const GrpcMethod *grpc_call_method(const GrpcCall *c)
{
        return c->method;
}

uint64_t grpc_call_deadline(const GrpcCall *c)
{
        return c->deadline_usec;
}

uint64_t grpc_call_age(const GrpcCall *c)
{
        return now_usec(CLOCK_MONOTONIC) - c->begun_usec;
}

/* Unique, not secret: without random bytes it is the time. */
const char *grpc_call_trace_id(GrpcCall *c)
{
        uint64_t random[2];

        if (c->trace_id[0])
                return c->trace_id;
        if (getrandom(random, sizeof(random), GRND_NONBLOCK) != (ssize_t) sizeof(random)) {
                random[0] = now_usec(CLOCK_REALTIME);
                random[1] = now_usec(CLOCK_MONOTONIC);
        }
        snprintf(c->trace_id, sizeof(c->trace_id), "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
        return c->trace_id;
}

/* --- Replies ------------------------------------------------------------------------------------------- */

static nghttp2_nv header(const char *name, const char *value)
{
        return (nghttp2_nv){.name = (uint8_t *) name,
                            .value = (uint8_t *) value,
                            .namelen = strlen(name),
                            .valuelen = strlen(value)};
}

/* The status, as headers or trailers. How many. */
static size_t status_headers(const GrpcCall *c, char number[static 16], nghttp2_nv *ret)
{
        snprintf(number, 16, "%d", c->status);
        ret[0] = header("grpc-status", number);
        if (!c->message)
                return 1;
        ret[1] = header("grpc-message", c->message);
        return 2;
}

static int submit_trailers(GrpcCall *c)
{
        nghttp2_nv headers[2];
        char number[16];
        size_t n = status_headers(c, number, headers);

        return nghttp2_submit_trailer(c->connection->session, c->stream, headers, n);
}

/* What nghttp2 asks for when the client and the socket take more. */
static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *data, size_t size, uint32_t *flags,
                       nghttp2_data_source *source, void *userdata)
{
        GrpcCall *c = source->ptr;
        size_t n = MIN(size, c->reply.size - c->reply_done);

        if (n > 0)
                memcpy(data, c->reply.data + c->reply_done, n);
        c->reply_done += n;
        if (c->reply_done < c->reply.size)
                return (ssize_t) n;
        text_done(&c->reply);
        c->reply_done = 0;
        if (c->state == CALL_FINISHED || c->state == CALL_GONE) {
                *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
                return submit_trailers(c) == 0 ? (ssize_t) n : NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        c->deferred = n == 0;
        return n == 0 ? NGHTTP2_ERR_DEFERRED : (ssize_t) n;
}

/* PROVIDER may be NULL: the headers are all. */
static int submit_response(GrpcCall *c, const char *http_status, const nghttp2_data_provider *provider)
{
        nghttp2_nv headers[4] = {header(":status", http_status), header("content-type", "application/grpc")};
        char number[16];
        size_t n = 2 + (provider ? 0 : status_headers(c, number, headers + 2));

        int r = nghttp2_submit_response(c->connection->session, c->stream, headers, n, provider);
        return r == 0 ? 0 : r == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ECONNRESET;
}

/* Begins or continues to send the reply. */
static int flush_reply(GrpcCall *c)
{
        const nghttp2_data_provider provider = {.source.ptr = c, .read_callback = on_read};
        int r = 0;

        if (!c->replies) {
                c->replies = true;
                r = submit_response(c, "200", &provider);
        } else if (c->deferred) {
                c->deferred = false;
                (void) nghttp2_session_resume_data(c->connection->session, c->stream);
        }
        if (r >= 0)
                connection_kick(c->connection);
        return r;
}

int grpc_call_send(GrpcCall *c, const void *reply, size_t size)
{
        uint8_t frame[FRAME_HEADER] = {};
        uint32_t length = htobe32((uint32_t) size);

        if (c->state != CALL_HANDLED || !c->connection)
                return -ECONNRESET;
        if (size > UINT32_MAX)
                return -EMSGSIZE;
        memcpy(frame + 1, &length, sizeof(length));
        text_add_bytes(&c->reply, frame, sizeof(frame));
        text_add_bytes(&c->reply, reply, size);
        return c->reply.failed ? -ENOMEM : flush_reply(c);
}

/* A response that is not one of gRPC, or has no reply, is its headers alone. */
static int finish(GrpcCall *c, CallState state, const char *http_status, GrpcStatus status,
                  const char *message)
{
        c->timer = sd_event_source_disable_unref(c->timer);
        c->state = state;
        c->status = status;
        forget_request(c);
        if (!c->connection)
                return -ECONNRESET;
        c->message = message ? grpc_message_encode(message) : NULL;
        if (message && !c->message)
                return -ENOMEM;
        if (c->replies)
                return flush_reply(c);
        c->replies = true;
        int r = submit_response(c, http_status, NULL);
        if (r >= 0)
                connection_kick(c->connection);
        return r;
}

int grpc_call_finish(GrpcCall *c, GrpcStatus status, const char *message)
{
        if (c->state != CALL_HANDLED)
                return -ECONNRESET;
        observe_end(c, status, message);
        return finish(c, CALL_FINISHED, "200", status, message);
}

int grpc_call_reply(GrpcCall *c, const void *reply, size_t size)
{
        int r = grpc_call_send(c, reply, size);

        return r < 0 ? r : grpc_call_finish(c, GRPC_OK, NULL);
}

size_t grpc_call_unsent(const GrpcCall *c)
{
        return c->reply.size - c->reply_done;
}

/* --- Headers ------------------------------------------------------------------------------------------- */

static bool equal(const char *a, size_t size, const char *b)
{
        return strlen(b) == size && memcmp(a, b, size) == 0;
}

static void take_path(GrpcCall *c, const char *value, size_t size)
{
        const GrpcServer *s = c->connection->server;

        for (size_t i = 0; i < s->n_methods; i++)
                if (equal(value, size, s->methods[i].path))
                        c->method = &s->methods[i];
}

/* "application/grpc", "application/grpc+proto" and "application/grpc;…", not "application/grpc-web". */
static void take_type(GrpcCall *c, const char *value, size_t size)
{
        static const char type[] = "application/grpc";
        size_t n = sizeof(type) - 1;

        c->is_grpc = size >= n && memcmp(value, type, n) == 0 &&
                     (size == n || value[n] == '+' || value[n] == ';');
}

static void take_timeout(GrpcCall *c, const char *value, size_t size)
{
        uint64_t usec;

        if (grpc_timeout_parse(value, size, &usec) < 0)
                c->bad_timeout = true;
        else
                c->deadline_usec = now_usec(CLOCK_MONOTONIC) + usec;
}

void call_take_header(GrpcCall *c, const char *name, size_t name_size, const char *value, size_t value_size)
{
        if (equal(name, name_size, ":method"))
                c->is_post = equal(value, value_size, "POST");
        else if (equal(name, name_size, ":path"))
                take_path(c, value, value_size);
        else if (equal(name, name_size, "content-type"))
                take_type(c, value, value_size);
        else if (equal(name, name_size, "grpc-timeout"))
                take_timeout(c, value, value_size);
        else if (equal(name, name_size, "grpc-encoding"))
                c->compressed = !equal(value, value_size, "identity");
        else if (c->state == CALL_HEADERS && equal(name, name_size, "traceparent"))
                (void) grpc_traceparent_parse(value, value_size, c->trace_id);
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
        GrpcCall *c = grpc_call_ref(userdata);
        void (*gone)(GrpcCall * c, void *userdata) = c->state == CALL_HANDLED ? c->gone : NULL;

        if (c->state == CALL_HANDLED)
                observe_end(c, GRPC_DEADLINE_EXCEEDED, NULL);
        (void) finish(c, CALL_GONE, "200", GRPC_DEADLINE_EXCEEDED, "The time of the call is over");
        if (gone)
                gone(c, c->userdata);
        grpc_call_unref(c);
        return 0;
}

static int arm_deadline(GrpcCall *c)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (c->deadline_usec == UINT64_MAX)
                return 0;
        return sd_event_add_time_relative(c->connection->server->event, &c->timer, CLOCK_MONOTONIC,
                                          c->deadline_usec > now ? c->deadline_usec - now : 0, 1,
                                          on_deadline, c);
}

int call_begin(GrpcCall *c, bool end)
{
        c->state = CALL_REQUEST;
        if (!c->is_post)
                return finish(c, CALL_FINISHED, "405", GRPC_INTERNAL, "The method of HTTP is not POST");
        if (!c->is_grpc)
                return finish(c, CALL_FINISHED, "415", GRPC_INTERNAL,
                              "The content type is not application/grpc");
        if (c->bad_timeout)
                return finish(c, CALL_FINISHED, "200", GRPC_INTERNAL,
                              "The value of grpc-timeout is not valid");
        if (c->compressed)
                return finish(c, CALL_FINISHED, "200", GRPC_UNIMPLEMENTED,
                              "Compressed requests are not supported");
        if (!c->method)
                return finish(c, CALL_FINISHED, "200", GRPC_UNIMPLEMENTED, "There is no such method");
        int r = arm_deadline(c);
        return r < 0 || !end ? r : call_end_request(c);
}

/* --- The request --------------------------------------------------------------------------------------- */

static uint32_t frame_size(const GrpcCall *c)
{
        uint32_t size;

        memcpy(&size, c->request.data + 1, sizeof(size));
        return be32toh(size);
}

static int check_request(GrpcCall *c)
{
        if (c->request.size >= 1 && c->request.data[0] != 0)
                return finish(c, CALL_FINISHED, "200", GRPC_UNIMPLEMENTED,
                              "Compressed requests are not supported");
        if (c->request.size < FRAME_HEADER)
                return 0;
        if (frame_size(c) > GRPC_MESSAGE_SIZE_MAX)
                return finish(c, CALL_FINISHED, "200", GRPC_RESOURCE_EXHAUSTED,
                              "The request is larger than 16 MiB");
        if (c->request.size > FRAME_HEADER + frame_size(c))
                return finish(c, CALL_FINISHED, "200", GRPC_INTERNAL, "More than one request was sent");
        return 0;
}

int call_take_data(GrpcCall *c, const uint8_t *data, size_t size)
{
        Connection *k = c->connection;

        if (c->state != CALL_REQUEST)
                return 0; /* it is finished, and the client does not know it yet */
        if (k->requested + size > GRPC_REQUESTS_SIZE_MAX)
                return finish(c, CALL_FINISHED, "200", GRPC_RESOURCE_EXHAUSTED,
                              "The requests of this connection are too large together");
        size_t before = c->request.size;
        text_add_bytes(&c->request, data, size);
        if (c->request.failed)
                return -ENOMEM;
        k->requested += c->request.size - before;
        return check_request(c);
}

int call_end_request(GrpcCall *c)
{
        if (c->state != CALL_REQUEST)
                return 0;
        if (c->request.size < FRAME_HEADER || c->request.size < FRAME_HEADER + frame_size(c))
                return finish(c, CALL_FINISHED, "200", GRPC_INTERNAL, "The request is not complete");
        _cleanup_text_ Text request = c->request;
        c->request = (Text){};
        c->connection->requested -= request.size;
        c->state = CALL_HANDLED;
        c->begun_usec = now_usec(CLOCK_MONOTONIC);
        if (c->server->observer.begun)
                c->server->observer.begun(c, c->server->userdata);
        int r = c->method->handler(c, (const uint8_t *) request.data + FRAME_HEADER,
                                   request.size - FRAME_HEADER, c->connection->server->userdata);
        if (r < 0 && c->state == CALL_HANDLED)
                (void) grpc_call_finish(c, GRPC_INTERNAL, strerror(-r));
        return 0;
}
