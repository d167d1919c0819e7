/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The server of streams: URLs that are used, or too old, and clients that do not send a request. */

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "cri/streaming/streaming.h"
#include "library/libcrypto.h"
#include "library/libsystemd.h"
#include "tests/unit/test.h"

#define LONG_USEC (600 * UINT64_C(1000000))
#define SHORT_USEC UINT64_C(100000)
#define STEP_USEC UINT64_C(10000)
#define UPGRADE                                                                                             \
        "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"             \
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"

typedef struct Fixture {
        sd_event *event;
        StreamServer *server;
        int kept_fd; /* each process of the server has one more of its descriptors */
} Fixture;

static void serve(Session *s, unsigned kind, const void *data, size_t size, void *userdata)
{
        (void) session_finish(s, 0, NULL);
}

static void fixture_done(Fixture *f)
{
        stream_server_free(f->server);
        sd_event_unref(f->event);
        safe_close(f->kept_fd);
}

static int set_up(Fixture *f, uint64_t token_usec, uint64_t head_usec)
{
        int r = library_load(&systemd_library, NULL);

        if (r >= 0)
                r = library_load(&crypto_library, NULL);
        if (r >= 0)
                r = sd_event_new(&f->event);
        if (r >= 0)
                r = f->kept_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (r >= 0)
                r = stream_server_new(f->event, 0, NULL, f->kept_fd, serve, NULL, &f->server, NULL);
        if (r >= 0)
                stream_server_set_times(f->server, token_usec, head_usec);
        return r;
}

static char *offer(Fixture *f)
{
        const StreamOffer o = {.name = "exec", .streams = STREAM_BIT(STREAM_STDOUT), .data = ""};
        char *url = NULL;

        return stream_server_offer(f->server, &o, &url, NULL) < 0 ? NULL : url;
}

/* "http://127.0.0.1:PORT/…" */
static const char *path_of(const char *url)
{
        return strchr(url + strlen("http://"), '/');
}

static int connect_to(const char *url)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        a.sin_port = htons((uint16_t) atoi(strrchr(url, ':') + 1));
        if (fd >= 0 && connect(fd, (struct sockaddr *) &a, sizeof(a)) < 0)
                safe_close(fd);
        return fd;
}

static bool is_readable(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};

        return poll(&p, 1, 0) > 0;
}

static int send_text(int fd, const char *s)
{
        return send(fd, s, strlen(s), MSG_NOSIGNAL) == (ssize_t) strlen(s) ? 0 : -EPIPE;
}

/* Runs the server until there is an answer; the first line of it, or "" if the connection was closed. */
static const char *answer(Fixture *f, int fd)
{
        static char text[4096];

        while (!is_readable(fd))
                if (sd_event_run(f->event, STEP_USEC) < 0)
                        return "error";
        ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
        text[MAX(n, (ssize_t) 0)] = 0;
        text[strcspn(text, "\r\n")] = 0;
        return text;
}

static const char *request(Fixture *f, const char *url)
{
        _cleanup_close_ int fd = connect_to(url);
        _cleanup_free_ char *head = NULL;

        if (fd < 0 || xasprintf(&head, "GET %s HTTP/1.1\r\n" UPGRADE, path_of(url)) < 0 ||
            send_text(fd, head) < 0)
                return "error";
        return answer(f, fd);
}

TEST(urls_are_used_once)
{
        _cleanup_(fixture_done) Fixture f = {};
        ASSERT_OK(set_up(&f, LONG_USEC, LONG_USEC));
        _cleanup_free_ char *url = offer(&f), *other = offer(&f);

        ASSERT_NOT_NULL(url);
        ASSERT_NOT_NULL(other);
        ASSERT_NE(strcmp(url, other), 0);
        ASSERT_STREQ(request(&f, url), "HTTP/1.1 101 Switching Protocols");
        ASSERT_STREQ(request(&f, url), "HTTP/1.1 404 Not Found");
        ASSERT_STREQ(request(&f, other), "HTTP/1.1 101 Switching Protocols");
}

/* Two clients at a time, both of which have sent all but the end of the request. */
TEST(urls_are_used_by_one_client)
{
        _cleanup_(fixture_done) Fixture f = {};
        ASSERT_OK(set_up(&f, LONG_USEC, LONG_USEC));
        _cleanup_free_ char *url = offer(&f), *head = NULL;
        _cleanup_close_ int a = connect_to(url), b = connect_to(url);

        ASSERT_OK(xasprintf(&head, "GET %s HTTP/1.1\r\n" UPGRADE, path_of(url)));
        head[strlen(head) - 1] = 0;
        ASSERT_OK(send_text(a, head));
        ASSERT_OK(send_text(b, head));
        for (int i = 0; i < 20; i++)
                ASSERT_TRUE(sd_event_run(f.event, STEP_USEC) >= 0);
        ASSERT_FALSE(is_readable(a) || is_readable(b));
        ASSERT_OK(send_text(b, "\n"));
        ASSERT_STREQ(answer(&f, b), "HTTP/1.1 101 Switching Protocols");
        ASSERT_OK(send_text(a, "\n"));
        ASSERT_STREQ(answer(&f, a), "HTTP/1.1 404 Not Found");
}

