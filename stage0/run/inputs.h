/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* inputs.c, clients.c: what apps read, and who is attached to them. */

#include "stage0/run/app-table.h"

typedef struct Inputs Inputs;

/* There is no socket until an app of the pod reads anything. */
int inputs_new(Pod *p, AppTable *apps, sd_event *event, Inputs **ret, Error *e);
Inputs *inputs_free(Inputs *all); /* NULL is fine */
DEFINE_TRIVIAL_CLEANUP_FUNC(Inputs *, inputs_free);

/* An app that is added, or removed, while the pod runs: clients that are attached to it are let go. */
int inputs_add_app(Inputs *all, AppInstance *app, Error *e);
void inputs_remove_app(AppInstance *app);

typedef struct Input Input; /* NULL, in all of these: the app reads nothing */

/* What a new process that is an app gets. */
typedef struct InputEnds {
        AppInput kind;
        int stdin_fd;  /* a pipe to read, or a terminal */
        int master_fd; /* of the terminal: what the app writes comes out here */
} InputEnds;

#define INPUT_ENDS_NULL ((InputEnds){.stdin_fd = -EBADF, .master_fd = -EBADF})
void input_ends_done(InputEnds *ends);
/* PTS_FD is the devpts that the app gets. */
int input_start(Input *i, int pts_fd, InputEnds *ret, Error *e);
/* No process of the app is left: nothing will be written to its terminal any more. */
void input_stop(Input *i);

/* Shows what the app has written to who is attached to it. Never waits. */
void input_show(const Input *i, bool error, const void *data, size_t size);
/* Tells who is attached, after all that was shown, how the app has ended. */
void input_ended(const Input *i, int exit_status);
/* All that was written so far is on the terminal of who runs the pod in the foreground: its mode may
 * change. */
void inputs_shown(Inputs *all);
/* The pod is over: shows and tells the rest, as long as somebody takes it. STATUSES are those of the pod's
 * apps. */
void inputs_finish(Inputs *all, const AppStatus *statuses);

/* Who runs the pod in the foreground and is attached to APP: what comes out of IN_FD goes there, messages
 * come over SOCKET; both are taken over. FUNCTION is called with ATTACH_LEAVE once he leaves, with
 * ATTACH_REQUEST when his terminal is to be the app's, and with ATTACH_ACCEPTED when it is. */
typedef void (*FrontFunction)(void *userdata, AttachEvent event);
int inputs_add_front(Inputs *all, const char *app, int in_fd, int socket, FrontFunction function,
                     void *userdata, Error *e);
