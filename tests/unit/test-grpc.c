/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gRPC services, driven by a client of nghttp2: requests, replies, deadlines, cancellation, bounds, and the end. */

#include <endian.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "grpc/grpc-internal.h"
#include "library/libsystemd.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define STREAMS_MAX (GRPC_CALLS_MAX + 256)

/* What the client has of a response. */
typedef struct Response {
        bool closed;
        uint32_t code; /* of HTTP/2, why it is closed */
        char status[16], grpc_status[16], message[256];
        Text data;
        const uint8_t *request;
        size_t n_request, n_sent;
        bool holds; /* the request has no end */
} Response;

typedef struct Fixture {
        sd_event *event;
        GrpcServer *server;
        int fd;
        nghttp2_session *session;
        Response responses[STREAMS_MAX];
        bool goaway, closed, drained;
        GrpcCall *held[STREAMS_MAX];
        size_t n_held, n_gone;
} Fixture;

/* --- The service --------------------------------------------------------------------------------------- */

static int echo(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        return grpc_call_reply(c, request, size);
}

static int refuse(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        return grpc_call_finish(c, GRPC_NOT_FOUND, "No p\303\266d\n100%");
}

static int fail(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        return -EIO;
}

static int count(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        for (char i = '0'; i < '5'; i++)
                if (grpc_call_send(c, &i, 1) < 0)
                        return -EIO;
        return grpc_call_finish(c, GRPC_OK, NULL);
}

static void on_gone(GrpcCall *c, void *userdata)
{
        Fixture *f = userdata;

        f->n_gone++;
}

static int hold(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        Fixture *f = userdata;

        f->held[f->n_held++] = grpc_call_ref(c);
        grpc_call_on_gone(c, on_gone, f);
        return 0;
}

static const GrpcMethod methods[] = {
                {"/test.Service/Echo", echo}, {"/test.Service/Refuse", refuse},
                {"/test.Service/Fail", fail}, {"/test.Service/Count", count},
                {"/test.Service/Hold", hold},
};

/* --- The client ---------------------------------------------------------------------------------------- */

static Response *response_of(Fixture *f, int32_t stream)
{
        return &f->responses[(stream / 2) % STREAMS_MAX];
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *userdata)
{
        Response *r = response_of(userdata, frame->hd.stream_id);
        const char *n = (const char *) name, *v = (const char *) value;

        if (streq(n, ":status"))
                snprintf(r->status, sizeof(r->status), "%s", v);
        else if (streq(n, "grpc-status"))
                snprintf(r->grpc_status, sizeof(r->grpc_status), "%s", v);
        else if (streq(n, "grpc-message"))
                snprintf(r->message, sizeof(r->message), "%s", v);
        return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t size,
                   void *userdata)
{
        text_add_bytes(&response_of(userdata, stream)->data, data, size);
        return 0;
}

static int on_closed(nghttp2_session *session, int32_t stream, uint32_t code, void *userdata)
{
        Response *r = response_of(userdata, stream);

        r->closed = true;
        r->code = code;
        return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
        Fixture *f = userdata;

        f->goaway |= frame->hd.type == NGHTTP2_GOAWAY;
        return 0;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *data, size_t size, uint32_t *flags,
                       nghttp2_data_source *source, void *userdata)
{
        Response *r = source->ptr;
        size_t n = MIN(size, r->n_request - r->n_sent);

        memcpy(data, r->request + r->n_sent, n);
        r->n_sent += n;
        if (r->n_sent == r->n_request && !r->holds)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        return n == 0 && r->holds ? NGHTTP2_ERR_DEFERRED : (ssize_t) n;
}

