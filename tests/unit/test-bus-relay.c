/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The bus of a pod: data that it forwards between two sockets. The tests are the other ends: a client,
 * well-behaved or malicious, and the pod's systemd. */

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/unit/bus-message.h"
#include "tests/unit/test.h"

#define DRIVER "org.freedesktop.DBus"
#define MANAGER "org.freedesktop.systemd1"

#define HANDSHAKE "AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"
#define ANSWERS "DATA\r\nOK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n"

typedef struct Setup {
        int client, manager; /* our ends */
        pid_t pid;           /* of the bus */
} Setup;

/* The bus is a child, which exits with what bus_relay() returns. */
static int set_up(Setup *s, uint64_t timeout_usec)
{
        int client[2], manager[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, client) < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, manager) < 0)
                return -errno;
        *s = (Setup){.client = client[0], .manager = manager[0], .pid = fork()};
        if (s->pid == 0) {
                static const BusClient c = {.pid = 5, .own_pid = 6};
                close(client[0]);
                close(manager[0]);
                _exit(-bus_relay(client[1], manager[1], &c, timeout_usec));
        }
        close(client[1]);
        close(manager[1]);
        return s->pid < 0 ? -errno : 0;
}

static int result(Setup *s)
{
        int status = -1;

        s->client = safe_close(s->client);
        s->manager = safe_close(s->manager);
        if (s->pid <= 0 || waitpid(TAKE_GENERIC(s->pid, pid_t, 0), &status, 0) < 0)
                return -ECHILD;
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -WTERMSIG(status) - 1000;
}

/* Nothing is left of it, however the test ends. */
static void setup_done(Setup *s)
{
        if (s->pid > 0) {
                kill(s->pid, SIGKILL);
                (void) result(s);
        }
}
#define _cleanup_setup_ _cleanup_(setup_done)

static bool wait_for(int fd, short events, int timeout_msec)
{
        struct pollfd p = {.fd = fd, .events = events};

        return poll(&p, 1, timeout_msec) > 0;
}

/* Reads up to N bytes, or until the other side closes. */
static size_t receive(int fd, void *data, size_t n)
{
        size_t got = 0;

        while (got < n && wait_for(fd, POLLIN, 5000)) {
                ssize_t k = read(fd, (char *) data + got, n - got);
                if (k <= 0)
                        break;
                got += (size_t) k;
        }
        return got;
}

static bool transmit(int fd, const void *data, size_t n)
{
        while (n > 0 && wait_for(fd, POLLOUT, 5000)) {
                ssize_t k = send(fd, data, n, MSG_NOSIGNAL);
                if (k < 0)
                        return false;
                data = (const char *) data + k;
                n -= (size_t) k;
        }
        return n == 0;
}

static bool expect(int fd, const void *data, size_t n)
{
        _cleanup_free_ char *got = malloc(n + 1);

        return receive(fd, got, n) == n && memcmp(got, data, n) == 0;
}

static bool is_quiet(int fd)
{
        return !wait_for(fd, POLLIN, 50);
}

static bool is_closed(int fd)
{
        char c;

        return wait_for(fd, POLLIN, 5000) && read(fd, &c, 1) <= 0;
}

/* Its first byte is a NUL. */
static bool shake_hands(Setup *s)
{
        return transmit(s->client, "\0" HANDSHAKE, sizeof(HANDSHAKE)) &&
               expect(s->manager, "\0" HANDSHAKE, sizeof(HANDSHAKE)) &&
               transmit(s->manager, ANSWERS, strlen(ANSWERS)) && expect(s->client, ANSWERS, strlen(ANSWERS));
}

static bool receive_answer(int fd, uint8_t type)
{
        uint8_t data[4096];
        BusHeader h;

        if (receive(fd, data, 16) != 16)
                return false;
        size_t n = (16 + (size_t) data[12] + 256 * (size_t) data[13] + 7) / 8 * 8 + data[4] +
                   256 * (size_t) data[5];
        return n <= sizeof(data) && receive(fd, data + 16, n - 16) == n - 16 &&
               bus_header_parse(data, n, &h) > 0 && h.type == type;
}

TEST(messages_go_both_ways)
{
        _cleanup_setup_ Setup s = {};
        Message up = {}, down = {};

        ASSERT_OK(set_up(&s, 5000000));
        ASSERT_TRUE(shake_hands(&s));
        m_call(&up, false, 1, MANAGER, "ListUnits", NULL, 0);
        m_call(&down, true, 9, NULL, "Answer", "units", 0);
        for (unsigned i = 0; i < 100; i++) {
                ASSERT_TRUE(transmit(s.client, up.data, up.n));
                ASSERT_TRUE(expect(s.manager, up.data, up.n));
                ASSERT_TRUE(transmit(s.manager, down.data, down.n));
                ASSERT_TRUE(expect(s.client, down.data, down.n));
        }
        close(TAKE_FD(s.client));
        ASSERT_TRUE(is_closed(s.manager));
        ASSERT_EQ(result(&s), 0);
}

