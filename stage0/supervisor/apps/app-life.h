/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-life.c: the status of an app, which nothing else changes. */

#include "stage0/supervisor/apps/app-table.h"

/* Makes its records, empty, so that they can be written on a full disk, too. A record that cannot be written all the same is tried
 * again, which is reported. */
int app_life_reserve(AppInstance *a);
/* Whether a launcher that asks for PHASE begins an execution of the app. */
bool app_life_is_first_phase(const AppInstance *a, LaunchPhase phase);
/* A launcher asks for PHASE, and gets it. */
void app_life_begin_phase(AppInstance *a, LaunchPhase phase);
/* How long the start of the app, which is about to be started again, has to wait; in microseconds. */
uint64_t app_life_delay(const AppInstance *a);
/* That delay is over: the app is started. */
void app_life_starts(AppInstance *a);
/* A start by a call resets the count of consecutive restarts. */
void app_life_forget_starts(AppInstance *a);
/* Memory for the report of the launcher that becomes the app. The descriptor is for that process. */
int app_life_open_report(AppInstance *a, int *ret_fd);
/* That launcher has executed the app, could not do so, or has ended: takes its report. Does nothing without one. */
void app_life_take_report(AppInstance *a);
/* A launcher that could not share memory could not start the app. */
void app_life_failed(AppInstance *a, const LaunchEvent *event);
void app_life_pre_start_ended(AppInstance *a, const LaunchEvent *event);
void app_life_post_stop_ended(AppInstance *a, const LaunchEvent *event);
void app_life_ready(AppInstance *a);
/* Whether there is an execution that a periodic check could be for; its number, else 0. */
uint64_t app_life_checkable(const AppInstance *a);
/* A health check has ended. Returns 1 if the app has become unhealthy by that and has to be restarted or
 * killed. */
int app_life_checked(AppInstance *a, const LaunchEvent *event);
/* The action (restart or kill) was not requested, perhaps because the pod's systemd could not be reached: the next failed
 * check requests it again. */
void app_life_action_failed(AppInstance *a);
/* The main process has ended; a post-stop handler may run. */
void app_life_main_ended(AppInstance *a, const MainEnd *end);
/* systemd has given up waiting for a process that it may not signal, for example because of an AppArmor profile: it goes
 * on until the pod is killed. */
void app_life_signal_denied(AppInstance *a);
/* No process of the app is left. Whether an execution has ended by that. */
bool app_life_ended(AppInstance *a, const MainEnd *end);
/* Nothing can start the app any more. */
void app_life_sockets_failed(AppInstance *a);
/* BY, which is lent, replaces it, which may be undone; NULL: that is over. */
void app_life_replaced(AppInstance *a, const PodApp *by);
/* The pod has ended. MESSAGE, which may be NULL, says why, for apps without a message of their own. */
void app_life_finish(AppInstance *a, const char *message);
/* That was done for all apps: this process, which may wait long for a reader of its output, changes no record any more. */
void app_life_finished(AppTable *t);
/* The app is removed, and its records with it. */
void app_life_forget(AppInstance *a);
/* It is another app of the same name now, which has not started. */
void app_life_reset(AppInstance *a);
