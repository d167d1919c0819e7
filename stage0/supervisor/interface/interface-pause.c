/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pausing a pod, and resuming it. The kernel freezes one process after the other, and those that wait in the kernel not
 * before they are done there: other calls are served meanwhile. Calls that pause and resume are done in their order.
 *
 * From the first moment on the pod counts as paused, and does nothing else that a call asks for. */

#include <sys/epoll.h>

#include "stage0/supervisor/interface/interface-internal.h"

typedef struct PauseCall {
        struct PauseCall *next;
        Interface *interface;
        VarlinkCall *call;
        bool freeze;
        sd_event_source *events, *timer;
} PauseCall;

static PauseCall *take_first(Interface *i)
{
        PauseCall *p = i->pauses;

        i->pauses = p->next;
        p->events = sd_event_source_disable_unref(p->events);
        p->timer = sd_event_source_disable_unref(p->timer);
        return p;
}

static void pause_call_free(PauseCall *p)
{
        varlink_call_unref(p->call);
        free(p);
}

/* The first call is done. The reply comes before the event, which takes longer. */
static void answer(Interface *i, int r, const Error *e)
{
        PauseCall *p = take_first(i);

        if (r < 0)
                (void) interface_reply_failure(p->call, "org.acnspawn.Pod.PauseFailed", r, e);
        else
                (void) varlink_reply(p->call, NULL);
        pause_call_free(p);
        if (r >= 0)
                interface_changed(i, NULL);
}

static void begin_next(Interface *i);

static int on_events(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        PauseCall *p = userdata;
        Interface *i = p->interface;
        int r = freezer_check(fd, p->freeze);

        if (r == 0)
                return 0;
        answer(i, r < 0 ? error_set_errno(&e, r, "Cannot read cgroup.events of the pod") : 0, &e);
        begin_next(i);
        return 0;
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        PauseCall *p = userdata;
        Interface *i = p->interface;

        answer(i, pod_freeze_undo(i->pod, p->freeze, &e), &e);
        begin_next(i);
        return 0;
}

static int watch(PauseCall *p, int *events_fd)
{
        sd_event *event = p->interface->event;

        int r = sd_event_add_io(event, &p->events, *events_fd, EPOLLPRI, on_events, p);
        if (r < 0)
                return r;
        (void) sd_event_source_set_io_fd_own(p->events, true);
        TAKE_FD(*events_fd);
        return sd_event_add_time_relative(event, &p->timer, CLOCK_MONOTONIC, FREEZE_TIMEOUT_USEC, 0, on_late,
                                          p);
}

/* 1: it is done already, as mostly; 0: not yet. */
static int begin(PauseCall *p, Error *e)
{
        _cleanup_close_ int events_fd = -EBADF;
        Pod *pod = p->interface->pod;

        int r = pod_freeze(pod, p->freeze, &events_fd, e);
        if (r < 0)
                return r;
        r = freezer_check(events_fd, p->freeze);
        if (r == 0)
                r = watch(p, &events_fd);
        if (r >= 0)
                return r;
        (void) pod_freeze_undo(pod, p->freeze, NULL);
        return error_set_errno(e, r, "Cannot wait for the processes of pod %s", pod_display_name(pod));
}

static void begin_next(Interface *i)
{
        while (i->pauses) {
                _cleanup_error_ Error e = ERROR_NULL;
                int r = begin(i->pauses, &e);

                if (r == 0)
                        return;
                answer(i, r, &e);
        }
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
        if (i->pauses == p)
                begin_next(i);
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

void interface_drop_pauses(Interface *i)
{
        while (i && i->pauses) {
                PauseCall *p = take_first(i);
                (void) interface_reply_error(p->call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
                pause_call_free(p);
        }
}