static int set_up(Fixture *f)
{
        nghttp2_session_callbacks *callbacks;
        int fds[2];

        *f = (Fixture){.fd = -EBADF};
        int r = library_load(&systemd_library, NULL);
        if (r >= 0)
                r = sd_event_new(&f->event);
        if (r >= 0)
                r = grpc_server_new(f->event, methods, ELEMENTSOF(methods), f, &f->server, NULL);
        if (r < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return -EIO;
        f->fd = fds[0];
        r = grpc_server_connect(f->server, fds[1], NULL);
        if (r < 0 || nghttp2_session_callbacks_new(&callbacks) != 0)
                return -EIO;
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        r = nghttp2_session_client_new(&f->session, callbacks, f);
        nghttp2_session_callbacks_del(callbacks);
        return r == 0 && nghttp2_submit_settings(f->session, 0, NULL, 0) == 0 ? 0 : -EIO;
}

static void fixture_done(Fixture *f)
{
        for (size_t i = 0; i < f->n_held; i++)
                grpc_call_unref(f->held[i]);
        grpc_server_free(f->server);
        nghttp2_session_del(f->session);
        for (size_t i = 0; i < STREAMS_MAX; i++)
                text_done(&f->responses[i].data);
        sd_event_unref(f->event);
        safe_close(f->fd);
}

/* Some of what is to be done on both sides. Whether there was anything. */
static bool step(Fixture *f)
{
        static uint8_t buffer[262144];
        const uint8_t *data;
        bool did = false;
        ssize_t n;

        for (int i = 0; i < 16 && (n = nghttp2_session_mem_send(f->session, &data)) > 0; i++) {
                for (size_t done = 0; done < (size_t) n && !f->closed;) {
                        ssize_t k = send(f->fd, data + done, (size_t) n - done, MSG_NOSIGNAL);
                        if (k < 0 && errno == EAGAIN)
                                (void) sd_event_run(f->event, 0);
                        f->closed |= k < 0 && errno != EAGAIN;
                        done += k > 0 ? (size_t) k : 0;
                }
                did = true;
        }
        did |= sd_event_run(f->event, 0) > 0;
        n = f->closed ? -1 : recv(f->fd, buffer, sizeof(buffer), 0);
        f->closed |= n == 0;
        if (n > 0)
                (void) nghttp2_session_mem_recv(f->session, buffer, (size_t) n);
        return did || n > 0;
}

static void settle(Fixture *f)
{
        for (unsigned quiet = 0; quiet < 3;)
                quiet = step(f) ? 0 : quiet + 1;
}

static nghttp2_nv header(const char *name, const char *value)
{
        return (nghttp2_nv){.name = (uint8_t *) name,
                            .value = (uint8_t *) value,
                            .namelen = strlen(name),
                            .valuelen = strlen(value)};
}

/* PAIRS are headers instead of, or beyond, the usual ones. */
static int32_t call_with(Fixture *f, const char *path, const void *data, size_t size, bool holds,
                         const char *const pairs[][2])
{
        const char *usual[][2] = {{":method", "POST"}, {":scheme", "http"},
                                  {":path", path},     {":authority", "x"},
                                  {"te", "trailers"},  {"content-type", "application/grpc"}};
        nghttp2_nv headers[16];
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(usual); i++) {
                const char *value = usual[i][1];
                for (size_t j = 0; pairs && pairs[j][0]; j++)
                        if (streq(pairs[j][0], usual[i][0]))
                                value = pairs[j][1];
                headers[n++] = header(usual[i][0], value);
        }
        for (size_t j = 0; pairs && pairs[j][0]; j++)
                if (pairs[j][0][0] == 'g')
                        headers[n++] = header(pairs[j][0], pairs[j][1]);
        int32_t next = (int32_t) nghttp2_session_get_next_stream_id(f->session);
        Response *r = response_of(f, next);
        text_done(&r->data);
        *r = (Response){.request = data, .n_request = size, .holds = holds};
        const nghttp2_data_provider provider = {.source.ptr = r, .read_callback = on_read};
        return nghttp2_submit_request(f->session, NULL, headers, n, data ? &provider : NULL, NULL);
}

static int32_t call(Fixture *f, const char *path, const char *text)
{
        static uint8_t frames[16][1024];
        static unsigned turn;
        uint8_t *frame = frames[turn++ % 16];
        uint32_t size = htobe32((uint32_t) strlen(text));

        frame[0] = 0;
        memcpy(frame + 1, &size, 4);
        memcpy(frame + 5, text, strlen(text));
        return call_with(f, path, frame, 5 + strlen(text), false, NULL);
}

