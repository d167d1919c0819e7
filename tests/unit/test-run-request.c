/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The request that a client passes to the supervisor that it starts. */

#include <netinet/in.h>
#include <sys/socket.h>

#include "stage0/supervisor/start/foreground.h"
#include "tests/unit/test.h"

/* As it is passed: it does not close on exec. */
static int new_fd(void)
{
        return open("/dev/null", O_RDWR);
}

static int listening_socket(void)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        return fd >= 0 && bind(fd, (struct sockaddr *) &a, sizeof(a)) >= 0 && listen(fd, 1) >= 0 ? fd : -1;
}

static int parse(const char *text, RunRequest *ret, Error *e)
{
        return run_request_parse(text, strlen(text), ret, e);
}

TEST(round_trip)
{
        _cleanup_(run_request_done) RunRequest again = RUN_REQUEST_NULL;
        _cleanup_free_ char *text = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        char app[] = "web", name[] = "http";
        PassedSocket socket = {.fd = listening_socket(), .number = 3, .name = name};
        RunRequest q = {
                        .options = {.detach = true,
                                    .remove = true,
                                    .quiet = true,
                                    .raw = true,
                                    .strict = true,
                                    .keep_unit = true,
                                    .registration = REGISTER_YES,
                                    .ready_timeout_usec = UINT64_MAX,
                                    .start_wait_usec = 5},
                        .sockets = {.items = &socket, .n = 1, .foreign_pid = 77},
                        .log_level = LOG_LEVEL_DEBUG,
                        .by_uuid = true,
                        .client = 4711,
                        .pod_fd = new_fd(),
                        .front = {.app = app,
                                  .kind = INPUT_TERMINAL,
                                  .in_fd = new_fd(),
                                  .socket = new_fd(),
                                  .report_fd = new_fd()},
        };

        ASSERT_EQ(run_request_format(&q, &text), 0);
        ASSERT_EQ(parse(text, &again, &e), 0);
        ASSERT_EQ(again.options.detach && again.options.remove && again.options.quiet && again.options.raw &&
                                  again.options.strict && again.options.keep_unit && again.by_uuid,
                  true);
        ASSERT_EQ(again.options.registration, REGISTER_YES);
        ASSERT_EQ(again.options.ready_timeout_usec == UINT64_MAX, true);
        ASSERT_EQ(again.options.start_wait_usec, 5U);
        ASSERT_EQ(again.log_level, LOG_LEVEL_DEBUG);
        ASSERT_EQ(again.client, 4711);
        ASSERT_EQ(again.pod_fd, q.pod_fd);
        ASSERT_EQ(again.front.report_fd, q.front.report_fd);
        ASSERT_EQ(again.front.in_fd, q.front.in_fd);
        ASSERT_EQ(again.front.socket, q.front.socket);
        ASSERT_STREQ(again.front.app, "web");
        ASSERT_EQ(again.front.kind, INPUT_TERMINAL);
        ASSERT_EQ(again.sockets.n, 1U);
        ASSERT_EQ(again.sockets.foreign_pid, 77);
        ASSERT_EQ(again.sockets.pid, 4711);
        ASSERT_EQ(again.sockets.items[0].fd, socket.fd);
        ASSERT_EQ(again.sockets.items[0].number, 3);
        ASSERT_STREQ(again.sockets.items[0].name, "http");
        ASSERT_EQ(again.sockets.items[0].port > 0, true);
        ASSERT_EQ(fcntl(again.pod_fd, F_GETFD), FD_CLOEXEC);
        ASSERT_EQ(fcntl(again.sockets.items[0].fd, F_GETFD), FD_CLOEXEC);
}