TEST(everything_at_once)
{
        _cleanup_setup_ Setup s = {};
        Message hello = {}, call = {};
        uint8_t all[2048];
        size_t n = sizeof(HANDSHAKE);

        ASSERT_OK(set_up(&s, 5000000));
        m_call(&hello, false, 1, DRIVER, "Hello", NULL, 0);
        m_call(&call, false, 2, MANAGER, "ListUnits", NULL, 0);
        memcpy(all, "\0" HANDSHAKE, n);
        memcpy(all + n, hello.data, hello.n);
        memcpy(all + n + hello.n, call.data, call.n);
        ASSERT_TRUE(transmit(s.client, all, n + hello.n + call.n));
        ASSERT_TRUE(expect(s.manager, "\0" HANDSHAKE, n));
        /* The answer to Hello does not come in between. */
        ASSERT_TRUE(is_quiet(s.client));
        ASSERT_TRUE(transmit(s.manager, ANSWERS, 10));
        ASSERT_TRUE(expect(s.client, ANSWERS, 6));
        ASSERT_TRUE(is_quiet(s.client));
        ASSERT_TRUE(transmit(s.manager, &ANSWERS[10], strlen(ANSWERS) - 10));
        ASSERT_TRUE(expect(s.client, &ANSWERS[6], strlen(ANSWERS) - 6));
        ASSERT_TRUE(receive_answer(s.client, BUS_METHOD_RETURN));
        ASSERT_TRUE(expect(s.manager, call.data, call.n));
        ASSERT_EQ(result(&s), 0);
}

TEST(byte_by_byte)
{
        _cleanup_setup_ Setup s = {};
        Message m = {};

        ASSERT_OK(set_up(&s, 5000000));
        for (size_t i = 0; i < sizeof(HANDSHAKE); i++)
                ASSERT_TRUE(transmit(s.client, &"\0" HANDSHAKE[i], 1));
        ASSERT_TRUE(expect(s.manager, "\0" HANDSHAKE, sizeof(HANDSHAKE)));
        for (size_t i = 0; i < strlen(ANSWERS); i++)
                ASSERT_TRUE(transmit(s.manager, &ANSWERS[i], 1));
        ASSERT_TRUE(expect(s.client, ANSWERS, strlen(ANSWERS)));
        m_call(&m, false, 1, DRIVER, "NameHasOwner", MANAGER, 0);
        for (size_t i = 0; i < m.n; i++)
                ASSERT_TRUE(transmit(s.client, m.data + i, 1));
        ASSERT_TRUE(receive_answer(s.client, BUS_METHOD_RETURN));
        m_call(&m, true, 1, MANAGER, "ListUnits", "x", 0);
        for (size_t i = 0; i < m.n; i++)
                ASSERT_TRUE(transmit(s.client, m.data + i, 1));
        ASSERT_TRUE(expect(s.manager, m.data, m.n));
        ASSERT_EQ(result(&s), 0);
}

/* A message that is longer than the limit of buffered data. */
static void pass_long(bool up)
{
        enum { BODY = 3 << 20 };
        _cleanup_setup_ Setup s = {};
        _cleanup_free_ uint8_t *all = malloc(BODY + 1024), *got = malloc(BODY + 1024);
        size_t sent = 0, n_got = 0;
        Message m = {};

        ASSERT_OK(set_up(&s, 5000000));
        ASSERT_TRUE(shake_hands(&s));
        m_call(&m, false, 1, MANAGER, "Long", NULL, 0);
        m_u32_at(&m, 4, BODY);
        memcpy(all, m.data, m.n);
        for (size_t i = 0; i < BODY; i++)
                all[m.n + i] = (uint8_t) (i * 31);
        int from = up ? s.client : s.manager, to = up ? s.manager : s.client;
        while (n_got < m.n + BODY) {
                ssize_t k = sent < m.n + BODY ? send(from, all + sent, m.n + BODY - sent, MSG_NOSIGNAL) : 0;
                sent += k > 0 ? (size_t) k : 0;
                ASSERT_TRUE(wait_for(to, POLLIN, 5000));
                k = read(to, got + n_got, m.n + BODY - n_got);
                ASSERT_GT(k, 0);
                n_got += (size_t) k;
        }
        ASSERT_MEMEQ(all, got, m.n + BODY);
        /* And the next is found where it begins. */
        m_call(&m, false, 2, MANAGER, "Short", NULL, 0);
        ASSERT_TRUE(transmit(from, m.data, m.n));
        ASSERT_TRUE(expect(to, m.data, m.n));
        ASSERT_EQ(result(&s), 0);
}

