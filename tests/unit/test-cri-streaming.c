/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The protocols of the streams of the CRI: heads of requests, WebSocket and SPDY. */

#include <zlib.h>

#include "cri/streaming/streaming-internal.h"
#include "tests/unit/test.h"

static char text[HTTP_HEAD_SIZE_MAX + 64];
static HttpHead head;

static ssize_t parse(const char *s)
{
        snprintf(text, sizeof(text), "%s", s);
        return http_head_parse(text, strlen(text), &head);
}

TEST(heads_of_requests)
{
        const char *const request =
                        "GET /exec/abc?x=y HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n"
                        "UPGRADE:websocket \r\nX: 1\r\nX: 2 , 3\r\n\r\nrest";

        ASSERT_EQ(parse(request), (ssize_t) strlen(request) - 4);
        ASSERT_STREQ(head.method, "GET");
        ASSERT_STREQ(head.path, "/exec/abc");
        ASSERT_TRUE(websocket_is_asked_for(&head));
        ASSERT_FALSE(spdy_is_asked_for(&head));
        ASSERT_STREQ(http_head_value(&head, "host"), "a");
        ASSERT_NULL(http_head_value(&head, "x"));
        ASSERT_NULL(http_head_value(&head, "y"));
        ASSERT_TRUE(http_head_lists(&head, "X", "1") && http_head_lists(&head, "X", "2") &&
                    http_head_lists(&head, "X", "3"));
        ASSERT_FALSE(http_head_lists(&head, "X", "4") || http_head_lists(&head, "X", ""));
}

TEST(heads_that_are_not_complete_or_not_valid)
{
        static const char *const wrong[] = {"GET /\r\n\r\n",
                                            "GET / HTTP/1.0\r\n\r\n",
                                            "GET x HTTP/1.1\r\n\r\n",
                                            "GET / HTTP/1.1 x\r\n\r\n",
                                            "GET / HTTP/1.1\r\nx\r\n\r\n",
                                            "GET / HTTP/1.1\r\nx y: z\r\n\r\n",
                                            "GET / HTTP/1.1\r\n: z\r\n\r\n",
                                            "GET / HTTP/1.1\r\nx: \001\r\n\r\n",
                                            "\r\n\r\n",
                                            "G(T / HTTP/1.1\r\n\r\n",
                                            "GET / HTTP/1.1\r\n folded: x\r\n\r\n"};

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                ASSERT_EQ(parse(wrong[i]), -EBADMSG);
        ASSERT_EQ(parse("GET / HTTP/1.1\r\nx: y\r\n"), 0);
        ASSERT_EQ(http_head_parse((char[]){"GET / HTTP/1.1\r\nx: \0\r\n\r\n"}, 24, &head), -EBADMSG);
        memset(text, 'x', sizeof(text));
        ASSERT_EQ(http_head_parse(text, HTTP_HEAD_SIZE_MAX - 1, &head), 0);
        ASSERT_EQ(http_head_parse(text, HTTP_HEAD_SIZE_MAX, &head), -EMSGSIZE);
        size_t n = (size_t) snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n");
        for (unsigned i = 0; i <= HTTP_FIELDS_MAX; i++)
                n += (size_t) snprintf(text + n, sizeof(text) - n, "x: y\r\n");
        n += (size_t) snprintf(text + n, sizeof(text) - n, "\r\n");
        ASSERT_EQ(http_head_parse(text, n, &head), -EBADMSG);
}

/* --- WebSocket ----------------------------------------------------------------------------------------- */

static char said[256];
static const StreamOffer offer;
static Text out;

static int on_opened(void *userdata, unsigned c, uint16_t port)
{
        snprintf(said + strlen(said), sizeof(said) - strlen(said), port ? "[%u:%u]" : "[%u]", c, port);
        return 0;
}

static int on_data(void *userdata, unsigned c, const uint8_t *data, size_t n)
{
        snprintf(said + strlen(said), sizeof(said) - strlen(said), "%d:%.*s ", (int) c,
                 (int) MIN(n, (size_t) 32), data);
        return 0;
}

static int on_ended(void *userdata, unsigned c)
{
        snprintf(said + strlen(said), sizeof(said) - strlen(said), "end%d ", (int) c);
        return 0;
}

