/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The metadata service as its clients see it: the real program, started by the real parent's side, over real sockets.
 *
 * Run as root, it first shows how the service drops its privileges, and then goes on as an ordinary user. */

#include <dirent.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/metadata-service.h"
#include "tests/unit/test.h"

#define NOBODY 65534U

/* Sends a request and expects the status, the content type and, unless NULL, the body. */
static void expect(Service *s, int (*send)(Service *, const char *, char **), const char *path, int status, const char *type,
                   const char *body)
{
        _cleanup_free_ char *answer = NULL, *header = NULL;

        ASSERT_OK(send(s, path, &answer));
        if (status_of(answer) != status)
                TEST_FAIL("%s gives %s", path, answer);
        ASSERT_OK(xasprintf(&header, "\r\nContent-Type: %s\r\n", type));
        ASSERT_CONTAINS(answer, header);
        if (body)
                ASSERT_STREQ(body_of(answer), body);
}

#define JSON "application/json"
#define PLAIN "text/plain; charset=us-ascii"
#define WEB_ANNOTATIONS                                                                                                    \
        "[{\"name\":\"color\",\"value\":\"green\"},{\"name\":\"homepage\",\"value\":\"https://example.com\"},{\"name\":\"size\"," \
        "\"value\":\"\xc3\xbc\"}]"

/* JSON text without the spaces and line ends between its parts; none of our strings has any inside. */
static char *squeeze(const char *s)
{
        char *copy = strdup(s), *p = copy;

        for (; copy && *s; s++)
                if (!strchr(" \n\t", *s))
                        *p++ = *s;
        if (copy)
                *p = 0;
        return copy;
}

static void expect_json(Service *s, const char *path, const char *expected)
{
        _cleanup_free_ char *answer = NULL, *squeezed = NULL;

        ASSERT_OK(get(s, path, &answer));
        ASSERT_EQ(status_of(answer), 200);
        ASSERT_CONTAINS(answer, "\r\nContent-Type: application/json\r\n");
        squeezed = squeeze(body_of(answer));
        ASSERT_STREQ(squeezed, expected);
}

TEST(endpoints)
{
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        ASSERT_TRUE(metadata_client_configured(s.client));
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        expect(&s, get, BASE "pod/manifest", 200, JSON, pod_manifest);
        expect(&s, get, BASE "apps/web/image/id", 200, PLAIN, IMAGE_ID);
        expect(&s, get, BASE "apps/web/image/manifest", 200, JSON, web_manifest);
        expect(&s, get, BASE "apps/log/image/manifest", 200, JSON, log_manifest);
        expect_json(&s, BASE "pod/annotations", "[{\"name\":\"ip-address\",\"value\":\"10.1.2.3\"}]");
        expect_json(&s, BASE "pod/annotations/", "[{\"name\":\"ip-address\",\"value\":\"10.1.2.3\"}]");
        expect_json(&s, BASE "apps/web/annotations", WEB_ANNOTATIONS);
        expect_json(&s, BASE "apps/log/annotations", "[]");
}

/* What the specification's validator compares: a pod without annotations says so at both places. */
TEST(no_annotations)
{
        _cleanup_free_ char *answer = NULL, *squeezed = NULL;
        _cleanup_service_ Service s = {};
        MetadataConfig c = config;

        c.pod_manifest = pod_manifest_plain;
        c.pod_manifest_size = strlen(pod_manifest_plain);
        c.n_apps = 0;
        ASSERT_OK(service_start(&s, &c));
        expect_json(&s, BASE "pod/annotations", "[]");
        ASSERT_OK(get(&s, BASE "pod/manifest", &answer));
        squeezed = squeeze(body_of(answer));
        ASSERT_STREQ(squeezed, "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[],\"annotations\":[]}");
}

