/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* StopContainer without a worker process. When a node is drained, one such call per container waits for up to a grace
 * period. The server sends the request to the supervisor of the pod, and answers the call when the reply arrives.
 *
 * Only containers that the table of the server lists as running are stopped here. Every other call, and one that fails here,
 * goes to a worker (container-run.c), which repeats the request: stopping is idempotent. */

#include <sys/epoll.h>
#include <sys/socket.h>

#include "cri/events/events-internal.h"
#include "library/libsystemd.h"
#include "varlink/varlink.h"

#define USEC_PER_SEC UINT64_C(1000000)
#define ANSWER_USEC (30 * USEC_PER_SEC) /* after the grace period, when the supervisor kills the container */

typedef struct CriStop {
        CriServer *server;
        GrpcCall *call;
        const CriCall *what;
        uint8_t *request;
        size_t size;
        VarlinkClient *client;
        sd_event_source *io, *timer;
        CriEventNote note;
} CriStop;

static CriStop *stop_free(CriStop *s)
{
        if (!s)
                return NULL;
        sd_event_source_disable_unref(s->io);
        sd_event_source_disable_unref(s->timer);
        varlink_client_free(s->client);
        if (s->call)
                grpc_call_on_gone(s->call, NULL, NULL);
        grpc_call_unref(s->call);
        free(s->request);
        free(s);
        return NULL;
}

DEFINE_TRIVIAL_CLEANUP_FUNC(CriStop *, stop_free);

static void on_gone(GrpcCall *c, void *userdata)
{
        stop_free(userdata);
}

/* Passes the call to a worker. */
static void pass_to_worker(CriStop *s)
{
        GrpcCall *call = TAKE_PTR(s->call);

        grpc_call_on_gone(call, NULL, NULL);
        int r = cri_worker_start(s->server, call, s->what, s->request, s->size);
        if (r < 0)
                (void) grpc_call_finish(call, GRPC_INTERNAL, strerror(-r));
        grpc_call_unref(call);
        stop_free(s);
}

static void finish(CriStop *s)
{
        GrpcCall *call = TAKE_PTR(s->call);

        grpc_call_on_gone(call, NULL, NULL);
        (void) grpc_call_send(call, "", 0); /* the reply has no fields */
        if (!cri_events_hold(s->server, call, &s->note)) {
                (void) grpc_call_finish(call, GRPC_OK, NULL);
                grpc_call_unref(call);
        }
        stop_free(s);
}

static int on_reply(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        CriStop *s = userdata;

        int r = varlink_client_next(s->client, 0, &reply, NULL);
        if (r == -ETIMEDOUT)
                return 0;
        if (r < 0 || reply.error)
                pass_to_worker(s);
        else
                finish(s);
        return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
        pass_to_worker(userdata);
        return 0;
}

static const Seen *find_running(const CriServer *s, const char *id, char uuid[static UUID_TEXT_SIZE])
{
        if (!s->events || !cri_id_is_full(id))
                return NULL;
        cri_uuid_from_digits(id + CRI_CONTAINER_UUID, uuid);
        const SeenSandbox *x = events_table_find(s, uuid);
        for (size_t i = 0; x && x->sandbox.state == STARTED && i < x->n; i++)
                if (streq(x->containers[i].id, id))
                        return x->containers[i].state == STARTED ? &x->containers[i] : NULL;
        return NULL;
}

static int connect_to(CriStop *s)
{
        _cleanup_(pod_freep) Pod *pod = NULL;
        int fd, r = pod_look(s->server->store, s->note.uuid, &pod, NULL);

        if (r >= 0)
                r = socket_connect_at(pod->dir_fd, "interface", SOCK_STREAM | SOCK_NONBLOCK, &fd);
        return r < 0 ? r : varlink_client_new(fd, NULL, &s->client);
}

static int send_request(CriStop *s, const char *app, uint64_t timeout_usec)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "app", app) < 0 ||
            json_member_add(o, "timeoutUSec", json_object_new_int64((int64_t) timeout_usec)) < 0)
                return -ENOMEM;
        int r = varlink_client_send(s->client, "org.acnspawn.Pod.StopApp", o, false, NULL);
        if (r >= 0)
                r = sd_event_add_io(s->server->event, &s->io, varlink_client_fd(s->client), EPOLLIN,
                                    on_reply, s);
        return r < 0 ? r
                     : sd_event_add_time_relative(s->server->event, &s->timer, CLOCK_MONOTONIC,
                                                  timeout_usec + ANSWER_USEC, 0, on_timeout, s);
}

static int begin(CriServer *server, GrpcCall *c, const CriCall *call, const uint8_t *data, size_t size,
                 const Runtime__V1__StopContainerRequest *q)
{
        _cleanup_(stop_freep) CriStop *s = calloc(1, sizeof(CriStop));

        if (!s)
                return -ENOMEM;
        *s = (CriStop){.server = server, .what = call, .size = size, .note = {.kind = CRI_NOTE_STOPPED}};
        const Seen *seen = find_running(server, q->container_id, s->note.uuid);
        if (!seen || q->timeout <= 0 || q->timeout > INT32_MAX)
                return -ESRCH;
        memcpy(s->note.id, seen->id, sizeof(seen->id));
        s->request = malloc(MAX(size, (size_t) 1));
        if (!s->request)
                return -ENOMEM;
        memcpy(s->request, data, size);
        int r = connect_to(s);
        if (r >= 0)
                r = send_request(s, seen->app, (uint64_t) q->timeout * USEC_PER_SEC);
        if (r < 0)
                return r;
        s->call = grpc_call_ref(c);
        grpc_call_on_gone(c, on_gone, s);
        (void) TAKE_PTR(s);
        return 0;
}

bool cri_stop_begin(CriServer *s, GrpcCall *c, const CriCall *call, const uint8_t *request, size_t size)
{
        _cleanup_cri_memory_ CriMemory memory = {.max = CRI_REQUEST_MEMORY_MAX};
        ProtobufCMessage *message;

        return cri_unpack(&memory, call->request, request, size, &message) >= 0 &&
               begin(s, c, call, request, size, (const Runtime__V1__StopContainerRequest *) message) >= 0;
}
