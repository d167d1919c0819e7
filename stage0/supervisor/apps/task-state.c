/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Gives the state of an app as the state of a Mesos task, and the reason of its stop.
 *
 * A task that was stopped by others was killed, however it has ended. One whose end is not known, as its pod or the host went
 * away, is lost. */

#include "stage0/supervisor/apps/task-state.h"

static const struct {
        const char *name;
        bool repeated;
} reasons[_STOP_REASON_MAX] = {
                [STOP_REQUESTED] = {"requested", true},       [STOP_KILLED] = {"requested", false},
                [STOP_PARENT_ENDED] = {"parent-ended", true}, [STOP_GROUP_FAILED] = {"group-failed", true},
                [STOP_POD_ENDED] = {"pod-ended", false},
};

const char *stop_reason_to_string(StopReason r)
{
        return reasons[r].name;
}

bool stop_reason_is_repeated(StopReason r)
{
        return reasons[r].repeated;
}

static bool is_lost(const AppStatus *s)
{
        return s->cause == CAUSE_NONE || s->cause == CAUSE_NOT_STARTED || s->cause == CAUSE_POD_KILLED ||
               s->cause == CAUSE_HOST_REBOOTED;
}

static const char *ended(const AppStatus *s, const char *stopped, const char **ret_reason)
{
        *ret_reason = stopped ?: s->cause == CAUSE_NONE ? "unknown" : app_cause_to_string(s->cause);
        if (stopped)
                return "KILLED";
        if (is_lost(s))
                return "LOST";
        if (app_status_failed(s))
                return "FAILED";
        *ret_reason = NULL;
        return "FINISHED";
}

const char *task_state(const char *state, const AppStatus *s, const char *stopped, const char **ret_reason)
{
        *ret_reason = NULL;
        if (streq(state, "removing") || streq(state, "removed"))
                return NULL;
        if (streq(state, "created"))
                return "STAGING";
        if (streq(state, "exited"))
                return ended(s, stopped, ret_reason);
        return streq(state, "starting") || s->readiness == READINESS_STARTING ? "STARTING" : "RUNNING";
}
