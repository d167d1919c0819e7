/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From a call of gRPC to its function and back: unpacks the request, runs the function here or in a worker, packs the
 * reply, and turns errors into the status and message of gRPC. */

#include "cri/events/events.h"
#include "cri/exporter/exporter.h"

/* --- Errors -------------------------------------------------------------------------------------------- */

static const struct {
        int r;
        GrpcStatus status;
} statuses[] = {
                {-EINVAL, GRPC_INVALID_ARGUMENT},
                {-EINTR, GRPC_CANCELLED},
                {-ETIME, GRPC_DEADLINE_EXCEEDED},
                {-ETIMEDOUT, GRPC_DEADLINE_EXCEEDED},
                {-EAGAIN, GRPC_UNAVAILABLE},
                {-ECONNRESET, GRPC_UNAVAILABLE},
                {-EBUSY, GRPC_FAILED_PRECONDITION},
                {-EUSERS, GRPC_FAILED_PRECONDITION},
                {-EXFULL, GRPC_UNAVAILABLE}, /* all connections of a pod's interface have calls */
                {-EOPNOTSUPP, GRPC_FAILED_PRECONDITION},
                {-ENOMEM, GRPC_RESOURCE_EXHAUSTED},
                {-ENOSPC, GRPC_RESOURCE_EXHAUSTED},
                {-EDQUOT, GRPC_RESOURCE_EXHAUSTED},
                {-EMFILE, GRPC_RESOURCE_EXHAUSTED},
                {-ENFILE, GRPC_RESOURCE_EXHAUSTED},
};

static GrpcStatus status_of(const CriJob *j, int r)
{
        if (j->status != GRPC_OK)
                return j->status;
        for (size_t i = 0; i < ELEMENTSOF(statuses); i++)
                if (statuses[i].r == r)
                        return statuses[i].status;
        return GRPC_UNKNOWN;
}

int cri_status(CriJob *j, GrpcStatus status, int r)
{
        j->status = status;
        return r;
}

/* The hint, which is a sentence, follows the message. */
static char *message_of(int r, const Error *e)
{
        char *message = NULL;

        if (!e->message)
                return strdup(strerror(-r));
        if (!e->hint)
                return strdup(e->message);
        return xasprintf(&message, "%s. %s", e->message, e->hint) < 0 ? NULL : message;
}

/* --- Replies ------------------------------------------------------------------------------------------- */

int cri_send(CriJob *j, const ProtobufCMessage *reply, Error *e)
{
        size_t size = protobuf_c_message_get_packed_size(reply);
        _cleanup_free_ uint8_t *data = malloc(MAX(size, 1U));

        if (!data)
                return error_oom(e);
        if (size > GRPC_MESSAGE_SIZE_MAX)
                return cri_status(j, GRPC_RESOURCE_EXHAUSTED,
                                  error_set(e, -EMSGSIZE,
                                            "The reply would have %zu bytes; at most %u are allowed", size,
                                            GRPC_MESSAGE_SIZE_MAX));
        (void) protobuf_c_message_pack(reply, data);
        int r = j->grpc ? grpc_call_send(j->grpc, data, size) : cri_worker_send(j, data, size);
        return r < 0 ? error_set_errno(e, r, "Cannot send the reply") : 0;
}

/* --- The call ------------------------------------------------------------------------------------------ */

static int unpack(CriJob *j, const uint8_t *data, size_t size, ProtobufCMessage **ret, Error *e)
{
        j->memory.max = CRI_REQUEST_MEMORY_MAX;
        int r = cri_unpack(&j->memory, j->call->request, data, size, ret);
        j->memory.max = 0;
        if (r == -EBADMSG)
                return cri_status(j, GRPC_INVALID_ARGUMENT,
                                  error_set(e, r, "The request is not a valid %s",
                                            j->call->request->short_name));
        return r < 0 ? error_set(e, r, "The request takes too much memory") : 0;
}

static int run(CriJob *j, const uint8_t *data, size_t size, Error *e)
{
        ProtobufCMessage *request, *reply = cri_message(&j->memory, j->call->reply);

        if (!reply)
                return error_oom(e);
        int r = unpack(j, data, size, &request, e);
        if (r >= 0) {
                cri_trace_request(j, request);
                r = j->call->function(j, request, reply, e);
        }
        return r < 0 || (j->call->flags & CRI_STREAM) ? r : cri_send(j, reply, e);
}

void cri_job_run(CriJob *j, const uint8_t *request, size_t size, GrpcStatus *ret_status, char **ret_message)
{
        _cleanup_error_ Error e = ERROR_NULL;
        int r = run(j, request, size, &e);

        *ret_status = r < 0 ? status_of(j, r) : GRPC_OK;
        *ret_message = r < 0 ? message_of(r, &e) : NULL;
        cri_memory_done(&j->memory);
}

int cri_dispatch(GrpcCall *c, const uint8_t *request, size_t size, void *userdata)
{
        CriServer *s = userdata;
        const CriCall *call = &cri_calls[grpc_call_method(c) - s->methods];
        CriJob j = {.server = s,
                    .call = call,
                    .grpc = c,
                    .store = s->store,
                    .trace_id = cri_trace_id(s, call, c),
                    .fd = -EBADF};
        _cleanup_free_ char *message = NULL;
        GrpcStatus status;

        if (call->flags & CRI_EVENTS)
                return cri_events_subscribe(s, c);
        if (call->flags & CRI_DISK)
                cri_measure_start(s);
        if (call->function == cri_stop_container && cri_stop_begin(s, c, call, request, size))
                return 0;
        if (call->flags & CRI_SAMPLED)
                cri_usage_asked(s);
        else if (call->flags & CRI_WORKER)
                return cri_worker_start(s, c, call, request, size);
        cri_job_run(&j, request, size, &status, &message);
        if (j.needs_worker)
                return cri_worker_start(s, c, call, request, size);
        return grpc_call_finish(c, status, message);
}
