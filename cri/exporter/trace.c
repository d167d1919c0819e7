/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counts the calls, and traces them: lines in the journal that begin with the ID of their call.
 *
 * The ID is the trace ID of the client, if it has sent one (the kubelet does with tracing), so that its spans and these lines can be
 * found by the same word; else a random one. A call has a line when it begins, one about what it is for, what its process logs, and a
 * line with its status and duration. Texts of the client are cut. */

#include "cri/events/events.h"
#include "cri/exporter/exporter.h"

#define SHOWN_MAX 160 /* bytes of a name or ID */
#define MESSAGE_MAX 512

static const char *name_of(const CriCall *c)
{
        return strrchr(c->path, '/') + 1;
}

static const CriCall *call_of(const CriServer *s, const GrpcCall *c)
{
        return &cri_calls[grpc_call_method(c) - s->methods];
}

static bool is_traced(const CriServer *s, const CriCall *call)
{
        return s->options->trace == CRI_TRACE_ALL ||
               (s->options->trace == CRI_TRACE_CHANGES && (call->flags & CRI_WAITS));
}

/* ID may be NULL. Names and messages of the client are one line, whatever they have in them. */
static void write_line(LogLevel level, const char *id, const char *line)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(line);

        log_message(level, "%s%s%s%s", id ? "Call " : "", id ?: "", id ? ": " : "", shown ?: "");
}

static void on_begun(GrpcCall *c, void *userdata)
{
        CriServer *s = userdata;
        const CriCall *call = call_of(s, c);

        cri_figures_begun(s->figures);
        if (is_traced(s, call))
                log_info("Call %s: %s begins", grpc_call_trace_id(c), name_of(call));
}

static void on_ended(GrpcCall *c, GrpcStatus status, const char *message, void *userdata)
{
        CriServer *s = userdata;
        const CriCall *call = call_of(s, c);
        uint64_t usec = grpc_call_age(c);
        _cleanup_free_ char *line = NULL;
        _cleanup_text_ Text t = {};

        cri_figures_ended(s->figures, (size_t) (call - cri_calls), status, usec);
        if (!is_traced(s, call) && (s->options->trace == CRI_TRACE_NONE || status == GRPC_OK))
                return;
        text_addf(&t, "%s ended after %" PRIu64 ".%03u s: %s%s%.*s", name_of(call), usec / 1000000U,
                  (unsigned) (usec / 1000 % 1000), grpc_status_to_string(status), message ? ", " : "",
                  MESSAGE_MAX, message ?: "");
        if (text_take(&t, &line, NULL) >= 0)
                write_line(LOG_LEVEL_INFO, grpc_call_trace_id(c), line);
}

/* Lines that the journal does not take at once are lost: calls do not wait for it. */
void cri_trace_calls(CriServer *s)
{
        if (s->options->trace != CRI_TRACE_NONE)
                log_set_blocking(false);
        grpc_server_observe(s->grpc, &(GrpcObserver){on_begun, on_ended});
}

/* --- What a request is about --------------------------------------------------------------------------- */

/* The member NAME of M; NULL: it has none of this type. */
static const void *member(const ProtobufCMessage *m, const char *name, ProtobufCType type)
{
        const ProtobufCFieldDescriptor *f =
                        m ? protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name) : NULL;

        return f && f->type == type && f->label == PROTOBUF_C_LABEL_NONE
                               ? *(void *const *) (const void *) ((const char *) m + f->offset)
                               : NULL;
}

static void add_text(Text *t, const char *what, const ProtobufCMessage *m, const char *name)
{
        const char *s = member(m, name, PROTOBUF_C_TYPE_STRING);

        if (!isempty(s))
                text_addf(t, "%s%s %.*s", t->size > 0 ? ", " : "", what, SHOWN_MAX, s);
}

void cri_trace_request(const CriJob *j, const ProtobufCMessage *request)
{
        const ProtobufCMessage *config = member(request, "config", PROTOBUF_C_TYPE_MESSAGE),
                               *names = member(config, "metadata", PROTOBUF_C_TYPE_MESSAGE);
        _cleanup_free_ char *line = NULL;
        _cleanup_text_ Text t = {};

        if (!j->trace_id)
                return;
        add_text(&t, "sandbox", request, "pod_sandbox_id");
        add_text(&t, "container", request, "container_id");
        add_text(&t, "namespace", names, "namespace");
        add_text(&t, "name", names, "name");
        add_text(&t, "image", member(request, "image", PROTOBUF_C_TYPE_MESSAGE), "image");
        add_text(&t, "image", member(config, "image", PROTOBUF_C_TYPE_MESSAGE), "image");
        if (t.size > 0 && !t.failed &&
            xasprintf(&line, "%s of %.*s", name_of(j->call), (int) t.size, t.data) >= 0)
                write_line(LOG_LEVEL_INFO, j->trace_id, line);
}

const char *cri_trace_id(const CriServer *s, const CriCall *call, GrpcCall *c)
{
        return c && is_traced(s, call) ? grpc_call_trace_id(c) : NULL;
}

void cri_trace_message(LogLevel level, const char *line, void *userdata)
{
        const CriJob *j = userdata;

        write_line(level, j->trace_id, line);
}
