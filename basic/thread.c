/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Threads that work for others.
 *
 * They are started with all signals blocked, and keep them so: signals are the business of the program's
 * own thread, which is where they are waited for and where what they interrupt knows about it. */

#include <signal.h>

#include "basic/basic.h"

size_t threads_start(pthread_t *threads, size_t n, void *(*function)(void *), void *userdata, int *ret_error)
{
        sigset_t all, before;
        size_t started = 0;
        int r;

        if (n == 0)
                return 0;
        sigfillset(&all);
        r = -pthread_sigmask(SIG_SETMASK, &all, &before);
        if (r == 0) {
                while (started < n && r == 0) {
                        r = -pthread_create(&threads[started], NULL, function, userdata);
                        started += r == 0;
                }
                (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        }
        if (r < 0 && ret_error)
                *ret_error = r;
        return started;
}

int thread_start(pthread_t *ret, void *(*function)(void *), void *userdata)
{
        int r = 0;

        (void) threads_start(ret, 1, function, userdata, &r);
        return r;
}

void threads_join(pthread_t *threads, size_t n)
{
        while (n > 0)
                (void) pthread_join(threads[--n], NULL);
}
