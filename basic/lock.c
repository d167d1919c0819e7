/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Locks of files. */

#include <sys/file.h>

#include "basic/basic.h"

#define LOCK_WAIT_MSEC_MAX 10 /* between two looks at a lock */

/* A thread that waits in flock() cannot be woken by another, so an operation that can be cancelled checks this
 * periodically. */
static int wait_for_lock(int fd, int mode, const Operation *o, Error *e)
{
        int msec = 1;

        while (flock(fd, o ? mode | LOCK_NB : mode) < 0) {
                if (errno != EINTR && (errno != EWOULDBLOCK || mode & LOCK_NB))
                        return -errno;
                int r = o ? operation_poll(o, -1, 0, msec, e) : 0;
                if (r < 0)
                        return r;
                msec = MIN(2 * msec, LOCK_WAIT_MSEC_MAX);
        }
        return 0;
}

int lock_file_at(int dir_fd, const char *path, int mode, const Operation *o, Error *e)
{
        const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
        _cleanup_close_ int fd = openat(dir_fd, path, flags);

        /* With O_CREAT it would wait for a file system that is frozen, even if the file exists. */
        if (fd < 0 && errno == ENOENT)
                fd = openat(dir_fd, path, flags | O_CREAT, 0600);
        if (fd < 0)
                return -errno;
        int r = wait_for_lock(fd, mode, o, e);
        return r < 0 ? r : TAKE_FD(fd);
}
