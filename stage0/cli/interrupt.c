/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signals that end a program: SIGINT, SIGTERM and SIGHUP.
 *
 * If such a signal ended the process at once, partial images and pods would be left, which are harmless, but
 * stay until garbage collection. So the first signal only cancels the program's operation, which fails with
 * -EINTR and is undone like after any other failure. The second signal is not caught any more. Before the process
 * ends it raises the signal again, so that its parent sees the cause.
 *
 * The handlers are installed without SA_RESTART, so that blocking system calls are interrupted as well. Handlers
 * belong to the process, so this is for programs: library code knows the operation only.
 */

#include <signal.h>

#include "stage0/cli/interrupt.h"

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t pending; /* the number of the signal, or 0 */
static Operation *volatile target;    /* what it cancels */

static void note(int sig)
{
        pending = sig;
        operation_cancel(target);
}

int interrupt_catch(Operation *o)
{
        struct sigaction sa = {.sa_handler = note, .sa_flags = (int) SA_RESETHAND}, old;

        target = o;
        if (pending != 0)
                operation_cancel(o);
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
        target = NULL;
}

void interrupt_block(void)
{
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(caught); i++)
                sigaddset(&set, caught[i]);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
}

void interrupt_note(int sig)
{
        note(sig);
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
