/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waits for the end of a pod. The process that runs it holds an exclusive lock on its directory until
 * then. */

#include <sys/file.h>

#include "stage0/host/freezer.h"

#define LOCK_MSEC_MAX 10 /* between two looks at the lock */

int pod_not_running(const Pod *p, Error *e)
{
        int r = error_set(e, -ESRCH, "Pod %s is not running: it is %s", pod_display_name(p),
                          pod_state_to_string(p->state));

        if (p->state == POD_PREPARED)
                return error_hint(e, r, "'acnspawn run %s' runs it.", pod_display_name(p));
        if (p->state == POD_EXITED)
                return error_hint(
                                e, r,
                                "'acnspawn run %s' runs it again, 'acnspawn status %s' shows how it ended.",
                                pod_display_name(p), pod_display_name(p));
        return error_hint(e, r, "'acnspawn list' shows the states of pods.");
}

int pod_paused(const Pod *p, Error *e)
{
        int r = error_set(e, -EBUSY, "Pod %s is paused", pod_display_name(p));

        return error_hint(e, r, "'acnspawn resume %s' lets it continue.", pod_display_name(p));
}

int pod_check_running(Pod *p, Error *e)
{
        if (p->state != POD_RUNNING)
                return pod_not_running(p, e);
        return pod_is_paused(p) ? pod_paused(p, e) : pod_is_frozen(p) ? pod_frozen(p, e) : 0;
}

int pod_wait(Pod *p, uint64_t timeout_usec, Error *e)
{
        _cleanup_close_ int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint64_t end;
        int msec = 1;

        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot open the directory of pod %s",
                                       pod_display_name(p));
        if (timeout_usec == UINT64_MAX) {
                int r = 0;
                while (r >= 0 && flock(fd, LOCK_SH) < 0)
                        r = errno == EINTR ? operation_check(pod_operation(p), e)
                                           : error_set_errno(e, -errno, "Cannot wait for pod %s",
                                                             pod_display_name(p));
                return r;
        }
        if (__builtin_add_overflow(now_usec(CLOCK_MONOTONIC), timeout_usec, &end))
                end = UINT64_MAX;
        while (flock(fd, LOCK_SH | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return error_set_errno(e, -errno, "Cannot wait for pod %s", pod_display_name(p));
                if (now_usec(CLOCK_MONOTONIC) >= end) {
                        int r = error_set(e, -ETIME, "Pod %s has not ended in time", pod_display_name(p));
                        return error_hint(e, r, "It is still running; 'acnspawn stop %s' ends it.",
                                          pod_display_name(p));
                }
                int r = operation_poll(pod_operation(p), -1, 0, msec, e);
                if (r < 0)
                        return r;
                msec = MIN(2 * msec, LOCK_MSEC_MAX);
        }
        return 0;
}
