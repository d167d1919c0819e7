/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The metadata service from the apps' side: requests to the real program over real sockets. */

#include "library/libcrypto.h"
#include "tests/unit/metadata-service.h"

#define WEB_ANNOTATIONS                                                                                     \
        "[{\"name\":\"color\",\"value\":\"green\"},{\"name\":\"homepage\",\"value\":\"https://"             \
        "example.com\"},{\"name\":\"size\","                                                                \
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

/* The values that the specification's validator compares, for a pod without annotations. */
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
        ASSERT_STREQ(squeezed,
                     "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[],\"annotations\":[]}");
}

/* A wrong token, an unknown path and an unknown app cannot be distinguished, whatever the method. */
TEST(not_found)
{
        static const char *const paths[] = {
                        "/",
                        "/" TOKEN,
                        "/0123456789abcdefghijklmnopqrstuw/acMetadata/v1/pod/uuid",
                        "/x/acMetadata/v1/pod/uuid",
                        BASE "pod/nothing",
                        BASE "apps/nobody/image/id",
                        BASE "apps/web",
                        BASE "apps/we/image/id",
                        BASE "apps/webs/annotations",
                        "/" UUID "/acMetadata/v1/pod/hmac/sign",
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
                        {"POST " BASE "pod/uuid HTTP/1.1\r\nHost: p\r\nContent-Length: 1\r\n\r\nx",
                         "\r\nAllow: GET, HEAD\r\n"},
                        {"DELETE " BASE "pod/manifest HTTP/1.1\r\nHost: p\r\n\r\n",
                         "\r\nAllow: GET, HEAD\r\n"},
                        {"OPTIONS " BASE "apps/web/image/id HTTP/1.1\r\nHost: p\r\n\r\n",
                         "\r\nAllow: GET, HEAD\r\n"},
                        {"GET " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\n\r\n", "\r\nAllow: POST\r\n"},
                        {"HEAD " BASE "pod/hmac/verify HTTP/1.1\r\nHost: p\r\n\r\n", "\r\nAllow: POST\r\n"},
                        {"PUT " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-Length: 1\r\n\r\nx",
                         "\r\nAllow: POST\r\n"},
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
        ASSERT_OK(exchange(&s, "HEAD " BASE "pod/manifest HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n",
                           &answer));
        ASSERT_EQ(status_of(answer), 200);
        ASSERT_OK(xasprintf(&length, "\r\nContent-Length: %zu\r\n", strlen(pod_manifest)));
        ASSERT_CONTAINS(answer, length);
        ASSERT_CONTAINS(answer, "\r\nContent-Type: application/json\r\n");
        ASSERT_STREQ(body_of(answer), "");
}

/* The body of a GET must not be parsed as the next request. */
TEST(keep_alive)
{
        static const char request[] =
                        "GET " BASE "pod/uuid HTTP/1.1\r\nHost: p\r\nContent-Length: 20\r\n\r\n"
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

static void expect_verdict(Service *s, const char *content, const char *uuid, const char *signature,
                           int status)
{
        _cleanup_free_ char *answer = NULL, *form = verify_form(content, uuid, signature);

        ASSERT_NOT_NULL(form);
        ASSERT_OK(post_form(s, BASE "pod/hmac/verify", form, &answer));
        if (status_of(answer) != status)
                TEST_FAIL("%s gives %s", form, answer);
        ASSERT_CONTAINS(answer, "\r\nContent-Type: text/plain; charset=us-ascii\r\n");
        ASSERT_STREQ(body_of(answer), status == 200 ? "valid\n" : "not valid\n");
}

static int ask_later(uint64_t serial, void *userdata)
{
        uint64_t *asked = userdata;

        *asked = serial;
        return 0;
}

static int send_sign(Service *s, int fd)
{
        static const char request[] =
                        "POST " BASE "pod/hmac/sign HTTP/1.1\r\nHost: p\r\nContent-Type: "
                        "application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\ncontent=%41";

        return fd < 0 ? fd : send_text(fd, request, sizeof(request) - 1);
}

/* Nothing is signed before the parent has replied; all other requests are served meanwhile. */
TEST(signatures_wait_for_the_parent)
{
        _cleanup_service_ Service s = {};
        _cleanup_free_ char *right = NULL;
        char expected[METADATA_SIGNATURE_SIZE];
        int fds[20];
        uint64_t asked = 0, first;

        ASSERT_OK(service_start(&s, &config));
        metadata_client_set_may_sign(s.client, ask_later, &asked);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                ASSERT_OK(send_sign(&s, fds[i] = service_connect(&s)));
        for (unsigned i = 0; i < 20; i++)
                expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        ASSERT_TRUE(asked > 0);
        ASSERT_EQ(service_wait(&s, fds[0], now_usec(CLOCK_MONOTONIC) + 100000), 0);
        first = asked;
        metadata_client_answer(s.client, asked, true);
        ASSERT_OK(metadata_hmac_sign(own_key, "A", 1, expected));
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                _cleanup_free_ char *answer = NULL;

                ASSERT_OK(read_answer(&s, fds[i], false, &answer));
                ASSERT_EQ(status_of(answer), 200);
                ASSERT_STREQ(body_of(answer), expected);
                close(fds[i]);
        }
        ASSERT_OK(post_form(&s, BASE "pod/hmac/sign", "content=A", &right));
        ASSERT_STREQ(body_of(right), expected);
        ASSERT_EQ(asked, first); /* once and for all */
}

TEST(signatures_that_the_parent_refuses)
{
        _cleanup_service_ Service s = {};
        MetadataConfig c = config;
        uint64_t asked = 0, first = 0;

        c.verify_timeout_msec = 300;
        ASSERT_OK(service_start(&s, &c));
        metadata_client_set_may_sign(s.client, ask_later, &asked);
        for (unsigned i = 0; i < 3; i++) { /* refused; not answered; answered too late */
                _cleanup_close_ int fd = service_connect(&s);
                _cleanup_free_ char *answer = NULL;

                first = asked;
                ASSERT_OK(send_sign(&s, fd));
                while (asked == first)
                        ASSERT_OK(service_wait(&s, -1, now_usec(CLOCK_MONOTONIC) + 1000000));
                if (i != 1)
                        metadata_client_answer(s.client, i == 0 ? asked : first, i == 2);
                ASSERT_OK(read_answer(&s, fd, false, &answer));
                ASSERT_EQ(status_of(answer), 503);
                ASSERT_STREQ(body_of(answer), "busy, try again\n");
        }
}

/* The service ends although a client waits for a signature. */
TEST(end_while_a_signature_waits)
{
        _cleanup_service_ Service s = {};
        uint64_t asked = 0;

        ASSERT_OK(service_start(&s, &config));
        metadata_client_set_may_sign(s.client, ask_later, &asked);
        _cleanup_close_ int fd = service_connect(&s);
        ASSERT_OK(send_sign(&s, fd));
        while (asked == 0)
                ASSERT_OK(service_wait(&s, -1, now_usec(CLOCK_MONOTONIC) + 1000000));
        s.client = metadata_client_free(s.client);
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

/* The largest valid form is also passed to the parent. */
TEST(verify_other_large)
{
        char signature[METADATA_SIGNATURE_SIZE];
        _cleanup_free_ char *content = NULL;
        _cleanup_service_ Service s = {};
        size_t size = METADATA_BODY_MAX - 300;

        content = malloc(size + 1);
        ASSERT_NOT_NULL(content);
        memset(content, 'x', size);
        content[size] = 0;
        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(metadata_hmac_sign(other_key, content, size, signature));
        expect_verdict(&s, content, OTHER_UUID, signature, 200);
        ASSERT_EQ(s.n_asked, 1);
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
        /* Values that cannot be a pod or a signature are not passed to the parent. */
        expect_verdict(&s, "x", "../../../etc/shadow", foreign, 403);
        expect_verdict(&s, "x", OTHER_UUID "%00", foreign, 403);
        expect_verdict(&s, "x", OTHER_UUID, "short", 403);
        ASSERT_EQ(s.n_asked, 5);
}

/* While one client waits for the parent, which never replies, others are served; eventually it gets a
 * refusal. */
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
        ASSERT_OK(xasprintf(
                        &request,
                        "POST " BASE "pod/hmac/verify HTTP/1.1\r\nHost: p\r\n"
                        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n\r\n%s",
                        strlen(form), form));
        s.ignores_requests = true;
        fd = service_connect(&s);
        ASSERT_OK(fd);
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        ASSERT_OK(send_text(fd, request, strlen(request)));
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        ASSERT_OK(read_answer(&s, fd, false, &answer));
        ASSERT_EQ(status_of(answer), 403);
        ASSERT_GE(now_usec(CLOCK_MONOTONIC) - begin, 300000);
        /* The late reply is ignored. */
        s.ignores_requests = false;
        expect_verdict(&s, "x", OTHER_UUID, foreign, 200);
        ASSERT_EQ(s.n_asked, 2);
}

/* More requests than may wait: the others are told to retry. */
TEST(verify_flood)
{
        _cleanup_free_ char *form = NULL, *request = NULL;
        char foreign[METADATA_SIGNATURE_SIZE];
        unsigned busy = 0, valid = 0;
        _cleanup_service_ Service s = {};
        int fds[70];

        ASSERT_OK(service_start(&s, &config));
        ASSERT_OK(metadata_hmac_sign(other_key, "x", 1, foreign));
        form = verify_form("x", OTHER_UUID, foreign);
        ASSERT_OK(xasprintf(
                        &request,
                        "POST " BASE "pod/hmac/verify HTTP/1.1\r\nHost: p\r\n"
                        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n\r\n%s",
                        strlen(form), form));
        s.ignores_requests = true;
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = service_connect(&s);
                ASSERT_OK(fds[i]);
                ASSERT_OK(send_text(fds[i], request, strlen(request)));
        }
        expect(&s, get, BASE "pod/uuid", 200, PLAIN, UUID);
        s.ignores_requests = false;
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
                        {BASE "pod/hmac/sign", "application/x-www-form-urlencoded", "content=x&content=y",
                         400},
                        {BASE "pod/hmac/sign", "application/x-www-form-urlencoded; charset=UTF-8",
                         "content=x", 200},
                        {BASE "pod/hmac/sign", "multipart/form-data; boundary=b", "--b\r\n\r\n--b--", 415},
                        {BASE "pod/hmac/sign", "text/plain", "content=x", 415},
                        {BASE "pod/hmac/verify", "application/json", "{}", 415},
                        {BASE "pod/hmac/verify", "application/x-www-form-urlencoded", "content=x&uuid=" UUID,
                         400},
                        {BASE "pod/hmac/verify", "application/x-www-form-urlencoded",
                         "content=x&signature=x", 400},
                        {BASE "pod/hmac/verify", "application/x-www-form-urlencoded",
                         "uuid=" UUID "&signature=x", 400},
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

int main(void)
{
        if (library_load(&crypto_library, NULL) < 0)
                return 1;
        const char *why = become_ordinary();
        if (why)
                return TEST_SKIP_ALL("%s", why);

        RUN(endpoints);
        RUN(no_annotations);
        RUN(not_found);
        RUN(methods);
        RUN(head);
        RUN(keep_alive);
        RUN(sign);
        RUN(signatures_wait_for_the_parent);
        RUN(signatures_that_the_parent_refuses);
        RUN(end_while_a_signature_waits);
        RUN(verify_own);
        RUN(verify_other);
        RUN(verify_other_large);
        RUN(verify_timeout);
        RUN(verify_flood);
        RUN(bad_forms);
        return TEST_END();
}
