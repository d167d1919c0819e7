/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* task-state.c: apps as tasks, in the words of Mesos. */

#include "stage1/app-status.h"

/* Why an app is being stopped, or was, if that was not its own doing. It holds until the app is started again. */
typedef enum StopReason {
        STOP_NONE,
        STOP_TO_RESTART,
        STOP_TO_CHANGE, /* it is replaced, or its group is not kept */
        STOP_REQUESTED,
        STOP_KILLED, /* by a signal that a call has sent; by its restart policy it may be started again */
        STOP_PARENT_ENDED,
        STOP_GROUP_FAILED,
        STOP_POD_ENDED,
        _STOP_REASON_MAX,
} StopReason;

/* Of a task that was stopped for good; else NULL. */
const char *stop_reason_to_string(StopReason r);
/* Whether the stop is a job of the pod's systemd that nobody repeats, if the connection to that is lost, but the supervisor. */
bool stop_reason_is_repeated(StopReason r);

/* The state of the task: "STAGING", "STARTING", "RUNNING", "FINISHED", "FAILED", "KILLED" or "LOST". STATE is that of the app in the pod's
 * interface, STOPPED the text of one of the reasons above, or NULL. RET_REASON is why the task has not finished, or NULL. NULL: the app was
 * removed. */
const char *task_state(const char *state, const AppStatus *s, const char *stopped, const char **ret_reason);
