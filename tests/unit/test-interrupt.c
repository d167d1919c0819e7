/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage0/cli/interrupt.c: the first signal cancels the operation, the second one ends the process, and so
 * does raising the first one again. Every case is a child of its own, as handlers belong to a process. */

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "stage0/cli/interrupt.h"
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

static Operation *new_operation(void)
{
        Operation *o = NULL;

        return operation_new(NULL, &o) >= 0 ? o : NULL;
}

static int first_cancels(void)
{
        _cleanup_(operation_freep) Operation *o = new_operation(), *other = new_operation();
        _cleanup_error_ Error e = ERROR_NULL;

        if (!o || !other || interrupt_catch(o) < 0 || operation_check(o, &e) != 0)
                return 1;
        if (is_readable(operation_fd(o)) != 0)
                return 2;
        raise(SIGTERM);
        if (operation_check(o, &e) != -EINTR || !streq(e.message, "Interrupted"))
                return 3;
        if (is_readable(operation_fd(o)) != 1)
                return 4;
        if (operation_is_cancelled(other))
                return 5;
        /* One that is used from now on comes too late. */
        (void) interrupt_catch(other);
        if (!operation_is_cancelled(other))
                return 6;
        interrupt_release();
        return 0;
}

static int second_ends(void)
{
        (void) interrupt_catch(NULL);
        raise(SIGINT);
        raise(SIGINT);
        return 0;
}

static int raised_again(void)
{
        (void) interrupt_catch(NULL);
        raise(SIGHUP);
        interrupt_block();
        interrupt_raise();
        return 0;
}

static int noted(void)
{
        _cleanup_(operation_freep) Operation *o = new_operation();

        (void) interrupt_catch(o);
        interrupt_note(SIGTERM);
        if (!operation_is_cancelled(o))
                return 1;
        interrupt_release();
        interrupt_raise();
        return 2;
}

static int nothing_to_raise(void)
{
        (void) interrupt_catch(NULL);
        interrupt_raise();
        return 7;
}

static int released(void)
{
        (void) interrupt_catch(NULL);
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
        _cleanup_(operation_freep) Operation *o = new_operation();

        (void) signal(SIGHUP, SIG_IGN);
        (void) interrupt_catch(o);
        raise(SIGHUP);
        int r = operation_is_cancelled(o) ? 1 : 7;
        interrupt_release();
        return r;
}

TEST(signals)
{
        ASSERT_EQ(end_of(first_cancels), 0);
        ASSERT_EQ(end_of(second_ends), -SIGINT);
        ASSERT_EQ(end_of(raised_again), -SIGHUP);
        ASSERT_EQ(end_of(noted), -SIGTERM);
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
