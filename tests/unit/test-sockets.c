/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/sockets.c and stage0/supervisor/sockets*.c: ports that can start apps, sockets from the
 * environment, and the assignment of sockets to ports. The pods are manifests only; nothing is run. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "stage0/supervisor/run-internal.h"
#include "tests/unit/test.h"

#define APP(name, ports)                                                                                    \
        "{\"name\":\"" name "\",\"image\":{\"id\":\"sha512-"                                                \
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"                                  \
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"},"                              \
        "\"app\":{\"exec\":[\"/bin/app\"],\"user\":\"0\",\"group\":\"0\",\"ports\":[" ports "]}}"
#define PORT(name, protocol, port, more)                                                                    \
        "{\"name\":\"" name "\",\"protocol\":\"" protocol "\",\"port\":" port                               \
        ",\"socketActivated\":true" more "}"
#define POD(apps, more) "{\"acVersion\":\"0.8.11\",\"acKind\":\"PodManifest\",\"apps\":[" apps "]" more "}"

static void pod_done(Pod *p)
{
        pod_manifest_free(p->manifest);
}
#define _cleanup_pod_ _cleanup_(pod_done)

static int parse(const char *text, Pod *p)
{
        *p = (Pod){.uuid = (char *) "01234567-89ab-cdef-0123-456789abcdef", .config.net = NET_NONE};
        return pod_manifest_parse(text, strlen(text), &p->manifest, NULL, NULL);
}

/* --- Ports --------------------------------------------------------------------------------------------- */

TEST(ports_that_can_be)
{
        static const struct {
                const char *text;
                int expected;
        } cases[] = {
                        {POD(APP("a", PORT("x", "tcp", "80", "")), ""), 0},
                        {POD(APP("a", PORT("x", "tcp", "80", "") "," PORT("y", "udp", "80", "")), ""), 0},
                        {POD(APP("a", PORT("x", "tcp", "80", "") "," PORT("y", "tcp", "80", "")), ""),
                         -EINVAL},
                        {POD(APP("a", PORT("x", "tcp", "80", ",\"count\":9") "," PORT("y", "tcp", "88", "")),
                             ""),
                         -EINVAL},
                        {POD(APP("a", PORT("x", "tcp", "80", "")) "," APP("b", PORT("x", "tcp", "80", "")),
                             ""),
                         -EINVAL},
                        {POD(APP("a", PORT("x", "tcp", "1", ",\"count\":256")), ""), 0},
                        {POD(APP("a", PORT("x", "tcp", "1", ",\"count\":257")), ""), -E2BIG},
                        {POD(APP("a", PORT("x", "tcp", "1", ",\"count\":200") "," PORT("y", "udp", "1",
                                                                                       ",\"count\":57")),
                             ""),
                         -E2BIG},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_pod_ Pod p = {};
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_OK(parse(cases[i].text, &p));
                ASSERT_EQ(stage1_sockets_check(p.manifest, &e), cases[i].expected);
                ASSERT_EQ(e.message == NULL, cases[i].expected == 0);
        }
}

/* --- Assignment ---------------------------------------------------------------------------------------- */

/* A socket of "tcp 127.0.0.1:PORT"; only the fields that the assignment uses. */
static PassedSocket fake(int number, const char *name, bool udp, uint16_t port)
{
        PassedSocket s = {.fd = -EBADF,
                          .number = number,
                          .name = strdup(name),
                          .udp = udp,
                          .type = udp ? SOCK_DGRAM : SOCK_STREAM,
                          .port = port};

        if (xasprintf(&s.listen, port > 0 ? "127.0.0.1:%u" : "/run/%u.sock",
                      port > 0 ? port : (unsigned) number) < 0)
                abort();
        return s;
}

typedef struct Case {
        struct {
                const char *name;
                bool udp;
                uint16_t port;
        } sockets[4];
        const char *expected[4]; /* "APP/PORT" for each */
        int error;
} Case;

static const char two_apps[] = POD(
                APP("a", PORT("http", "tcp", "80",
                              "") "," PORT("range", "tcp", "7000",
                                           ",\"count\":2")) "," APP("b",
                                                                    PORT("http", "tcp", "8080", "") "," PORT(
                                                                                    "ask", "udp", "53", "")),
                ",\"ports\":[{\"name\":\"ask\",\"hostPort\":5353},{\"name\":\"range\",\"hostPort\":80}]");