/* A wrong token, an unknown path and an unknown app cannot be told apart, whatever the method. */
TEST(not_found)
{
        static const char *const paths[] = {
                "/", "/" TOKEN, "/0123456789abcdefghijklmnopqrstuw/acMetadata/v1/pod/uuid", "/x/acMetadata/v1/pod/uuid",
                BASE "pod/nothing", BASE "apps/nobody/image/id", BASE "apps/web", BASE "apps/we/image/id",
                BASE "apps/webs/annotations", "/" UUID "/acMetadata/v1/pod/hmac/sign",
        };
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                _cleanup_free_ char *answer = NULL;
                expect(&s, get, paths[i], 404, PLAIN, "not found\n");
                if (strstr(paths[i], "apps/"))
                        continue;
                ASSERT_OK(post_form(&s, paths[i], "content=x", &answer));
                ASSERT_EQ(status_of(answer), 404);
                ASSERT_NOT_CONTAINS(answer, "Allow:");
        }
}

TEST(methods)
{
        static const struct {
                const char *request, *allow;
        } cases[] = {
                {"POST " BASE "pod/uuid HTTP/1.1\r\nHost: p\r\nContent-Length: 1\r\n\r\nx", "\r\nAllow: GET, HEAD\r\n"},
                {"DELETE " BASE "pod/manifest HTTP/1.1\r\nHost: p\r\n\r\n", "\r\nAllow: GET, HEAD\r\n"},
                {"OPTIONS " BASE "apps/web/image/id HTTP/1.1\r\nHost: p\r\n\r\n", "\r\nAllow: GET, HEAD\r\n"},
                {"GET " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\n\r\n", "\r\nAllow: POST\r\n"},
                {"HEAD " BASE "pod/hmac/verify HTTP/1.1\r\nHost: p\r\n\r\n", "\r\nAllow: POST\r\n"},
                {"PUT " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-Length: 1\r\n\r\nx", "\r\nAllow: POST\r\n"},
        };
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *answer = NULL;
                ASSERT_OK(exchange(&s, cases[i].request, &answer));
                ASSERT_EQ(status_of(answer), 405);
                ASSERT_CONTAINS(answer, cases[i].allow);
        }
}

TEST(head)
{
        _cleanup_free_ char *answer = NULL, *length = NULL;
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(exchange(&s, "HEAD " BASE "pod/manifest HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n", &answer));
        ASSERT_EQ(status_of(answer), 200);
        ASSERT_OK(xasprintf(&length, "\r\nContent-Length: %zu\r\n", strlen(pod_manifest)));
        ASSERT_CONTAINS(answer, length);
        ASSERT_CONTAINS(answer, "\r\nContent-Type: application/json\r\n");
        ASSERT_STREQ(body_of(answer), "");
}

/* A body that comes with a GET must not be taken for the next request. */
TEST(keep_alive)
{
        static const char request[] = "GET " BASE "pod/uuid HTTP/1.1\r\nHost: p\r\nContent-Length: 20\r\n\r\n"
                                      "GET / HTTP/1.1\r\n\r\n  ";
        _cleanup_close_ int fd = -EBADF;
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        fd = service_connect(&s);
        ASSERT_OK(fd);
        for (unsigned i = 0; i < 3; i++) {
                _cleanup_free_ char *answer = NULL;
                ASSERT_OK(send_text(fd, request, strlen(request)));
                ASSERT_OK(read_answer(&s, fd, false, &answer));
                ASSERT_EQ(status_of(answer), 200);
                ASSERT_STREQ(body_of(answer), UUID);
        }
}

TEST(sign)
{
        _cleanup_free_ char *answer = NULL, *empty = NULL;
        char signature[METADATA_SIGNATURE_SIZE];
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(metadata_hmac_sign(own_key, "Old MacDonald Had A Farm", 24, signature));
        ASSERT_OK(post_form(&s, BASE "pod/hmac/sign", "content=Old+MacDonald+Had+A+Farm", &answer));
        ASSERT_EQ(status_of(answer), 200);
        ASSERT_CONTAINS(answer, "\r\nContent-Type: text/plain; charset=us-ascii\r\n");
        ASSERT_STREQ(body_of(answer), signature);
        ASSERT_OK(metadata_hmac_sign(own_key, "", 0, signature));
        ASSERT_OK(post_form(&s, BASE "pod/hmac/sign/", "content=", &empty));
        ASSERT_STREQ(body_of(empty), signature);
}

/* A form for verify, with the signature's + and / as they have to be escaped. */
static char *verify_form(const char *content, const char *uuid, const char *signature)
{
        _cleanup_text_ Text t = {};
        char *form;

        text_addf(&t, "content=%s&uuid=%s&signature=", content, uuid);
        for (const char *p = signature; *p; p++)
                if (strchr("+/=", *p))
                        text_addf(&t, "%%%02x", (unsigned) *p);
                else
                        text_add_bytes(&t, p, 1);
        return text_take(&t, &form, NULL) < 0 ? NULL : form;
}

static void expect_verdict(Service *s, const char *content, const char *uuid, const char *signature, int status)
{
        _cleanup_free_ char *answer = NULL, *form = verify_form(content, uuid, signature);

        ASSERT_NOT_NULL(form);
        ASSERT_OK(post_form(s, BASE "pod/hmac/verify", form, &answer));
        if (status_of(answer) != status)
                TEST_FAIL("%s gives %s", form, answer);
        ASSERT_CONTAINS(answer, "\r\nContent-Type: text/plain; charset=us-ascii\r\n");
        ASSERT_STREQ(body_of(answer), status == 200 ? "valid\n" : "not valid\n");
}

TEST(verify_own)
{
        char signature[METADATA_SIGNATURE_SIZE], foreign[METADATA_SIGNATURE_SIZE];
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(metadata_hmac_sign(own_key, "x", 1, signature));
        ASSERT_OK(metadata_hmac_sign(other_key, "x", 1, foreign));
        expect_verdict(&s, "x", UUID, signature, 200);
        expect_verdict(&s, "x", "5A7A7A3C-40D1-4CB0-9D5B-5F2D0D6A2C11", signature, 200);
        expect_verdict(&s, "y", UUID, signature, 403);
        expect_verdict(&s, "x", UUID, foreign, 403);
        expect_verdict(&s, "x", UUID, "", 403);
        ASSERT_EQ(s.n_asked, 0);
}

TEST(verify_other)
{
        char signature[METADATA_SIGNATURE_SIZE], foreign[METADATA_SIGNATURE_SIZE];
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(metadata_hmac_sign(own_key, "x", 1, signature));
        ASSERT_OK(metadata_hmac_sign(other_key, "x", 1, foreign));
        expect_verdict(&s, "x", OTHER_UUID, foreign, 200);
        expect_verdict(&s, "x", "0BB5A8D2-7D1E-4F2C-8A59-1E0C4A3F9B77", foreign, 200);
        expect_verdict(&s, "y", OTHER_UUID, foreign, 403);
        expect_verdict(&s, "x", OTHER_UUID, signature, 403);
        expect_verdict(&s, "x", "11111111-2222-4333-8444-555555555555", foreign, 403);
        ASSERT_EQ(s.n_asked, 5);
        /* What cannot be a pod or a signature never gets to the parent. */
        expect_verdict(&s, "x", "../../../etc/shadow", foreign, 403);
        expect_verdict(&s, "x", OTHER_UUID "%00", foreign, 403);
        expect_verdict(&s, "x", OTHER_UUID, "short", 403);
        ASSERT_EQ(s.n_asked, 5);
}

/* While one client waits for the parent, which never answers, others are served; in the end it gets a no. */
TEST(verify_timeout)
{
        _cleanup_free_ char *form = NULL, *request = NULL, *answer = NULL;
        char foreign[METADATA_SIGNATURE_SIZE];
        _cleanup_close_ int fd = -EBADF;
        _cleanup_service_ Service s = {};
        MetadataConfig c = config;

        c.verify_timeout_msec = 300;
        ASSERT_OK(service_start(&s, &c));
        ASSERT_OK(metadata_hmac_sign(other_key, "x", 1, foreign));
        form = verify_form("x", OTHER_UUID, foreign);
        ASSERT_OK(xasprintf(&request,
                            "POST " BASE "pod/hmac/verify HTTP/1.1\r\nHost: p\r\n"
                            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n\r\n%s",
                            strlen(form), form));
        s.deaf = true;
        fd = service_connect(&s);
        ASSERT_OK(fd);
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        ASSERT_OK(send_text(fd, request, strlen(request)));
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        ASSERT_OK(read_answer(&s, fd, false, &answer));
        ASSERT_EQ(status_of(answer), 403);
        ASSERT_GE(now_usec(CLOCK_MONOTONIC) - begin, 300000);
        /* The late answer is of no use to anybody, and does no harm. */
        s.deaf = false;
        expect_verdict(&s, "x", OTHER_UUID, foreign, 200);
        ASSERT_EQ(s.n_asked, 2);
}

/* More questions than may wait: the others hear that they should try again. */
TEST(verify_flood)
{
        _cleanup_free_ char *form = verify_form("x", OTHER_UUID, "");
        _cleanup_free_ char *request = NULL;
        char foreign[METADATA_SIGNATURE_SIZE];
        unsigned busy = 0, valid = 0;
        _cleanup_service_ Service s = {};
        int fds[70];

        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(metadata_hmac_sign(other_key, "x", 1, foreign));
        free(form);
        form = verify_form("x", OTHER_UUID, foreign);
        ASSERT_OK(xasprintf(&request,
                            "POST " BASE "pod/hmac/verify HTTP/1.1\r\nHost: p\r\n"
                            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n\r\n%s",
                            strlen(form), form));
        s.deaf = true;
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = service_connect(&s);
                ASSERT_OK(fds[i]);
                ASSERT_OK(send_text(fds[i], request, strlen(request)));
        }
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        s.deaf = false;
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                _cleanup_free_ char *answer = NULL;
                ASSERT_OK(read_answer(&s, fds[i], false, &answer));
                busy += status_of(answer) == 503;
                valid += status_of(answer) == 200;
                safe_close(fds[i]);
        }
        ASSERT_EQ(valid, 64);
        ASSERT_EQ(busy, ELEMENTSOF(fds) - 64);
}

