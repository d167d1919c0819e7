/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections on which a packet is expected: they are answered when it arrives, closed after a timeout, and
 * limited in number; none of them blocks. */

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "library/libsystemd.h"
#include "stage0/supervisor/launchers/connections.h"
#include "stage0/host/host.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define SILENT_MAX 32 /* as in connections.c */

typedef struct Line {
        Scratch scratch;
        sd_event *event;
        int listen_fd;
        Connections *callers;
        unsigned asked;
        unsigned from_us; /* calls whose peer is this process */
        char heard[256];
} Line;

static int on_connection(void *userdata, int fd, int peer_fd)
{
        Line *l = userdata;
        char word[16];
        pid_t pid = 0;

        l->asked++;
        if (process_number(peer_fd, &pid) >= 0 && pid == getpid())
                l->from_us++;
        ssize_t n = recv(fd, word, sizeof(word) - 1, 0); /* must not block */
        if (n < 0)
                return -errno;
        word[n] = 0;
        strncat(l->heard, word, sizeof(l->heard) - strlen(l->heard) - 1);
        return 0;
}

static int line_new(Line *l)
{
        *l = (Line){.scratch = SCRATCH_NULL, .listen_fd = -EBADF};
        int r = scratch_new(&l->scratch);
        if (r >= 0)
                r = socket_listen_at(l->scratch.fd, "socket", &l->listen_fd);
        if (r >= 0)
                r = sd_event_new(&l->event);
        return r < 0 ? r : connections_new(l->event, l->listen_fd, on_connection, l, &l->callers);
}

static void line_done(Line *l)
{
        connections_free(l->callers);
        sd_event_unref(l->event);
        safe_close(l->listen_fd);
        scratch_done(&l->scratch);
}

static int stop(sd_event_source *source, uint64_t usec, void *userdata)
{
        return sd_event_exit(userdata, 0);
}

/* Runs the event loop for this time. A loop ends only once: this is called once in each test. */
static int let(Line *l, uint64_t usec)
{
        sd_event_source *timer = NULL;
        int r = sd_event_add_time_relative(l->event, &timer, CLOCK_MONOTONIC, usec, 1, stop, l->event);

        if (r >= 0)
                r = sd_event_loop(l->event);
        sd_event_source_disable_unref(timer);
        return r;
}

static int call(const Line *l)
{
        int fd = -EBADF, r = socket_connect_at(l->scratch.fd, "socket", SOCK_SEQPACKET, &fd);

        return r < 0 ? r : fd;
}

static bool is_hung_up_on(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};

        return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

#define LINE(l)                                                                                             \
        _cleanup_(line_done) Line l;                                                                        \
        ASSERT_OK(line_new(&l))

TEST(connection_with_a_packet_is_answered)
{
        LINE(l);
        _cleanup_close_ int silent = call(&l), one = call(&l), two = call(&l), gone = call(&l);

        ASSERT_EQ(send(two, "2", 1, 0), 1);
        ASSERT_EQ(send(one, "1", 1, 0), 1);
        ASSERT_EQ(send(gone, "3", 1, 0), 1);
        gone = safe_close(gone);
        ASSERT_OK(let(&l, 50000));
        ASSERT_STREQ(l.heard, "123"); /* in the order in which they came */
        ASSERT_TRUE(is_hung_up_on(one));
        ASSERT_TRUE(is_hung_up_on(two));
        ASSERT_FALSE(is_hung_up_on(silent));
        ASSERT_EQ(l.asked, 4);
        ASSERT_EQ(l.from_us, 4);
}

/* Actions while the loop runs are done by a timer. */
static int speak(sd_event_source *source, uint64_t usec, void *userdata)
{
        return send(*(int *) userdata, "late", 4, 0) == 4 ? 0 : -EIO;
}

TEST(connection_with_a_late_packet_is_answered)
{
        LINE(l);
        _cleanup_close_ int fd = call(&l);
        sd_event_source *timer = NULL;

        ASSERT_OK(sd_event_add_time_relative(l.event, &timer, CLOCK_MONOTONIC, 30000, 1, speak, &fd));
        ASSERT_OK(let(&l, 100000));
        sd_event_source_disable_unref(timer);
        ASSERT_STREQ(l.heard, "late");
        ASSERT_TRUE(is_hung_up_on(fd));
}

TEST(so_many_may_be_silent)
{
        LINE(l);
        int fds[SILENT_MAX + 3];

        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                ASSERT_OK(fds[i] = call(&l));
        _cleanup_close_ int last = call(&l);
        ASSERT_EQ(send(last, "x", 1, 0), 1);
        ASSERT_OK(let(&l, 50000));
        ASSERT_STREQ(l.heard, "x");
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                ASSERT_EQ(is_hung_up_on(fds[i]), i < 3); /* the oldest */
                close(fds[i]);
        }
}

/* One process connects repeatedly; another, older connection has not sent its packet yet. */
TEST(a_process_displaces_its_own_connections)
{
        LINE(l);
        _cleanup_close_ int slow = call(&l);
        int fds[2 * SILENT_MAX], status = 0;
        char byte;

        ASSERT_OK(slow);
        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        pid_t pid = fork();
        if (pid == 0) {
                for (size_t i = 0; i < 2 * SILENT_MAX; i++)
                        if (call(&l) < 0)
                                _exit(1);
                (void) !write(fds[1], "x", 1);
                (void) pause();
                _exit(0);
        }
        ASSERT_TRUE(pid > 0);
        ASSERT_EQ(read(fds[0], &byte, 1), 1);
        close(fds[0]);
        close(fds[1]);
        ASSERT_OK(let(&l, 100000));
        ASSERT_FALSE(is_hung_up_on(slow));
        ASSERT_EQ(l.asked, 2 * SILENT_MAX + 1);
        (void) kill(pid, SIGKILL);
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
}

TEST(not_for_ever)
{
        LINE(l);
        _cleanup_close_ int fd = call(&l);

        ASSERT_OK(let(&l, 2300000));
        ASSERT_TRUE(is_hung_up_on(fd));
        ASSERT_STREQ(l.heard, "");
}

/* The connection is closed before it was accepted, or while it is silent. */
TEST(closed_connections)
{
        LINE(l);
        int fd = call(&l);

        ASSERT_OK(fd);
        close(fd);
        ASSERT_OK(let(&l, 50000));
        ASSERT_EQ(l.asked, 1);
        ASSERT_STREQ(l.heard, "");
}

TEST(the_end_hangs_up)
{
        LINE(l);
        _cleanup_close_ int fd = call(&l);

        ASSERT_OK(let(&l, 50000));
        ASSERT_FALSE(is_hung_up_on(fd));
        l.callers = connections_free(l.callers);
        ASSERT_TRUE(is_hung_up_on(fd));
}

int main(void)
{
        if (library_load(&systemd_library, NULL) < 0)
                return 1;
        RUN(connection_with_a_packet_is_answered);
        RUN(connection_with_a_late_packet_is_answered);
        RUN(so_many_may_be_silent);
        RUN(a_process_displaces_its_own_connections);
        RUN(not_for_ever);
        RUN(closed_connections);
        RUN(the_end_hangs_up);
        return TEST_END();
}
