/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* task-state.c: apps as tasks, in the words of Mesos. */

#include "stage1/app-status.h"

/* Why an app was stopped, if that was not its own doing. */
#define STOP_REQUESTED "requested"
#define STOP_PARENT_ENDED "parent-ended"
#define STOP_GROUP_FAILED "group-failed"
#define STOP_POD_ENDED "pod-ended"

/* The state of the task: "STAGING", "STARTING", "RUNNING", "FINISHED", "FAILED", "KILLED" or "LOST". STATE is that of the app in the pod's
 * interface, STOPPED one of the reasons above, or NULL. RET_REASON is why the task has not finished, or NULL. NULL: the app was
 * removed. */
const char *task_state(const char *state, const AppStatus *s, const char *stopped, const char **ret_reason);