static const Case cases[] = {
                /* By name, with and without that of the app, at any address unless one is given. */
                {.sockets = {{"a/http", false, 1}, {"b/http", false, 2}, {"ask", true, 5353}},
                 .expected = {"a/http", "b/http", "b/ask"}},
                {.sockets = {{"a/http", false, 0}, {"a/http", false, 5}, {"x", true, 5353}},
                 .expected = {"a/http", "a/http", "b/ask"}},
                /* By number: a port exposed there takes precedence over one of that number. */
                {.sockets = {{"", false, 80}, {"", false, 81}, {"", false, 8080}},
                 .expected = {"a/range", "a/range", "b/http"}},
                {.sockets = {{"http", false, 1}}, .error = -ENOTUNIQ},
                {.sockets = {{"c/http", false, 1}}, .error = -EADDRNOTAVAIL},
                {.sockets = {{"ask", true, 53}}, .error = -EADDRNOTAVAIL},
                {.sockets = {{"ask", false, 5353}}, .error = -EPROTOTYPE},
                {.sockets = {{"", false, 80}}, .error = -EADDRNOTAVAIL},
                {.sockets = {{"range", false, 80}, {"range", false, 81}, {"range", false, 0}},
                 .error = -EADDRNOTAVAIL},
                {.sockets = {{"a/http", false, 9}, {"b/http", false, 9}}, .error = -EADDRINUSE},
                {.sockets = {{"x", false, 0}}, .error = -EADDRNOTAVAIL},
};

static void run_case(const Case *c, const Pod *p)
{
        _cleanup_passed_sockets_ PassedSockets l = {.items = calloc(4, sizeof(PassedSocket))};
        _cleanup_(pod_sockets_freep) PodSockets *s = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        for (; l.n < 4 && c->sockets[l.n].name; l.n++)
                l.items[l.n] = fake(3 + (int) l.n, c->sockets[l.n].name, c->sockets[l.n].udp,
                                    c->sockets[l.n].port);
        size_t n = l.n;
        ASSERT_EQ(pod_sockets_new(p, &l, &s, &e), c->error);
        ASSERT_EQ(e.message == NULL, c->error == 0);
        for (size_t i = 0; c->error == 0 && i < n; i++) {
                _cleanup_free_ char *got = NULL;
                const SocketTarget *t = &s->targets[s->target_of[i]];

                ASSERT_OK(xasprintf(&got, "%s/%s", t->app->name, t->port->name));
                ASSERT_STREQ(got, c->expected[i]);
        }
}

TEST(sockets_go_to_ports)
{
        _cleanup_pod_ Pod p = {};

        ASSERT_OK(parse(two_apps, &p));
        p.config.net = NET_HOST; /* so that what is missing would be made */
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                run_case(&cases[i], &p);
}

TEST(exposed_ports_need_a_socket_or_a_network)
{
        _cleanup_(pod_sockets_freep) PodSockets *s = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_pod_ Pod p = {};
        PassedSockets none = {};

        ASSERT_OK(parse(two_apps, &p));
        ASSERT_ERR(pod_sockets_new(&p, &none, &s, &e), -EADDRNOTAVAIL);
        ASSERT_TRUE(strstr(e.message, "exposed as port"));
        p.config.net = NET_NETWORKS;
        ASSERT_OK(pod_sockets_new(&p, &none, &s, NULL));
        ASSERT_TRUE(s);
}

TEST(pods_without_such_ports)
{
        _cleanup_(pod_sockets_freep) PodSockets *s = NULL;
        _cleanup_pod_ Pod p = {};
        PassedSockets none = {};

        ASSERT_OK(parse(POD(APP("a", ""), ""), &p));
        ASSERT_OK(pod_sockets_new(&p, &none, &s, NULL));
        ASSERT_TRUE(!s);
}

/* --- The environment ----------------------------------------------------------------------------------- */

/* The result of passed_sockets_take() in a process that has FD as descriptor 3. */
static int take_in_child(int fd, const char *count, const char *names)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                PassedSockets l = {};
                char self[16];

                snprintf(self, sizeof(self), "%d", (int) getpid());
                (void) setenv("LISTEN_PID", self, true);
                (void) setenv("LISTEN_FDS", count, true);
                if (names)
                        (void) setenv("LISTEN_FDNAMES", names, true);
                if (fd >= 0 && fd != 3 && dup2(fd, 3) < 0)
                        _exit(126);
                (void) close(4);
                int r = passed_sockets_take(&l, NULL);
                if (getenv("LISTEN_FDS") || getenv("LISTEN_PID") || getenv("LISTEN_FDNAMES") ||
                    (r >= 0 && l.n > 0 && !(fcntl(3, F_GETFD) & FD_CLOEXEC)))
                        _exit(125);
                passed_sockets_done(&l);
                _exit(-r);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -ECHILD;
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

