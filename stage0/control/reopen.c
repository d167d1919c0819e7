/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opening the log files of a running pod anew, after they were renamed. */

#include "stage0/control/control-internal.h"

#define START_STEP_USEC 20000U
#define START_STEPS 1500U

/* Whether the pod's systemd-nspawn was started, before which the control socket is only for stop requests. The log
 * files are open earlier. */
static int wait_for_start(Pod *p, Error *e)
{
        PodRuntime runtime;

        for (unsigned i = 0; i < START_STEPS; i++) {
                if (pod_runtime_read(p, &runtime) >= 0)
                        return 0;
                if (pod_wait(p, START_STEP_USEC, NULL) >= 0)
                        return error_set(e, -ESRCH, "Pod %s has ended", pod_display_name(p));
        }
        return error_set(e, -ETIME, "Pod %s is still starting", pod_display_name(p));
}

int reopen_logs(Pod *p, const char *app, Error *e)
{
        if (p->state != POD_RUNNING)
                return pod_not_running(p, e);
        int r = wait_for_start(p, e);
        return r < 0 ? r : control_reopen(p, app, e);
}