TEST(long_messages)
{
        pass_long(true);
        pass_long(false);
}

static void pass_fds(int from, int to)
{
        int pair[2], got[4] = {-1, -1, -1, -1};
        Message plain = {}, m = {};
        uint8_t data[2048];
        size_t n_fds = 0;

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
        m_call(&plain, false, 1, MANAGER, "Plain", NULL, 0);
        m_call(&m, false, 2, MANAGER, "WithDescriptors", "x", 2);
        /* The one before takes none of them. */
        ASSERT_TRUE(transmit(from, plain.data, plain.n));
        ASSERT_OK(send_fds(from, m.data, m.n, pair, 2));
        ASSERT_TRUE(transmit(from, plain.data, plain.n));
        ASSERT_TRUE(expect(to, plain.data, plain.n));
        ASSERT_TRUE(wait_for(to, POLLIN, 5000));
        ssize_t k = recv_fds(to, data, sizeof(data), got, 4, &n_fds);
        ASSERT_EQ(n_fds, 2);
        ASSERT_GT(k, 0);
        size_t rest = receive(to, data + k, m.n + plain.n - (size_t) k);
        ASSERT_EQ((size_t) k + rest, m.n + plain.n);
        ASSERT_MEMEQ(data, m.data, m.n);
        close(pair[0]);
        close(pair[1]);
        ASSERT_TRUE(transmit(got[0], "x", 1));
        ASSERT_TRUE(expect(got[1], "x", 1));
        close(got[0]);
        ASSERT_TRUE(is_closed(got[1])); /* no other copy was kept */
        close(got[1]);
}

TEST(descriptors_go_along)
{
        _cleanup_setup_ Setup s = {};

        ASSERT_OK(set_up(&s, 5000000));
        ASSERT_TRUE(shake_hands(&s));
        pass_fds(s.client, s.manager);
        pass_fds(s.manager, s.client);
        ASSERT_EQ(result(&s), 0);
}

TEST(descriptors_that_are_refused_are_closed)
{
        _cleanup_setup_ Setup s = {};
        Message m = {};
        int pair[2];

        ASSERT_OK(set_up(&s, 5000000));
        ASSERT_TRUE(shake_hands(&s));
        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
        m_call(&m, false, 1, "org.example", "Take", NULL, 1);
        ASSERT_OK(send_fds(s.client, m.data, m.n, pair, 1));
        close(pair[0]);
        ASSERT_TRUE(receive_answer(s.client, BUS_METHOD_ERROR));
        ASSERT_TRUE(is_closed(pair[1]));
        close(pair[1]);
        ASSERT_EQ(result(&s), 0);
}

TEST(answers_come_between_messages)
{
        _cleanup_setup_ Setup s = {};
        Message ask = {}, m = {};

        ASSERT_OK(set_up(&s, 5000000));
        ASSERT_TRUE(shake_hands(&s));
        m_call(&m, false, 1, NULL, "Signal", "something", 0);
        ASSERT_TRUE(transmit(s.manager, m.data, m.n - 5));
        ASSERT_TRUE(expect(s.client, m.data, m.n - 5));
        m_call(&ask, false, 1, DRIVER, "Hello", NULL, 0);
        ASSERT_TRUE(transmit(s.client, ask.data, ask.n));
        ASSERT_TRUE(is_quiet(s.client));
        ASSERT_TRUE(transmit(s.manager, m.data + m.n - 5, 5));
        ASSERT_TRUE(expect(s.client, m.data + m.n - 5, 5));
        ASSERT_TRUE(receive_answer(s.client, BUS_METHOD_RETURN));
        ASSERT_EQ(result(&s), 0);
}

/* Thousands of calls whose replies are not read: they are not buffered without limit. */
TEST(replies_that_are_not_read)
{
        _cleanup_setup_ Setup s = {};
        Message m = {};

        ASSERT_OK(set_up(&s, 200000));
        ASSERT_TRUE(shake_hands(&s));
        m_call(&m, false, 1, DRIVER, "ListNames", NULL, 0);
        while (wait_for(s.client, POLLOUT, 5000) && send(s.client, m.data, m.n, MSG_NOSIGNAL) >= 0)
                ;
        ASSERT_EQ(result(&s), -ETIME);
}

