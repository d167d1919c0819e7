/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attaching to an app: one call, which lasts as long as the attachment, and calls on other connections that
 * refer to it by its id. */

#include "stage0/api/api-internal.h"

#define PREFIX "org.acnspawn.Pod."

int acn_add_streams(AcnPod *a, json_object *o, int fds[static 3])
{
        static const char *const names[] = {"stdin", "stdout", "stderr"};
        int n = 0;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                if (fds[i] < 0)
                        continue;
                int r = varlink_client_push_fd(a->client, TAKE_FD(fds[i]));
                if (r >= 0)
                        r = json_member_add(o, names[i], json_object_new_int(n++));
                if (r < 0)
                        return r;
        }
        return 0;
}

int acn_add_size(json_object *o, const struct winsize *size)
{
        if (size->ws_row == 0 || size->ws_col == 0)
                return 0;
        int r = json_member_add(o, "rows", json_object_new_int(size->ws_row));
        return r < 0 ? r : json_member_add(o, "columns", json_object_new_int(size->ws_col));
}

int acn_attach(AcnPod *a, AcnAttachOptions *x, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = json_member_add_text(o, "app", x->app);
        if (r >= 0)
                r = acn_add_size(o, &x->size);
        if (r >= 0)
                r = acn_add_streams(a, o, x->fds);
        for (size_t i = 0; i < ELEMENTSOF(x->fds); i++)
                x->fds[i] = safe_close(x->fds[i]);
        free(a->app);
        a->app = strdup(x->app);
        if (r < 0 || !a->app)
                return error_oom(e);
        r = varlink_client_send(a->client, PREFIX "Attach", o, true, NULL);
        return r < 0 ? acn_connection_error(a, r, e) : 0;
}

static int refused(AcnPod *a, const VarlinkReply *reply, Error *e)
{
        const AcnCall c = {.method = "Attach", .what = "attach to", .app = a->app};
        const char *pod = pod_display_name(a->pod);

        if (streq(reply->error, PREFIX "NoStdin"))
                return error_set(e, -ENOTCONN,
                                 "App %s of pod %s cannot be attached to: its standard input is /dev/null",
                                 a->app, pod);
        if (streq(reply->error, PREFIX "TooManyAttached"))
                return error_set(e, -EUSERS,
                                 "Cannot attach to app %s of pod %s: Too many clients are attached to the "
                                 "pod: no more than %lld can at a time",
                                 a->app, pod, (long long) acn_number(reply->parameters, "limit", 0));
        return acn_refusal(a, &c, reply, e);
}

int acn_attach_next(AcnPod *a, uint64_t timeout_usec, AcnAttachState *ret, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};

        int r = varlink_client_next(a->client, timeout_usec, &reply, NULL);
        if (r == -ETIMEDOUT)
                return r;
        if (r < 0)
                return acn_connection_error(a, r, e);
        if (reply.error)
                return refused(a, &reply, e);
        *ret = (AcnAttachState){
                        .id = acn_number(reply.parameters, "id", 0),
                        .terminal = json_object_get_boolean(
                                        json_object_object_get(reply.parameters, "terminal")),
                        .skipped = (uint64_t) MAX(acn_number(reply.parameters, "skippedBytes", 0),
                                                  INT64_C(0)),
                        .exit_code = (int) acn_number(reply.parameters, "exitCode", -1),
        };
        return reply.continues;
}

int acn_close_stdin(AcnPod *a, int64_t id, Error *e)
{
        const AcnCall c = {.method = "CloseStdin",
                           .what = "close the standard input of an app of",
                           .key = "id",
                           .value = id};

        return acn_call(a, &c, NULL, e);
}

int acn_resize_terminal(AcnPod *a, int64_t id, const struct winsize *size, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        const AcnCall c = {.method = "ResizeTerminal",
                           .what = "resize a terminal of",
                           .key = "id",
                           .value = id,
                           .parameters = o};

        int r = o ? acn_add_size(o, size) : -ENOMEM;
        return r < 0 ? error_oom(e) : acn_call(a, &c, NULL, e);
}
