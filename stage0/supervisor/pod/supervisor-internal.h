/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the supervisor share: supervisor*.c. */

#include "stage0/host/socket-filter.h"
#include "stage0/host/user-claim.h"
#include "stage0/supervisor/apps/app-life.h"
#include "stage0/supervisor/apps/cgroup-moves.h"
#include "stage0/supervisor/launchers/connections.h"
#include "stage0/supervisor/start/console.h"
#include "stage0/supervisor/apps/exit-policy.h"
#include "stage0/supervisor/interface/file-keeper.h"
#include "stage0/supervisor/start/foreground.h"
#include "stage0/supervisor/interface/interface.h"
#include "stage0/supervisor/manager/machine.h"
#include "stage0/supervisor/launchers/notices.h"
#include "stage0/supervisor/launchers/readiness.h"
#include "stage0/supervisor/launchers/serve.h"

typedef struct AppChange AppChange;

/* For cgroup_moves_expect(): a boot ends before, normally; an app that is added is started soon, and starts follow each other. */
#define MOVES_OF_BOOT_USEC UINT64_C(2000000)
#define MOVES_OF_START_USEC UINT64_C(60000)

/* Of the connection to the pod's systemd. */
typedef enum ConnectionState {
        CONNECTION_NONE, /* the pod's systemd is not known to serve it yet */
        CONNECTION_DUE,  /* is made when nothing else waits */
        CONNECTION_OPEN, /* the states of all units are being read from it */
        CONNECTION_KNOWN,
        CONNECTION_LOST, /* is made again after a while */
        CONNECTION_OVER, /* the pod ends */
        _CONNECTION_STATE_MAX,
} ConnectionState;

/* Of the start of the pod: supervisor-progress.c. */
typedef enum BootState {
        BOOT_SILENT,      /* the pod's systemd is not known to receive signals, and to serve connections */
        BOOT_HEARD,       /* it is: a launcher has asked for something */
        BOOT_DONE,        /* it has started all units; the pod may wait for apps, or for the disk */
        BOOT_UP,          /* those who wait were told that the pod is up */
        BOOT_LATE_SILENT, /* the pod was not up in time and is to end, before its systemd was heard of, */
        BOOT_LATE_HEARD,  /* before it has started all units, */
        BOOT_LATE,        /* or after that */
        _BOOT_STATE_MAX,
} BootState;

/* Of the end of the pod: supervisor-stop.c. */
typedef enum EndState {
        END_NONE,
        END_BY_POLICY,
        END_ASKED,     /* by a call, by machined, as the pod is idle, or was not up in time */
        END_BY_SIGNAL, /* the next one kills the pod */
        END_KILLED,    /* by a call, or by the second signal */
        _END_STATE_MAX,
} EndState;

typedef enum EndEvent {
        POLICY_ENDS,
        END_IS_ASKED,
        SIGNAL_CAME,
        KILL_IS_ASKED,
        _END_EVENT_MAX,
} EndEvent;

typedef struct Supervisor {
        Pod *pod;
        const RunOptions *options;
        PodSockets *sockets;         /* lent, until the apps have them; NULL: none */
        bool sockets_filtered;       /* or there are none to be filtered, or it is not possible */
        SocketFilter *socket_filter; /* NULL: there is none */
        sd_event *event;
        PodPause *pause;
        Cgroups cgroup;
        CgroupMoves *moves;
        Machine *machine; /* NULL: it is not registered */
        Error refusal;    /* why the pod could not be registered, or served, and has to end */
        Nspawn nspawn;
        UserClaim *users;
        PodNetwork *network; /* NULL: the pod has none of its own, or none yet */
        PodMounts *mounts;
        Server *server;
        Forwarders *forwarders;
        AppTable *apps;
        Inputs *inputs;
        ForegroundProxy *front; /* the client that has started us; NULL: there is none */
        PodRuntime runtime;
        int ready_fd, leader_fd, notify_fd;
        ManagerLink *manager; /* NULL: not connected yet */
        Interface *interface;
        FileKeeper *keeper;
        char **leftovers;  /* directories that the manifest on disk may still have, though the pod has not */
        bool ends_changes; /* none begins any more */
        AppChange *changes;      /* of the set of apps, in their order; the first is the current one */
        size_t n_changes;        /* including their followers */
        bool processing_changes; /* guards against recursion in supervisor-apps.c */
        AppChange *launches;     /* launches whose apps are starting */
        uint64_t n_removed, n_nested;
        bool has_processes;   /* process 1 of the pid namespace that apps share was started ahead of them */
        bool target_released; /* the target that has started the pod keeps no unit loaded any more */
        sd_event_source *connect_source, *leave_source, *reconnect_source;
        ConnectionState connection;
        uint64_t reconnect_usec; /* the delay before the current attempt, or 0 */
        BootState boot;
        EndState end;
        bool detached;
        bool syncing;  /* the pod is being written to disk, and does not count as up */
        bool in_order; /* the pod's systemd has ended the pod; it was not killed */
        Readiness *readiness;
        PodTimer *late_timer, *slow_timer; /* while the pod starts */
        char *late;           /* from BOOT_LATE_SILENT on: the apps that were not ready; or NULL */
        bool unhealthy;       /* one of them has failed its health check */
        bool reader_gone;     /* the pod was stopped for that */
        bool stopped_by_host; /* one of them was a signal, or came from the host's systemd */
        sd_event_source *idle_source;
        sd_event_source *stuck_source;
        pid_t stuck_pid; /* the child that aborts file systems of the pod; 0: none */
        unsigned n_looks,
                        next_child; /* looks at a pod that does not end; at which of them the next such child is started */
        bool was_ending;       /* when it was looked last */
        IdleWatch *idle_watch; /* NULL: the pod stays up when it is idle */
        size_t next_app;       /* the app whose root is made next, ahead of its request */
        Console console;
} Supervisor;