TEST(messages_before_a_disconnect_are_handled)
{
        _cleanup_setup_ Setup s = {};
        Message m = {}, signal = {};

        ASSERT_OK(set_up(&s, 5000000));
        ASSERT_TRUE(shake_hands(&s));
        m_call(&m, false, 1, MANAGER, "StopUnit", "app-a.service", 0);
        m_call(&signal, false, 1, NULL, "Signal", "x", 0);
        ASSERT_TRUE(transmit(s.manager, signal.data, signal.n));
        ASSERT_TRUE(transmit(s.client, m.data, m.n));
        close(TAKE_FD(s.client));
        ASSERT_TRUE(expect(s.manager, m.data, m.n));
        ASSERT_TRUE(is_closed(s.manager));
        ASSERT_EQ(result(&s), 0);
        /* systemd, too: it may go when it has answered. */
        ASSERT_OK(set_up(&s, 5000000));
        ASSERT_TRUE(shake_hands(&s));
        ASSERT_TRUE(transmit(s.manager, signal.data, signal.n));
        close(TAKE_FD(s.manager));
        ASSERT_TRUE(expect(s.client, signal.data, signal.n));
        ASSERT_TRUE(is_closed(s.client));
        ASSERT_EQ(result(&s), 0);
}

TEST(enemies_among_clients)
{
        Message m = {};
        m_call(&m, false, 1, MANAGER, "ListUnits", NULL, 3); /* and none comes */
        const struct {
                const void *data;
                size_t n;
                bool shake;
                int result;
        } enemies[] = {
                        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27, true, -EBADMSG},
                        {"l\1\0\1\377\377\377\377\1\0\0\0\0\0\0\0", 16, true, -EMSGSIZE},
                        {"l\1\0\1\0\0\0\0\1\0\0\0\377\377\377\377", 16, true, -EMSGSIZE},
                        {m.data, m.n, true, -EBADMSG},
        };

        for (size_t i = 0; i < ELEMENTSOF(enemies); i++) {
                _cleanup_setup_ Setup s = {};
                ASSERT_OK(set_up(&s, 5000000));
                ASSERT_TRUE(!enemies[i].shake || shake_hands(&s));
                ASSERT_TRUE(transmit(s.client, enemies[i].data, enemies[i].n));
                ASSERT_TRUE(is_closed(s.client));
                ASSERT_EQ(result(&s), enemies[i].result);
        }
}

/* Lines without end, and without number. */
TEST(invalid_handshakes)
{
        static const char *const pieces[] = {"a", "AUTH\r\n"};

        for (size_t i = 0; i < ELEMENTSOF(pieces); i++) {
                _cleanup_setup_ Setup s = {};
                bool closed = false;
                ASSERT_OK(set_up(&s, 5000000));
                for (unsigned k = 0; k < 4096 && !closed; k++)
                        closed = !transmit(s.client, pieces[i], strlen(pieces[i]));
                ASSERT_TRUE(is_closed(s.client));
                ASSERT_EQ(result(&s), -EBADMSG);
        }
        _cleanup_setup_ Setup s = {};
        int fd = STDOUT_FILENO;
        ASSERT_OK(set_up(&s, 5000000));
        ASSERT_OK(send_fds(s.client, "\0AUTH", 5, &fd, 1));
        ASSERT_TRUE(is_closed(s.client));
        ASSERT_EQ(result(&s), -EBADMSG);
}

/* Clients that continue a message too slowly, or not at all; and a client that only listens. */
TEST(slow_clients_are_disconnected)
{
        _cleanup_setup_ Setup s = {};
        Message m = {};

        ASSERT_OK(set_up(&s, 200000));
        for (size_t i = 0; i < 12 && transmit(s.client, &"\0" HANDSHAKE[i], 1); i++)
                usleep(30000);
        ASSERT_TRUE(is_closed(s.client));
        ASSERT_EQ(result(&s), -ETIME);
        ASSERT_OK(set_up(&s, 600000));
        ASSERT_TRUE(shake_hands(&s));
        usleep(800000);
        m_call(&m, false, 1, MANAGER, "ListUnits", NULL, 0);
        ASSERT_TRUE(transmit(s.client, m.data, m.n));
        ASSERT_TRUE(expect(s.manager, m.data, m.n));
        ASSERT_TRUE(transmit(s.client, m.data, m.n - 1));
        ASSERT_TRUE(is_closed(s.client));
        ASSERT_EQ(result(&s), -ETIME);
}

int main(void)
{
        RUN(messages_go_both_ways);
        RUN(everything_at_once);
        RUN(byte_by_byte);
        RUN(long_messages);
        RUN(descriptors_go_along);
        RUN(descriptors_that_are_refused_are_closed);
        RUN(answers_come_between_messages);
        RUN(replies_that_are_not_read);
        RUN(messages_before_a_disconnect_are_handled);
        RUN(enemies_among_clients);
        RUN(invalid_handshakes);
        RUN(slow_clients_are_disconnected);
        return TEST_END();
}
