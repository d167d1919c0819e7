/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection: bytes between its socket and nghttp2, and the events of nghttp2 for its calls.
 *
 * nghttp2 calls back from within its functions, and calls are finished from within their handlers: so nothing here calls
 * nghttp2 from a callback; what is to be sent is sent when the callback has returned. A connection is freed by the event
 * loop alone.
 */

#include <sys/epoll.h>
#include <sys/socket.h>

#include "grpc/grpc-internal.h"
#include "library/libsystemd.h"

#define READ_SIZE 65536U
#define STREAM_WINDOW (1 << 20)
#define CONNECTION_WINDOW (4 << 20)
#define HEADERS_SIZE_MAX 16384U /* bytes of a list of headers */

/* --- What nghttp2 tells -------------------------------------------------------------------------------- */

static GrpcCall *find_call(nghttp2_session *session, int32_t stream)
{
        return nghttp2_session_get_stream_user_data(session, stream);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
        Connection *k = userdata;
        GrpcCall *c = NULL;

        if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
                return 0;
        if (call_new(k, frame->hd.stream_id, &c) < 0)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        (void) nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, c);
        return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *userdata)
{
        GrpcCall *c = find_call(session, frame->hd.stream_id);

        if (c)
                call_take_header(c, (const char *) name, name_size, (const char *) value, value_size);
        return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
        GrpcCall *c = find_call(session, frame->hd.stream_id);
        bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        int r = 0;

        if (!c)
                return 0;
        if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
                r = call_begin(c, end);
        else if (end && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))
                r = call_end_request(c);
        return r < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t size,
                   void *userdata)
{
        GrpcCall *c = find_call(session, stream);

        return c && call_take_data(c, data, size) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* A client that still sends its request is told not to go on. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
        int32_t stream = frame->hd.stream_id;

        if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
            (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
            nghttp2_session_get_stream_remote_close(session, stream) == 0)
                return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_NO_ERROR);
        return 0;
}

static int on_stream_closed(nghttp2_session *session, int32_t stream, uint32_t code, void *userdata)
{
        GrpcCall *c = find_call(session, stream);

        if (c)
                call_close(c);
        return 0;
}

static int new_session(Connection *k)
{
        nghttp2_session_callbacks *callbacks = NULL;
        nghttp2_option *option = NULL;

        int r = nghttp2_session_callbacks_new(&callbacks);
        if (r == 0)
                r = nghttp2_option_new(&option);
        if (r == 0) {
                nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
                nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
                nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
                nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
                nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
                nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_closed);
                nghttp2_option_set_no_closed_streams(option, 1);
                r = nghttp2_session_server_new2(&k->session, callbacks, k, option);
        }
        nghttp2_option_del(option);
        nghttp2_session_callbacks_del(callbacks);
        return r == 0 ? 0 : -ENOMEM;
}

static int send_settings(Connection *k)
{
        static const nghttp2_settings_entry settings[] = {
                        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_CALLS_MAX},
                        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
                        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_SIZE_MAX},
        };

        return nghttp2_submit_settings(k->session, NGHTTP2_FLAG_NONE, settings, ELEMENTSOF(settings)) == 0 &&
                                               nghttp2_session_set_local_window_size(k->session,
                                                                                     NGHTTP2_FLAG_NONE, 0,
                                                                                     CONNECTION_WINDOW) == 0
                               ? 0
                               : -ENOMEM;
}

/* --- Bytes --------------------------------------------------------------------------------------------- */

/* As much as the socket takes. */
static int send_all(Connection *k)
{
        for (;;) {
                if (k->n_unsent == 0) {
                        k->busy = true;
                        ssize_t size = nghttp2_session_mem_send(k->session, &k->unsent);
                        k->busy = false;
                        if (size <= 0)
                                return size < 0 ? -EPROTO : 0;
                        k->n_unsent = (size_t) size;
                }
                ssize_t n = send(k->fd, k->unsent, k->n_unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                k->unsent += n;
                k->n_unsent -= (size_t) n;
        }
}

/* What is there now, a part at a time, so that no connection keeps the others waiting. */
static int receive(Connection *k)
{
        uint8_t data[READ_SIZE];
        ssize_t n = recv(k->fd, data, sizeof(data), MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n == 0)
                return -ECONNRESET;
        k->used_usec = now_usec(CLOCK_MONOTONIC);
        k->busy = true;
        ssize_t taken = nghttp2_session_mem_recv(k->session, data, (size_t) n);
        k->busy = false;
        return taken == n ? 0 : -EPROTO;
}

static bool is_over(const Connection *k)
{
        return k->n_unsent == 0 && !nghttp2_session_want_read(k->session) &&
               !nghttp2_session_want_write(k->session);
}

static void watch(Connection *k)
{
        bool writes = k->failed || k->n_unsent > 0 || nghttp2_session_want_write(k->session);

        (void) sd_event_source_set_io_events(k->io, EPOLLIN | (writes ? EPOLLOUT : 0));
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Connection *k = userdata;
        int r = k->failed ? -EPROTO : 0;

        if (r >= 0 && (revents & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                r = receive(k);
        /* After a fault of the peer, nghttp2 says what it was. */
        int sent = k->failed ? r : send_all(k);
        if (r < 0 || sent < 0 || is_over(k)) {
                connection_free(k);
                return 0;
        }
        watch(k);
        return 0;
}

void connection_kick(Connection *k)
{
        if (k->busy)
                return;
        k->failed = k->failed || send_all(k) < 0 || is_over(k);
        watch(k);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int connection_new(GrpcServer *s, int fd)
{
        Connection *k = calloc(1, sizeof(Connection));

        if (!k)
                return -ENOMEM;
        *k = (Connection){.server = s, .fd = fd, .used_usec = now_usec(CLOCK_MONOTONIC)};
        int r = new_session(k);
        if (r >= 0)
                r = send_settings(k);
        if (r >= 0)
                r = sd_event_add_io(s->event, &k->io, fd, EPOLLIN | EPOLLOUT, on_io, k);
        if (r < 0) {
                nghttp2_session_del(k->session);
                free(k);
                return r;
        }
        k->next = s->connections;
        s->connections = k;
        s->n_connections++;
        return 0;
}

void connection_free(Connection *k)
{
        GrpcServer *s = k->server;
        Connection **i = &s->connections;

        while (*i != k)
                i = &(*i)->next;
        *i = k->next;
        s->n_connections--;
        k->busy = true; /* calls that are gone may be finished: nothing is sent any more */
        while (k->calls)
                call_close(k->calls);
        sd_event_source_disable_unref(k->io);
        nghttp2_session_del(k->session);
        safe_close(k->fd);
        free(k);
        server_has_room(s);
        if (s->n_connections == 0 && s->drained) {
                void (*drained)(void *userdata) = s->drained;
                s->drained = NULL;
                drained(s->drained_userdata);
        }
}

bool connection_is_idle(const Connection *k)
{
        return !k->calls && !k->leaving;
}

void connection_drain(Connection *k)
{
        k->leaving = true;
        int32_t last = nghttp2_session_get_last_proc_stream_id(k->session);

        (void) nghttp2_submit_goaway(k->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
        connection_kick(k);
}
