/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-check.c: the state of the health check of an app. */

#include <stdbool.h>

struct AppInstance;

typedef enum CheckState {
        CHECK_NONE,      /* the app has no health check, or was not started yet */
        CHECK_STARTING,  /* none has succeeded in this execution */
        CHECK_HEALTHY,   /* the last ones have not failed too often */
        CHECK_UNHEALTHY, /* they have, and nothing was requested for that */
        CHECK_ACTS,      /* the app is restarted, stopped or killed for that */
        _CHECK_STATE_MAX,
} CheckState;

typedef enum CheckEvent {
        CHECKED_APP_BEGINS, /* it was executed */
        CHECK_PASSED,
        CHECK_FAILED,     /* not too often, or it does not count */
        FAILED_TOO_OFTEN, /* and nothing is to be done about it */
        ACTION_DUE,       /* failed too often, and the app has an action for that */
        ACTION_FAILED,    /* it was not requested, or the request was lost */
        CHECKED_APP_GONE, /* it is another app now */
        _CHECK_EVENT_MAX,
} CheckEvent;

/* Returns whether the action is to be requested now. */
bool app_check_handle(struct AppInstance *a, CheckEvent event);
