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

int stop_pod(Pod *p, bool force, Error *e)
{
        if (p->state != POD_RUNNING)
                return pod_not_running(p, e);
        int r = send_patiently(p, force ? CONTROL_KILL : CONTROL_STOP, e);
        if (r < 0 && force)
                r = kill_without_supervisor(p, e);
        return r < 0 ? r : pod_wait(p, UINT64_MAX, e);
}
