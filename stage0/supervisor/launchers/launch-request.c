/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parser for requests and events of launchers. They are untrusted: any process of the pod may have sent
 * them. */

#include "stage0/supervisor/launchers/serve.h"

_Static_assert(sizeof(LaunchRequest) != sizeof(LaunchEvent), "the size tells them apart");

#define IS_TERMINATED(field) (memchr((field), 0, sizeof(field)) != NULL)

int launch_request_check(const LaunchRequest *r, size_t size, size_t n_fds)
{
        if (size != sizeof(*r) || r->version != LAUNCH_PROTOCOL_VERSION || r->phase >= _LAUNCH_PHASE_MAX ||
            n_fds != (launch_phase_has_root((LaunchPhase) r->phase) ? _LAUNCH_STREAM_MAX : 0U) ||
            !IS_TERMINATED(r->app))
                return -EBADMSG;
        return 0;
}

int launch_event_check(const LaunchEvent *e, size_t size, size_t n_fds)
{
        if (size != sizeof(*e) || e->version != LAUNCH_PROTOCOL_VERSION || e->kind >= _LAUNCH_EVENT_MAX ||
            n_fds > 0 || e->exit_status < -1 || e->exit_status > 255 || e->signal < 0 || e->signal > 255 ||
            e->cause >= _APP_CAUSE_MAX || !IS_TERMINATED(e->app) || !IS_TERMINATED(e->result) ||
            !IS_TERMINATED(e->identity) || !IS_TERMINATED(e->message))
                return -EBADMSG;
        return 0;
}
