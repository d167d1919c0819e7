/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the supervisor share: supervisor*.c. */

#include "stage0/run/app-table.h"
#include "stage0/run/callers.h"
#include "stage0/run/console.h"
#include "stage0/run/exit-policy.h"
#include "stage0/run/front.h"
#include "stage0/run/interface.h"
#include "stage0/run/machine.h"
#include "stage0/run/readiness.h"
#include "stage0/run/serve.h"

typedef struct AppChange AppChange;

typedef struct Supervisor {
        Pod *pod;
        const RunOptions *options;
        PodSockets *sockets; /* lent; NULL: none */
        sd_event *event;
        Cgroups cgroup;
        Machine *machine; /* NULL: it is not registered */
        Error refusal;    /* why the pod could not be registered, or served, and has to end */
        Nspawn nspawn;
        PodNetwork *network; /* NULL: the pod has none of its own, or none yet */
        PodMounts *mounts;
        Server *server;
        Pumps *pumps;
        AppTable *apps;
        Inputs *inputs;
        Front *front; /* the client that has started us; NULL: there is none */
        PodRuntime runtime;
        int ready_fd, leader_fd, notify_fd;
        ManagerLink *manager; /* NULL: not connected yet */
        Interface *interface;
        AppChange *changes; /* of the set of apps, in their order; the first is being made */
        uint64_t n_removed;
        sd_event_source *connect_source, *reconnect_source;
        uint64_t reconnect_usec; /* how long the last attempt was put off; 0: the connection stands */
        bool booted, heard, ready, detached;
        bool follows;  /* the connection is made, or about to be */
        bool ends;     /* by the exit policy */
        bool in_order; /* the pod's systemd has ended the pod; it was not killed */
        Readiness *readiness;
        char *late; /* which apps were not ready in time */
        unsigned stop_requests, stop_signals;
        sd_event_source *idle_source;
        IdleWatch *idle_watch; /* NULL: the pod stays up when it is idle */
        size_t next_app;       /* whose root is made next, ahead of time */
        Console console;
} Supervisor;

/* --- supervisor-stop.c: who ends the pod --------------------------------------------------------------- */

void supervisor_kill(Supervisor *s);
/* Tells the pod's systemd, if it is there yet, to end the pod. */
void supervisor_signal_leader(Supervisor *s);
/* The same, also if it is not: then it is told once it is. */
void supervisor_stop(Supervisor *s);
/* What the signal SIG to us asks for: the second one kills. Whether this one does. */
bool supervisor_request_stop(Supervisor *s, int sig);
/* While the networks are made, before the event loop runs: serves calls of the interface. Whether one of them was to stop
 * the pod. USERDATA is the Supervisor. */
bool supervisor_serve_calls(void *userdata);
int supervisor_connect_machine(Supervisor *s, Error *e);
int supervisor_watch_idleness(Supervisor *s, Error *e);

/* --- supervisor-units.c: the units of apps, and what their ends mean ----------------------------------- */

int supervisor_open_units(Supervisor *s, Error *e);
/* Connects to the pod's systemd as soon as that is possible; to be called when it may have become so. */
void supervisor_follow_units(Supervisor *s);
/* The pod's systemd has ended. */
void supervisor_leave_manager(Supervisor *s);
void supervisor_close_units(Supervisor *s);
int supervisor_open_interface(Supervisor *s, Error *e);
/* A launcher reports that its app is restarted too often. */
void supervisor_app_given_up(Supervisor *s, AppInstance *app);
/* A launcher reports that the health check of its app fails. */
void supervisor_app_unhealthy(Supervisor *s, AppInstance *app);

/* --- supervisor-apps.c: apps that are added and removed ----------------------------------------------- */

/* As InterfaceOps have them. FUNCTION is called once, unless the call fails. */
int supervisor_add_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata);
int supervisor_remove_app(Supervisor *s, const char *name, AppChangeFunction function, void *userdata);
/* Nothing is added or removed any more. */
void supervisor_end_changes(Supervisor *s);

/* --- supervisor-caller.c: whoever started us ----------------------------------------------------------- */

/* As sd_notify() has it; nothing if we are detached. */
void supervisor_tell_host(Supervisor *s, const char *text);
int supervisor_connect_front(Supervisor *s, Error *e);
void supervisor_block_signals(const Front *front);
int supervisor_watch_signals(Supervisor *s);

/* --- supervisor-progress.c: how far the pod is --------------------------------------------------------- */

void supervisor_tell_status(Supervisor *s);
/* As ServerEvents has them. USERDATA is the Supervisor. */
void supervisor_told(void *userdata, AppInstance *app, LaunchPhase what);
/* The launcher of APP has gone: it was executed, or could not be. */
void supervisor_launcher_gone(void *userdata, AppInstance *app);
void supervisor_launched(void *userdata, AppInstance *app, int fd);
/* An app may have become ready. */
void supervisor_check_ready(void *userdata);
int supervisor_watch_progress(Supervisor *s);
/* Takes some of what the pod's console shows, of which the last is kept. Whether there was any; errno says
 * why not. */
bool supervisor_read_console(Supervisor *s);

/* --- supervisor-end.c: what becomes of a pod that has ended -------------------------------------------- */

void supervisor_leave_networks(Supervisor *s, Error *e);
/* nspawn has ended, or is about to: the pod's exit status, or why it has none. */
int supervisor_finish(Supervisor *s, Error *e);