#define ASSERT_STATUS(f, stream, expected, text)                                                            \
        do {                                                                                                \
                Response *response = response_of(f, stream);                                                \
                ASSERT_TRUE(response->closed);                                                              \
                ASSERT_STREQ(response->grpc_status, expected);                                              \
                ASSERT_STREQ(response->message, text);                                                      \
        } while (0)

/* --- Tests --------------------------------------------------------------------------------------------- */

TEST(a_call_and_its_reply)
{
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        for (unsigned i = 0; i < 3; i++) {
                int32_t stream = call(&f, "/test.Service/Echo", "hello");
                ASSERT_GT(stream, 0);
                settle(&f);
                ASSERT_STATUS(&f, stream, "0", "");
                Response *r = response_of(&f, stream);
                ASSERT_STREQ(r->status, "200");
                ASSERT_EQ(r->data.size, 10);
                ASSERT_MEMEQ(r->data.data, "\0\0\0\0\5hello", 10);
                ASSERT_EQ(r->code, NGHTTP2_NO_ERROR);
        }
        int32_t stream = call(&f, "/test.Service/Echo", "");
        settle(&f);
        ASSERT_STATUS(&f, stream, "0", "");
        ASSERT_EQ(response_of(&f, stream)->data.size, 5);
}

TEST(several_replies)
{
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        int32_t stream = call(&f, "/test.Service/Count", "");
        settle(&f);
        ASSERT_STATUS(&f, stream, "0", "");
        ASSERT_EQ(response_of(&f, stream)->data.size, 30);
        ASSERT_MEMEQ(response_of(&f, stream)->data.data, "\0\0\0\0\0010\0\0\0\0\0011", 12);
}

TEST(errors)
{
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        int32_t refused = call(&f, "/test.Service/Refuse", "x"),
                failed = call(&f, "/test.Service/Fail", "x"),
                unknown = call(&f, "/test.Service/Nothing", "x");
        settle(&f);
        ASSERT_STATUS(&f, refused, "5", "No p%C3%B6d%0A100%25");
        ASSERT_EQ(response_of(&f, refused)->data.size, 0);
        ASSERT_STATUS(&f, failed, "13", "Input/output error");
        ASSERT_STATUS(&f, unknown, "12", "There is no such method");
}

TEST(requests_that_are_none)
{
        static const uint8_t compressed[] = {1, 0, 0, 0, 1, 'x'},
                             two[] = {0, 0, 0, 0, 1, 'x', 0, 0, 0, 0, 0}, part[] = {0, 0, 0, 0, 9, 'x'},
                             large[] = {0, 2, 0, 0, 0}, good[] = {0, 0, 0, 0, 1, 'x'};
        static const struct {
                const uint8_t *data;
                size_t size;
                const char *pairs[3][2];
                const char *http, *status, *message;
        } cases[] = {
                        {compressed,
                         sizeof(compressed),
                         {},
                         "200",
                         "12",
                         "Compressed requests are not supported"},
                        {two, sizeof(two), {}, "200", "13", "More than one request was sent"},
                        {part, sizeof(part), {}, "200", "13", "The request is not complete"},
                        {part, 3, {}, "200", "13", "The request is not complete"},
                        {large, sizeof(large), {}, "200", "8", "The request is larger than 16 MiB"},
                        {NULL, 0, {}, "200", "13", "The request is not complete"},
                        {good,
                         sizeof(good),
                         {{":method", "PUT"}},
                         "405",
                         "13",
                         "The method of HTTP is not POST"},
                        {good,
                         sizeof(good),
                         {{"content-type", "text/html"}},
                         "415",
                         "13",
                         "The content type is not application/grpc"},
                        {good,
                         sizeof(good),
                         {{"content-type", "application/grpc-web"}},
                         "415",
                         "13",
                         "The content type is not application/grpc"},
                        {good, sizeof(good), {{"content-type", "application/grpc+proto"}}, "200", "0", ""},
                        {good, sizeof(good), {{"grpc-encoding", "identity"}}, "200", "0", ""},
                        {good,
                         sizeof(good),
                         {{"grpc-encoding", "gzip"}},
                         "200",
                         "12",
                         "Compressed requests are not supported"},
                        {good,
                         sizeof(good),
                         {{"grpc-timeout", "1"}},
                         "200",
                         "13",
                         "The value of grpc-timeout is not valid"},
                        {good, sizeof(good), {{"grpc-timeout", "1H"}}, "200", "0", ""},
        };
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                int32_t stream = call_with(&f, "/test.Service/Echo", cases[i].data, cases[i].size, false,
                                           cases[i].pairs);
                settle(&f);
                ASSERT_STREQ(response_of(&f, stream)->status, cases[i].http);
                ASSERT_STATUS(&f, stream, cases[i].status, cases[i].message);
        }
        /* What is refused before its end is not read to its end. */
        int32_t stream = call_with(&f, "/test.Service/Echo", large, sizeof(large), true, NULL);
        settle(&f);
        ASSERT_STATUS(&f, stream, "8", "The request is larger than 16 MiB");
        ASSERT_FALSE(f.closed);
}

