/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Operations on a running pod as a whole. */

#include "stage0/api/api-internal.h"

/* The time for releasing the pod's resources after it was killed. */
#define END_USEC (30 * UINT64_C(1000000))

int acn_pause(AcnPod *a, Error *e)
{
        return acn_call(a, &(AcnCall){.method = "Pause", .what = "pause"}, NULL, e);
}

int acn_resume(AcnPod *a, Error *e)
{
        return acn_call(a, &(AcnCall){.method = "Resume", .what = "resume"}, NULL, e);
}

int acn_reopen_logs(AcnPod *a, const char *app, Error *e)
{
        const AcnCall c = {.method = "ReopenLogs", .what = "open the log files of", .app = app};

        return acn_call(a, &c, NULL, e);
}

/* Supervisors of earlier versions do not report whether they have killed the pod. */
static bool was_killed(json_object *parameters, uint64_t begin, uint64_t timeout_usec)
{
        json_object *killed = NULL;

        if (json_object_object_get_ex(parameters, "killed", &killed) && killed)
                return json_object_get_boolean(killed);
        return now_usec(CLOCK_MONOTONIC) - begin >= timeout_usec;
}

int acn_stop(AcnPod *a, uint64_t timeout_usec, const AcnWaitOptions *options, bool *ret_killed, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        AcnCall c = {.method = "Stop", .what = "stop", .timeout_usec = UINT64_MAX};

        if (options) {
                c.checks = options->checks;
                c.late_usec = options->usec;
                c.on_late = options->on_late;
                c.userdata = options->userdata;
        }
        if (timeout_usec <= INT64_MAX - END_USEC) {
                c.key = "timeoutUSec";
                c.value = (int64_t) timeout_usec;
                c.timeout_usec = timeout_usec + END_USEC;
        }
        int r = acn_call(a, &c, &reply, e);
        if (r < 0)
                return r;
        if (ret_killed)
                *ret_killed = was_killed(reply.parameters, begin, timeout_usec);
        return 0;
}
