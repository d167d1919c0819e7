/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* serve.c: answers the launchers of a pod, and keeps its metadata service. */

#include "stage0/supervisor/apps/app-table.h"
#include "stage0/supervisor/streams/forwarder.h"

/* launch-request.c. Pure. -EBADMSG: the packet of SIZE bytes, with N_FDS descriptors, is none of a launcher. */
int launch_request_check(const LaunchRequest *r, size_t size, size_t n_fds);
int launch_event_check(const LaunchEvent *e, size_t size, size_t n_fds);

typedef struct Server Server;

/* Makes the socket for launchers in the pod's root and watches it with EVENT. Output of apps goes to
 * FORWARDERS, their input comes from INPUTS, which may be NULL. */
int server_new(Pod *p, AppTable *apps, sd_event *event, Forwarders *forwarders, Inputs *inputs, Server **ret,
               Error *e);
Server *server_free(Server *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Server *, server_free);
/* An app that is added, or removed, while the pod runs. */
int server_add_app(Server *s, AppInstance *app);
void server_remove_app(Server *s, AppInstance *app);
/* The manifest of the pod has changed in another way. */
void server_manifest_changed(Server *s);
/* See notices_is_ready(). */
bool server_app_is_ready(AppInstance *app);
/* The main process of APP has ended, or with it the whole execution; its exit status is in the app's status.
 * All of its output was read. */
void server_end_execution(Server *s, AppInstance *app);
/* Removes NAME in DIR_FD, which is lent, while the pod goes on. */
void server_remove_tree(Server *s, int dir_fd, const char *name);
/* Prepares the start of the metadata service; to be called before the first launcher is answered. */
int server_open_metadata(Server *s, sd_event *event, Error *e);
/* To be passed as soon as they exist. */
void server_set_mounts(Server *s, PodMounts *m);
/* FUNCTION is called whenever an app of the pod begins or ends. */
void server_set_activity(Server *s, void (*function)(void *userdata), void *userdata);
typedef struct ServerEvents {
        /* A launcher has sent a request. */
        void (*asked)(void *userdata, AppInstance *app, LaunchPhase what);
        /* The main process of APP is about to get its mounts. */
        int (*prepare)(void *userdata, AppInstance *app, Error *e);
        /* A launcher of a new execution has sent a request: the previous one has ended. */
        void (*superseded)(void *userdata, AppInstance *app); /* which may be gone afterwards */
        /* A launcher has reported an event. Returns the reply: an error; 0; 1: 0, after all output of the
         * app is forwarded. */
        int (*reported)(void *userdata, AppInstance *app, const LaunchEvent *event);
        /* A launcher, at the other end of FD, got everything it needs to execute the app. */
        void (*launched)(void *userdata, AppInstance *app, int fd);
        /* The pod's systemd has ended the pod, and no unit runs any more. */
        void (*pod_ended)(void *userdata);
} ServerEvents;

void server_set_events(Server *s, const ServerEvents *events, void *userdata);
/* Passes the pod's PID 1, in whose network namespace the metadata service is to listen. */
void server_set_leader(Server *s, pid_t leader);
/* See notices_set_frozen(). S may be NULL. */
void server_set_frozen(Server *s, bool frozen);
/* The connection to the pod's systemd has ended, which may be executing itself again. */
void server_extend_again(Server *s);
/* Sets the pod's kernel parameters, unless that is done; to be called after server_set_leader(). */
int server_set_parameters(Server *s, Error *e);
