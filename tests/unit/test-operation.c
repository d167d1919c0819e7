/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* basic/operation.c: cancelling, from a signal handler and from another thread; deadlines; messages and progress
 * of several threads. Operations in fetching and unpacking are tested in test-operations.c. */

#include <poll.h>
#include <signal.h>

#include "basic/basic.h"
#include "tests/unit/test.h"

static bool is_readable(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};

        return poll(&p, 1, 0) == 1;
}

static uint64_t in_msec(uint64_t n)
{
        return now_usec(CLOCK_MONOTONIC) + n * 1000;
}

TEST(null)
{
        Error e = ERROR_NULL;

        operation_cancel(NULL);
        ASSERT_TRUE(!operation_is_cancelled(NULL));
        ASSERT_OK(operation_check(NULL, &e));
        ASSERT_EQ(operation_fd(NULL), -EBADF);
        ASSERT_EQ(operation_poll(NULL, -1, POLLIN, 1, &e), 0);
        operation_message(NULL, LOG_LEVEL_INFO, "to nobody");
        operation_progress(NULL, &(OperationProgress){.what = "x"});
        ASSERT_TRUE(!operation_free(NULL));
        ASSERT_TRUE(!e.message);
}

/* One is cancelled, the other is not touched. */
TEST(cancel)
{
        _cleanup_(operation_freep) Operation *a = NULL, *b = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(operation_new(NULL, &a));
        ASSERT_OK(operation_new(NULL, &b));
        ASSERT_OK(operation_check(a, &e));
        ASSERT_TRUE(!is_readable(operation_fd(a)));
        errno = ENOENT;
        operation_cancel(a);
        operation_cancel(a);
        ASSERT_EQ(errno, ENOENT);
        ASSERT_TRUE(operation_is_cancelled(a) && !operation_is_cancelled(b));
        ASSERT_TRUE(is_readable(operation_fd(a)) && !is_readable(operation_fd(b)));
        ASSERT_ERR(operation_check(a, &e), -EINTR);
        ASSERT_STREQ(e.message, "Interrupted");
        ASSERT_ERR(operation_poll(a, -1, POLLIN, -1, &e), -EINTR);
        ASSERT_OK(operation_check(b, NULL));
        ASSERT_TRUE(operation_ended(-EINTR) && operation_ended(-ETIME) && !operation_ended(-ETIMEDOUT));
}

TEST(poll)
{
        _cleanup_(operation_freep) Operation *o = NULL;
        int fds[2];

        ASSERT_OK(operation_new(NULL, &o));
        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        ASSERT_EQ(operation_poll(o, fds[0], POLLIN, 1, NULL), 0);
        ASSERT_EQ(write(fds[1], "x", 1), 1);
        ASSERT_EQ(operation_poll(o, fds[0], POLLIN, -1, NULL), 1);
        operation_cancel(o);
        ASSERT_ERR(operation_poll(o, fds[0], POLLIN, -1, NULL), -EINTR);
        safe_close(fds[0]);
        safe_close(fds[1]);
}

TEST(deadline)
{
        _cleanup_(operation_freep) Operation *o = NULL, *far = NULL, *past = NULL, *both = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        uint64_t end = in_msec(50);

        ASSERT_OK(operation_new(&(OperationOptions){.deadline_usec = end}, &o));
        ASSERT_OK(operation_check(o, &e));
        ASSERT_TRUE(!is_readable(operation_fd(o)));
        ASSERT_ERR(operation_poll(o, -1, POLLIN, 10000, &e), -ETIME);
        ASSERT_STREQ(e.message, "The deadline has passed");
        ASSERT_TRUE(now_usec(CLOCK_MONOTONIC) >= end);
        ASSERT_TRUE(is_readable(operation_fd(o)));
        ASSERT_TRUE(!operation_is_cancelled(o));

        ASSERT_OK(operation_new(&(OperationOptions){.deadline_usec = UINT64_MAX}, &far));
        ASSERT_EQ(operation_poll(far, -1, POLLIN, 1, NULL), 0);
        ASSERT_OK(operation_new(&(OperationOptions){.deadline_usec = 1}, &past));
        ASSERT_TRUE(is_readable(operation_fd(past)));
        ASSERT_ERR(operation_check(past, NULL), -ETIME);
        /* A deadline that is still to come does not delay a cancellation. */
        ASSERT_OK(operation_new(&(OperationOptions){.deadline_usec = in_msec(3600000)}, &both));
        operation_cancel(both);
        ASSERT_ERR(operation_poll(both, -1, POLLIN, -1, NULL), -EINTR);
}

