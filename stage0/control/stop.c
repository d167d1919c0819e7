/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ending a running pod: in order, through the pod's systemd, or by force. */

#include "stage0/control/control-internal.h"

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

int pause_pod(Pod *p, bool pause, Error *e)
{
        if (p->state != POD_RUNNING)
                return pod_not_running(p, e);
        return pod_freeze(p, pause, e);
}

/* What the pod was given by the host's systemd is given back, too. */
static int wait_for_end(Pod *p, uint64_t timeout_usec, Error *e)
{
        int r = pod_wait(p, timeout_usec, e);

        if (r >= 0)
                pod_cgroup_wait_for_scope(p);
        return r;
}

static int kill_pod(Pod *p, Error *e)
{
        int r = send_patiently(p, CONTROL_KILL, e);

        if (r < 0)
                r = kill_without_supervisor(p, e);
        if (r >= 0)
                r = wait_for_end(p, UINT64_MAX, e);
        return r < 0 ? r : 1;
}

int stop_pod(Pod *p, uint64_t timeout_usec, Error *e)
{
        if (p->state != POD_RUNNING)
                return pod_not_running(p, e);
        if (timeout_usec == 0)
                return kill_pod(p, e);
        int r = send_patiently(p, CONTROL_STOP, e);
        if (r >= 0)
                r = wait_for_end(p, timeout_usec, e);
        if (r != -ETIME)
                return r < 0 ? r : 0;
        error_done(e);
        return kill_pod(p, e);
}

static int remove_ended(Pod *p, Error *e)
{
        int r = pod_release(p, NULL, e);

        return r < 0 ? r : pod_remove(p, e);
}

int discard_pod(Pod *p, Error *e)
{
        _cleanup_(pod_freep) Pod *ended = NULL;

        if (p->state != POD_RUNNING)
                return remove_ended(p, e);
        int r = stop_pod(p, UINT64_MAX, e);
        if (r >= 0)
                r = pod_open(p->store, p->uuid, &ended, e);
        if (r >= 0)
                r = remove_ended(ended, e);
        if (r != -ENOENT)
                return r;
        error_done(e); /* who runs it with --rm was faster */
        return 0;
}
