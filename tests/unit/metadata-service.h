/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A metadata service for tests, which are its parent and its client: starts the real program, and exchanges
 * HTTP with it over raw sockets while replying to its requests to the parent. */

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "metadata/metadata.h"
#include "tests/unit/test.h"

#define UUID "5a7a7a3c-40d1-4cb0-9d5b-5f2d0d6a2c11"
#define OTHER_UUID "0bb5a8d2-7d1e-4f2c-8a59-1e0c4a3f9b77"
#define TOKEN "0123456789abcdefghijklmnopqrstuv"
#define BASE "/" TOKEN "/acMetadata/v1/"
#define IMAGE_ID                                                                                            \
        "sha512-"                                                                                           \
        "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f6" \
        "3b931bd47417a81a538327af927da3e"
#define EXCHANGE_TIMEOUT_USEC 10000000ULL

static const uint8_t own_key[METADATA_KEY_SIZE] = "the key of the pod itself";
static const uint8_t other_key[METADATA_KEY_SIZE] = "the key of another pod";

static const char pod_manifest[] =
                "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[{\"name\":\"web\",\"image\":"
                "{\"id\":\"" IMAGE_ID "\"},\"annotations\":[{\"name\":\"color\",\"value\":\"green\"},{"
                "\"name\":\"size\",\"value\":\"\\u00fc\"}]},"
                "{\"name\":\"log\",\"image\":{\"id\":\"" IMAGE_ID "\"}}],"
                "\"annotations\":[{\"name\":\"ip-address\",\"value\":\"10.1.2.3\"}]}\n";
static const char pod_manifest_plain[] = "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[]}";
static const char web_manifest[] = "{ \"acKind\":  "
                                   "\"ImageManifest\",\n\t\"acVersion\":\"0.8.11\",\"name\":\"example.com/"
                                   "web\",\"annotations\":"
                                   "[{\"name\":\"color\",\"value\":\"red\"},{\"name\":\"homepage\","
                                   "\"value\":\"https://example.com\"}]}";
static const char log_manifest[] =
                "{\"acKind\":\"ImageManifest\",\"acVersion\":\"0.8.11\",\"name\":\"example.com/log\"}";

static const MetadataApp apps[] = {
                {"web", IMAGE_ID, web_manifest, sizeof(web_manifest) - 1},
                {"log", IMAGE_ID, log_manifest, sizeof(log_manifest) - 1},
};
static const MetadataConfig config = {
                .uuid = UUID,
                .token = TOKEN,
                .key = own_key,
                .pod_manifest = pod_manifest,
                .pod_manifest_size = sizeof(pod_manifest) - 1,
                .apps = apps,
                .n_apps = ELEMENTSOF(apps),
};

typedef struct Service {
        MetadataClient *client;
        struct sockaddr_in address;
        bool ignores_requests; /* the parent does not answer */
        unsigned n_asked;
        int handled; /* the last result of metadata_client_handle() */
        Error error;
} Service;

_unused_ static void service_done(Service *s)
{
        metadata_client_free(s->client);
        error_done(&s->error);
}
#define _cleanup_service_ _cleanup_(service_done)

static const char *service_program(void)
{
        return getenv("ACNSPAWN_METADATA");
}

_unused_ static int lookup_key(const char *uuid, uint8_t key[METADATA_KEY_SIZE], void *userdata)
{
        ((Service *) userdata)->n_asked++;
        if (!streq(uuid, OTHER_UUID))
                return -ENOENT;
        memcpy(key, other_key, METADATA_KEY_SIZE);
        return 0;
}

/* Waits for FD (or nothing, if negative) and serves the channel meanwhile. 1: FD is ready; 0: timeout, or
 * the service has sent a message. */
_unused_ static int service_wait(Service *s, int fd, uint64_t deadline)
{
        struct pollfd p[] = {
                        {.fd = fd, .events = POLLIN},
                        {.fd = s->ignores_requests ? -1 : metadata_client_fd(s->client), .events = POLLIN},
        };
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (now < deadline && poll(p, ELEMENTSOF(p), (int) ((deadline - now) / 1000 + 1)) < 0)
                return -errno;
        if (p[1].revents &&
            (s->handled = metadata_client_handle(s->client, lookup_key, s, &s->error)) == -ECONNRESET)
                return -ECONNRESET;
        return p[0].revents != 0;
}

_unused_ static int open_listener(struct sockaddr_in *ret)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(a);

        if (fd < 0 || bind(fd, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(fd, 512) < 0 ||
            getsockname(fd, (struct sockaddr *) &a, &size) < 0)
                return -errno;
        *ret = a;
        return TAKE_FD(fd);
}

