/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* basic/interrupt.c: the first signal is noted, the second ends the process, and so does raising the first
 * again. Every case is a child of its own, as handlers belong to a process. */

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "basic/basic.h"
#include "tests/unit/test.h"

/* How a child that executes FUNCTION ends: its exit status, or the negative number of a signal. */
static int end_of(int (*function)(void))
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                /* As if started by hand: the caller of the tests may ignore them. */
                (void) signal(SIGINT, SIG_DFL);
                (void) signal(SIGTERM, SIG_DFL);
                (void) signal(SIGHUP, SIG_DFL);
                _exit(function());
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return 1000;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int is_readable(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};

        return poll(&p, 1, 0);
}

static int first_is_noted(void)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (interrupt_fd() >= 0 || interrupt_catch() < 0 || interrupt_pending() || interrupt_check(&e) != 0)
                return 1;
        if (is_readable(interrupt_fd()) != 0)
                return 2;
        raise(SIGTERM);
        if (!interrupt_pending() || interrupt_check(&e) != -EINTR || !streq(e.message, "Interrupted"))
                return 3;
        return is_readable(interrupt_fd()) == 1 ? 0 : 4;
}

static int second_ends(void)
{
        (void) interrupt_catch();
        raise(SIGINT);
        raise(SIGINT);
        return 0;
}

static int raised_again(void)
{
        (void) interrupt_catch();
        raise(SIGHUP);
        interrupt_block();
        interrupt_raise();
        return 0;
}

static int nothing_to_raise(void)
{
        (void) interrupt_catch();
        interrupt_raise();
        return 7;
}

static int released(void)
{
        (void) interrupt_catch();
        interrupt_release();
        raise(SIGTERM);
        return 0;
}

static int blocked(void)
{
        sigset_t pending;

        interrupt_block();
        raise(SIGTERM);
        return sigpending(&pending) >= 0 && sigismember(&pending, SIGTERM) == 1 ? 7 : 1;
}

static int ignored(void)
{
        (void) signal(SIGHUP, SIG_IGN);
        (void) interrupt_catch();
        raise(SIGHUP);
        return interrupt_pending() ? 1 : 7;
}

TEST(signals)
{
        ASSERT_EQ(end_of(first_is_noted), 0);
        ASSERT_EQ(end_of(second_ends), -SIGINT);
        ASSERT_EQ(end_of(raised_again), -SIGHUP);
        ASSERT_EQ(end_of(nothing_to_raise), 7);
        ASSERT_EQ(end_of(released), -SIGTERM);
        ASSERT_EQ(end_of(blocked), 7);
        ASSERT_EQ(end_of(ignored), 7);
}

int main(void)
{
        RUN(signals);
        return TEST_END();
}
