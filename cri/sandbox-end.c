/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* StopPodSandbox and RemovePodSandbox, which succeed as well if it is done already. */

#include "cri/events.h"

/* The supervisor of the pod was killed: what it would have undone is undone here. */
static int end_dead(Pod *p, Error *e)
{
        int r = p->place == POD_RUNNING ? pod_lock(p, true, e) : 0;

        if (r < 0 || p->place != POD_RUNNING)
                return r;
        r = pod_release(p, NULL, e);
        return r < 0 ? r : pod_end_run(p, e);
}

/* Its processes are killed, as the containers were stopped before by a client that wants them to end in order. */
static int stop(Sandbox *s, Error *e)
{
        int r = s->pod->state == POD_RUNNING  ? stop_pod(s->pod, 0, e)
                : s->pod->state == POD_EXITED ? end_dead(s->pod, e)
                                              : 0;

        return r == -ENOENT || r == -ESRCH ? 0 : r;
}

static int find(CriJob *j, const char *id, Sandbox *ret, Error *e)
{
        int r = sandbox_find(j, id, ret, e);

        if (r != -ENOENT)
                return r < 0 ? r : 1;
        error_done(e);
        return cri_status(j, GRPC_OK, 0);
}

int cri_stop_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__StopPodSandboxRequest *q = request;
        _cleanup_sandbox_ Sandbox s = {};

        int r = find(j, q->pod_sandbox_id, &s, e);
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

        int r = find(j, q->pod_sandbox_id, &s, e);
        if (r > 0 && s.pod->state == POD_RUNNING)
                r = stop_pod(s.pod, 0, e) < 0 ? e->code : 1;
        if (r <= 0)
                return r;
        cri_event_note(j, CRI_NOTE_DELETED, s.pod->uuid, s.id);
        r = discard_pod(s.pod, e);
        return r == -ENOENT ? 0 : r;
}