TEST(large_requests_and_replies)
{
        size_t size = GRPC_MESSAGE_SIZE_MAX;
        _cleanup_free_ uint8_t *frame = malloc(size + 5);
        _cleanup_(fixture_done) Fixture f;
        uint32_t length = htobe32((uint32_t) size);

        ASSERT_NOT_NULL(frame);
        ASSERT_OK(set_up(&f));
        frame[0] = 0;
        memcpy(frame + 1, &length, 4);
        for (size_t i = 0; i < size; i++)
                frame[5 + i] = (uint8_t) (i * 7 >> 3);
        int32_t stream = call_with(&f, "/test.Service/Echo", frame, size + 5, false, NULL);
        settle(&f);
        ASSERT_STATUS(&f, stream, "0", "");
        ASSERT_EQ(response_of(&f, stream)->data.size, size + 5);
        ASSERT_MEMEQ(response_of(&f, stream)->data.data, frame, size + 5);
        ASSERT_EQ(f.server->connections->requested, 0);
        /* All that are not complete have a bound together. */
        int32_t streams[5];
        for (size_t i = 0; i < ELEMENTSOF(streams); i++)
                streams[i] = call_with(&f, "/test.Service/Echo", frame, size, true, NULL);
        settle(&f);
        unsigned refused = 0;
        for (size_t i = 0; i < ELEMENTSOF(streams); i++)
                refused += streq(response_of(&f, streams[i])->grpc_status, "8");
        ASSERT_EQ(refused, 1);
        ASSERT_LE(f.server->connections->requested, GRPC_REQUESTS_SIZE_MAX);
}

TEST(thousands_at_once)
{
        _cleanup_(fixture_done) Fixture f;
        int32_t streams[GRPC_CALLS_MAX + 1];

        ASSERT_OK(set_up(&f));
        settle(&f);
        for (size_t i = 0; i < ELEMENTSOF(streams); i++)
                streams[i] = call(&f, "/test.Service/Hold", "x");
        settle(&f);
        ASSERT_EQ(f.n_held, GRPC_CALLS_MAX); /* the last one waits */
        for (size_t i = f.n_held; i > 0; i--)
                ASSERT_OK(grpc_call_reply(f.held[i - 1], "y", 1));
        settle(&f);
        ASSERT_EQ(f.n_held, GRPC_CALLS_MAX + 1);
        for (size_t i = 0; i < GRPC_CALLS_MAX; i++)
                ASSERT_STATUS(&f, streams[i], "0", "");
        ASSERT_EQ(f.n_gone, 0);
}

