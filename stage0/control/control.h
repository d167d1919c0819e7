/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/control/: what is done to pods by request. */

#include "stage0/runtime/runtime.h"

/* prepare-pod.c: request -> prepared pod. */
typedef struct PrepareOptions {
        const char *name, *hostname, *stage1;
        bool private_users;
        NetMode net;
        char **networks;                /* of NET_NETWORKS; see pod_network_check() */
        char **dns, **dns_search, **dns_options, **hosts_entries; /* see PodConfig */
        const char *const *config_dirs; /* where net.d is; NULL: the usual directories */
        ExitPolicy exit_policy;
        uint64_t stop_timeout_usec;
        uint64_t exit_idle_usec; /* 0 or UINT64_MAX: the pod stays up */
        bool strict;  /* refuse the pod unless all isolators are enforced here */
        bool dry_run; /* stop when it is known what the pod would be: it is in the state preparing, and the
                       * caller gives it up with pod_abandon() */
} PrepareOptions;
int prepare_pod(Store *s, const PodRequest *request, const PrepareOptions *o, Pod **ret, char ***warnings,
                Error *e);

/* stop.c: asks a running pod to end in order, or kills it; waits until it has ended. */
int stop_pod(Pod *p, bool force, Error *e);

/* enter.c: runs a command beside an app that runs, confined as the app is, with our standard streams,
 * and waits until it has ended. *RET_STATUS is the command's exit status, 128 + the number of a signal; of a
 * command that could not be started 125 to 127, with the reason in E. */
typedef struct EnterOptions {
        const char *app;       /* NULL: the only one */
        char *const *argv;     /* empty: the shell of the image */
        const char *user;      /* USER[:GROUP] that the app could become; NULL: the app's */
        char **environment;    /* NAME=VALUE, added to the app's */
        const char *directory; /* absolute; NULL: the app's working directory */
} EnterOptions;
int enter_app(Pod *p, const EnterOptions *o, int *ret_status, Error *e);

/* signal.c: sends SIGNAL to the main process of the app NAME, or (NULL) of every app that runs. */
int kill_app(Pod *p, const char *name, int signal, Error *e);
/* restart.c: ends the app NAME in order, if it runs, and starts it again with a clean root. */
int restart_app(Pod *p, const char *name, Error *e);
/* stop.c: stops every process of a running pod where it is, or lets them go on. */
int pause_pod(Pod *p, bool pause, Error *e);

/* app-process.c. The app that NAME names; NULL: the only one. */
int pod_find_app(Pod *p, const char *name, const PodApp **ret, Error *e);
/* -ESRCH unless the pod runs, is up, and is not paused. */
int pod_check_running(Pod *p, Error *e);

typedef struct AppProcess {
        pid_t pid; /* by the host's numbers */
        int pid_fd;
} AppProcess;

/* The app's main process, once it is the app and not the launcher any more. -ESRCH: it does not run. */
int app_process_open(Pod *p, const PodApp *app, AppProcess *ret, Error *e);
