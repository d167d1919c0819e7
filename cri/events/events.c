/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GetContainerEvents: a stream of every transition of sandboxes and containers (events-table.c) from now on.
 *
 * An event comes with the statuses of its sandbox and containers, which a worker reads: one at a time, so that the order is
 * kept. All buffers have a limit. A client that does not read loses its stream, and all lose theirs if events are lost: they
 * have to list sandboxes and containers anew then, as after a restart of the server. */

#include "cri/events/events-internal.h"

#define SUBSCRIBERS_MAX 16U
#define QUEUE_MAX 4096U
#define QUEUE_BYTES_MAX (16U * 1024U * 1024U)
#define UNSENT_MAX (4U * 1024U * 1024U)
#define NSEC_PER_USEC 1000U

typedef struct Subscriber {
        struct Subscriber *next;
        CriServer *server;
        GrpcCall *call;
        uint64_t after; /* the number of the last event before it came */
} Subscriber;

/* --- Subscribers --------------------------------------------------------------------------------------- */

static void drop_subscriber(Subscriber *u)
{
        Subscriber **i = &u->server->events->subscribers;

        while (*i != u)
                i = &(*i)->next;
        *i = u->next;
        u->server->events->n_subscribers--;
        grpc_call_unref(u->call);
        free(u);
}

static void on_gone(GrpcCall *c, void *userdata)
{
        drop_subscriber(userdata);
}

static void finish(Subscriber *u, GrpcStatus status, const char *why)
{
        grpc_call_on_gone(u->call, NULL, NULL);
        (void) grpc_call_finish(u->call, status, why);
        drop_subscriber(u);
}

int cri_events_subscribe(CriServer *s, GrpcCall *c)
{
        struct CriEvents *v = s->events;
        Subscriber *u;

        if (!v || s->ending || v->n_subscribers >= SUBSCRIBERS_MAX)
                return grpc_call_finish(c, GRPC_UNAVAILABLE,
                                        "Too many clients read events, or the service ends");
        u = malloc(sizeof(Subscriber));
        if (!u)
                return -ENOMEM;
        *u = (Subscriber){.next = v->subscribers, .server = s, .call = grpc_call_ref(c), .after = v->number};
        v->subscribers = u;
        v->n_subscribers++;
        grpc_call_on_gone(c, on_gone, u);
        return 0;
}

static void finish_all(CriServer *s, GrpcStatus status, const char *why)
{
        while (s->events->subscribers)
                finish(s->events->subscribers, status, why);
}

void cri_events_end(CriServer *s)
{
        if (s->events)
                finish_all(s, GRPC_UNAVAILABLE, "The service ends");
}

static void broadcast(CriServer *s, uint64_t number, const void *data, size_t size)
{
        for (Subscriber *u = s->events->subscribers, *next; u; u = next) {
                next = u->next;
                if (number <= u->after)
                        continue;
                if (grpc_call_unsent(u->call) > UNSENT_MAX)
                        finish(u, GRPC_RESOURCE_EXHAUSTED, "The events were not read");
                else
                        (void) grpc_call_send(u->call, data, size);
        }
}

/* --- The queue ----------------------------------------------------------------------------------------- */

static void drop_items(struct CriEvents *v, size_t n)
{
        n = MIN(n, v->n);
        for (size_t i = 0; i < n; i++) {
                v->queue_bytes -= v->queue[i].status_size;
                free(v->queue[i].status);
        }
        v->n -= n;
        if (v->n > 0)
                memmove(v->queue, v->queue + n, v->n * sizeof(EventItem));
        v->n_sent -= MIN(n, v->n_sent);
}

static void end_streams(CriServer *s)
{
        finish_all(s, GRPC_RESOURCE_EXHAUSTED,
                   "Events were lost: there were more than can be kept, or memory is short");
        drop_items(s->events, s->events->n);
}

static int append(struct CriEvents *v, const SeenSandbox *sandbox, const Seen *x, EventType type)
{
        EventItem *i;

        if (v->n >= QUEUE_MAX || v->queue_bytes + sandbox->status_size > QUEUE_BYTES_MAX)
                return -ENOBUFS;
        if (GREEDY_REALLOC(v->queue, v->allocated, v->n + 1) < 0)
                return -ENOMEM;
        i = &v->queue[v->n];
        *i = (EventItem){.number = v->number,
                         .type = type,
                         .ready = sandbox->sandbox.state == STARTED,
                         .time_usec = now_usec(CLOCK_REALTIME),
                         .status = malloc(MAX(sandbox->status_size, (size_t) 1)),
                         .status_size = sandbox->status_size};
        if (!i->status)
                return -ENOMEM;
        memcpy(i->uuid, sandbox->uuid, sizeof(i->uuid));
        memcpy(i->id, x->id, sizeof(i->id));
        if (sandbox->status_size > 0)
                memcpy(i->status, sandbox->status, sandbox->status_size);
        v->queue_bytes += sandbox->status_size;
        v->n++;
        return 0;
}