/* --- supervisor-stop.c: requests to end the pod -------------------------------------------------------- */

/* Whether the pod is to end; and whether anybody has asked for that, other than its exit policy. */
bool supervisor_ends(const Supervisor *s);
bool supervisor_was_asked_to_end(const Supervisor *s);
void supervisor_handle_end(Supervisor *s, EndEvent event);
void supervisor_kill(Supervisor *s);
/* Asks the pod's systemd again to end the pod, if anybody has asked for that: an earlier signal may have come before it could take it. */
void supervisor_signal_again(Supervisor *s);
/* Asks it to end the pod, as soon as it can take that. */
void supervisor_stop(Supervisor *s);
/* Handles the signal SIG to this process: the second one kills the pod. Returns whether this one does. */
bool supervisor_request_stop(Supervisor *s, int sig);
/* While the networks are made, before the event loop runs: serves calls of the interface. Returns whether
 * one of them was to stop the pod. USERDATA is the Supervisor. */
bool supervisor_serve_calls(void *userdata);
int supervisor_connect_machine(Supervisor *s, Error *e);
int supervisor_watch_idleness(Supervisor *s, Error *e);

/* --- supervisor-stuck.c: pods that do not end ---------------------------------------------------------- */

/* The pod ends, or may be about to: from now on it is watched whether its processes, once killed, do end. */
void supervisor_watch_end(Supervisor *s);
/* It has ended. */
void supervisor_leave_end(Supervisor *s);

/* --- supervisor-units.c: the units of apps, and the consequences of their ends ------------------------- */

int supervisor_open_units(Supervisor *s, Error *e);
/* True if the connection to the pod's systemd is there. It may be closed before its loss is reported. */
bool supervisor_is_connected(const Supervisor *s);
/* Connects to the pod's systemd as soon as that is possible; to be called when it may have become so. */
void supervisor_follow_units(Supervisor *s);
/* The pod's systemd has ended. */
void supervisor_leave_manager(Supervisor *s);
void supervisor_close_units(Supervisor *s);
int supervisor_open_interface(Supervisor *s, Error *e);
/* The health check of an app has failed, and the app is to be restarted or killed. */
void supervisor_app_unhealthy(Supervisor *s, AppInstance *app);
/* The main process of an app has ended: its post-stop handler is about to run. */
void supervisor_main_ended(Supervisor *s, AppInstance *app, const MainEnd *end);
/* A new execution of APP begins: the one before has ended. */
void supervisor_end_superseded(void *userdata, AppInstance *app);
/* The pod's systemd has ended, or is about to: reads everything that it has sent, and the final state of the
 * apps. IN_ORDER: it was not killed. */
void supervisor_end_apps(Supervisor *s, bool in_order);

/* --- supervisor-sockets.c: apps that connections start ------------------------------------------------- */

/* Gives each app its SOCKETS; NULL: there are none. */
int supervisor_take_sockets(Supervisor *s, PodSockets *sockets, Error *e);
/* Opens those that only can be opened now that the pod's PID 1 is there. */
int supervisor_open_sockets(Supervisor *s, Error *e);
/* Filters what apps can do with sockets that were passed to the pod, as far as the kernel can: before they get them, and once PID 1 of
 * the pod is there. */
int supervisor_filter_sockets(Supervisor *s, Error *e);
/* Whether connections start the app may have changed. */
void supervisor_listen(Supervisor *s, AppInstance *app);
void supervisor_listen_all(Supervisor *s);
/* Nothing is to start the app any more. */
void supervisor_give_up_app(Supervisor *s, AppInstance *app);

/* --- supervisor-apps.c: apps that are added and removed ----------------------------------------------- */

