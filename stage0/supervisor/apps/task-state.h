/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* task-state.c: the state of an app in the words of a Mesos task. */

#include "stage1/app-status.h"

/* Why the app was stopped, or is being stopped, if it did not end by itself. Valid until the app is started again. */
typedef enum StopReason {
        STOP_NONE,
        STOP_TO_RESTART,
        STOP_TO_CHANGE, /* to replace the app, or to undo the launch of its group */
        STOP_REQUESTED,
        STOP_KILLED, /* by a signal of a call; the restart policy may start the app again */
        STOP_PARENT_ENDED,
        STOP_GROUP_FAILED,
        STOP_POD_ENDED,
        _STOP_REASON_MAX,
} StopReason;

/* The reason of a final stop; NULL for any other. */
const char *stop_reason_to_string(StopReason r);
/* True if only the supervisor can repeat the stop job after the connection to the pod's systemd was lost. */
bool stop_reason_is_repeated(StopReason r);

/* Returns the state of the task: "STAGING", "STARTING", "RUNNING", "FINISHED", "FAILED", "KILLED" or "LOST"; NULL: the app
 * was removed. STATE is the state of the app in the pod's interface, STOPPED the text of a StopReason, or NULL. *RET_REASON
 * says why the task has not finished; NULL: unknown, or it has. */
const char *task_state(const char *state, const AppStatus *s, const char *stopped, const char **ret_reason);
