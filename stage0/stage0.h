/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/: the acnspawn command. Verbs (verb-*.c) are thin: they turn a command line into a call of the
 * operations below and their result into text. The operations work on a Pod and know nothing of command
 * lines, so that another front (a node agent, say) can call them as well. Rooms, from the lowest floor up:
 *
 *     cli/        what is written for people: command lines, tables
 *     network/    interfaces, addresses and ports of a pod
 *     runtime/    what a running pod has on the host besides its processes
 *     report/     what is known of a pod, and what its apps wrote
 *     control/    what is done to pods by request: preparing, stopping
 *     run/        the process that runs a pod
 */

#include "prepare/prepare.h"
#include "stage0/network/network.h"
#include "stage1/stage1.h"

/* --- Operations on pods -------------------------------------------------------------------------------- */

/* control/prepare-pod.c: request -> prepared pod. */
typedef struct PrepareOptions {
        const char *name, *hostname, *stage1;
        bool private_users;
        NetMode net;
        char **networks;                /* of NET_NETWORKS; see pod_network_check() */
        const char *const *config_dirs; /* where net.d is; NULL: the usual directories */
        ExitPolicy exit_policy;
        uint64_t stop_timeout_usec;
        bool strict;  /* refuse the pod unless all isolators are enforced here */
        bool dry_run; /* stop when it is known what the pod would be: it is in the state preparing, and the
                       * caller gives it up with pod_abandon() */
} PrepareOptions;
int prepare_pod(Store *s, const PodRequest *request, const PrepareOptions *o, Pod **ret, char ***warnings,
                Error *e);

/* run/run.c: runs a prepared pod. In the foreground returns when the pod has ended, with the pod's exit status
 * (0…255); detached, returns 0 once the pod is up, the supervisor having become a process of its own. */
typedef struct RunOptions {
        bool detach;
        bool quiet;                     /* do not show the apps' output */
        bool strict;                    /* not unless all isolators are enforced */
        const char *const *config_dirs; /* as in PrepareOptions */
} RunOptions;
int run_pod(Pod *p, const RunOptions *o, Error *e);

/* control/stop.c: asks a running pod to end in order, or kills it; waits until it has ended. */
int stop_pod(Pod *p, bool force, Error *e);

/* control/enter.c: runs a command beside an app that runs, confined as the app is, with our standard streams,
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

/* control/signal.c: sends SIGNAL to the main process of the app NAME, or (NULL) of every app that runs. */
int kill_app(Pod *p, const char *name, int signal, Error *e);
/* control/restart.c: ends the app NAME in order, if it runs, and starts it again with a clean root. */
int restart_app(Pod *p, const char *name, Error *e);
/* control/stop.c: stops every process of a running pod where it is, or lets them go on. */
int pause_pod(Pod *p, bool pause, Error *e);

/* report/pod-status.c: everything "status" tells of a pod. */
typedef struct AppReport {
        const PodApp *app;
        AppStatus status;
} AppReport;

typedef struct IsolatorReport {
        const char *app; /* NULL: the pod's own */
        const char *name;
        IsolatorVerdict verdict;
        char *detail;
} IsolatorReport;

typedef struct PodReport {
        AppReport *apps;
        size_t n_apps;
        IsolatorReport *isolators;
        size_t n_isolators;
        char **addresses; /* "lo 127.0.0.1", …: of a running pod */
        NetworkReport *networks;
        size_t n_networks;
        PortMapping *ports; /* of the host that lead to the pod, or would */
        size_t n_ports;
        uint64_t started_usec, ended_usec; /* realtime; 0: never */
        int exit_status;                   /* the pod's, or -1 while it has none */
        pid_t leader;                      /* host's pid of the pod's PID 1, or 0 */
        bool paused;
} PodReport;

/* CONFIG_DIRS as in PrepareOptions. */
int pod_report(Pod *p, const char *const *config_dirs, PodReport *ret, Error *e);
void pod_report_done(PodReport *r);
/* Its isolators alone; works for a pod that is being prepared, too. */
int pod_report_isolators(Pod *p, const char *const *config_dirs, PodReport *ret, Error *e);
/* report/isolators-strict.c: -EOPNOTSUPP, with all of them in the message, if one of the isolators would not be
 * enforced on this host. */
int pod_require_isolators(Pod *p, const char *const *config_dirs, Error *e);
/* Waits until the pod has ended; TIMEOUT_USEC UINT64_MAX: for ever. -ETIME: it has not. */
int pod_wait(Pod *p, uint64_t timeout_usec, Error *e);

/* report/usage.c: what a running pod uses. UINT64_MAX: this host cannot measure it, or there is no limit. */
typedef struct Usage {
        uint64_t cpu_usec;
        uint64_t memory, memory_max; /* bytes */
        uint64_t io_read, io_written;
        uint64_t pids;
} Usage;

void usage_init(Usage *u);
/* Of the pod as a whole, and an array of what each of its apps uses, in the order of the manifest. */
int pod_usage(Pod *p, Usage *ret_pod, Usage **ret_apps, Error *e);

/* report/logs.c: the apps' output out of the pod's journal. */
typedef struct LogOptions {
        bool follow;     /* until the pod has ended */
        const char *app; /* NULL: all */
        bool prefix;     /* the app's name in front of each line */
        bool json;
        uint64_t lines; /* only the last so many; UINT64_MAX: all */
} LogOptions;
int pod_logs(Pod *p, const LogOptions *o, Error *e);

/* runtime/release.c: to be called before a pod is removed. Takes away what a pod that has ended left outside its
 * directory; -EBUSY, naming the mount, if something is mounted below that directory. For store_gc(), too. */
int pod_release(Pod *p, void *userdata, Error *e);