TEST(urls_expire)
{
        _cleanup_(fixture_done) Fixture f = {};
        ASSERT_OK(set_up(&f, 0, LONG_USEC));
        _cleanup_free_ char *url = offer(&f), *later = NULL;

        ASSERT_STREQ(request(&f, url), "HTTP/1.1 404 Not Found");
        /* They do not count any more. */
        for (unsigned i = 0; i < 2 * STREAM_TOKENS_MAX; i++) {
                _cleanup_free_ char *old = offer(&f);
                ASSERT_NOT_NULL(old);
        }
        stream_server_set_times(f.server, LONG_USEC, LONG_USEC);
        later = offer(&f);
        ASSERT_STREQ(request(&f, later), "HTTP/1.1 101 Switching Protocols");
}

/* One client says nothing, one never ends its head: others are served, and both are cut off. */
TEST(slow_clients_are_cut_off)
{
        _cleanup_(fixture_done) Fixture f = {};
        ASSERT_OK(set_up(&f, LONG_USEC, LONG_USEC));
        _cleanup_free_ char *url = offer(&f), *next = offer(&f);
        _cleanup_close_ int patient = connect_to(url), silent = -EBADF, drips = -EBADF;

        ASSERT_OK(send_text(patient, "GET /"));
        while (sd_event_run(f.event, STEP_USEC) > 0)
                ;
        stream_server_set_times(f.server, LONG_USEC, SHORT_USEC);
        silent = connect_to(url);
        drips = connect_to(url);
        ASSERT_OK(send_text(drips, "GET / HTTP/1.1\r\n"));
        ASSERT_STREQ(request(&f, url), "HTTP/1.1 101 Switching Protocols");
        ASSERT_STREQ(answer(&f, silent), "");
        while (!is_readable(drips)) {
                (void) send_text(drips, "x");
                ASSERT_TRUE(sd_event_run(f.event, STEP_USEC) >= 0);
        }
        ASSERT_STREQ(answer(&f, drips), "");
        /* The time is that of each connection. */
        ASSERT_FALSE(is_readable(patient));
        stream_server_set_times(f.server, LONG_USEC, LONG_USEC);
        ASSERT_STREQ(request(&f, next), "HTTP/1.1 101 Switching Protocols");
}

/* Without an end of its head in time or size: the limit of the size comes first. */
TEST(head_without_end)
{
        _cleanup_(fixture_done) Fixture f = {};
        ASSERT_OK(set_up(&f, LONG_USEC, LONG_USEC));
        _cleanup_free_ char *url = offer(&f), *filler = calloc(1, 65536 + 1);
        _cleanup_close_ int fd = connect_to(url);

        ASSERT_NOT_NULL(filler);
        memset(filler, 'x', 65536);
        ASSERT_OK(send_text(fd, "GET / HTTP/1.1\r\nX: "));
        ASSERT_OK(send_text(fd, filler));
        ASSERT_STREQ(answer(&f, fd), "HTTP/1.1 431 Request Header Fields Too Large");
        ASSERT_STREQ(request(&f, url), "HTTP/1.1 101 Switching Protocols");
}

/* More clients that say nothing than are kept: the oldest makes way. */
TEST(many_silent_clients)
{
        _cleanup_(fixture_done) Fixture f = {};
        int fds[STREAM_CONNECTIONS_MAX];
        ASSERT_OK(set_up(&f, LONG_USEC, LONG_USEC));
        _cleanup_free_ char *url = offer(&f);

        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = connect_to(url);
                ASSERT_TRUE(fds[i] >= 0);
                while (sd_event_run(f.event, 0) > 0)
                        ;
        }
        ASSERT_FALSE(is_readable(fds[0]));
        ASSERT_STREQ(request(&f, url), "HTTP/1.1 101 Switching Protocols");
        ASSERT_TRUE(is_readable(fds[0]));
        ASSERT_FALSE(is_readable(fds[1]));
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                safe_close(fds[i]);
}

int main(void)
{
        RUN(urls_are_used_once);
        RUN(urls_are_used_by_one_client);
        RUN(urls_expire);
        RUN(slow_clients_are_cut_off);
        RUN(head_without_end);
        RUN(many_silent_clients);
        return TEST_END();
}
