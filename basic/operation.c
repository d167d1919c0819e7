/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Operations: cancelling, deadlines, and where messages and progress go.
 *
 * An operation has one timerfd, which serves both ways to stop it: it is armed for the deadline, and cancelling
 * arms it for a time long past. Nothing ever reads it, so it stays readable, and every poll() of every thread
 * that works for the operation wakes up. The flag tells both causes apart and makes the check between two steps
 * cheap: without a deadline it is one load.
 *
 * The flag is set and the timer armed with operations that are safe in a signal handler, which keeps nothing else
 * of the operation: no lock is taken there.
 */

#include <poll.h>
#include <sys/timerfd.h>

#include "basic/basic.h"

struct Operation {
        OperationOptions options;
        int fd;
        bool cancelled;       /* atomic */
        uint64_t limit_usec;  /* atomic: of a part of it, see operation_limit(); 0: none */
        pthread_mutex_t lock; /* one callback at a time */
};

static int arm(int fd, uint64_t usec)
{
        const struct itimerspec t = {.it_value = {.tv_sec = (time_t) (usec / 1000000U),
                                                  .tv_nsec = (long) (usec % 1000000U) * 1000L}};

        return timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, NULL) < 0 ? -errno : 0;
}

/* A program makes its operation before it looks at the descriptors that it was started with, which are named by low
 * numbers (LISTEN_FDS): one that is not open must not seem to be. */
#define TIMER_FD_MIN 512

static int open_timer(void)
{
        int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, TIMER_FD_MIN);

        if (high < 0) /* so many are not allowed */
                return fd < 0 ? -errno : fd;
        safe_close(fd);
        return high;
}

int operation_new(const OperationOptions *o, Operation **ret)
{
        _cleanup_(operation_freep) Operation *x = calloc(1, sizeof(Operation));
        int r = 0;

        if (!x)
                return -ENOMEM;
        if (o)
                x->options = *o;
        (void) pthread_mutex_init(&x->lock, NULL);
        x->fd = open_timer();
        if (x->fd < 0)
                return x->fd;
        /* A time that the kernel does not take is more than a hundred years away. */
        if (x->options.deadline_usec > 0 && x->options.deadline_usec <= INT64_MAX / 1000)
                r = arm(x->fd, x->options.deadline_usec);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(x);
        return 0;
}

Operation *operation_free(Operation *o)
{
        if (!o)
                return NULL;
        safe_close(o->fd);
        (void) pthread_mutex_destroy(&o->lock);
        free(o);
        return NULL;
}

void operation_cancel(Operation *o)
{
        int saved = errno;

        if (!o)
                return;
        __atomic_store_n(&o->cancelled, true, __ATOMIC_RELEASE);
        (void) arm(o->fd, 1); /* fails for no valid timer */
        errno = saved;
}

int operation_limit(Operation *o, uint64_t deadline_usec)
{
        uint64_t own = o ? o->options.deadline_usec : 0;

        if (!o)
                return 0;
        __atomic_store_n(&o->limit_usec, deadline_usec, __ATOMIC_RELEASE);
        if (own == 0 || (deadline_usec > 0 && deadline_usec < own))
                own = deadline_usec;
        int r = arm(o->fd, own <= INT64_MAX / 1000 ? own : 0);
        if (operation_is_cancelled(o)) /* just now, perhaps: that holds */
                (void) arm(o->fd, 1);
        return r;
}

int operation_fd(const Operation *o)
{
        return o ? o->fd : -EBADF;
}

bool operation_is_cancelled(const Operation *o)
{
        return o && __atomic_load_n(&o->cancelled, __ATOMIC_ACQUIRE);
}

int operation_check(const Operation *o, Error *e)
{
        if (operation_is_cancelled(o))
                return error_set(e, -EINTR, "Interrupted");
        if (!o)
                return 0;
        uint64_t limit = __atomic_load_n(&o->limit_usec, __ATOMIC_ACQUIRE), own = o->options.deadline_usec;
        if (own == 0 && limit == 0)
                return 0;
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        if (own > 0 && now >= own)
                return error_set(e, -ETIME, "The deadline has passed");
        if (limit > 0 && now >= limit)
                return error_set(e, -ETIME, "It takes too long");
        return 0;
}

int operation_poll(const Operation *o, int fd, short events, int timeout_msec, Error *e)
{
        struct pollfd p[] = {{.fd = fd, .events = events}, {.fd = operation_fd(o), .events = POLLIN}};

        for (;;) {
                int r = poll(p, ELEMENTSOF(p), timeout_msec);
                if (r < 0 && errno != EINTR)
                        return -errno;
                int k = operation_check(o, e);
                if (k < 0)
                        return k;
                if (r > 0 && p[1].revents != 0) /* cancelled by the process that this one was forked from */
                        return error_set(e, -EINTR, "Interrupted");
                if (r == 0 || (r > 0 && p[0].revents != 0))
                        return r > 0;
        }
}

void operation_message(Operation *o, LogLevel level, const char *format, ...)
{
        _cleanup_free_ char *line = NULL;
        int saved = errno;
        va_list ap;

        if (!o || !o->options.message)
                return;
        va_start(ap, format);
        int r = xvasprintf(&line, format, ap);
        va_end(ap);
        if (r < 0)
                return;
        (void) pthread_mutex_lock(&o->lock);
        o->options.message(level, line, o->options.userdata);
        (void) pthread_mutex_unlock(&o->lock);
        errno = saved;
}

void operation_progress(Operation *o, const OperationProgress *p)
{
        if (!o || !o->options.progress)
                return;
        (void) pthread_mutex_lock(&o->lock);
        o->options.progress(p, o->options.userdata);
        (void) pthread_mutex_unlock(&o->lock);
}
