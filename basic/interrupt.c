/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Interruption of long operations: SIGINT, SIGTERM and SIGHUP.
 *
 * If such a signal ended the process at once, partial images and pods would be left, which are harmless, but
 * stay until garbage collection. So the first signal is only recorded; long operations check for it, fail
 * with -EINTR, and are undone like after any other failure. The second signal is not caught any more. Before
 * the process ends it raises the signal again, so that its parent sees the cause.
 *
 * The handlers are installed without SA_RESTART, so that blocking system calls are interrupted as well.
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
        if (write(event_fd, &one, sizeof(one)) < 0) { /* without it only poll() on event_fd notices the
                                                       * signal later */
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
                /* Signals that the parent has set to be ignored (nohup, for example) stay ignored. */
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

void interrupt_note(int sig)
{
        pending = sig;
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