TEST(limit_of_a_part)
{
        _cleanup_(operation_freep) Operation *o = NULL, *hurried = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        uint64_t second = 1000000;

        ASSERT_OK(operation_limit(NULL, 1));
        ASSERT_OK(operation_new(NULL, &o));
        ASSERT_OK(operation_limit(o, now_usec(CLOCK_MONOTONIC) + 20000));
        ASSERT_OK(operation_check(o, &e));
        ASSERT_ERR(operation_poll(o, -1, 0, -1, &e), -ETIME);
        ASSERT_STREQ(e.message, "It takes too long");
        ASSERT_OK(operation_limit(o, 0));
        ASSERT_OK(operation_check(o, NULL));
        ASSERT_EQ(operation_poll(o, -1, 0, 0, NULL), 0);
        /* Cancelling holds on. */
        operation_cancel(o);
        ASSERT_OK(operation_limit(o, now_usec(CLOCK_MONOTONIC) + 3600 * second));
        ASSERT_ERR(operation_poll(o, -1, 0, -1, NULL), -EINTR);
        ASSERT_OK(operation_limit(o, 0));
        ASSERT_ERR(operation_poll(o, -1, 0, -1, NULL), -EINTR);
        /* So does a deadline of its own, which is the earlier one. */
        ASSERT_OK(operation_new(&(OperationOptions){.deadline_usec = now_usec(CLOCK_MONOTONIC) + 20000},
                                &hurried));
        ASSERT_OK(operation_limit(hurried, now_usec(CLOCK_MONOTONIC) + 3600 * second));
        ASSERT_ERR(operation_poll(hurried, -1, 0, -1, &e), -ETIME);
        ASSERT_STREQ(e.message, "The deadline has passed");
        ASSERT_OK(operation_limit(hurried, 0));
        ASSERT_ERR(operation_poll(hurried, -1, 0, -1, NULL), -ETIME);
}

/* --- From elsewhere ------------------------------------------------------------------------------------ */

static void *cancel_soon(void *userdata)
{
        (void) usleep(20000);
        operation_cancel(userdata);
        return NULL;
}

TEST(from_another_thread)
{
        _cleanup_(operation_freep) Operation *o = NULL;
        pthread_t thread;

        ASSERT_OK(operation_new(NULL, &o));
        ASSERT_OK(thread_start(&thread, cancel_soon, o));
        int r = operation_poll(o, -1, POLLIN, 10000, NULL);
        threads_join(&thread, 1);
        ASSERT_ERR(r, -EINTR);
}

static Operation *of_handler;

static void handle(int sig)
{
        operation_cancel(of_handler);
}

TEST(from_a_signal_handler)
{
        _cleanup_(operation_freep) Operation *o = NULL;
        const struct sigaction sa = {.sa_handler = handle};

        ASSERT_OK(operation_new(NULL, &o));
        of_handler = o;
        ASSERT_OK(sigaction(SIGUSR1, &sa, NULL));
        (void) raise(SIGUSR1);
        ASSERT_ERR(operation_poll(o, -1, POLLIN, 10000, NULL), -EINTR);
        (void) signal(SIGUSR1, SIG_DFL);
}

/* --- Messages and progress ----------------------------------------------------------------------------- */

typedef struct Seen {
        Operation *operation;
        int inside; /* callbacks that run now */
        unsigned n_messages, n_progress, n_wrong;
        LogLevel level;
        uint64_t done;
} Seen;

static void enter(Seen *s)
{
        if (__atomic_add_fetch(&s->inside, 1, __ATOMIC_SEQ_CST) != 1)
                s->n_wrong++;
        (void) sched_yield();
}

static void leave(Seen *s)
{
        __atomic_sub_fetch(&s->inside, 1, __ATOMIC_SEQ_CST);
}

static void take_message(LogLevel level, const char *line, void *userdata)
{
        Seen *s = userdata;

        enter(s);
        s->n_messages++;
        s->level = level;
        s->n_wrong += !streq(line, "line 7");
        leave(s);
}

static void take_progress(const OperationProgress *p, void *userdata)
{
        Seen *s = userdata;

        enter(s);
        s->n_progress++;
        s->n_wrong += !streq(p->what, "image") || p->phase != OPERATION_IMPORTING || p->total != 9;
        s->done += p->done;
        leave(s);
}

static void *talk(void *userdata)
{
        Seen *s = userdata;

        for (unsigned i = 0; i < 200; i++) {
                operation_message(s->operation, LOG_LEVEL_WARNING, "line %d", 7);
                operation_progress(s->operation, &(OperationProgress){"image", OPERATION_IMPORTING, 3, 9});
        }
        return NULL;
}

TEST(callbacks)
{
        _cleanup_(operation_freep) Operation *o = NULL;
        Seen s = {};
        pthread_t threads[4];

        ASSERT_OK(operation_new(&(OperationOptions){.message = take_message,
                                                    .progress = take_progress,
                                                    .userdata = &s},
                                &o));
        s.operation = o;
        size_t n = threads_start(threads, ELEMENTSOF(threads), talk, &s, NULL);
        threads_join(threads, n);
        ASSERT_EQ(n, ELEMENTSOF(threads));
        ASSERT_EQ(s.n_messages, 800);
        ASSERT_EQ(s.n_progress, 800);
        ASSERT_EQ(s.n_wrong, 0);
        ASSERT_EQ(s.level, LOG_LEVEL_WARNING);
        ASSERT_EQ(s.done, 2400);
}

int main(void)
{
        RUN(null);
        RUN(cancel);
        RUN(poll);
        RUN(deadline);
        RUN(limit_of_a_part);
        RUN(from_another_thread);
        RUN(from_a_signal_handler);
        RUN(callbacks);
        return TEST_END();
}