TEST(cancelled_by_the_client)
{
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        int32_t stream = call(&f, "/test.Service/Hold", "x"), other = call(&f, "/test.Service/Hold", "x");
        settle(&f);
        ASSERT_OK(grpc_call_send(f.held[0], "part", 4));
        ASSERT_EQ(nghttp2_submit_rst_stream(f.session, 0, stream, NGHTTP2_CANCEL), 0);
        settle(&f);
        ASSERT_EQ(f.n_gone, 1);
        ASSERT_EQ(grpc_call_send(f.held[0], "x", 1), -ECONNRESET);
        ASSERT_EQ(grpc_call_finish(f.held[0], GRPC_OK, NULL), -ECONNRESET);
        ASSERT_OK(grpc_call_reply(f.held[1], "x", 1));
        settle(&f);
        ASSERT_STATUS(&f, other, "0", "");
        ASSERT_EQ(f.n_gone, 1);
}

TEST(a_deadline)
{
        static const uint8_t frame[] = {0, 0, 0, 0, 0};
        static const char *const pairs[][2] = {{"grpc-timeout", "30m"}, {NULL, NULL}};
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        int32_t stream = call_with(&f, "/test.Service/Hold", frame, sizeof(frame), false, pairs);
        settle(&f);
        ASSERT_EQ(f.n_held, 1);
        ASSERT_TRUE(grpc_call_deadline(f.held[0]) != UINT64_MAX);
        for (unsigned i = 0; i < 100 && f.n_gone == 0; i++)
                ASSERT_OK(sd_event_run(f.event, 100000));
        settle(&f);
        ASSERT_EQ(f.n_gone, 1);
        ASSERT_STATUS(&f, stream, "4", "The time of the call is over");
        ASSERT_EQ(grpc_call_reply(f.held[0], "late", 4), -ECONNRESET);
        /* Of a request that does not come, too. */
        stream = call_with(&f, "/test.Service/Hold", frame, 2, true, pairs);
        settle(&f);
        for (unsigned i = 0; i < 100 && !response_of(&f, stream)->closed; i++) {
                ASSERT_OK(sd_event_run(f.event, 100000));
                settle(&f);
        }
        ASSERT_STATUS(&f, stream, "4", "The time of the call is over");
        ASSERT_EQ(f.n_held, 1);
}

TEST(a_connection_that_ends)
{
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        (void) call(&f, "/test.Service/Hold", "x");
        (void) call(&f, "/test.Service/Hold", "x");
        settle(&f);
        ASSERT_EQ(grpc_server_connections(f.server), 1);
        f.fd = safe_close(f.fd);
        f.closed = true;
        while (sd_event_run(f.event, 0) > 0)
                ;
        ASSERT_EQ(f.n_gone, 2);
        ASSERT_EQ(grpc_server_connections(f.server), 0);
        ASSERT_EQ(grpc_call_reply(f.held[1], "x", 1), -ECONNRESET);
}

TEST(no_http)
{
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        ASSERT_OK(loop_write(f.fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27));
        while (sd_event_run(f.event, 0) > 0)
                ;
        ASSERT_EQ(grpc_server_connections(f.server), 0);
}

static void on_drained(void *userdata)
{
        Fixture *f = userdata;

        f->drained = true;
}

TEST(an_orderly_end)
{
        _cleanup_(fixture_done) Fixture f;

        ASSERT_OK(set_up(&f));
        int32_t stream = call(&f, "/test.Service/Hold", "x");
        settle(&f);
        grpc_server_drain(f.server, on_drained, &f);
        settle(&f);
        ASSERT_TRUE(f.goaway && !f.drained && !f.closed);
        /* The client knows that a new call makes no sense, and does not send it. */
        (void) call(&f, "/test.Service/Hold", "x");
        settle(&f);
        ASSERT_EQ(f.n_held, 1);
        ASSERT_OK(grpc_call_reply(f.held[0], "done", 4));
        settle(&f);
        ASSERT_STATUS(&f, stream, "0", "");
        ASSERT_TRUE(f.drained && f.closed);
        ASSERT_EQ(f.n_gone, 0);
}

