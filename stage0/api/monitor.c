/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The events of a running pod, in their order, until its end. */

#include "stage0/api/api-internal.h"

void acn_event_done(AcnEvent *v)
{
        acn_app_done(&v->app);
        free(v->change);
        free(v->message);
        *v = (AcnEvent){};
}

int acn_monitor(AcnPod *a, uint64_t since, Error *e)
{
        _cleanup_json_ json_object *parameters = json_object_new_object();

        if (since <= INT64_MAX && json_member_add(parameters, "since", json_object_new_uint64(since)) < 0)
                return error_oom(e);
        int r = varlink_client_send(a->client, "org.acnspawn.Pod.Monitor", parameters, true, NULL);
        if (r < 0)
                return acn_connection_error(a, r, e);
        a->monitors = true;
        a->since = since;
        return 0;
}

static int no_such_event(AcnPod *a, Error *e)
{
        return error_set(e, -EINVAL, "Pod %s has had no event %llu yet", pod_display_name(a->pod),
                         (unsigned long long) a->since);
}

static int events_lost(AcnPod *a, json_object *parameters, Error *e)
{
        int64_t oldest = MAX(acn_number(parameters, "oldest", 1), INT64_C(1));
        int64_t since = acn_number(parameters, "since", (int64_t) a->since);
        int r = error_set(e, -ESTALE, "Events of pod %s after number %lld are not kept any more",
                          pod_display_name(a->pod), (long long) since);

        return error_hint(e, r, "The oldest one has number %lld: '--since=%lld' begins with it.",
                          (long long) oldest, (long long) oldest - 1);
}

static int refusal(AcnPod *a, const VarlinkReply *reply, Error *e)
{
        const AcnCall call = {.method = "Monitor", .what = "monitor"};

        if (streq(reply->error, "org.varlink.service.InvalidParameter") && a->since <= INT64_MAX)
                return no_such_event(a, e);
        if (streq(reply->error, "org.acnspawn.Pod.EventsLost"))
                return events_lost(a, reply->parameters, e);
        return acn_refusal(a, &call, reply, e);
}

static int read_event(json_object *o, AcnEvent *ret)
{
        json_object *app = NULL;
        AcnEvent v = {.sequence = (uint64_t) acn_number(o, "sequence", 0),
                      .time_usec = (uint64_t) acn_number(o, "timeUSec", 0),
                      .state = acn_pod_state_read(o),
                      .exit_status = (int) acn_number(o, "exitStatus", -1)};

        if (v.state == _ACN_POD_STATE_MAX)
                return -EBADMSG;
        if (json_object_object_get_ex(o, "app", &app) && app) {
                int r = acn_app_read(app, &v.app);
                if (r < 0)
                        return r;
        }
        const char *change = acn_text(o, "change"), *message = acn_text(o, "message");
        if ((change && !(v.change = strdup(change))) || (message && !(v.message = strdup(message)))) {
                acn_event_done(&v);
                return -ENOMEM;
        }
        *ret = v;
        return 0;
}

int acn_monitor_next(AcnPod *a, uint64_t timeout_usec, AcnEvent *ret, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};

        if (a->monitor_over)
                return 0;
        int r = varlink_client_next(a->client, timeout_usec, &reply, NULL);
        if (r == -ETIMEDOUT)
                return error_set(e, r, "Pod %s had no event in time", pod_display_name(a->pod));
        if (r < 0)
                return acn_connection_error(a, r, e);
        if (reply.error)
                return refusal(a, &reply, e);
        r = read_event(reply.parameters, ret);
        if (r < 0)
                return acn_connection_error(a, r, e);
        a->monitor_over = !reply.continues;
        return 1;
}
