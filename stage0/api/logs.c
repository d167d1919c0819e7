/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The output of apps: one call, which is answered when all of it is in the caller's pipes. */

#include "stage0/api/api-internal.h"

static int add_number(json_object *o, const char *key, uint64_t value, uint64_t none)
{
        return value == none ? 0
                             : json_member_add(o, key,
                                               json_object_new_uint64(MIN(value, (uint64_t) INT64_MAX)));
}

static int add_flag(json_object *o, const char *key, bool value)
{
        return value ? json_member_add(o, key, json_object_new_boolean(true)) : 0;
}

static int make_parameters(const AcnLogOptions *x, json_object *o)
{
        int r = x->app ? json_member_add_text(o, "app", x->app) : 0;

        if (r >= 0)
                r = add_flag(o, "follow", x->follow);
        if (r >= 0)
                r = add_flag(o, "timestamps", x->timestamps);
        if (r >= 0)
                r = add_flag(o, "prefix", x->prefix);
        if (r >= 0 && x->json)
                r = json_member_add_text(o, "format", "json");
        if (r >= 0)
                r = add_number(o, "lines", x->lines, UINT64_MAX);
        if (r >= 0)
                r = add_number(o, "sinceUSec", x->since_usec, 0);
        return r < 0 ? r : add_number(o, "untilUSec", x->until_usec, 0);
}

int acn_logs(AcnPod *a, AcnLogOptions *x, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        int fds[3] = {-EBADF, x->out_fd, x->err_fd};

        x->out_fd = x->err_fd = -EBADF;
        int r = o ? make_parameters(x, o) : -ENOMEM;
        if (r >= 0)
                r = acn_add_streams(a, o, fds);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                safe_close(fds[i]);
        free(a->app);
        a->app = x->app ? strdup(x->app) : NULL;
        if (r < 0 || (x->app && !a->app))
                return error_oom(e);
        r = varlink_client_send(a->client, "org.acnspawn.Pod.Logs", o, false, NULL);
        return r < 0 ? acn_connection_error(a, r, e) : 0;
}

static int refused(AcnPod *a, const VarlinkReply *reply, Error *e)
{
        const AcnCall c = {.method = "Logs", .what = "read the logs of", .app = a->app};

        if (streq(reply->error, "org.acnspawn.Pod.LogsFailed")) {
                _cleanup_free_ char *why =
                                text_escape_for_terminal(acn_text(reply->parameters, "message") ?: "");
                return error_set(e, -EIO, "Cannot read the logs of pod %s: %s", pod_display_name(a->pod),
                                 why ?: "");
        }
        if (streq(reply->error, "org.acnspawn.Pod.TooManyLogs"))
                return error_set(e, -EUSERS,
                                 "Too many callers read the logs of pod %s: no more than %lld can at a time",
                                 pod_display_name(a->pod),
                                 (long long) acn_number(reply->parameters, "limit", 0));
        return acn_refusal(a, &c, reply, e);
}

int acn_logs_wait(AcnPod *a, uint64_t timeout_usec, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};

        int r = varlink_client_next(a->client, timeout_usec, &reply, NULL);
        if (r == -ETIMEDOUT)
                return r;
        if (r < 0)
                return acn_connection_error(a, r, e);
        return reply.error ? refused(a, &reply, e) : 0;
}
