/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Worker threads.
 *
 * They are started with all signals blocked, and keep them blocked: signals are handled by the main thread
 * only, which waits for them.
 *
 * Nothing runs in a thread besides its function: a call of malloc() or free() would give each thread a heap of its
 * own, which costs more than what a thread that only makes a few system calls is for. */

#include <sched.h>
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

/* The kernel refuses it (EINVAL) while threads share their working directory, and a thread that was joined still
 * shares it for a moment: pthread_join() returns before the kernel has released it. */
int mount_namespace_enter(int fd)
{
        return unshare(CLONE_FS) < 0 || setns(fd, CLONE_NEWNS) < 0 ? -errno : 0;
}

void mount_namespace_done(MountNamespace *n)
{
        safe_close(n->fd);
        safe_close(n->root_fd);
        *n = MOUNT_NAMESPACE_NULL;
}

static int check_both(MountNamespace *n, MountNamespace *ret)
{
        int r = n->fd < 0 || n->root_fd < 0 ? -errno : 0;

        if (r < 0)
                mount_namespace_done(n);
        *ret = *n;
        return r;
}

int mount_namespace_open(MountNamespace *ret)
{
        MountNamespace n = MOUNT_NAMESPACE_NULL;

        n.fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (n.fd >= 0)
                n.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return check_both(&n, ret);
}

int mount_namespace_copy(const MountNamespace *other, MountNamespace *ret)
{
        MountNamespace n = MOUNT_NAMESPACE_NULL;

        n.fd = fcntl(other->fd, F_DUPFD_CLOEXEC, 3);
        if (n.fd >= 0)
                n.root_fd = fcntl(other->root_fd, F_DUPFD_CLOEXEC, 3);
        return check_both(&n, ret);
}

int mount_namespace_return(const MountNamespace *n)
{
        int r = n->fd < 0 ? 0 : mount_namespace_enter(n->fd);

        if (r < 0 || n->fd < 0)
                return r;
        return fchdir(n->root_fd) < 0 || chroot(".") < 0 ? -errno : 0;
}
