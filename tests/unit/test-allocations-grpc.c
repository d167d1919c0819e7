/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in a gRPC service that answers a call: see allocations.h. The call is answered as it should
 * be, or ends by an error or with its connection; it is never answered by another reply. */

#include <endian.h>
#include <sys/socket.h>

#include "grpc/grpc.h"
#include "library/libsystemd.h"
#include "tests/unit/allocations.h"

#define REPLY "a reply of some length"

static int reply(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        return size == 5 && memcmp(request, "hello", 5) == 0 ? grpc_call_reply(c, REPLY, strlen(REPLY))
                                                             : -EIO;
}

static int refuse(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        return grpc_call_finish(c, GRPC_NOT_FOUND, "No p\303\266d\n100%");
}

static const GrpcMethod methods[] = {{"/test.Service/Reply", reply}, {"/test.Service/Refuse", refuse}};

/* --- What a client sends ------------------------------------------------------------------------------- */

enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_SETTINGS = 4, END_STREAM = 1, END_HEADERS = 4 };

static void add_frame(Text *t, uint8_t type, uint8_t flags, uint32_t stream, const void *p, size_t n)
{
        const uint8_t head[] = {(uint8_t) (n >> 16),
                                (uint8_t) (n >> 8),
                                (uint8_t) n,
                                type,
                                flags,
                                (uint8_t) (stream >> 24),
                                (uint8_t) (stream >> 16),
                                (uint8_t) (stream >> 8),
                                (uint8_t) stream};

        text_add_bytes(t, head, sizeof(head));
        text_add_bytes(t, p, n);
}

/* Literal, neither indexed nor compressed. */
static void add_header(Text *t, const char *name, const char *value)
{
        const uint8_t sizes[] = {0, (uint8_t) strlen(name), (uint8_t) strlen(value)};

        text_add_bytes(t, sizes, 2);
        text_add(t, name);
        text_add_bytes(t, sizes + 2, 1);
        text_add(t, value);
}

static void make_call(Text *t, const char *path)
{
        _cleanup_text_ Text headers = {};

        text_add(t, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        add_frame(t, FRAME_SETTINGS, 0, 0, "", 0);
        add_header(&headers, ":method", "POST");
        add_header(&headers, ":scheme", "http");
        add_header(&headers, ":path", path);
        add_header(&headers, ":authority", "localhost");
        add_header(&headers, "content-type", "application/grpc");
        add_header(&headers, "te", "trailers");
        add_frame(t, FRAME_HEADERS, END_HEADERS, 1, headers.data, headers.size);
        add_frame(t, FRAME_DATA, END_STREAM, 1, "\0\0\0\0\5hello", 10);
}

/* --- What it gets -------------------------------------------------------------------------------------- */

static void receive(int fd, Text *t)
{
        char buffer[8192];
        ssize_t n;

        while ((n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0)
                text_add_bytes(t, buffer, (size_t) n);
}

/* The content of all frames of data; *RET_ENDED if there are headers after which nothing follows. */
static void take_frames(const Text *t, Text *data, bool *ret_ended)
{
        for (size_t i = 0; i + 9 <= t->size;) {
                const uint8_t *p = (const uint8_t *) t->data + i;
                size_t n = (size_t) p[0] << 16 | (size_t) p[1] << 8 | p[2];
                if (i + 9 + n > t->size)
                        return;
                if (p[3] == FRAME_DATA)
                        text_add_bytes(data, p + 9, n);
                *ret_ended |= p[3] == FRAME_HEADERS && p[4] & END_STREAM;
                i += 9 + n;
        }
}

static Text right; /* all that the server sends, without a failure */

/* Other bytes are right only if they say that the call has failed, or nothing: without data, or with all of it, but without
 * the right end. */
static int verdict(const Text *got, Text *result, Error *e)
{
        _cleanup_text_ Text data = {};
        bool ended = false;

        if (!right.data)
                text_add_bytes(&right, got->data, got->size);
        if (got->size == right.size && memcmp(got->data, right.data, got->size) == 0) {
                text_add(result, "right");
                return 0;
        }
        take_frames(got, &data, &ended);
        if (data.size == 0 ||
            (!ended && data.size == 5 + strlen(REPLY) && memcmp(data.data + 5, REPLY, strlen(REPLY)) == 0))
                return error_oom(e);
        text_addf(result, "%zu bytes of data", data.size);
        return 0;
}

static int serve(void *userdata, Text *result, Error *e)
{
        _cleanup_(grpc_server_freep) GrpcServer *s = NULL;
        _cleanup_text_ Text got = {};
        const Text *call = userdata;
        sd_event *event = NULL;
        int fds[2];

        if (sd_event_new(&event) < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return -EIO;
        int r = grpc_server_new(event, methods, ELEMENTSOF(methods), NULL, &s, e);
        if (r >= 0)
                r = grpc_server_connect(s, fds[1], e);
        else
                safe_close(fds[1]);
        if (r >= 0) {
                (void) send(fds[0], call->data, call->size, MSG_NOSIGNAL);
                while (sd_event_run(event, 0) > 0)
                        ;
                unsigned at = allocations_suspend();
                receive(fds[0], &got);
                r = verdict(&got, result, e);
                allocations_resume(at);
        }
        s = grpc_server_free(s);
        sd_event_unref(event);
        safe_close(fds[0]);
        return r;
}

static void try_call(const char *path)
{
        _cleanup_text_ Text call = {};

        text_done(&right);
        right = (Text){};
        make_call(&call, path);
        ASSERT_FALSE(call.failed);
        for_each_failing_allocation(serve, &call);
}

TEST(answered)
{
        try_call("/test.Service/Reply");
}
TEST(refused)
{
        try_call("/test.Service/Refuse");
}
TEST(no_such_method)
{
        try_call("/test.Service/None");
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return TEST_SKIP_ALL("no libsystemd");
        RUN(answered);
        RUN(refused);
        RUN(no_such_method);
        return TEST_END();
}
