/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* serve.c: answers the launchers of a pod, and keeps its metadata service. */

#include "stage0/run/pump.h"

typedef struct Server Server;

/* Makes the socket for launchers in the pod's root and watches it with EVENT. What apps write goes through
 * PUMPS, what they read comes from INPUTS, which may be NULL. */
int server_new(Pod *p, sd_event *event, Pumps *pumps, Inputs *inputs, Server **ret, Error *e);
Server *server_free(Server *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Server *, server_free);
/* Has the metadata service ready to be started; to be done before the first launcher can be answered. */
int server_open_metadata(Server *s, sd_event *event, Error *e);
/* To be given as soon as they are there. */
void server_set_mounts(Server *s, PodMounts *m);
/* FUNCTION is called whenever an app of the pod begins or ends. */
void server_set_activity(Server *s, void (*function)(void *userdata), void *userdata);
/* Has TOLD called whenever a launcher asks for something, or tells what became of its app. */
void server_set_told(Server *s, void (*told)(void *userdata, const PodApp *app, LaunchPhase what),
                     void *userdata);
/* Tells the pod's PID 1, in whose network namespace the metadata service is to listen. */
void server_set_leader(Server *s, pid_t leader);
