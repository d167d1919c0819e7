/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Data that a peer sends to a gRPC service: frames of HTTP/2, headers and requests. After the preface, the input is split
 * at each two bytes 0xff, where the service gets to work. A handler sees whole requests only; when the connection has ended,
 * every call that was handled and not finished is gone; and the service still serves another client. */

#include <sys/socket.h>

#include "grpc/grpc-internal.h"
#include "library/libsystemd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_kept, n_gone;

static int echo(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        if (size > GRPC_MESSAGE_SIZE_MAX)
                abort();
        return grpc_call_reply(c, request, size);
}

static void on_gone(GrpcCall *c, void *userdata)
{
        n_gone++;
        if (grpc_call_finish(c, GRPC_OK, NULL) != -ECONNRESET)
                abort();
        grpc_call_unref(c);
}

static int keep(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        n_kept++;
        grpc_call_on_gone(grpc_call_ref(c), on_gone, NULL);
        return grpc_call_send(c, request, size);
}

static const GrpcMethod methods[] = {{"/a/E", echo}, {"/a/K", keep}};

static void run(sd_event *event)
{
        for (unsigned i = 0; i < 1000 && sd_event_run(event, 0) > 0; i++)
                ;
}

static void drop_replies(int fd)
{
        static char replies[1U << 20];

        while (recv(fd, replies, sizeof(replies), MSG_DONTWAIT) > 0)
                ;
}

static void send_parts(sd_event *event, int fd, const uint8_t *data, size_t size)
{
        while (size > 0) {
                const uint8_t *cut = memmem(data, size, "\xff\xff", 2);
                size_t n = cut ? (size_t) (cut - data) : size;
                if (n > 0 && send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                        return;
                run(event);
                drop_replies(fd);
                n += cut ? 2 : 0;
                data += n;
                size -= n;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        _cleanup_(grpc_server_freep) GrpcServer *server = NULL;
        static sd_event *event;
        int fds[2];

        if (!event && (library_load(&systemd_library, NULL) < 0 || sd_event_new(&event) < 0))
                abort();
        n_kept = n_gone = 0;
        if (grpc_server_new(event, methods, ELEMENTSOF(methods), NULL, &server, NULL) < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0 ||
            grpc_server_connect(server, fds[1], NULL) < 0)
                abort();
        if (send(fds[0], preface, sizeof(preface) - 1, MSG_NOSIGNAL) < 0)
                abort();
        send_parts(event, fds[0], data, size);
        (void) close(fds[0]);
        for (unsigned i = 0; i < 1000 && grpc_server_connections(server) > 0; i++)
                (void) sd_event_run(event, 1000);
        if (grpc_server_connections(server) > 0 || n_gone != n_kept)
                abort();
        return 0;
}
