/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Exec, Attach and PortForward: the calls themselves, which are answered by a URL, and the processes that serve what a client
 * then opens there. The request is kept with the token of the URL; the container is looked for again when the stream is opened. */

#include "cri/streams/streams.h"
#include "library/libsystemd.h"

/* --- The calls ----------------------------------------------------------------------------------------- */

static int offer(CriJob *j, const StreamOffer *o, const ProtobufCMessage *request, char **ret, Error *e)
{
        StreamOffer complete = *o;
        _cleanup_free_ char *url = NULL;

        complete.size = protobuf_c_message_get_packed_size(request);
        void *data = cri_alloc(&j->memory, complete.size + 1);
        if (!data)
                return error_oom(e);
        (void) protobuf_c_message_pack(request, data);
        complete.data = data;
        int r = stream_server_offer(j->server->streams, &complete, &url, e);
        if (r < 0)
                return r == -EUSERS ? cri_status(j, GRPC_RESOURCE_EXHAUSTED, r) : r;
        *ret = cri_strdup(&j->memory, url);
        return *ret ? 0 : error_oom(e);
}

/* The streams that the client opens; -EINVAL: not all of them go together. */
static int list_streams(bool in, bool out, bool err, bool tty, unsigned *ret, Error *e)
{
        if (!in && !out && !err)
                return error_set(e, -EINVAL, "None of the fields 'stdin', 'stdout' and 'stderr' is set");
        if (tty && err)
                return error_set(e, -EINVAL,
                                 "The fields 'tty' and 'stderr' are both set: a terminal has one output");
        *ret = STREAM_BIT(STREAM_ERROR) | (in ? STREAM_BIT(STREAM_STDIN) : 0) |
               (out ? STREAM_BIT(STREAM_STDOUT) : 0) | (err ? STREAM_BIT(STREAM_STDERR) : 0) |
               (tty ? STREAM_BIT(STREAM_RESIZE) : 0);
        return 0;
}

static int check_ready(CriJob *j, const Sandbox *s, Error *e)
{
        return sandbox_is_ready(s) ? 0
                                   : cri_status(j, GRPC_FAILED_PRECONDITION,
                                                error_set(e, -ESRCH, "Sandbox %s is not ready", s->id));
}

static int check_container(CriJob *j, const char *id, Error *e)
{
        _cleanup_sandbox_ Sandbox s = {};
        Container c;

        int r = container_find(j, id, &s, &c, e);
        return r < 0 ? r : check_ready(j, &s, e);
}

static int check_ports(const Runtime__V1__PortForwardRequest *q, Error *e)
{
        if (q->n_port > FORWARDS_MAX)
                return error_set(e, -EINVAL, "The field 'port' has %zu ports, and there can be %u",
                                 q->n_port, FORWARDS_MAX);
        for (size_t i = 0; i < q->n_port; i++)
                if (q->port[i] < 1 || q->port[i] > UINT16_MAX)
                        return error_set(e, -EINVAL,
                                         "The field 'port' has %d, which is not the number of a port",
                                         q->port[i]);
        return 0;
}

int cri_exec(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ExecRequest *q = request;
        Runtime__V1__ExecResponse *answer = reply;
        StreamOffer o = {.name = "exec", .kind = CRI_STREAM_EXEC};

        int r = q->n_cmd == 0 ? error_set(e, -EINVAL, "The request has no command")
                              : list_streams(q->stdin, q->stdout, q->stderr, q->tty, &o.streams, e);
        if (r >= 0)
                r = check_container(j, q->container_id, e);
        return r < 0 ? r : offer(j, &o, &q->base, &answer->url, e);
}

int cri_attach(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__AttachRequest *q = request;
        Runtime__V1__AttachResponse *answer = reply;
        StreamOffer o = {.name = "attach", .kind = CRI_STREAM_ATTACH};

        int r = list_streams(q->stdin, q->stdout, q->stderr, q->tty, &o.streams, e);
        if (r >= 0)
                r = check_container(j, q->container_id, e);
        return r < 0 ? r : offer(j, &o, &q->base, &answer->url, e);
}

int cri_port_forward(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__PortForwardRequest *q = request;
        Runtime__V1__PortForwardResponse *answer = reply;
        StreamOffer o = {.name = "portforward",
                         .kind = CRI_STREAM_PORT_FORWARD,
                         .forwards = true,
                         .n_ports = (unsigned) q->n_port};
        _cleanup_sandbox_ Sandbox s = {};

        int r = check_ports(q, e);
        if (r >= 0)
                r = sandbox_find(j, q->pod_sandbox_id, &s, e);
        if (r >= 0)
                r = check_ready(j, &s, e);
        return r < 0 ? r : offer(j, &o, &q->base, &answer->url, e);
}

/* --- The processes ------------------------------------------------------------------------------------- */

/* RET_EXIT is the exit code of what was run. */
static int serve(CriJob *j, Session *session, unsigned kind, const void *data, size_t size, int *ret_exit,
                 Error *e)
{
        static const struct {
                const ProtobufCMessageDescriptor *descriptor;
                int (*function)(CriJob *j, Session *session, const void *request, int *ret_exit, Error *e);
        } kinds[] = {
                        [CRI_STREAM_EXEC] = {&runtime__v1__exec_request__descriptor, cri_stream_exec},
                        [CRI_STREAM_ATTACH] = {&runtime__v1__attach_request__descriptor, cri_stream_attach},
                        [CRI_STREAM_PORT_FORWARD] = {&runtime__v1__port_forward_request__descriptor,
                                                     cri_stream_port_forward},
        };
        ProtobufCMessage *request = NULL;

        int r = cri_unpack(&j->memory, kinds[kind].descriptor, data, size, &request);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the request again");
        return kinds[kind].function(j, session, request, ret_exit, e);
}

void cri_stream_serve(Session *session, unsigned kind, const void *data, size_t size, void *userdata)
{
        CriServer *s = userdata;
        CriJob j = {.server = s, .fd = -EBADF};
        _cleanup_error_ Error e = ERROR_NULL;
        Operation *operation = NULL;
        int exit_code = 0;

        int r = operation_new(&(OperationOptions){}, &operation);
        if (r >= 0)
                r = store_open_again(s->store, operation, &j.store, &e);
        if (r >= 0)
                r = serve(&j, session, kind, data, size, &exit_code, &e);
        if (r == -EPROTO && !e.message)
                (void) error_set(&e, r, "What the client has sent is not valid");
        (void) session_finish(session, exit_code, r < 0 ? e.message ?: strerror(-r) : NULL);
        store_unref(j.store);
        operation_free(operation);
        cri_memory_done(&j.memory);
}
