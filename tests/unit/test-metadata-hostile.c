/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parent's side of the metadata service, with a service that has been taken over by an app of the pod.
 *
 * The program has both roles: started under the service's name, it is a service that sends invalid messages. */

#include <sys/mman.h>

#include "library/libcrypto.h"
#include "metadata/protocol.h"
#include "tests/unit/metadata-service.h"

/* Requests the verification of SIGNATURE and returns the verdict: 1, 0, or -1 if there is none. */
static int ask(const char *uuid, const char *signature, int fd)
{
        MetadataMessage m = {.type = METADATA_MESSAGE_VERIFY, .serial = 7};
        struct pollfd p = {.fd = METADATA_CHANNEL_FD, .events = POLLIN};
        int received = -EBADF;

        (void) snprintf(m.uuid, sizeof(m.uuid), "%s", uuid);
        (void) snprintf(m.signature, sizeof(m.signature), "%s", signature);
        if (metadata_message_send(METADATA_CHANNEL_FD, &m, fd) < 0)
                return -1;
        for (;;) {
                if (poll(&p, 1, 10000) <= 0 ||
                    metadata_message_receive(METADATA_CHANNEL_FD, &m, &received) <= 0)
                        return -1;
                safe_close(received); /* the configuration, for one */
                if (m.type == METADATA_MESSAGE_VERDICT)
                        return m.serial == 7 ? m.code : -1;
        }
}

/* A descriptor that is not a sealed memfd, although it has the right content. */
static int unsealed_content(void)
{
        int fd = memfd_create("content", MFD_CLOEXEC);

        if (fd >= 0 && loop_write(fd, "x", 1) < 0)
                return -1;
        return fd;
}

static int large_content(void)
{
        _cleanup_free_ char *data = calloc(1, METADATA_BODY_MAX + 1);
        int fd = -1;

        return !data || metadata_memfd_new("content", data, METADATA_BODY_MAX + 1, &fd) < 0 ? -1 : fd;
}

static const char *ask_badly(void)
{
        char signature[METADATA_SIGNATURE_SIZE];
        int content = -1, pipe_fds[2];

        if (metadata_hmac_sign(other_key, "x", 1, signature) < 0 ||
            metadata_memfd_new("content", "x", 1, &content) < 0 || pipe(pipe_fds) < 0)
                return "cannot prepare";
        if (ask(OTHER_UUID, signature, content) != 1)
                return "a proper question is not answered with yes";
        if (ask(OTHER_UUID, signature, -1) != 0)
                return "a question without content is not answered with no";
        if (ask(OTHER_UUID, signature, pipe_fds[0]) != 0 || ask(OTHER_UUID, signature, 1) != 0)
                return "a question with something to block on is not answered with no";
        if (ask(OTHER_UUID, signature, unsealed_content()) != 0)
                return "a question with content that may change is not answered with no";
        if (ask(OTHER_UUID, signature, large_content()) != 0)
                return "a question with too much content is not answered with no";
        if (ask("../../../../etc/shadow", signature, content) != 0 || ask("", signature, content) != 0)
                return "a question about a path is not answered with no";
        if (ask(OTHER_UUID, "", content) != 0 || ask(OTHER_UUID, "x", content) != 0)
                return "half a signature is not answered with no";
        return NULL;
}

static void report(MetadataMessageType type, int code, const char *text)
{
        MetadataMessage m = {.type = type, .serial = 1, .code = code};

        memset(m.text, 'x', sizeof(m.text)); /* no NUL anywhere */
        if (text)
                (void) snprintf(m.text, sizeof(m.text), "%s", text);
        (void) metadata_message_send(METADATA_CHANNEL_FD, &m, -EBADF);
}

static int be_hostile(void)
{
        const char *why = ask_badly();

        report(METADATA_MESSAGE_CONFIGURED, why ? -EPERM : 0, why ?: "");
        report(METADATA_MESSAGE_SERVING, -EIO, "\x1b[2J\x1b]0;owned\x07\xff");
        report(METADATA_MESSAGE_SERVING, -EIO, NULL);
        report(METADATA_MESSAGE_LISTENER, 0, "");
        report(99, 0, "");
        (void) send(METADATA_CHANNEL_FD, "short", 5, MSG_NOSIGNAL);
        return 0;
}

/* The next message that is an error, or that has no effect any more. */
static int next_error(Service *s)
{
        uint64_t deadline = now_usec(CLOCK_MONOTONIC) + EXCHANGE_TIMEOUT_USEC;
        int r;

        error_done(&s->error);
        for (;;) {
                s->handled = 0;
                r = service_wait(s, -1, deadline);
                if (r < 0)
                        return r;
                if (s->handled < 0)
                        return s->handled;
                if (now_usec(CLOCK_MONOTONIC) >= deadline)
                        return -ETIME;
        }
}

TEST(hostile_service)
{
        _cleanup_service_ Service s = {};

        ASSERT_OK(metadata_client_start(&(MetadataStart){"/proc/self/exe", getuid(), getgid()}, &config,
                                        &s.client, &s.error));
        ASSERT_ERR(next_error(&s), -EREMOTEIO);
        ASSERT_STREQ(s.error.message, "The metadata service of pod " UUID " cannot serve: "
                                      "\\x1b[2J\\x1b]0;owned\\x07\\xff");
        ASSERT_TRUE(metadata_client_configured(s.client));
        ASSERT_EQ(s.n_asked, 3); /* never with a path, never for malformed content */
        ASSERT_ERR(next_error(&s), -EREMOTEIO);
        ASSERT_LT(strlen(s.error.message), 2000);
        ASSERT_ERR(next_error(&s), -EBADMSG);
        ASSERT_STREQ(s.error.message, "The metadata service of pod " UUID " sends invalid messages");
        ASSERT_ERR(next_error(&s), -EBADMSG);
        ASSERT_ERR(next_error(&s), -EBADMSG);
        ASSERT_ERR(next_error(&s), -ECONNRESET);
        ASSERT_FALSE(metadata_client_serving(s.client));
}

/* A service that neither reads nor ends is eventually killed. */
TEST(service_that_ignores_requests_to_end)
{
        _cleanup_service_ Service s = {};
        uint64_t begin;
        int r = 0;

        ASSERT_OK(metadata_client_start(&(MetadataStart){"/proc/self/exe", getuid(), getgid()}, &config,
                                        &s.client, &s.error));
        ASSERT_OK(kill(metadata_client_pid(s.client), SIGSTOP));
        for (unsigned i = 0; i < 100000 && r >= 0; i++)
                r = metadata_client_configure(s.client, &config, &s.error);
        ASSERT_ERR(r, -EAGAIN);
        ASSERT_CONTAINS(s.error.message,
                        "Cannot send the metadata service of pod " UUID " its configuration: ");
        begin = now_usec(CLOCK_MONOTONIC);
        s.client = metadata_client_free(s.client);
        ASSERT_LT(now_usec(CLOCK_MONOTONIC) - begin, 8000000);
}

int main(int argc, char **argv)
{
        if (library_load(&crypto_library, NULL) < 0)
                return 1;
        if (argc > 0 && streq(argv[0], METADATA_PROGRAM))
                return be_hostile();

        const char *why = become_ordinary();
        if (why)
                return TEST_SKIP_ALL("%s", why);
        RUN(hostile_service);
        RUN(service_that_ignores_requests_to_end);
        return TEST_END();
}