TEST(what_is_passed)
{
        _cleanup_close_ int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), udp = -EBADF,
                            pipe_end = -EBADF;
        _cleanup_close_ int other_pipe_end = -EBADF, unnamed = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fds[2];

        udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        pipe_end = fds[0];
        other_pipe_end = fds[1];
        ASSERT_OK(bind(tcp, (struct sockaddr *) &a, sizeof(a)));
        ASSERT_EQ(take_in_child(tcp, "1", "x"), -EINVAL); /* it does not listen yet */
        ASSERT_OK(listen(tcp, 1));
        ASSERT_EQ(take_in_child(tcp, "1", "x"), 0);
        ASSERT_EQ(take_in_child(tcp, "1", NULL), 0);
        ASSERT_EQ(take_in_child(tcp, "1", "x:y"), -EINVAL);
        ASSERT_EQ(take_in_child(tcp, "2", "x"), -EBADF);
        ASSERT_EQ(take_in_child(tcp, "100000", "x"), -E2BIG);
        ASSERT_EQ(take_in_child(tcp, "-1", NULL), -EINVAL);
        ASSERT_EQ(take_in_child(tcp, "x", NULL), -EINVAL);
        ASSERT_EQ(take_in_child(tcp, "0", ""), 0);
        ASSERT_EQ(take_in_child(udp, "1", NULL), -EINVAL); /* no port */
        ASSERT_EQ(take_in_child(pipe_end, "1", NULL), -ENOTSOCK);
        ASSERT_EQ(take_in_child(unnamed, "1", NULL), -EINVAL);
}

TEST(what_is_for_another_process)
{
        PassedSockets l = {};

        ASSERT_OK(setenv("LISTEN_PID", "1", true));
        ASSERT_OK(setenv("LISTEN_FDS", "1", true));
        ASSERT_OK(passed_sockets_take(&l, NULL));
        ASSERT_EQ(l.n, 0U);
        ASSERT_EQ(l.foreign_pid, 1);
        ASSERT_TRUE(!getenv("LISTEN_FDS"));
}

static size_t judged(const Pod *p, int family, int type, uint16_t port, int number, int filter,
                     int unix_filter, const char **ret)
{
        _cleanup_close_ int fd = socket(family, type | SOCK_CLOEXEC, 0);
        PassedSocket x = {.fd = fd, .number = number, .type = type, .udp = type == SOCK_DGRAM, .port = port};
        PodSockets s = {.items = &x, .n = 1};
        size_t n = pod_sockets_judge(p, &s, filter, unix_filter);

        *ret = x.exposed;
        return n;
}

/* What the app of a passed socket can do with it depends on the kernel. */
TEST(sockets_that_cannot_be_filtered)
{
        Pod pod = {.config.net = NET_NONE}, in_host = {.config.net = NET_HOST};
        const char *why;

        ASSERT_EQ(judged(&pod, AF_INET, SOCK_STREAM, 80, 0, 0, 0, &why), 0U);
        ASSERT_EQ(judged(&pod, AF_INET, SOCK_STREAM, 80, 0, -EPERM, -EPERM, &why), 1U);
        ASSERT_CONTAINS(why, "filters of sockets");
        ASSERT_EQ(judged(&pod, AF_INET6, SOCK_DGRAM, 80, 0, -EOPNOTSUPP, -EOPNOTSUPP, &why), 1U);
        ASSERT_EQ(judged(&pod, AF_INET, SOCK_STREAM, 80, -1, -EPERM, -EPERM, &why),
                  0U); /* in its own network */
        ASSERT_EQ(judged(&in_host, AF_INET, SOCK_STREAM, 80, 0, -EPERM, -EPERM, &why), 0U);
        ASSERT_EQ(judged(&pod, AF_UNIX, SOCK_STREAM, 0, 0, -EPERM, -EPERM, &why), 0U);
        ASSERT_EQ(judged(&pod, AF_UNIX, SOCK_DGRAM, 0, 0, 0, -EOPNOTSUPP, &why), 1U);
        ASSERT_CONTAINS(why, "filters of unix sockets");
        ASSERT_EQ(judged(&pod, AF_UNIX, SOCK_DGRAM, 0, 0, 0, 0, &why), 0U);
        /* A protocol that the kernel does not ask filters about. */
        ASSERT_EQ(judged(&pod, AF_UNIX, SOCK_STREAM, 80, 0, 0, 0, &why), 1U);
        ASSERT_CONTAINS(why, "MPTCP");
}

int main(void)
{
        RUN(ports_that_can_be);
        RUN(sockets_go_to_ports);
        RUN(exposed_ports_need_a_socket_or_a_network);
        RUN(pods_without_such_ports);
        RUN(what_is_passed);
        RUN(what_is_for_another_process);
        RUN(sockets_that_cannot_be_filtered);
        return TEST_END();
}