/* As InterfaceOps have them. FUNCTION is called once, unless the call fails. */
int supervisor_add_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata);
/* Stops the other apps of the groups of apps that share their fate and of which one has failed. (supervisor-fate.c) */
void supervisor_spread_fate(Supervisor *s);
/* Stops the apps that are nested under APP, which ends or is to end. (supervisor-nested.c) */
void supervisor_end_below(Supervisor *s, const AppInstance *app);
int supervisor_launch_group(Supervisor *s, json_object *request, const void *caller, GroupFunction function,
                            void *userdata);
/* CALLER has disconnected: undoes its launch. */
void supervisor_cancel_launch(Supervisor *s, const void *caller);
int supervisor_remove_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata);
/* The connection to the pod's systemd is there, or is there again. */
void supervisor_resume_changes(Supervisor *s);
/* The manifest could be written again: removes what was kept for the one before. */
void supervisor_remove_leftovers(void *userdata);
int supervisor_replace_app(Supervisor *s, json_object *request, AppChangeFunction function, void *userdata);
/* The caller of supervisor_replace_app() with USERDATA has disconnected. The replacement continues unless another one is
 * requested. */
void supervisor_replace_orphaned(Supervisor *s, const void *userdata);
/* True if the caller of the current replacement of APP has disconnected. */
bool supervisor_may_supersede(const Supervisor *s, const AppInstance *app);
/* Undoes that replacement if another one of the same app is queued. */
void supervisor_supersede(Supervisor *s);
/* The health check of APP has failed too often. Returns true if this fails its replacement: no other action is taken then. */
bool supervisor_replacement_is_unhealthy(Supervisor *s, AppInstance *app);
/* Whether APP is being removed, or stopped for that. */
bool supervisor_removes_app(const Supervisor *s, const AppInstance *app);
/* Evaluates the exit policy again, after an app was held. */
void supervisor_judge(Supervisor *s);
/* Stops adding and removing apps. */
void supervisor_end_changes(Supervisor *s);

/* --- supervisor-caller.c: the process that started the supervisor -------------------------------------- */

/* A message of sd_notify(); does nothing if detached. */
void supervisor_notify_host(Supervisor *s, const char *text);
/* STOPPING=1, if READY=1 was told. */
void supervisor_notify_stopping(Supervisor *s);
/* STOPPING=1 of a pod that was not ready before it ended; after READY=1 if it has started successfully all the same. */
void supervisor_notify_end(Supervisor *s, bool started);
int supervisor_connect_front(Supervisor *s, Error *e);
void supervisor_block_signals(const ForegroundProxy *front);
int supervisor_watch_signals(Supervisor *s);
/* Reports to the unit of the host, if it has WatchdogSec=, that this process works. */
int supervisor_serve_watchdog(Supervisor *s);

/* --- supervisor-progress.c: the progress of the start -------------------------------------------------- */

/* Whether the pod's systemd is known to receive signals, and to serve connections; whether it has started all units; and whether those who
 * wait were told that the pod is up. */
bool supervisor_is_heard(const Supervisor *s);
bool supervisor_has_booted(const Supervisor *s);
bool supervisor_is_up(const Supervisor *s);
void supervisor_notify_status(Supervisor *s);
/* As ServerEvents has them. USERDATA is the Supervisor. */
void supervisor_asked(void *userdata, AppInstance *app, LaunchPhase what);
int supervisor_prepare(void *userdata, AppInstance *app, Error *e);
int supervisor_reported(void *userdata, AppInstance *app, const LaunchEvent *event);
/* The current execution of APP is ready. */
void supervisor_app_ready(Supervisor *s, AppInstance *app);
void supervisor_pod_ended(void *userdata);
/* The launcher of APP has gone: it was executed, or could not be. */
void supervisor_launcher_gone(void *userdata, AppInstance *app);
void supervisor_launched(void *userdata, AppInstance *app, int fd);
/* An app may have become ready. */
void supervisor_check_ready(void *userdata);
int supervisor_watch_progress(Supervisor *s);
/* Reads some of the pod's console, of which the last lines are kept. Returns whether there was any; errno
 * says why not. */
bool supervisor_read_console(Supervisor *s);

/* --- supervisor-journal.c: messages about the pod in the journal of the host --------------------------- */

void supervisor_journal_up(Supervisor *s);
/* STATUS is the exit status of the pod, or negative. */
void supervisor_journal_end(Supervisor *s, int status);
void supervisor_journal_app_started(Supervisor *s, const AppInstance *app);
void supervisor_journal_app_ended(Supervisor *s, const AppInstance *app);
void supervisor_journal_app_unhealthy(Supervisor *s, const AppInstance *app);

/* --- supervisor-end.c: the end of a pod ---------------------------------------------------------------- */

void supervisor_leave_networks(Supervisor *s, Error *e);
/* nspawn has ended, or is about to: the pod's exit status, or why it has none. */
int supervisor_finish(Supervisor *s, Error *e);
