/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Processes that read the files of a pod that has ended, which may take long: an archive is written to a pipe.
 *
 * They share a lock of the pod's file "config", which is not that of the pod: a pod that is read can be run again, and is seen to
 * have ended. What removes or changes the files has the lock of the pod, and then excludes readers. A reader looks where the pod is
 * once it has its lock, so it does not read a pod that is being removed.
 */

#include <sys/file.h>

#include "prepare/pods/pods-internal.h"

#define TRIES 1000
#define PAUSE_NSEC 1000000L

/* 0: the pod has no such file, so nothing reads it. */
static int open_file(Pod *p)
{
        if (p->readers_fd >= 0)
                return 1;
        int fd = openat(p->dir_fd, POD_CONFIG_FILE,
                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT || errno == ELOOP ? 0 : -errno;
        p->readers_fd = fd;
        return 1;
}

static int lock_file(Pod *p, int mode, bool wait)
{
        int r = open_file(p);

        for (unsigned tries = 0; r > 0 && flock(p->readers_fd, mode | LOCK_NB) < 0; tries++) {
                if (errno != EWOULDBLOCK || !wait || tries == TRIES) {
                        r = errno == EWOULDBLOCK ? -EBUSY : -errno;
                        p->readers_fd = safe_close(p->readers_fd);
                        return r;
                }
                nanosleep(&(struct timespec){.tv_nsec = PAUSE_NSEC}, NULL);
        }
        return MIN(r, 0);
}

int pod_lock_for_reading(Pod *p, Error *e)
{
        _cleanup_close_ int store_lock = -EBADF;

        /* A removal of images holds this lock exclusively while it looks for readers of pods. */
        int r = store_lock_shared(p->store, &store_lock, e);
        if (r < 0)
                return r;
        r = p->readers_fd >= 0 ? 0 : lock_file(p, LOCK_SH, true);
        if (r == -EBUSY)
                return error_set(e, r, "Pod %s is in use by another process", pod_display_name(p));
        if (r < 0)
                return error_set_errno(e, r, "Cannot lock pod %s for reading", pod_display_name(p));
        return pod_is_at(p->store, p->dir_fd, p->uuid, p->place)
                               ? 0
                               : error_set(e, -ENOENT, "Pod %s was removed", pod_display_name(p));
}

bool pod_is_read(const Store *s, const char *path)
{
        _cleanup_close_ int dir_fd = open_beneath(store_fd(s), path, O_RDONLY | O_DIRECTORY), fd = -EBADF;

        if (dir_fd < 0)
                return dir_fd != -ENOENT;
        fd = openat(dir_fd, POD_CONFIG_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return errno != ENOENT && errno != ELOOP; /* as open_file() */
        return flock(fd, LOCK_EX | LOCK_NB) < 0;
}

int pod_exclude_readers(Pod *p, bool wait, Error *e)
{
        int r = lock_file(p, LOCK_EX, wait);

        if (r == -EBUSY)
                return error_set(e, r, "The files of pod %s are being read by another process",
                                 pod_display_name(p));
        return r < 0 ? error_set_errno(e, r, "Cannot exclude readers of pod %s", pod_display_name(p)) : 0;
}
