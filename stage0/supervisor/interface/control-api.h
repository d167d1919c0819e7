/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* control-api.c: apps that launch others, which are nested under them. */

#include "stage0/mounts/mounts.h"
#include "stage0/supervisor/interface/interface.h"
#include "varlink/varlink.h"

#define CONTROL_APPS_MAX 64U                   /* under one such app, at all levels */
#define CONTROL_PENDING_MAX 4U                 /* launches of one app that are not done yet */
#define CONTROL_LAUNCHES_BURST 32U             /* launches at a time, ... */
#define CONTROL_LAUNCHES_USEC UINT64_C(100000) /* ... and one more in each such interval */

typedef struct ControlApi ControlApi;

/* Makes the socket of APP, which is about to be executed, unless it has one. */
int control_api_begin(Interface *i, PodMounts *m, AppInstance *app, Error *e);
ControlApi *control_api_free(ControlApi *c); /* NULL is fine */
/* Something about APP has changed: answers the calls that wait for its end. */
void control_api_changed(Interface *i, AppInstance *app);

/* APP is about to be executed: its output is that of the session that launches it, if there is one. */
void control_api_starts(Interface *i, AppInstance *app);

/* --- control-session.c: apps whose life is that of a call ---------------------------------------------- */

typedef struct ControlSession ControlSession;

/* Adds a session to LIST, for CALL, whose PARAMETERS have the pipes of the output. 1: the call was answered with an error. */
int control_session_new(ControlSession **list, Interface *i, VarlinkCall *call, json_object *parameters,
                        const char *path);
void control_session_starts(ControlSession *list, AppInstance *app);
/* The launch is done. Without SUCCESS the call is answered already. */
void control_session_launched(ControlSession *list, VarlinkCall *call, bool success);
/* The calls are cut off. */
void control_sessions_free(ControlSession **list);

/* --- control-process.c: the process that talks HTTP ---------------------------------------------------- */

typedef struct ControlProcess ControlProcess;

/* Starts the process at the first connection to LISTEN_FD, which is taken, also on failure, and again if it has ended. Each of its
 * calls comes on a connection of its own, which CONNECTED takes. */
int control_process_new(Pod *p, sd_event *event, int listen_fd, void (*connected)(void *userdata, int fd),
                        void *userdata, ControlProcess **ret, Error *e);
ControlProcess *control_process_free(ControlProcess *p); /* NULL is fine */