static int on_closed(void *userdata)
{
        snprintf(said + strlen(said), sizeof(said) - strlen(said), "closed");
        return 0;
}

static const ProtocolEvents events = {
                .opened = on_opened, .data = on_data, .ended = on_ended, .closed = on_closed};

static ssize_t take(Protocol *p, const void *data, size_t n)
{
        *said = 0;
        out.size = 0;
        return p->ops->take(p, data, n, &events, &out);
}

/* The key and its answer are those of RFC 6455, 1.3. */
static Protocol *make_websocket(const char *protocols)
{
        Protocol *p = NULL;
        char request[512];

        snprintf(request, sizeof(request),
                 "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: "
                 "13\r\n"
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                 protocols);
        out.size = 0;
        return parse(request) <= 0 || websocket_accept(&head, &offer, &p, &out) < 0 ? NULL : p;
}

TEST(websocket_is_answered)
{
        _cleanup_(protocol_freep) Protocol *p = make_websocket("v4.channel.k8s.io, v5.channel.k8s.io");

        ASSERT_TRUE(p != NULL);
        text_add(&out, "");
        ASSERT_CONTAINS(out.data, "HTTP/1.1 101 ");
        ASSERT_CONTAINS(out.data, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
        ASSERT_CONTAINS(out.data, "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n");
        ASSERT_NULL(make_websocket("v3.channel.k8s.io"));
        ASSERT_NULL(make_websocket("v5.base64.channel.k8s.io"));
        ASSERT_TRUE(parse("GET / HTTP/1.1\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                          "short\r\n\r\n") > 0);
        ASSERT_EQ(websocket_accept(&head, &offer, &p, &out), -EBADMSG);
}

TEST(frames_of_websocket)
{
        _cleanup_(protocol_freep) Protocol *p = make_websocket("v5.channel.k8s.io");
        static const uint8_t hello[] = "\x82\x86\0\0\0\0\0hello",
                             parts[] = "\x02\x83\1\1\1\1\1ab\x80\x81\0\0\0\0c",
                             end[] = "\x82\x82\0\0\0\0\xff\0", ping[] = "\x89\x82\0\0\0\0hi",
                             close[] = "\x88\x82\0\0\0\0\3\xe8";

        for (size_t n = 0; n < sizeof(hello) - 1; n++)
                ASSERT_EQ(take(p, hello, n), 0);
        ASSERT_EQ(take(p, hello, sizeof(hello) - 1), (ssize_t) sizeof(hello) - 1);
        ASSERT_STREQ(said, "0:hello ");
        ASSERT_EQ(take(p, parts, sizeof(parts) - 1),
                  (ssize_t) sizeof(parts) - 1); /* the first one is masked */
        ASSERT_STREQ(said, "0:`c 0:c ");
        ASSERT_EQ(take(p, end, sizeof(end) - 1), (ssize_t) sizeof(end) - 1);
        ASSERT_STREQ(said, "end0 ");
        ASSERT_EQ(take(p, ping, sizeof(ping) - 1), (ssize_t) sizeof(ping) - 1);
        ASSERT_TRUE(out.size == 4 && memcmp(out.data, "\x8a\x02hi", 4) == 0);
        ASSERT_EQ(take(p, close, sizeof(close) - 1), (ssize_t) sizeof(close) - 1);
        ASSERT_STREQ(said, "closed");
        ASSERT_TRUE(out.size == 4 && memcmp(out.data, "\x88\x02\3\xe8", 4) == 0);
        out.size = 0;
        ASSERT_OK(p->ops->close(p, &out));
        ASSERT_EQ(out.size, 0); /* once */
}

TEST(subprotocols_of_websocket)
{
        static const struct {
                const char *offered, *chosen;
                unsigned version;
        } table[] = {{"channel.k8s.io", "channel.k8s.io", 1},
                     {"base64.channel.k8s.io", "base64.channel.k8s.io", 1},
                     {"base64.channel.k8s.io, channel.k8s.io", "channel.k8s.io", 1},
                     {"base64.channel.k8s.io, v4.base64.channel.k8s.io", "v4.base64.channel.k8s.io", 4},
                     {"v4.base64.channel.k8s.io, v4.channel.k8s.io", "v4.channel.k8s.io", 4}};

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_(protocol_freep) Protocol *p = make_websocket(table[i].offered);
                char line[128];
                ASSERT_TRUE(p != NULL);
                text_add(&out, "");
                snprintf(line, sizeof(line), "Sec-WebSocket-Protocol: %s\r\n\r\n", table[i].chosen);
                ASSERT_CONTAINS(out.data, line);
                ASSERT_EQ(p->version, table[i].version);
        }
        /* A client that requests no subprotocol gets none. */
        Protocol *p = NULL;
        ASSERT_TRUE(parse("GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Version: 13\r\n"
                          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n") > 0);
        out.size = 0;
        ASSERT_OK(websocket_accept(&head, &offer, &p, &out));
        text_add(&out, "");
        ASSERT_TRUE(!strstr(out.data, "Sec-WebSocket-Protocol"));
        ASSERT_EQ(p->version, 1);
        protocol_free(p);
}

TEST(frames_in_base64)
{
        _cleanup_(protocol_freep) Protocol *p = make_websocket("v4.base64.channel.k8s.io");
        /* "hello" in one message and split within groups; an empty message; a resize of the terminal */
        static const uint8_t hello[] = "\x81\x89\0\0\0\0"
                                       "0aGVsbG8=",
                             parts[] = "\x01\x83\0\0\0\0"
                                       "0aG"
                                       "\x80\x86\0\0\0\0"
                                       "VsbG8=",
                             none[] = "\x81\x81\0\0\0\0"
                                      "0",
                             size[] = "\x81\x85\0\0\0\0"
                                      "4e30=";
        static const char *const wrong[] = {
                        "0aGVsbG8", "0aGV*", "0====", "0a===", "0aG8=aG8=", "5aGVs", "/aGVs"};

        ASSERT_EQ(take(p, hello, sizeof(hello) - 1), (ssize_t) sizeof(hello) - 1);
        ASSERT_STREQ(said, "0:hello ");
        ASSERT_EQ(take(p, parts, sizeof(parts) - 1), (ssize_t) sizeof(parts) - 1);
        ASSERT_STREQ(said, "0:hello ");
        ASSERT_EQ(take(p, none, sizeof(none) - 1), (ssize_t) sizeof(none) - 1);
        ASSERT_STREQ(said, "");
        ASSERT_EQ(take(p, size, sizeof(size) - 1), (ssize_t) sizeof(size) - 1);
        ASSERT_STREQ(said, "4:{} ");
        out.size = 0;
        ASSERT_OK(p->ops->send(p, STREAM_STDOUT, (const uint8_t *) "hi", 2, &out));
        ASSERT_TRUE(out.size == 7 && memcmp(out.data,
                                            "\x81\5"
                                            "1aGk=",
                                            7) == 0);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                _cleanup_(protocol_freep) Protocol *q = make_websocket("base64.channel.k8s.io");
                char frame[32];
                int n = snprintf(frame, sizeof(frame), "\x81%cmask%s", (char) (0x80 | strlen(wrong[i])),
                                 wrong[i]);
                for (int k = 6; k < n; k++)
                        frame[k] = (char) (frame[k] ^ "mask"[(k - 6) % 4]);
                ASSERT_EQ(take(q, frame, (size_t) n), -EPROTO);
        }
}

TEST(frames_of_websocket_that_are_sent)
{
        _cleanup_(protocol_freep) Protocol *p = make_websocket("v5.channel.k8s.io"),
                                           *old = make_websocket("v4.channel.k8s.io");
        static uint8_t data[70000];

        out.size = 0;
        ASSERT_OK(p->ops->send(p, STREAM_STDOUT, data, 3, &out));
        ASSERT_TRUE(out.size == 6 && memcmp(out.data, "\x82\4\1\0\0", 6) == 0);
        out.size = 0;
        ASSERT_OK(p->ops->send(p, STREAM_STDERR, data, 200, &out));
        ASSERT_TRUE(out.size == 205 && memcmp(out.data, "\x82\x7e\0\xc9\2", 5) == 0);
        out.size = 0;
        ASSERT_OK(p->ops->send(p, STREAM_STDERR, data, sizeof(data), &out));
        ASSERT_TRUE(out.size == sizeof(data) + 11 &&
                    memcmp(out.data, "\x82\x7f\0\0\0\0\0\1\x11\x71\2", 11) == 0);
        out.size = 0;
        ASSERT_OK(old->ops->end(old, STREAM_STDOUT, &out));
        ASSERT_EQ(out.size, 0);
        ASSERT_OK(p->ops->end(p, STREAM_STDOUT, &out));
        ASSERT_TRUE(out.size == 4 && memcmp(out.data, "\x82\2\xff\1", 4) == 0);
}

TEST(frames_of_websocket_that_are_not_valid)
{
        static const struct {
                const char *data;
                size_t n;
        } wrong[] = {{"\x82\x01x", 3},
                     {"\x8f\x80\0\0\0\0", 6},
                     {"\xc2\x80\0\0\0\0", 6},
                     {"\x09\x80\0\0\0\0", 6},
                     {"\x89\xfe\0\x80", 4},
                     {"\x80\x80\0\0\0\0", 6},
                     {"\x82\xff\0\0\0\0\0\x11\0\0", 10},
                     {"\x82\x81\0\0\0\0\5", 7},
                     {"\x82\x82\0\0\0\0\xff\5", 8},
                     {"\x82\x83\0\0\0\0\xff\0\0", 9}};

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                _cleanup_(protocol_freep) Protocol *p = make_websocket("v5.channel.k8s.io");
                ASSERT_EQ(take(p, wrong[i].data, wrong[i].n), -EPROTO);
        }
}

/* --- SPDY ---------------------------------------------------------------------------------------------- */

TEST(the_dictionary_of_spdy)
{
        uint8_t dictionary[SPDY_DICTIONARY_SIZE];

        ASSERT_EQ(spdy_dictionary(dictionary), SPDY_DICTIONARY_SIZE);
        ASSERT_EQ(adler32(adler32(0, NULL, 0), dictionary, SPDY_DICTIONARY_SIZE),
                  0xe3c6a7c2UL); /* as in the specification */
}

TEST(versions_of_spdy)
{
        static const struct {
                const char *fields, *answer;
                unsigned version;
        } cases[] = {
                        {"X-Stream-Protocol-Version: channel.k8s.io\r\nX-Stream-Protocol-Version: "
                         "v3.channel.k8s.io\r\n",
                         "X-Stream-Protocol-Version: v3.channel.k8s.io\r\n\r\n", 3},
                        {"X-Stream-Protocol-Version: v4.channel.k8s.io, channel.k8s.io\r\n",
                         "v4.channel.k8s.io\r\n\r\n", 4},
                        {"", "Connection: Upgrade\r\n\r\n", 1},
        };
        char request[512];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(protocol_freep) Protocol *p = NULL;
                snprintf(request, sizeof(request), "POST / HTTP/1.1\r\n%s\r\n", cases[i].fields);
                ASSERT_TRUE(parse(request) > 0);
                out.size = 0;
                ASSERT_OK(spdy_accept(&head, &offer, &p, &out));
                text_add(&out, "");
                ASSERT_CONTAINS(out.data, cases[i].answer);
                ASSERT_EQ(p->version, cases[i].version);
                ASSERT_EQ(take(p, "\x80\3\0\6\0\0\0\4\0\0\0\1", 12), 12);
                ASSERT_TRUE(out.size == 12 && memcmp(out.data, "\x80\3\0\6\0\0\0\4\0\0\0\1", 12) == 0);
                ASSERT_EQ(take(p, "\x80\3\0\6\0\0\0\4\0\0\0\2", 12), 12); /* not the client's */
                ASSERT_EQ(out.size, 0);
                ASSERT_EQ(take(p, "\x80\2\0\6\0\0\0\0", 8), -EPROTO);
        }
        ASSERT_TRUE(parse("POST / HTTP/1.1\r\nX-Stream-Protocol-Version: v9.channel.k8s.io\r\n\r\n") > 0);
        ASSERT_EQ(spdy_accept(&head, &offer, &(Protocol *){NULL}, &out), -EPROTONOSUPPORT);
}

int main(void)
{
        RUN(heads_of_requests);
        RUN(heads_that_are_not_complete_or_not_valid);
        RUN(websocket_is_answered);
        RUN(frames_of_websocket);
        RUN(frames_of_websocket_that_are_sent);
        RUN(subprotocols_of_websocket);
        RUN(frames_in_base64);
        RUN(frames_of_websocket_that_are_not_valid);
        RUN(the_dictionary_of_spdy);
        RUN(versions_of_spdy);
        return TEST_END();
}