TEST(bad_forms)
{
        static const struct {
                const char *path, *type, *body;
                int status;
        } cases[] = {
                {BASE "pod/hmac/sign", "application/x-www-form-urlencoded", "", 400},
                {BASE "pod/hmac/sign", "application/x-www-form-urlencoded", "contents=x", 400},
                {BASE "pod/hmac/sign", "application/x-www-form-urlencoded", "content=%x", 400},
                {BASE "pod/hmac/sign", "application/x-www-form-urlencoded", "content=x&content=y", 400},
                {BASE "pod/hmac/sign", "application/x-www-form-urlencoded; charset=UTF-8", "content=x", 200},
                {BASE "pod/hmac/sign", "multipart/form-data; boundary=b", "--b\r\n\r\n--b--", 415},
                {BASE "pod/hmac/sign", "text/plain", "content=x", 415},
                {BASE "pod/hmac/verify", "application/json", "{}", 415},
                {BASE "pod/hmac/verify", "application/x-www-form-urlencoded", "content=x&uuid=" UUID, 400},
                {BASE "pod/hmac/verify", "application/x-www-form-urlencoded", "content=x&signature=x", 400},
                {BASE "pod/hmac/verify", "application/x-www-form-urlencoded", "uuid=" UUID "&signature=x", 400},
        };
        _cleanup_service_ Service s = {};

        ASSERT_OK(service_start(&s, &config));
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *answer = NULL;
                ASSERT_OK(post(&s, cases[i].path, cases[i].type, cases[i].body, &answer));
                if (status_of(answer) != cases[i].status)
                        TEST_FAIL("%s with %s gives %s", cases[i].path, cases[i].body, answer);
        }
}

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
        _cleanup_free_ char *largest = large_form(METADATA_BODY_MAX), *larger = large_form(METADATA_BODY_MAX + 1);
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

