/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ending a running pod: in order, through the pod's systemd, or by force. */

#include <sys/file.h>

#include "stage0/runtime/runtime.h"

/* The process that runs the pod holds an exclusive lock on its directory for as long as the pod is there. */
int pod_wait(Pod *p, uint64_t timeout_usec, Error *e)
{
        _cleanup_close_ int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint64_t end = timeout_usec == UINT64_MAX ? UINT64_MAX : now_usec(CLOCK_MONOTONIC) + timeout_usec;

        if (fd < 0)
                return error_set_errno(e, -errno, "Cannot open the directory of pod %s", p->uuid);
        if (timeout_usec == UINT64_MAX) {
                while (flock(fd, LOCK_SH) < 0)
                        if (errno != EINTR)
                                return error_set_errno(e, -errno, "Cannot wait for pod %s", p->uuid);
                return 0;
        }
        while (flock(fd, LOCK_SH | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return error_set_errno(e, -errno, "Cannot wait for pod %s", p->uuid);
                if (now_usec(CLOCK_MONOTONIC) >= end)
                        return error_set(e, -ETIME, "Pod %s has not ended in time", p->uuid);
                (void) usleep(10000);
        }
        return 0;
}

/* Without the process that runs it, the pod's processes can still be found by their cgroup. */
static int kill_without_supervisor(Pod *p, Error *e)
{
        error_done(e);
        return pod_cgroup_kill(p, e);
}

/* A process may have only just begun to run the pod: its socket is there a moment later. */
static int send_patiently(Pod *p, ControlOp op, Error *e)
{
        int r;

        for (unsigned i = 0;; i++) {
                r = control_send(p, op, e);
                if ((r != -ENOENT && r != -ECONNREFUSED) || i >= 50)
                        return r;
                if (pod_wait(p, 20000, NULL) >= 0)
                        return 0; /* ended by itself */
                error_done(e);
        }
}

static int not_running(Pod *p, Error *e)
{
        return error_set(e, -ESRCH, "Pod %s is not running: it is %s", p->uuid,
                         pod_state_to_string(p->state));
}

int pause_pod(Pod *p, bool pause, Error *e)
{
        if (p->state != POD_RUNNING)
                return not_running(p, e);
        return pod_freeze(p, pause, e);
}

int stop_pod(Pod *p, bool force, Error *e)
{
        if (p->state != POD_RUNNING)
                return not_running(p, e);
        int r = send_patiently(p, force ? CONTROL_KILL : CONTROL_STOP, e);
        if (r < 0 && force)
                r = kill_without_supervisor(p, e);
        return r < 0 ? r : pod_wait(p, UINT64_MAX, e);
}
