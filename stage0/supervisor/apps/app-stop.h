/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-stop.c: why an app is being stopped. */

struct AppInstance;

typedef enum StopEvent {
        APP_BEGINS_ANEW, /* it is started while it is down, begins an execution, or is another app now */
        APP_RESTARTS,    /* by a call while it is up */
        NOT_RESTARTED,   /* a start has failed: what is up continues */
        STOP_ASKED,
        STOP_FAILED, /* a stop for a change of the pod: it continues */
        KILL_SENT,   /* by a call */
        POD_IS_ENDED,
        PARENT_ENDS,
        FATE_GROUP_FAILED, /* an app that it shares its fate with */
        CHANGE_STOPS,      /* a change of the pod that replaces it, or is undone */
        _STOP_EVENT_MAX,
} StopEvent;

/* The state is the reason: AppInstance.stop. */
void app_stop_handle(struct AppInstance *a, StopEvent event);