/* The same, without saying the size in front; and so large that not even the rest is read any more. */
TEST(large_forms_chunked)
{
        static const char header[] = "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n"
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

/* Says it will send a gigabyte, or waits to be told to go on: hears the refusal without sending anything. */
TEST(refused_early)
{
        static const char *const requests[] = {
                "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-Length: 1073741824\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\n\r\n",
                "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-Length: 2000000\r\nExpect: 100-continue\r\n"
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
        ASSERT_OK(xasprintf(&request, "GET " BASE "pod/uuid HTTP/1.1\r\nHost: p\r\nX-Long: %s\r\n\r\n", name));
        int r = exchange(&s, request, &answer);
        ASSERT_TRUE(r < 0 || status_of(answer) >= 400);
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
}

/* Clients that send a byte now and then, or nothing, are let go; others do not notice them. */
TEST(slow_clients)
{
        static const char *const beginnings[] = {"", "GET ", "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-"
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

/* Somebody holds more connections than there are: the next one is served all the same. */
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

/* A new configuration replaces all of the old; one that is wrong replaces nothing, and the parent hears why. */
TEST(reconfigure)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;
        _cleanup_service_ Service s = {};
        MetadataConfig c = config;

        ASSERT_OK(service_start(&s, &config));
        c.pod_manifest = pod_manifest_plain;
        c.pod_manifest_size = strlen(pod_manifest_plain);
        ASSERT_OK(metadata_client_configure(s.client, &c, &s.error));
        while (s.handled >= 0 && now_usec(CLOCK_MONOTONIC) < deadline)
                ASSERT_OK(service_wait(&s, -1, deadline));
        ASSERT_ERR(s.handled, -EREMOTEIO);
        ASSERT_STREQ(s.error.message, "The metadata service of pod " UUID " refuses its configuration: Pod " UUID
                                      " has no app web");
        ASSERT_FALSE(metadata_client_configured(s.client));
        expect(&s, get, BASE "apps/web/image/id", 200, PLAIN, IMAGE_ID);

        c.n_apps = 0;
        c.token = "another-token-of-enough-length";
        ASSERT_OK(metadata_client_configure(s.client, &c, &s.error));
        while (!metadata_client_configured(s.client) && now_usec(CLOCK_MONOTONIC) < deadline)
                ASSERT_OK(service_wait(&s, -1, deadline));
        ASSERT_TRUE(metadata_client_configured(s.client));
        expect(&s, get, BASE "pod/uuid", 404, PLAIN, NULL);
        expect(&s, get, "/another-token-of-enough-length/acMetadata/v1/pod/uuid", 200, PLAIN, UUID);
        expect(&s, get, "/another-token-of-enough-length/acMetadata/v1/apps/web/image/id", 404, PLAIN, NULL);
}

/* A manifest of megabytes arrives whole, also at a client that reads slowly while the configuration changes. */
TEST(large_manifest)
{
        enum { SIZE = 3 * 1024 * 1024 };
        _cleanup_free_ char *value = malloc(SIZE + 1), *manifest = NULL, *answer = NULL;
        _cleanup_service_ Service s = {};
        _cleanup_close_ int fd = -EBADF;
        MetadataConfig c = config;

        ASSERT_NOT_NULL(value);
        memset(value, 'v', SIZE);
        value[SIZE] = 0;
        ASSERT_OK(xasprintf(&manifest,
                            "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[],\"annotations\":"
                            "[{\"name\":\"large\",\"value\":\"%s\"}]}",
                            value));
        c.n_apps = 0;
        c.pod_manifest = manifest;
        c.pod_manifest_size = strlen(manifest);
        ASSERT_OK(service_start(&s, &c));
        fd = service_connect(&s);
        ASSERT_OK(send_text(fd, "GET " BASE "pod/manifest HTTP/1.1\r\nHost: p\r\n\r\n", strlen("GET " BASE "pod/manifest HTTP/1.1\r\nHost: p\r\n\r\n")));
        ASSERT_OK(service_wait(&s, fd, now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC));
        ASSERT_OK(metadata_client_configure(s.client, &config, &s.error));
        expect(&s, get, BASE "pod/manifest", 200, JSON, pod_manifest);
        ASSERT_OK(read_answer(&s, fd, false, &answer));
        ASSERT_TRUE(streq(body_of(answer), manifest));
}

/* Waits until the service has ended. */
static bool has_ended(Service *s)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;
        int r = 0;

        while (r >= 0 && now_usec(CLOCK_MONOTONIC) < deadline)
                r = service_wait(s, -1, deadline);
        return r == -ECONNRESET;
}

TEST(ends_on_sigterm)
{
        _cleanup_service_ Service s = {};
        siginfo_t info = {};

        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(kill(metadata_client_pid(s.client), SIGTERM));
        ASSERT_TRUE(has_ended(&s));
        ASSERT_STREQ(s.error.message, "The metadata service of pod " UUID " has ended");
        ASSERT_FALSE(metadata_client_serving(s.client));
        ASSERT_OK(waitid(P_PID, (id_t) metadata_client_pid(s.client), &info, WEXITED | WNOWAIT));
        ASSERT_EQ(info.si_code, CLD_EXITED);
        ASSERT_EQ(info.si_status, 0);
        ASSERT_ERR(metadata_client_configure(s.client, &config, &s.error), -ECONNRESET);
}

/* The parent is killed; the service notices by itself, with a client in the middle of a question. */
TEST(ends_with_parent)
{
        int pipe_fds[2];
        pid_t service = 0;

        ASSERT_OK(pipe2(pipe_fds, O_CLOEXEC));
        pid_t parent = fork();
        ASSERT_OK(parent);
        if (parent == 0) {
                Service s = {};
                char *answer;
                if (service_start(&s, &config) < 0)
                        _exit(1);
                s.deaf = true;
                pid_t pid = metadata_client_pid(s.client);
                (void) loop_write(pipe_fds[1], &pid, sizeof(pid));
                (void) post_form(&s, BASE "pod/hmac/verify", "content=x&uuid=" OTHER_UUID "&signature=x", &answer);
                (void) pause();
                _exit(0);
        }
        safe_close(pipe_fds[1]);
        ssize_t n = loop_read(pipe_fds[0], &service, sizeof(service));
        safe_close(pipe_fds[0]);
        (void) kill(parent, SIGKILL);
        (void) waitpid(parent, NULL, 0);
        ASSERT_EQ(n, (ssize_t) sizeof(service));
        for (unsigned i = 0; i < 1000 && kill(service, 0) >= 0; i++) {
                char path[64], *stat = NULL;
                (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) service);
                if (read_file_at(AT_FDCWD, path, 4096, &stat, NULL) < 0)
                        break;
                bool zombie = strstr(stat, ") Z ") || strstr(stat, ") X ");
                free(stat);
                if (zombie) /* nobody may be there to reap orphans */
                        return;
                (void) usleep(10000);
        }
        ASSERT_TRUE(kill(service, 0) < 0);
}

TEST(program_missing)
{
        _cleanup_error_ Error e = ERROR_NULL;
        MetadataClient *c = NULL;

        ASSERT_ERR(metadata_client_start(&(MetadataStart){.program = "/nonexistent/metadata"}, &config, &c, &e), -ENOENT);
        ASSERT_STREQ(e.message, "Cannot start the metadata service /nonexistent/metadata of pod " UUID
                                ": No such file or directory");
        ASSERT_STREQ(e.hint, "It is part of acnspawn; install the package again.");
        ASSERT_NULL(c);
}

TEST(not_a_listener)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;
        _cleanup_service_ Service s = {};

        ASSERT_OK(metadata_client_start(&(MetadataStart){service_program(), getuid(), getgid()}, &config, &s.client, &s.error));
        ASSERT_OK(metadata_client_send_listener(s.client, fd, &s.error));
        while (s.handled >= 0 && now_usec(CLOCK_MONOTONIC) < deadline)
                ASSERT_OK(service_wait(&s, -1, deadline));
        ASSERT_STREQ(s.error.message, "The metadata service of pod " UUID
                                      " cannot serve: What came is not a listening stream socket");
}

