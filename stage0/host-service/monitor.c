/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Monitor(): the events of all pods (stage0/pods/watch.c). Each call has a watch of its own, until the
 * caller disconnects. This is the one call that runs in the service itself, as it never blocks. */

#include "stage0/host-service/service-internal.h"

typedef struct HostMonitor {
        struct HostMonitor *next;
        HostService *service;
        VarlinkCall *call;
        Store *store;
        PodsWatch *watch;
} HostMonitor;

static void monitor_free(HostMonitor *m)
{
        pods_watch_free(m->watch);
        store_unref(m->store);
        varlink_call_unref(m->call);
        free(m);
}

static void on_gone(VarlinkCall *call, void *userdata)
{
        HostMonitor *gone = userdata, **m = &gone->service->monitors;

        while (*m != gone)
                m = &(*m)->next;
        *m = gone->next;
        gone->service->n_monitors--;
        monitor_free(gone);
}

/* A caller that does not read is disconnected, which is reported to on_gone() later. */
static void on_event(const PodsEvent *v, void *userdata)
{
        _cleanup_json_ json_object *o = v->kind == PODS_APPS ? NULL : pods_event_to_json(v);
        HostMonitor *m = userdata;

        if (o)
                (void) varlink_reply_continues(m->call, o);
}

static int refuse(VarlinkCall *call, int r, const Error *e)
{
        _cleanup_json_ json_object *o = error_to_json(e);
        const char *name = strerrorname_np(-r);

        if (json_member_add(o, "errno", json_object_new_int(-r)) < 0 ||
            (name && json_member_add_text(o, "errnoName", name) < 0))
                return -ENOMEM;
        return varlink_reply_error(call, HOST_INTERFACE ".OperationFailed", o);
}

static int refuse_number(VarlinkCall *call)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add(o, "limit", json_object_new_int((int) HOST_MONITORS_MAX)) < 0)
                return -ENOMEM;
        return varlink_reply_error(call, HOST_INTERFACE ".TooManyOperations", o);
}

int host_monitor(VarlinkCall *call, json_object *parameters, void *userdata)
{
        _cleanup_error_ Error e = ERROR_NULL;
        HostService *s = userdata;
        HostMonitor *m;

        if (s->n_monitors >= HOST_MONITORS_MAX)
                return refuse_number(call);
        m = calloc(1, sizeof(HostMonitor));
        if (!m)
                return -ENOMEM;
        m->service = s;
        int r = store_open(s->options->dir, NULL, &m->store, &e);
        if (r >= 0)
                r = pods_watch_new(m->store, s->event, on_event, m, &m->watch, &e);
        if (r < 0) {
                monitor_free(m);
                return refuse(call, r, &e);
        }
        m->call = varlink_call_ref(call);
        call->on_gone = on_gone;
        call->userdata = m;
        m->next = s->monitors;
        s->monitors = m;
        s->n_monitors++;
        return 0;
}
