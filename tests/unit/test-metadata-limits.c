/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The metadata service under clients that send too much, too slowly, or are too many. */

#include "library/libcrypto.h"
#include "tests/unit/metadata-service.h"

/* A form of SIZE bytes, all of it content. */
static char *large_form(size_t size)
{
        char *form = malloc(size + 1);

        if (!form)
                return NULL;
        memset(form, 'x', size);
        memcpy(form, "content=", 8);
        form[size] = 0;
        return form;
}

TEST(large_forms)
{
        _cleanup_free_ char *largest = large_form(METADATA_BODY_MAX),
                            *larger = large_form(METADATA_BODY_MAX + 1);
        _cleanup_free_ char *signed_ = NULL, *refused = NULL;
        char signature[METADATA_SIGNATURE_SIZE];
        _cleanup_service_ Service s = {};

        ASSERT_TRUE(largest && larger);
        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(metadata_hmac_sign(own_key, largest + 8, METADATA_BODY_MAX - 8, signature));
        ASSERT_OK(post_form(&s, BASE "pod/hmac/sign", largest, &signed_));
        ASSERT_EQ(status_of(signed_), 200);
        ASSERT_STREQ(body_of(signed_), signature);
        ASSERT_OK(post_form(&s, BASE "pod/hmac/sign", larger, &refused));
        ASSERT_EQ(status_of(refused), 413);
}

/* The same, without Content-Length; and so large that the rest is not even read. */
TEST(large_forms_chunked)
{
        static const char header[] =
                        "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n"
                        "Content-Type: application/x-www-form-urlencoded\r\n\r\n";
        _cleanup_free_ char *piece = large_form(65536), *refused = NULL, *answer = NULL;
        _cleanup_service_ Service s = {};

        ASSERT_NOT_NULL(piece);
        ASSERT_OK(service_start(&s, &config));
        for (unsigned pieces = 20; pieces <= 200; pieces += 180) {
                _cleanup_close_ int fd = service_connect(&s);
                int r = send_text(fd, header, strlen(header));
                for (unsigned i = 0; i < pieces && r >= 0; i++) {
                        r = send_text(fd, "10000\r\n", 7);
                        if (r >= 0)
                                r = send_text(fd, piece, 65536);
                        if (r >= 0)
                                r = send_text(fd, "\r\n", 2);
                }
                if (r >= 0)
                        r = send_text(fd, "0\r\n\r\n", 5);
                if (pieces == 20) {
                        ASSERT_OK(r);
                        ASSERT_OK(read_answer(&s, fd, false, &refused));
                        ASSERT_EQ(status_of(refused), 413);
                } else
                        ASSERT_TRUE(r < 0 || read_answer(&s, fd, false, &answer) < 0);
        }
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
}

/* Announces a gigabyte, or expects "100 Continue": gets the error without sending a body. */
TEST(refused_early)
{
        static const char *const requests[] = {
                        "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-Length: 1073741824\r\n"
                        "Content-Type: application/x-www-form-urlencoded\r\n\r\n",
                        "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-Length: "
                        "2000000\r\nExpect: 100-continue\r\n"
                        "Content-Type: application/x-www-form-urlencoded\r\n\r\n",
        };
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        for (size_t i = 0; i < ELEMENTSOF(requests); i++) {
                _cleanup_free_ char *answer = NULL;
                ASSERT_OK(exchange(&s, requests[i], &answer));
                ASSERT_EQ(status_of(answer), 413);
        }
}

TEST(large_header)
{
        _cleanup_free_ char *answer = NULL, *name = large_form(40000), *request = NULL;
        _cleanup_service_ Service s = {};

        ASSERT_NOT_NULL(name);
        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(xasprintf(&request, "GET " BASE "pod/uuid HTTP/1.1\r\nHost: p\r\nX-Long: %s\r\n\r\n",
                            name));
        int r = exchange(&s, request, &answer);
        ASSERT_TRUE(r < 0 || status_of(answer) >= 400);
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
}

/* Clients that send a byte now and then, or nothing, are disconnected; others are not affected. */
TEST(slow_clients)
{
        static const char *const beginnings[] = {"", "GET ",
                                                 "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-"
                                                 "Length: 1000\r\nContent-Type: application/"
                                                 "x-www-form-urlencoded\r\n\r\ncon"};
        _cleanup_service_ Service s = {};
        MetadataConfig c = config;
        int fds[ELEMENTSOF(beginnings)];
        unsigned ended = 0;

        c.request_timeout_msec = 300;
        ASSERT_OK(service_start(&s, &c));
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = service_connect(&s);
                ASSERT_OK(fds[i]);
                ASSERT_OK(send_text(fds[i], beginnings[i], strlen(beginnings[i])));
        }
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        while (ended < ELEMENTSOF(fds) && now_usec(CLOCK_MONOTONIC) - begin < EXCHANGE_TIMEOUT_USEC) {
                expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
                for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                        struct pollfd p = {.fd = fds[i], .events = POLLIN};
                        char byte;
                        if (fds[i] < 0)
                                continue;
                        if (i > 0)
                                (void) send_text(fds[i], "x", 1);
                        if (poll(&p, 1, 10) == 1 && recv(fds[i], &byte, 1, 0) <= 0) {
                                fds[i] = safe_close(fds[i]);
                                ended++;
                        }
                }
        }
        ASSERT_EQ(ended, ELEMENTSOF(fds));
        ASSERT_GE(now_usec(CLOCK_MONOTONIC) - begin, 250000);
}

/* A client opens more connections than the limit: the next one is served nevertheless. */
TEST(many_connections)
{
        enum { MANY = 700 };
        _cleanup_free_ int *fds = malloc(MANY * sizeof(int));
        _cleanup_service_ Service s = {};
        int n = 0;

        ASSERT_NOT_NULL(fds);
        ASSERT_OK(service_start(&s, &config));
        for (; n < MANY; n++) {
                fds[n] = service_connect(&s);
                if (fds[n] < 0)
                        break;
                if (n % 100 == 99)
                        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        }
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        for (int i = 0; i < n; i++)
                safe_close(fds[i]);
        ASSERT_EQ(n, MANY);
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
}

int main(void)
{
        if (library_load(&crypto_library, NULL) < 0)
                return 1;
        const char *why = become_ordinary();
        if (why)
                return TEST_SKIP_ALL("%s", why);

        RUN(large_forms);
        RUN(large_forms_chunked);
        RUN(refused_early);
        RUN(large_header);
        RUN(slow_clients);
        RUN(many_connections);
        return TEST_END();
}
