/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-run.c: how far an execution of an app is. */

struct AppInstance;

typedef enum AppRun {
        APP_RUN_NONE,    /* no execution is under way */
        APP_RUN_DELAYED, /* the launcher waits before the start, or was stopped while it did */
        APP_RUN_BEGUN,   /* launchers have asked for something */
        APP_RUN_EXECUTED,
        APP_RUN_GIVEN_UP, /* systemd cannot signal it, and does not wait for its end */
        _APP_RUN_MAX,
} AppRun;

typedef enum RunEvent {
        RUN_ASKED_FOR, /* by a launcher that starts the app, or prepares that */
        RUN_DELAY_BEGINS,
        RUN_DELAY_ENDS, /* or there is none */
        RUN_IS_EXECUTED,
        RUN_IS_NOT_EXECUTED, /* or not any more */
        RUN_IS_GIVEN_UP,
        RUN_ENDED,
        _RUN_EVENT_MAX,
} RunEvent;

void app_run_handle(struct AppInstance *a, RunEvent event);
