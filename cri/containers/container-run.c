/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* StartContainer, StopContainer, RemoveContainer and ReopenContainerLog: calls of the supervisor. */

#include "cri/events/events.h"

#define USEC_PER_SEC UINT64_C(1000000)

/* Finds the container, and connects to its pod, which runs. */
static int open_container(CriJob *j, const char *id, Sandbox *s, Container *c, AcnPod **ret, Error *e)
{
        int r = container_find(j, id, s, c, e);

        if (r < 0)
                return r;
        return sandbox_is_ready(s) ? acn_connect(s->pod, ret, e)
                                   : error_set(e, -ESRCH, "Sandbox %s is not ready", s->id);
}

int cri_start_container(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__StartContainerRequest *q = request;
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        int r = open_container(j, q->container_id, &s, &c, &a, e);
        if (r >= 0)
                r = acn_start_app(a, c.app->name, e);
        if (r >= 0)
                cri_event_note(j, CRI_NOTE_STARTED, s.pod->uuid, c.id);
        return r < 0 && s.pod ? sandbox_not_running(j, &s, r) : r;
}

/* True if the pod has ended or the app was removed. If the supervisor only does not answer, the container may still run. */
static bool has_gone(Sandbox *s, int r)
{
        return r == -ENOENT || r == -ESRCH || sandbox_has_ended(s, r);
}

int cri_stop_container(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__StopContainerRequest *q = request;
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        int r = cri_found(j, container_find(j, q->container_id, &s, &c, e), e);
        if (r <= 0 || !sandbox_is_ready(&s))
                return MIN(r, 0);
        r = acn_connect(s.pod, &a, e);
        if (r >= 0)
                r = acn_stop_app(a, c.app->name, q->timeout <= 0 ? 0 : (uint64_t) q->timeout * USEC_PER_SEC,
                                 e);
        if (r < 0 && has_gone(&s, r))
                r = 0;
        if (r >= 0)
                cri_event_note(j, CRI_NOTE_STOPPED, s.pod->uuid, c.id);
        return r;
}

/* The pod has ended: its manifest is changed here. */
static int remove_offline(Sandbox *s, const PodApp *app, Error *e)
{
        _cleanup_free_ char *name = strdup(app->name); /* the manifest is read again */
        int r = name ? pod_lock(s->pod, true, e) : error_oom(e);

        if (r >= 0)
                r = pod_load(s->pod, e);
        if (r < 0)
                return r;
        pod_app_free(pod_manifest_take_app(s->pod->manifest, name));
        r = pod_update_manifest(s->pod, e);
        return r < 0 ? r : MIN(pod_sweep(s->pod), 0);
}

int cri_remove_container(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__RemoveContainerRequest *q = request;
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        int r = cri_found(j, container_find(j, q->container_id, &s, &c, e), e);
        if (r == 0)
                cri_event_note_absent(j, q->container_id, CRI_CONTAINER_UUID);
        if (r <= 0)
                return r;
        if (!sandbox_is_ready(&s)) {
                r = remove_offline(&s, c.app, e);
                if (r >= 0)
                        cri_event_note(j, CRI_NOTE_REMOVED, s.pod->uuid, c.id);
        } else {
                r = acn_connect(s.pod, &a, e);
                if (r >= 0)
                        r = acn_remove_app(a, c.app->name, true, 0, e);
                if (r >= 0 || r == -ENOENT)
                        cri_event_note(j, CRI_NOTE_DELETED, s.pod->uuid, c.id);
        }
        return r == -ENOENT ? 0 : r;
}

int cri_reopen_container_log(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ReopenContainerLogRequest *q = request;
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        int r = open_container(j, q->container_id, &s, &c, &a, e);
        if (r >= 0)
                r = acn_reopen_logs(a, c.app->name, e);
        return r < 0 && s.pod ? sandbox_not_running(j, &s, r) : r;
}
