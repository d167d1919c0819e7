/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Worker threads.
 *
 * They are started with all signals blocked, and keep them blocked: signals are handled by the main thread
 * only, which waits for them.
 *
 * Each thread leaves the working directory, root and umask that threads share by default. The kernel refuses
 * setns() into a mount namespace (EINVAL) while they are shared, and a thread that was joined still shares them
 * for a moment: pthread_join() returns before the kernel has released them. */

#include <sched.h>
#include <signal.h>

#include "basic/basic.h"

typedef struct ThreadStart {
        void *(*function)(void *);
        void *userdata;
} ThreadStart;

static void *thread_main(void *argument)
{
        ThreadStart start = *(ThreadStart *) argument;

        free(argument);
        (void) unshare(CLONE_FS);
        return start.function(start.userdata);
}

static int create_thread(pthread_t *ret, void *(*function)(void *), void *userdata)
{
        ThreadStart *start = malloc(sizeof(ThreadStart));

        if (!start)
                return -ENOMEM;
        *start = (ThreadStart){.function = function, .userdata = userdata};
        int r = -pthread_create(ret, NULL, thread_main, start);
        if (r < 0)
                free(start);
        return r;
}

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
                        r = create_thread(&threads[started], function, userdata);
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