void events_emit(CriServer *s, const SeenSandbox *sandbox, Seen *x, EventType type)
{
        x->state = type;
        x->changed_usec = now_usec(CLOCK_MONOTONIC);
        x->sampled_usec = 0;
        s->events->number++;
        if (s->events->subscribers && append(s->events, sandbox, x, type) < 0)
                end_streams(s);
}

/* --- Sending ------------------------------------------------------------------------------------------- */

static int fill_from_sandbox(CriJob *j, const EventItem *item, Runtime__V1__ContainerEventResponse *p)
{
        _cleanup_sandbox_ Sandbox s = {};
        _cleanup_(pod_freep) Pod *pod = NULL;
        int r = pod_open(j->store, item->uuid, &pod, NULL);

        if (r >= 0 && pod->state != POD_RUNNING && pod->state != POD_EXITED)
                r = -ENOENT; /* it is being removed */
        if (r >= 0)
                r = sandbox_open(j, pod, &s, NULL);
        if (r < 0)
                return r;
        (void) TAKE_PTR(pod);
        r = container_statuses(j, &s, &p->containers_statuses, &p->n_containers_statuses, NULL);
        return r < 0 ? r : sandbox_status(j, &s, &p->pod_sandbox_status, NULL);
}

/* The stored status has no networks and no containers. It is sent if the sandbox is gone, or its supervisor does not answer. */
static int send_item(CriJob *j, const EventItem *item, Error *e)
{
        Runtime__V1__ContainerEventResponse *p =
                        cri_message(&j->memory, &runtime__v1__container_event_response__descriptor);
        ProtobufCMessage *status = NULL;

        if (!p || !(p->container_id = cri_strdup(&j->memory, item->id)))
                return error_oom(e);
        p->container_event_type = item->type;
        p->created_at = (int64_t) (item->time_usec * NSEC_PER_USEC);
        if (fill_from_sandbox(j, item, p) < 0) {
                p->n_containers_statuses = 0;
                if (cri_unpack(&j->memory, &runtime__v1__pod_sandbox_status__descriptor, item->status,
                               item->status_size, &status) >= 0) {
                        p->pod_sandbox_status = (Runtime__V1__PodSandboxStatus *) status;
                        p->pod_sandbox_status->state =
                                        item->ready ? RUNTIME__V1__POD_SANDBOX_STATE__SANDBOX_READY
                                                    : RUNTIME__V1__POD_SANDBOX_STATE__SANDBOX_NOTREADY;
                }
        }
        return cri_send(j, &p->base, e);
}

/* In a worker, which has a copy of the queue. */
static int send_events(CriJob *j, const void *request, void *reply, Error *e)
{
        const struct CriEvents *v = j->server->events;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < v->n; i++) {
                CriJob own = *j;
                own.memory = (CriMemory){};
                r = send_item(&own, &v->queue[i], e);
                cri_memory_done(&own.memory);
        }
        return r;
}

static const CriCall events_call = {"events", &runtime__v1__get_events_request__descriptor,
                                    &runtime__v1__container_event_response__descriptor, send_events,
                                    CRI_WORKER | CRI_STREAM};

/* If there are too many workers, the end of one of them is the next occasion. */
void events_send(CriServer *s)
{
        struct CriEvents *v = s->events;

        if (v->sending || v->n == 0 || s->ending)
                return;
        v->sending = cri_worker_start(s, NULL, &events_call, NULL, 0) >= 0;
        v->n_sent = v->sending ? v->n : 0;
        if (!v->sending && !s->workers)
                end_streams(s);
}

bool cri_events_reply(CriServer *s, const CriCall *call, const void *data, size_t size)
{
        if (call != &events_call)
                return false;
        if (s->events->n_sent > 0) {
                uint64_t number = s->events->queue[0].number;
                drop_items(s->events, 1);
                broadcast(s, number, data, size);
        }
        return true;
}

/* A sandbox whose call was killed or cancelled may be there nevertheless. */
void cri_events_ended(CriServer *s, const CriCall *call, bool noted)
{
        if (!s->events)
                return;
        if (call->function == cri_run_pod_sandbox && !noted)
                s->events->stale = true;
        if (call == &events_call) {
                s->events->sending = false;
                if (s->events->n_sent > 0)
                        end_streams(s);
        }
        events_send(s);
}

/* --- Begin and end ------------------------------------------------------------------------------------- */

int cri_events_start(CriServer *s, Error *e)
{
        s->events = calloc(1, sizeof(struct CriEvents));
        if (!s->events)
                return error_oom(e);
        int r = events_table_read(s, e);
        return r < 0 ? r : pods_watch_new(s->store, s->event, events_table_take, s, &s->events->watch, e);
}

void cri_events_done(CriServer *s)
{
        struct CriEvents *v = s->events;

        if (!v)
                return;
        cri_events_end(s);
        while (v->held)
                events_drop_held(v->held);
        pods_watch_free(v->watch);
        events_table_done(s);
        drop_items(v, v->n);
        free(v->queue);
        free(v);
        s->events = NULL;
}
