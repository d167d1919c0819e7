/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* StopPodSandbox and RemovePodSandbox, which also succeed if the sandbox is stopped or removed already. */

#include "cri/events/events.h"

/* What the supervisor could not undo is tried again, as often as the client asks for it: it was killed, or a plugin of the
 * network has failed. */
static int end_exited(Pod *p, Error *e)
{
        if (p->place != POD_RUNNING)
                return network_down(p, e);
        int r = pod_lock(p, true, e);
        if (r >= 0)
                r = pod_release(p, NULL, e);
        return r < 0 ? r : pod_end_run(p, e);
}

static int stop_running(Pod *p, Error *e)
{
        int r = stop_pod(p, 0, e);

        return r < 0 ? r : network_down(p, e);
}

/* Its processes are killed, as the containers were stopped before by a client that wants them to end in order. */
static int stop(Sandbox *s, Error *e)
{
        int r = s->pod->state == POD_RUNNING  ? stop_running(s->pod, e)
                : s->pod->state == POD_EXITED ? end_exited(s->pod, e)
                                              : 0;

        return r == -ENOENT || r == -ESRCH ? 0 : r;
}

int cri_stop_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__StopPodSandboxRequest *q = request;
        _cleanup_sandbox_ Sandbox s = {};

        int r = cri_found(j, sandbox_find(j, q->pod_sandbox_id, &s, e), e);
        if (r > 0) {
                r = MIN(stop(&s, e), 0);
                cri_event_note(j, CRI_NOTE_STOPPED, s.pod->uuid, s.id);
        }
        return r;
}

int cri_remove_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__RemovePodSandboxRequest *q = request;
        _cleanup_sandbox_ Sandbox s = {};

        int r = cri_found(j, sandbox_find(j, q->pod_sandbox_id, &s, e), e);
        if (r == 0)
                cri_event_note_absent(j, q->pod_sandbox_id, CRI_SANDBOX_UUID);
        if (r > 0 && s.pod->state == POD_RUNNING)
                r = stop_pod(s.pod, 0, e) < 0 ? e->code : 1;
        if (r <= 0)
                return r;
        cri_event_note(j, CRI_NOTE_DELETED, s.pod->uuid, s.id);
        r = discard_pod(s.pod, e);
        return r == -ENOENT ? 0 : r;
}