static void expect_status_line(const char *status, const char *line)
{
        ASSERT_CONTAINS(status, line);
}

/* Entries of a directory, without . and .. */
static int count_entries(const char *path)
{
        DIR *d = opendir(path);
        int n = 0;

        if (!d)
                return -errno;
        while (readdir(d))
                n++;
        (void) closedir(d);
        return n - 2;
}

TEST(privileges)
{
        static const char *const lines[] = {
                "\nUid:\t65533\t65533\t65533\t65533\n", "\nGid:\t65532\t65532\t65532\t65532\n", "\nGroups:\t \n",
                "\nNoNewPrivs:\t1\n", "\nThreads:\t1\n", "\nCapInh:\t0000000000000000\n", "\nCapPrm:\t0000000000000000\n",
                "\nCapEff:\t0000000000000000\n", "\nCapBnd:\t0000000000000000\n", "\nCapAmb:\t0000000000000000\n",
        };
        _cleanup_free_ char *proc = NULL, *path = NULL, *text = NULL, *mounts = NULL, *environment = NULL;
        _cleanup_service_ Service s = {};
        struct stat ours, theirs;

        if (geteuid() != 0)
                TEST_SKIP("only root can drop privileges");
        int r = service_start_as(&s, &config, 65533, 65532);
        if (r == -ECONNRESET)
                TEST_SKIP("this root cannot make namespaces");
        ASSERT_OK(r);
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        ASSERT_OK(xasprintf(&proc, "/proc/%d", (int) metadata_client_pid(s.client)));
        int dir = open(proc, O_PATH | O_CLOEXEC);
        ASSERT_OK(dir);
        ASSERT_OK(read_file_at(dir, "status", 65536, &text, NULL));
        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                expect_status_line(text, lines[i]);
        ASSERT_OK(read_file_at(dir, "environ", 65536, &environment, NULL));
        ASSERT_STREQ(environment, "");
        ASSERT_OK(read_file_at(dir, "mountinfo", 65536, &mounts, NULL));
        ASSERT_CONTAINS(mounts, " / / ro,nosuid,nodev,noexec");
        ASSERT_TRUE(strchr(mounts, '\n') == strrchr(mounts, '\n'));
        ASSERT_OK(xasprintf(&path, "%s/root", proc));
        ASSERT_EQ(count_entries(path), 0);
        static const char *const namespaces[] = {"ns/mnt", "ns/net", "ns/ipc", "ns/uts"};
        for (size_t i = 0; i < ELEMENTSOF(namespaces); i++) {
                char self[64];
                (void) snprintf(self, sizeof(self), "/proc/self/%s", namespaces[i]);
                ASSERT_OK(stat(self, &ours));
                ASSERT_OK(fstatat(dir, namespaces[i], &theirs, 0));
                ASSERT_TRUE(ours.st_ino != theirs.st_ino);
        }
        safe_close(dir);
}

