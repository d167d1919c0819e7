/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* serve.c: answers the launchers of a pod, and keeps its metadata service. */

#include "stage0/run/app-table.h"
#include "stage0/run/pump.h"

/* launch-request.c. Pure. -EBADMSG: the packet of SIZE bytes, with N_FDS descriptors, is no request of a
 * launcher. */
int launch_request_check(LaunchRequest *r, size_t size, size_t n_fds);

typedef struct Server Server;

/* Makes the socket for launchers in the pod's root and watches it with EVENT. What apps write goes through
 * PUMPS, what they read comes from INPUTS, which may be NULL. */
int server_new(Pod *p, AppTable *apps, sd_event *event, Pumps *pumps, Inputs *inputs, Server **ret,
               Error *e);
Server *server_free(Server *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Server *, server_free);
/* An app that is added, or removed, while the pod runs. */
int server_add_app(Server *s, AppInstance *app);
void server_remove_app(Server *s, AppInstance *app);
/* Removes NAME in DIR_FD, which is lent, while the pod goes on. */
void server_remove_tree(Server *s, int dir_fd, const char *name);
/* Has the metadata service ready to be started; to be done before the first launcher can be answered. */
int server_open_metadata(Server *s, sd_event *event, Error *e);
/* To be given as soon as they are there. */
void server_set_mounts(Server *s, PodMounts *m);
/* FUNCTION is called whenever an app of the pod begins or ends. */
void server_set_activity(Server *s, void (*function)(void *userdata), void *userdata);
typedef struct ServerEvents {
        /* A launcher asks for something, or says what became of its app. LAUNCH_FLUSH: the app has ended. */
        void (*told)(void *userdata, AppInstance *app, LaunchPhase what);
        /* A launcher, at the other end of FD, was given all it needs to execute the app. */
        void (*launched)(void *userdata, AppInstance *app, int fd);
} ServerEvents;

void server_set_events(Server *s, const ServerEvents *events, void *userdata);
/* Tells the pod's PID 1, in whose network namespace the metadata service is to listen. */
void server_set_leader(Server *s, pid_t leader);
/* Sets the pod's kernel parameters, unless that is done; to be called once the leader is told. */
int server_set_parameters(Server *s, Error *e);
