/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Being asked to end in the middle of something long: SIGINT, SIGTERM and SIGHUP.
 *
 * What such a signal ends at once leaves halves of images and pods behind, which are harmless, but lie about
 * until they are collected. So the first one is only noted; whatever takes long looks whether there is one,
 * fails with -EINTR, and so is undone in the way of every failure. The second one is not caught any more. In
 * the end the signal is raised once more, so that our parent sees what ended us.
 *
 * The handlers are installed without SA_RESTART: what waits in the kernel is woken, too.
 */

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "basic/basic.h"

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t pending; /* the number of the signal, or 0 */
static int event_fd = -EBADF;

static void note(int sig)
{
        const uint64_t one = 1;
        int saved = errno;

        pending = sig;
        if (write(event_fd, &one, sizeof(one)) < 0) { /* who polls finds out later */
        }
        errno = saved;
}

int interrupt_catch(void)
{
        struct sigaction sa = {.sa_handler = note, .sa_flags = (int) SA_RESETHAND}, old;

        if (event_fd < 0)
                event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (event_fd < 0)
                return -errno;
        sigemptyset(&sa.sa_mask);
        for (size_t i = 0; i < ELEMENTSOF(caught); i++) {
                if (sigaction(caught[i], NULL, &old) < 0)
                        return -errno;
                /* What our parent has ignored for us (nohup, for one) stays ignored. */
                if (old.sa_handler == SIG_DFL && sigaction(caught[i], &sa, NULL) < 0)
                        return -errno;
        }
        return 0;
}

void interrupt_release(void)
{
        struct sigaction old;

        for (size_t i = 0; i < ELEMENTSOF(caught); i++)
                if (sigaction(caught[i], NULL, &old) >= 0 && old.sa_handler == note)
                        (void) signal(caught[i], SIG_DFL);
}

void interrupt_block(void)
{
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(caught); i++)
                sigaddset(&set, caught[i]);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
}

int interrupt_fd(void)
{
        return event_fd;
}

bool interrupt_pending(void)
{
        return pending != 0;
}

int interrupt_check(Error *e)
{
        return pending != 0 ? error_set(e, -EINTR, "Interrupted") : 0;
}

int interrupt_poll(int fd, short events, int timeout_msec, Error *e)
{
        struct pollfd p[] = {{.fd = fd, .events = events}, {.fd = event_fd, .events = POLLIN}};

        for (;;) {
                int r = poll(p, ELEMENTSOF(p), timeout_msec);
                if (r < 0 && errno != EINTR)
                        return -errno;
                int k = interrupt_check(e);
                if (k < 0)
                        return k;
                if (r == 0 || (r > 0 && p[0].revents != 0))
                        return r > 0;
        }
}

void interrupt_raise(void)
{
        int sig = pending;
        sigset_t set;

        if (sig == 0)
                return;
        sigemptyset(&set);
        sigaddset(&set, sig);
        (void) signal(sig, SIG_DFL);
        (void) sigprocmask(SIG_UNBLOCK, &set, NULL);
        (void) raise(sig);
}