TEST(never_root)
{
        _cleanup_service_ Service s = {};

        if (geteuid() != 0)
                TEST_SKIP("only for root");
        ASSERT_ERR(service_start_as(&s, &config, 0, 0), -ECONNRESET);
}

int main(void)
{
        if (!service_program())
                return TEST_SKIP_ALL("ACNSPAWN_METADATA does not say where the program is");
        RUN(privileges);
        RUN(never_root);
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
                return TEST_SKIP_ALL("cannot become an ordinary user");
        if (access(service_program(), X_OK) < 0)
                return TEST_SKIP_ALL("an ordinary user cannot start the program");

        RUN(endpoints);
        RUN(no_annotations);
        RUN(not_found);
        RUN(methods);
        RUN(head);
        RUN(keep_alive);
        RUN(sign);
        RUN(verify_own);
        RUN(verify_other);
        RUN(verify_timeout);
        RUN(verify_flood);
        RUN(bad_forms);
        RUN(large_forms);
        RUN(large_forms_chunked);
        RUN(refused_early);
        RUN(large_header);
        RUN(slow_clients);
        RUN(many_connections);
        RUN(reconfigure);
        RUN(large_manifest);
        RUN(ends_on_sigterm);
        RUN(ends_with_parent);
        RUN(program_missing);
        RUN(not_a_listener);
        return TEST_END();
}
