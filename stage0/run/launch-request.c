/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests of launchers, as they arrive: whatever a process of the pod has sent. */

#include "stage0/run/serve.h"

int launch_request_check(LaunchRequest *r, size_t size, size_t n_fds)
{
        if (size != sizeof(*r) || r->version != LAUNCH_PROTOCOL_VERSION || r->phase >= _LAUNCH_PHASE_MAX ||
            n_fds != (r->phase >= LAUNCH_FLUSH ? 0U : _LAUNCH_STREAM_MAX) || r->exit_status < -1 ||
            r->exit_status > 255 || memchr(r->app, 0, sizeof(r->app)) == NULL)
                return -EBADMSG;
        return 0;
}