/* One more client, that never says anything. */
static int connect_silent(const char *path)
{
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        return fd >= 0 && connect(fd, (const struct sockaddr *) &a, sizeof(a)) >= 0 ? fd : -errno;
}

/* Whether the server has sent the frame GOAWAY and closed it. */
static bool was_told_to_go(int fd)
{
        uint8_t data[4096];
        ssize_t n = recv(fd, data, sizeof(data), 0), at = 0;
        bool goaway = false;

        for (; at + 9 <= n; at += 9 + (data[at] << 16 | data[at + 1] << 8 | data[at + 2]))
                goaway |= data[at + 3] == NGHTTP2_GOAWAY;
        return goaway && recv(fd, data, sizeof(data), 0) == 0;
}

static int listen_at(Fixture *f, const Scratch *d, char path[static 100])
{
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(path, 100, "%.80s/socket", d->path);
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (bind(fd, (const struct sockaddr *) &a, sizeof(a)) < 0 || listen(fd, 16) < 0)
                return -errno;
        return grpc_server_listen(f->server, fd, NULL);
}

/* Who has a connection keeps it as long as calls go over it; of the others, those are closed that were not used for longest. */
TEST(more_clients_than_fit)
{
        _cleanup_(fixture_done) Fixture f;
        _cleanup_(scratch_done) Scratch d = SCRATCH_NULL;
        int fds[4];
        char path[100];

        ASSERT_OK(scratch_new(&d));
        ASSERT_OK(set_up(&f));
        ASSERT_OK(listen_at(&f, &d, path));
        int32_t stream = call(&f, "/test.Service/Hold", "x");
        settle(&f);
        grpc_server_set_bounds(f.server, 3, UINT64_MAX / 2);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = connect_silent(path);
                ASSERT_OK(fds[i]);
                settle(&f);
                ASSERT_LE(grpc_server_connections(f.server), 3);
        }
        ASSERT_TRUE(was_told_to_go(fds[0]) && was_told_to_go(fds[1]));
        ASSERT_TRUE(!was_told_to_go(fds[2]) && !was_told_to_go(fds[3]));
        ASSERT_OK(grpc_call_reply(f.held[0], "done", 4));
        settle(&f);
        ASSERT_STATUS(&f, stream, "0", "");
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                safe_close(fds[i]);
}

/* Who waits since all connections had calls does not wait until one is closed. */
TEST(a_client_that_waits_for_a_call)
{
        _cleanup_(fixture_done) Fixture f;
        _cleanup_(scratch_done) Scratch d = SCRATCH_NULL;
        char path[100];

        ASSERT_OK(scratch_new(&d));
        ASSERT_OK(set_up(&f));
        ASSERT_OK(listen_at(&f, &d, path));
        int32_t stream = call(&f, "/test.Service/Hold", "x");
        settle(&f);
        grpc_server_set_bounds(f.server, 1, UINT64_MAX / 2);
        int fd = connect_silent(path);
        ASSERT_OK(fd);
        settle(&f);
        ASSERT_FALSE(f.goaway);
        ASSERT_OK(grpc_call_reply(f.held[0], "done", 4));
        settle(&f);
        ASSERT_STATUS(&f, stream, "0", "");
        ASSERT_TRUE(f.goaway && f.closed);
        ASSERT_EQ(grpc_server_connections(f.server), 1);
        ASSERT_FALSE(was_told_to_go(fd));
        safe_close(fd);
}

TEST(idle_connections)
{
        _cleanup_(fixture_done) Fixture f;
        _cleanup_(scratch_done) Scratch d = SCRATCH_NULL;
        char path[100];

        ASSERT_OK(scratch_new(&d));
        ASSERT_OK(set_up(&f));
        ASSERT_OK(listen_at(&f, &d, path));
        int32_t stream = call(&f, "/test.Service/Hold", "x");
        int fd = connect_silent(path);
        ASSERT_OK(fd);
        settle(&f);
        grpc_server_set_bounds(f.server, 100, 0);
        settle(&f);
        ASSERT_TRUE(was_told_to_go(fd) && !f.goaway);
        ASSERT_OK(grpc_call_reply(f.held[0], "done", 4));
        settle(&f);
        ASSERT_STATUS(&f, stream, "0", "");
        safe_close(fd);
}