/* Starts it as UID and GID if this process is root; returns when it serves. */
_unused_ static int service_start_as(Service *s, const MetadataConfig *c, uid_t uid, gid_t gid)
{
        _cleanup_close_ int listener = open_listener(&s->address);
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;

        if (listener < 0)
                return listener;
        int r = metadata_client_start(&(MetadataStart){.program = service_program(), .uid = uid, .gid = gid},
                                      c, &s->client, &s->error);
        if (r >= 0)
                r = metadata_client_send_listener(s->client, listener, &s->error);
        while (r >= 0 && s->handled >= 0 && !metadata_client_serving(s->client))
                r = now_usec(CLOCK_MONOTONIC) < deadline ? service_wait(s, -1, deadline) : -ETIME;
        return r;
}

_unused_ static int service_start(Service *s, const MetadataConfig *c)
{
        return service_start_as(s, c, getuid(), getgid());
}

_unused_ static int service_connect(Service *s)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *) &s->address, sizeof(s->address)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* Whether all of an answer is there. HEAD answers end with their header. */
_unused_ static bool answer_is_complete(const char *text, size_t n, bool head)
{
        const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\nContent-Length: ");

        if (!end)
                return false;
        size_t size = length && length < end && !head ? strtoul(length + 18, NULL, 10) : 0;
        return n >= (size_t) (end + 4 - text) + size;
}

/* Reads one answer (to a HEAD request) into a string. -ECONNABORTED: the connection ended before it. */
_unused_ static int read_answer(Service *s, int fd, bool head, char **ret)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;
        _cleanup_text_ Text t = {};
        char buffer[65536];

        while (t.size == 0 || !answer_is_complete(t.data, t.size, head)) {
                int r = service_wait(s, fd, deadline);
                if (r < 0)
                        return r;
                if (r == 0 && now_usec(CLOCK_MONOTONIC) >= deadline)
                        return -ETIME;
                if (r == 0)
                        continue;
                ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
                if (n <= 0)
                        return -ECONNABORTED;
                text_add_bytes(&t, buffer, (size_t) n);
                if (t.failed)
                        return -ENOMEM;
        }
        return text_take(&t, ret, NULL);
}

_unused_ static int send_text(int fd, const char *text, size_t n)
{
        while (n > 0) {
                ssize_t k = send(fd, text, n, MSG_NOSIGNAL);
                if (k < 0)
                        return -errno;
                text += k;
                n -= (size_t) k;
        }
        return 0;
}

/* One request on a connection of its own. */
_unused_ static int exchange(Service *s, const char *request, char **ret)
{
        _cleanup_close_ int fd = service_connect(s);

        if (fd < 0)
                return fd;
        int r = send_text(fd, request, strlen(request));
        return r < 0 ? r : read_answer(s, fd, startswith(request, "HEAD ") != NULL, ret);
}

_unused_ static int get(Service *s, const char *path, char **ret)
{
        _cleanup_free_ char *request = NULL;
        int r = xasprintf(&request, "GET %s HTTP/1.1\r\nHost: pod\r\nMetadata-Flavor: AppContainer\r\n\r\n",
                          path);

        return r < 0 ? r : exchange(s, request, ret);
}

_unused_ static int post(Service *s, const char *path, const char *type, const char *body, char **ret)
{
        _cleanup_free_ char *request = NULL;
        int r = xasprintf(
                        &request,
                        "POST %s HTTP/1.1\r\nHost: pod\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s",
                        path, type, strlen(body), body);

        return r < 0 ? r : exchange(s, request, ret);
}

_unused_ static int post_form(Service *s, const char *path, const char *body, char **ret)
{
        return post(s, path, "application/x-www-form-urlencoded", body, ret);
}

_unused_ static int status_of(const char *answer)
{
        return answer && startswith(answer, "HTTP/1.1 ") ? atoi(answer + 9) : -1;
}

static const char *body_of(const char *answer)
{
        const char *end = answer ? strstr(answer, "\r\n\r\n") : NULL;

        return end ? end + 4 : NULL;
}

#define JSON "application/json"
#define PLAIN "text/plain; charset=us-ascii"

/* Sends a request and expects the status, the content type and, unless NULL, the body. */
_unused_ static void expect(Service *s, int (*send)(Service *, const char *, char **), const char *path,
                            int status, const char *type, const char *body)
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

/* Changes to an unprivileged user, so that the results do not depend on root. Returns the reason if that
 * fails. */
_unused_ static const char *become_ordinary(void)
{
        const gid_t nobody = 65534;

        if (!service_program())
                return "ACNSPAWN_METADATA does not say where the program is";
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(nobody) < 0 || setuid(nobody) < 0))
                return "cannot become an ordinary user";
        if (access(service_program(), X_OK) < 0)
                return "an ordinary user cannot start the program";
        return NULL;
}
