/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/supervisor/interface/: the Varlink interface of a running pod, org.acnspawn.Pod. The supervisor serves it, and
 * implements the calls that change the pod (InterfaceOps). */

#include "stage0/supervisor/apps/app-table.h"
#include "stage0/supervisor/interface/file-keeper.h"
#include "stage0/supervisor/streams/forwarder.h"

typedef struct Interface Interface;

/* A change of the set of apps was made, or has failed (R is negative, E says why). APP is its name, or
 * NULL. */
typedef void (*AppChangeFunction)(void *userdata, int r, const char *app, char *const *warnings,
                                  const Error *e);

/* The same for a group: APPS are their names, NULL on failure. */
typedef void (*GroupFunction)(void *userdata, int r, char *const *apps, char *const *warnings,
                              const Error *e);

/* Implementations of calls, by the supervisor, which owns the pod. */
typedef struct InterfaceOps {
        /* Stops the pod: in order, or at once. */
        void (*stop)(void *userdata, bool kill);
        /* Whether the pod is ending, and why no app can be started any more. */
        bool (*ends)(void *userdata);
        /* Whether an app is being removed, or stopped for that: no call starts it any more. */
        bool (*removes)(void *userdata, const AppInstance *app);
        /* The connection to the pod's systemd; NULL: there is none now. */
        ManagerLink *(*manager)(void *userdata);
        /* An app is about to be started. */
        void (*expect_start)(void *userdata);
        /* Adds the app that REQUEST, the parameters of AddApp(), describes. */
        int (*add_app)(void *userdata, json_object *request, AppChangeFunction function, void *data);
        /* Adds and starts the apps that REQUEST, the parameters of LaunchGroup(), describes: all or none. */
        int (*launch_group)(void *userdata, json_object *request, const void *caller, GroupFunction function,
                            void *data);
        /* CALLER has disconnected: undoes its launch unless that is finished. */
        void (*cancel_launch)(void *userdata, const void *caller);
        /* Removes an app that does not run. 0 as well if there is none. */
        int (*remove_app)(void *userdata, json_object *request, AppChangeFunction function, void *data);
        /* Replaces an app as REQUEST, the parameters of ReplaceApp(), says. -EALREADY: it has that image; -ECONNABORTED: the new
         * one could not be started, and the old one is back. */
        int (*replace_app)(void *userdata, json_object *request, AppChangeFunction function, void *data);
        /* The caller of replace_app() with DATA has disconnected. */
        void (*replace_orphaned)(void *userdata, const void *data);
        /* True if APP is being replaced for a caller that has disconnected: another replacement may be requested, which
         * undoes this one. */
        bool (*may_supersede)(void *userdata, const AppInstance *app);
        /* The names of the credentials that APP has not, or otherwise, or that are not in L. */
        int (*compare_credentials)(void *userdata, const AppInstance *app, const CredentialList *l,
                                   char ***ret);
        /* The limits of an app have changed in the manifest. */
        void (*manifest_changed)(void *userdata);
        /* Opens the log file of APP, or all of them (NULL), anew, as forwarders_reopen(). */
        int (*reopen_logs)(void *userdata, const char *app, LogsFunction function, void *data, Error *e);
        /* Stops the apps that are nested under APP. */
        void (*end_below)(void *userdata, const AppInstance *app);
        /* An app counts for the exit policy from now on. */
        void (*judge)(void *userdata);
        /* A new descriptor of the null device in the /dev of apps. */
        int (*open_null)(void *userdata);
} InterfaceOps;

/* Adds the Credentials of a call. The error is a part of a sentence. */
int interface_read_credentials(json_object *list, CredentialList *l, Error *e);

/* Serves "interface" in the pod directory. APPS and KEEPER are lent. */
int interface_new(Pod *p, sd_event *event, AppTable *apps, FileKeeper *keeper, const InterfaceOps *ops,
                  void *userdata, Interface **ret, Error *e);
/* Replies to the calls that wait for the end of the pod, whose exit status is STATUS, and takes no further
 * calls. Clients stay attached to their apps. NULL is fine. */
void interface_end(Interface *i, int status);
/* Disconnects. NULL is fine. */
Interface *interface_free(Interface *i);

/* The connection to the pod's systemd is there, and the states of the apps are known: executes the calls
 * that wait for it. I may be NULL. */
void interface_resume(Interface *i);

/* The state of an app's start. */
typedef enum StartStep {
        START_LAUNCHER_GONE, /* it was executed, or this has failed */
        START_ENDED,         /* no process of it is left */
        START_DOWN,          /* its unit is down, and is not started again by itself */
} StartStep;

/* Replies to the calls that start APP, if EVENT decides their result. I may be NULL. */
void interface_executed(Interface *i, AppInstance *app, StartStep step);
/* Something about the app has changed; NULL: about the pod. */
void interface_changed(Interface *i, AppInstance *app);
/* The same for a step of a replacement ("replacing", "replaced", "rolledBack"), with the reason (or
 * NULL). */
void interface_announce(Interface *i, AppInstance *app, const char *change, const char *why);

/* Fails a pending start of the app, by interface_start() or by a call that starts it tentatively, with CODE and WHY, a part
 * of a sentence. Returns false if no start is pending. */
bool interface_give_up_start(AppInstance *app, int code, const char *why);

typedef void (*InterfaceStartFunction)(void *userdata, int r, const Error *e);
/* Starts an app that is down, on behalf of the supervisor. FUNCTION is called once, unless this call fails: when the app is
 * executed, and ready if it reports readiness; when it cannot be executed; with -ETIME after TIMEOUT_USEC; or by
 * interface_give_up_start(). */
int interface_start(Interface *i, AppInstance *app, uint64_t timeout_usec, InterfaceStartFunction function,
                    void *userdata);
/* Kills the commands that run beside apps, waits for their ends, and replies to their clients. NULL is
 * fine. */
void interface_end_execs(Interface *i);
