/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* interface.c, interface-apps.c, interface-exec.c: the Varlink interface of a running pod, org.acnspawn.Pod. */

#include "stage0/run/app-table.h"

typedef struct Interface Interface;

/* A change of the set of apps has been made, or (R is negative, E says why) has not. APP is its name, or NULL. */
typedef void (*AppChangeFunction)(void *userdata, int r, const char *app, char *const *warnings,
                                  const Error *e);

/* What the interface has done. It is for the supervisor, whose the pod is. */
typedef struct InterfaceOps {
        /* The pod is to end in order, or at once. */
        void (*stop)(void *userdata, bool kill);
        /* Whether it ends already, and why no app can be started any more. */
        bool (*ends)(void *userdata);
        /* The connection to the pod's systemd; NULL: there is none now. */
        ManagerLink *(*manager)(void *userdata);
        /* Adds the app that REQUEST, the parameters of AddApp(), describes. */
        int (*add_app)(void *userdata, json_object *request, AppChangeFunction function, void *data);
        /* Removes an app that does not run. 0 as well if there is none. */
        int (*remove_app)(void *userdata, const char *name, AppChangeFunction function, void *data);
        /* Opens the log file of APP, or all of them (NULL), anew, as pumps_reopen(). */
        int (*reopen_logs)(void *userdata, const char *app, Error *e);
        /* A new descriptor of the null device in the /dev of apps. */
        int (*open_null)(void *userdata);
} InterfaceOps;

/* Serves "interface" in the pod directory. APPS are lent. */
int interface_new(Pod *p, sd_event *event, AppTable *apps, const InterfaceOps *ops, void *userdata,
                  Interface **ret, Error *e);
/* Answers what waits for the end of the pod, which has STATUS as its exit status, and disconnects. NULL is fine. */
Interface *interface_free(Interface *i, int status);

/* How far the start of an app is. */
typedef enum StartStep {
        START_LAUNCHER_GONE, /* it was executed, or could not be */
        START_ENDED,         /* none of its processes is left */
        START_DOWN,          /* its unit is down, and is not started again by itself */
} StartStep;

/* Calls that start APP are answered if this settles them. I may be NULL. */
void interface_executed(Interface *i, AppInstance *app, StartStep step);
/* Something about the app has changed; NULL: about the pod. */
void interface_changed(Interface *i, AppInstance *app);
/* Kills the commands that run beside apps, waits for their ends, and answers their callers. NULL is fine. */
void interface_end_execs(Interface *i);