/* Each member separately: none replaces another, or is lost. */
TEST(each_option_alone)
{
        static const size_t flags[] = {
                        offsetof(RunRequest, options.detach), offsetof(RunRequest, options.remove),
                        offsetof(RunRequest, options.quiet),  offsetof(RunRequest, options.raw),
                        offsetof(RunRequest, options.strict), offsetof(RunRequest, options.keep_unit),
                        offsetof(RunRequest, by_uuid),
        };

        for (size_t i = 0; i < ELEMENTSOF(flags); i++) {
                _cleanup_(run_request_done) RunRequest again = RUN_REQUEST_NULL;
                _cleanup_free_ char *text = NULL;
                RunRequest q = RUN_REQUEST_NULL;

                *(bool *) ((char *) &q + flags[i]) = true;
                ASSERT_EQ(run_request_format(&q, &text), 0);
                ASSERT_EQ(parse(text, &again, NULL), 0);
                for (size_t k = 0; k < ELEMENTSOF(flags); k++)
                        ASSERT_EQ(*(bool *) ((char *) &again + flags[k]), k == i);
                ASSERT_EQ(again.pod_fd, -EBADF);
                ASSERT_EQ(again.front.report_fd, -EBADF);
        }
}

/* Members that an older client does not send have their default values. */
TEST(members_that_are_missing)
{
        _cleanup_(run_request_done) RunRequest q = RUN_REQUEST_NULL;

        ASSERT_EQ(parse("{\"version\":1}", &q, NULL), 0);
        ASSERT_EQ(q.options.ready_timeout_usec == UINT64_MAX, true);
        ASSERT_EQ(q.options.registration, REGISTER_AUTO);
        ASSERT_EQ(q.log_level, LOG_LEVEL_INFO);
        ASSERT_EQ(q.pod_fd, -EBADF);
}

static void check_refused(const char *text, int code, const char *word)
{
        RunRequest q = RUN_REQUEST_NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_EQ(parse(text, &q, &e), code);
        ASSERT_EQ(strstr(e.message, word) != NULL, true);
        ASSERT_EQ(q.pod_fd, -EBADF);
}

TEST(refused_by_name)
{
        check_refused("{\"version\":2}", -EPROTONOSUPPORT, "version 2");
        check_refused("{\"version\":1,\"colour\":true}", -EPROTONOSUPPORT, "'colour'");
        check_refused("{\"version\":1,\"sockets\":[{\"fd\":3,\"shape\":1}]}", -EBADF, "'fd'");
        check_refused("{\"version\":1,\"sockets\":[{\"shape\":1}]}", -EPROTONOSUPPORT, "'shape'");
        check_refused("{\"version\":1,\"detach\":1}", -EINVAL, "'detach'");
        check_refused("{\"version\":1,\"register\":\"perhaps\"}", -EINVAL, "'register'");
        check_refused("{\"version\":1,\"readyTimeoutUSec\":-1}", -EINVAL, "'readyTimeoutUSec'");
        check_refused("{\"version\":1,\"client\":4294967297}", -EINVAL, "'client'");
        check_refused("{\"version\":1,\"sockets\":{}}", -EINVAL, "'sockets'");
        check_refused("{\"version\":1,\"sockets\":[1]}", -EINVAL, "'sockets'");
        check_refused("{\"version\":0}", -EINVAL, "request to the supervisor is not valid");
        check_refused("{\"version\":\"1\"}", -EINVAL, "request to the supervisor is not valid");
        check_refused("{}", -EINVAL, "request to the supervisor is not valid");
        check_refused("[]", -EINVAL, "request to the supervisor is not valid");
        check_refused("", -EBADMSG, "request to the supervisor is not valid");
}

TEST(descriptors_that_were_not_passed)
{
        _cleanup_close_ int own = open("/dev/null", O_RDWR | O_CLOEXEC);
        int passed = new_fd();
        char text[128];

        check_refused("{\"version\":1,\"podFD\":1}", -EBADF, "'podFD'"); /* a standard stream */
        check_refused("{\"version\":1,\"reportFD\":9999}", -EBADF, "'reportFD'");
        snprintf(text, sizeof(text), "{\"version\":1,\"podFD\":%d}", own);
        check_refused(text, -EBADF, "'podFD'");
        ASSERT_EQ(fcntl(own, F_GETFD) >= 0, true); /* it was not ours to close */
        snprintf(text, sizeof(text), "{\"version\":1,\"podFD\":%d,\"reportFD\":%d}", passed, passed);
        check_refused(text, -EBADF, "'reportFD'");
        ASSERT_EQ(fcntl(passed, F_GETFD), -1);
}

int main(void)
{
        RUN(round_trip);
        RUN(each_option_alone);
        RUN(members_that_are_missing);
        RUN(refused_by_name);
        RUN(descriptors_that_were_not_passed);
        return TEST_END();
}