TEST(a_client_that_does_not_read)
{
        _cleanup_(fixture_done) Fixture f;
        char data[65536] = "";

        ASSERT_OK(set_up(&f));
        (void) call(&f, "/test.Service/Hold", "x");
        settle(&f);
        for (unsigned i = 0; i < 100; i++)
                ASSERT_OK(grpc_call_send(f.held[0], data, sizeof(data)));
        ASSERT_GT(grpc_call_unsent(f.held[0]), 1000000);
        ASSERT_OK(grpc_call_finish(f.held[0], GRPC_OK, NULL));
        settle(&f);
        ASSERT_EQ(response_of(&f, 1)->data.size, 100 * (sizeof(data) + 5));
        ASSERT_STATUS(&f, 1, "0", "");
}

TEST(times)
{
        static const struct {
                const char *text;
                int r;
                uint64_t usec;
        } cases[] = {
                        {"1H", 0, UINT64_C(3600000000)},
                        {"2M", 0, 120000000},
                        {"3S", 0, 3000000},
                        {"4m", 0, 4000},
                        {"5u", 0, 5},
                        {"6000n", 0, 6},
                        {"1n", 0, 1},
                        {"0S", 0, 1},
                        {"99999999H", 0, UINT64_C(359999996400000000)},
                        {"100000000S", -EINVAL, 0},
                        {"S", -EINVAL, 0},
                        {"1", -EINVAL, 0},
                        {"", -EINVAL, 0},
                        {"-1S", -EINVAL, 0},
                        {"1s", -EINVAL, 0},
                        {"1 S", -EINVAL, 0},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                uint64_t usec = 0;
                ASSERT_EQ(grpc_timeout_parse(cases[i].text, strlen(cases[i].text), &usec), cases[i].r);
                ASSERT_EQ(usec, cases[i].usec);
        }
}

TEST(trace_ids)
{
#define ID "4bf92f3577b34da6a3ce929d0e0e4736"
        static const char *const good[] = {"00-" ID "-00f067aa0ba902b7-01",
                                           "01-" ID "-00f067aa0ba902b7-01-more"},
                                 *const bad[] = {"",
                                                 "00-" ID "-00f067aa0ba902b7-0",
                                                 "00-" ID "-00f067aa0ba902b7-01x",
                                                 "ff-" ID "-00f067aa0ba902b7-01",
                                                 "00_" ID "-00f067aa0ba902b7-01",
                                                 "00-" ID "-00f067aa0ba902b7_01",
                                                 "00-" ID "-00F067AA0BA902B7-01",
                                                 "00-4BF92F3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                                 "00-00000000000000000000000000000000-00f067aa0ba902b7-01"};
        char id[GRPC_TRACE_ID_SIZE] = "";

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                ASSERT_EQ(grpc_traceparent_parse(bad[i], strlen(bad[i]), id), -EINVAL);
                ASSERT_STREQ(id, "");
        }
        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                ASSERT_OK(grpc_traceparent_parse(good[i], strlen(good[i]), id));
                ASSERT_STREQ(id, ID);
        }
#undef ID
}

int main(void)
{
        RUN(trace_ids);
        RUN(a_call_and_its_reply);
        RUN(several_replies);
        RUN(errors);
        RUN(requests_that_are_none);
        RUN(large_requests_and_replies);
        RUN(thousands_at_once);
        RUN(cancelled_by_the_client);
        RUN(a_deadline);
        RUN(a_connection_that_ends);
        RUN(no_http);
        RUN(an_orderly_end);
        RUN(more_clients_than_fit);
        RUN(a_client_that_waits_for_a_call);
        RUN(idle_connections);
        RUN(a_client_that_does_not_read);
        RUN(times);
        return TEST_END();
}
