/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* inputs.c, clients.c: what apps read, and who is attached to them. */

#include "schema/settings.h"
#include "stage0/run/run-internal.h"

typedef struct Inputs Inputs;

/* *RET stays NULL if no app of the pod reads anything: then there is no socket either. */
int inputs_new(Pod *p, sd_event *event, Inputs **ret, Error *e);
Inputs *inputs_free(Inputs *all); /* NULL is fine, here and in all of these */
DEFINE_TRIVIAL_CLEANUP_FUNC(Inputs *, inputs_free);

/* What a new process that is APP gets. */
typedef struct InputEnds {
        AppInput kind;
        int stdin_fd;  /* a pipe to read, or a terminal */
        int master_fd; /* of the terminal: what the app writes comes out here */
} InputEnds;

#define INPUT_ENDS_NULL ((InputEnds){.stdin_fd = -EBADF, .master_fd = -EBADF})
void input_ends_done(InputEnds *ends);
/* PTS_FD is the devpts that the app gets. */
int inputs_start(Inputs *all, const char *app, int pts_fd, InputEnds *ret, Error *e);
/* No process of APP is left: nothing will be written to its terminal any more. */
void inputs_stop(Inputs *all, const char *app);

/* Shows what APP has written to who is attached to it. Never waits. */
void inputs_show(Inputs *all, const char *app, bool error, const void *data, size_t size);
/* Tells who is attached, after all that was shown, how APP has ended. */
void inputs_ended(Inputs *all, const char *app, int exit_status);
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
