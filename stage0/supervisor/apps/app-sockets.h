/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-sockets.c: the sockets by which connections start an app. */

#include "stage0/supervisor/run-internal.h"

struct AppInstance;
struct AppTable;
typedef struct AppSockets AppSockets;

/* Something waits at a socket of APP; or FAILED: nothing ever will. It is told once: then the sockets are not watched any more. */
typedef void (*AppSocketsFunction)(void *userdata, struct AppInstance *app, bool failed);

/* Of a pod that starts: takes from ALL what is for APP. *RET is NULL if connections do not start it. */
int app_sockets_take(PodSockets *all, const PodApp *app, AppSockets **ret, Error *e);
/* Of a pod that runs, with LEADER as its PID 1: listens on the ports of APP. Those of OLD (which may be NULL) that serve the
 * same stay open in both. */
int app_sockets_new(const Pod *p, pid_t leader, const PodApp *app, const AppSockets *old, AppSockets **ret,
                    Error *e);
AppSockets *app_sockets_free(AppSockets *s); /* NULL is fine, as in all of these */
/* Opens what is not open yet, or was closed. */
int app_sockets_complete(AppSockets *s, const Pod *p, pid_t leader, Error *e);
/* Connections are refused from now on. */
void app_sockets_close(AppSockets *s);
bool app_sockets_are_closed(const AppSockets *s);

/* Whether they are watched for what would start APP. */
int app_sockets_watch(AppSockets *s, bool on, sd_event *event, struct AppInstance *app,
                      AppSocketsFunction function, void *userdata);
/* Watches them again, but not before that time is over: what waits could not start APP. */
int app_sockets_watch_later(AppSockets *s, uint64_t usec);
void *app_sockets_userdata(const AppSockets *s); /* of that; NULL: they were never watched */
/* Counts a start. Whether there were too many in a short time: the app ends without taking what waits. */
bool app_sockets_count_start(AppSockets *s);

/* How many there are, and sends them, as LaunchSockets, over SOCK. */
size_t app_sockets_number(const AppSockets *s);
int app_sockets_send(const AppSockets *s, int sock);
/* pod_sockets_networks() and pod_sockets_judge() of these. */
int app_sockets_networks(const AppSockets *s, uint64_t *list, size_t *n);
size_t app_sockets_judge(AppSockets *s, const Pod *p, int filter, int unix_filter);
/* Records which passed socket serves which port, for "status". */
int app_sockets_record(const struct AppTable *t, Error *e);
