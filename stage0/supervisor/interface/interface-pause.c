/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that pause the pod and resume it (pod-pause.c), processed one by one in their order. Other calls are served
 * meanwhile, but as soon as the first pause begins, calls that change the pod are refused. */

#include "stage0/supervisor/interface/interface-internal.h"
#include "stage0/supervisor/apps/pod-pause.h"

typedef struct PauseCall {
        struct PauseCall *next;
        Interface *interface;
        VarlinkCall *call;
        bool freeze;
} PauseCall;

static PauseCall *take_first(Interface *i)
{
        PauseCall *p = i->pauses;

        i->pauses = p->next;
        return p;
}

/* Replies first: sending the event takes longer. */
static void answer(PauseCall *p, int r, const Error *e)
{
        Interface *i = p->interface;

        if (r == -ESHUTDOWN)
                (void) interface_reply_error(p->call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
        else if (r < 0)
                (void) interface_reply_failure(p->call, "org.acnspawn.Pod.PauseFailed", r, e);
        else
                (void) varlink_reply(p->call, NULL);
        varlink_call_unref(p->call);
        free(p);
        if (r >= 0)
                interface_changed(i, NULL);
}

static void on_done(void *userdata, int r, const Error *e);

/* A loop, not a recursion, for requests that are done at once, which are most. */
static void process_requests(Interface *i)
{
        while (i->pauses && i->pausing == PAUSES_IDLE) {
                i->pausing = PAUSES_REQUEST;
                pod_pause_request(i->apps->pause, i->pauses->freeze, on_done, i);
                if (i->pausing == PAUSES_REQUEST)
                        i->pausing = PAUSES_WAIT;
        }
}

static void on_done(void *userdata, int r, const Error *e)
{
        Interface *i = userdata;
        bool waited = i->pausing == PAUSES_WAIT;

        answer(take_first(i), r, e);
        while (waited && r == -ESHUTDOWN && i->pauses) /* later calls fail in the same way */
                answer(take_first(i), r, e);
        i->pausing = PAUSES_IDLE;
        if (waited)
                process_requests(i);
}

static int enqueue(Interface *i, VarlinkCall *call, bool freeze)
{
        PauseCall *p = calloc(1, sizeof(PauseCall)), **last = &i->pauses;

        if (!p)
                return -ENOMEM;
        *p = (PauseCall){.interface = i, .call = varlink_call_ref(call), .freeze = freeze};
        while (*last)
                last = &(*last)->next;
        *last = p;
        process_requests(i);
        return 0;
}

int interface_pause_pod(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return enqueue(userdata, call, true);
}

int interface_resume_pod(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return enqueue(userdata, call, false);
}
