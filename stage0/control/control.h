/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/control/: operations on one pod, for verbs and services: preparing it and its successors, stopping it, running
 * commands in it, attaching to it, and the calls to its systemd. */

#include "library/libsystemd.h"
#include "schema/settings.h"
#include "stage0/host/host.h"

/* --- manager.c: the pod's systemd ---------------------------------------------------------------------- */

/* A connection to the private socket of the pod's systemd, which is made by a process that has joined the pod's user and
 * pid namespaces. sd_bus_flush_close_unref() ends it. */
int pod_manager_connect(Pod *p, sd_bus **ret, Error *e);
/* The object of a unit; to be freed. */
int manager_unit_path(const char *unit, char **ret);

/* detach-keys.c: the keys that detach from an app when typed on a terminal: names of keys ("ctrl-]", "a"),
 * separated by commas. */
#define DETACH_KEYS_DEFAULT "ctrl-],ctrl-],ctrl-]"
typedef struct DetachKeys {
        unsigned char keys[8];
        size_t n;     /* 0: disabled */
        size_t typed; /* number of keys typed so far, the first one at */
        uint64_t first_usec;
} DetachKeys;
int detach_keys_parse(const char *s, DetachKeys *ret); /* -EINVAL */
/* Returns how many of the SIZE bytes precede the last detach key; SIZE: the keys were not typed. */
size_t detach_keys_find(DetachKeys *k, const void *data, size_t size);

/* forward.c: forwards the standard streams and signals of this process to and from a command or an app in a
 * pod. */
typedef struct Forward Forward;
typedef struct ForwardOps {
        const char *what; /* for messages: the owner of the streams */
        /* The socket is readable. 1: the other side has ended; negative: it has disconnected, or an error. */
        int (*on_event)(Forward *f);
        /* SIG was received. 1: forwarding ends. */
        int (*on_signal)(Forward *f, int sig);
        void (*on_resize)(Forward *f, const struct winsize *size);
        void (*on_input_end)(Forward *f);          /* standard input has ended; may be NULL */
        void (*on_suspend)(Forward *f, bool stop); /* this process is suspended, or continued; may be NULL */
} ForwardOps;

struct Forward {
        const ForwardOps *ops;
        void *userdata;
        int fds[3]; /* to and from the other side, or -EBADF; those that end are closed */
        int socket;
        bool terminal;           /* the other side is one, and the own terminal is in raw mode meanwhile */
        bool detach_when_unread; /* leave when the output is not read any more */
        DetachKeys keys;
        bool detached; /* result: the keys were typed, or the output is not read */
        int signal;    /* result: the signal that ended it, or 0 */
        struct ForwardLoop *loop;
};

#define FORWARD_NULL ((Forward){.fds = {-EBADF, -EBADF, -EBADF}, .socket = -EBADF})
/* Runs until the other side has ended, or the user has detached. */
int forward_streams(Forward *f, Error *e);
void forward_done(Forward *f); /* closes the remaining descriptors */
/* To be called in a callback: the other side becomes a terminal, or stops being one. */
void forward_set_terminal(Forward *f, bool terminal);
/* Other output to the terminal may have changed its state. */
void forward_note_escapes(Forward *f);
/* Sets the master of the other side's terminal, which exists only now, for both streams. */
void forward_take_terminal(Forward *f, int master);
/* The size of the terminal of this process; zero without one. */
void forward_get_size(struct winsize *ret);

/* prepare-pod.c: request -> prepared pod. */
typedef struct PrepareOptions {
        const char *name, *hostname, *stage1;
        /* Another pod with the name is stopped and removed, as soon as this one has passed all checks. */
        bool replace;
        /* A pod with the name that never ran, locked by the caller: it is removed as soon as this one has passed all checks. */
        Pod *unused;
        bool private_users;
        uint32_t uid_base, n_uids; /* see pod_take_uids(); 0: a range that is free */
        NetMode net;
        char **networks; /* of NET_NETWORKS; see pod_network_check() */
        char **dns, **dns_search, **dns_options, **hosts_entries; /* see PodConfig */
        const char *const *config_dirs; /* the parents of net.d; NULL: the default directories */
        ExitPolicy exit_policy;
        uint64_t stop_timeout_usec;
        uint64_t exit_idle_usec;            /* 0 or UINT64_MAX: the pod stays up */
        bool strict;                        /* refuse the pod unless all isolators are enforced here */
        bool reduced_metadata, no_metadata; /* see PodConfig */
        const char *owner;         /* the program that it belongs to, see pod_set_owner(); or NULL */
        OwnerData owner_data;      /* not owned */
        const char *cgroup_parent; /* see PodConfig; or NULL */
        const char *declared_run;  /* the same */
        bool host_pid, host_ipc;   /* the same; both take the users of the host */
        /* The new pod is the successor of this one, which has ended and is locked by the caller; or which
         * runs, and is stopped as soon as the new one has passed all checks. The new one gets its name, if
         * any. */
        Pod *predecessor;
        /* A later successor of the same pod, which has ended, is locked by the caller and has the name now; or NULL. */
        Pod *name_holder;
        /* stop before publishing: the pod is in the state preparing, and the caller discards it with
         * pod_abandon() */
        bool dry_run;
} PrepareOptions;
int prepare_pod(Store *s, const PodRequest *request, const PrepareOptions *o, Pod **ret, char ***warnings,
                Error *e);

/* image-policy.c: whether POLICY can be followed for the image REFERENCE. -EINVAL with the reason. */
int image_policy_check(ImagePolicy policy, const char *reference, Error *e);

/* prepare-pod.c: adds the single app of REQUEST to the running pod P, but not to its manifest on disk. Runs in a
 * child process of the supervisor (see pod_reify_app()), which passes *RET_ADDED to pod_merge_added(). */
int prepare_app(Pod *p, const PodRequest *request, char **ret_added, char ***warnings, Error *e);
/* The same of the app NAME, which REQUEST (see pod_app_definition_read()) has with another image: its units stay those of the
 * old app. */
int prepare_replacement(Pod *p, const char *name, const PodRequest *request, char **ret_added,
                        char ***warnings, Error *e);
/* Replaces the units of OLD by those of NEW, which has the same name, and removes the records of OLD. */
int exchange_units(Pod *p, const PodApp *old, const PodApp *new, Error *e);
/* Removes from the pod directory the leftovers of processes that failed to prepare an app. */
void sweep_apps(Pod *p);
/* Removes units that no app of the manifest needs. */
void sweep_units(Pod *p);
/* Removes the units and the records of A from the pod directory. */
void discard_app(Pod *p, const PodApp *a);

/* successor.c: prepares a pod with the definition of OLD, which has ended, and whose name it gets. With
 * REPLACE, OLD may run, and is stopped and removed. The images are those of OLD, or those that their
 * references resolve to with FETCH. -EBUSY: another process was faster. */
typedef struct SuccessorOptions {
        const FetchOptions *fetch; /* NULL: the same images */
        bool as_prepared; /* with the apps that it was prepared with, whatever has changed while it ran */
        bool replace;
        const char *const *config_dirs; /* as in PrepareOptions */
} SuccessorOptions;
int make_successor(Pod *old, const SuccessorOptions *o, Pod **ret, char ***warnings, Error *e);

/* Locks OLD, which has ended, before it becomes PrepareOptions.predecessor; from then on it does not change. -EBUSY: another
 * process was faster. */
int lock_ended_pod(Pod *old, Error *e);

/* former.c: removes some of the eldest pods that ended before P, which a unit of the host starts: only the last few stay.
 * CONFIG_DIR as for pods_of_units(). */
void remove_former_pods(const Pod *p, const char *config_dir);

/* stop.c: requests a running pod to shut down, and kills it if it has not ended after TIMEOUT_USEC (0: at once, without a
 * request; UINT64_MAX: never; STOP_AS_CONFIGURED: pod_stop_timeout()). Waits until it has ended; after two seconds a message
 * says what it waits for. 1: it was killed. */
#define STOP_AS_CONFIGURED (UINT64_MAX - 1)
int stop_pod(Pod *p, uint64_t timeout_usec, Error *e);

/* start-order.c: the indexes of the apps of M, each after the apps that it waits for (--after=); to be freed. */
int start_order(const PodManifest *m, size_t **ret, Error *e);

/* nested.c: whether LIMITS, which APP is to have while it runs, are within those of the apps that it is nested under. -EPERM: they are
 * not. */
int nested_check_limits(Pod *p, PodApp *app, const IsolatorList *limits, Error *e);

/* Removes a pod and all of its resources; a running one is shut down first. */
int discard_pod(Pod *p, Error *e);

/* enter.c: runs a command in a running app, with the app's confinement and the standard streams of this
 * process, and waits until it has ended. *RET_STATUS is the command's exit status, or 128 + the number of a
 * signal; 125 to 127 if the command could not be started, and 124 if it timed out, with the reason in E. */
typedef struct EnterOptions {
        const char *app;       /* NULL: the only one */
        char *const *argv;     /* empty: the shell of the image */
        const char *user;      /* USER[:GROUP], as the app could set it; NULL: the app's */
        char **environment;    /* NAME=VALUE, added to the app's */
        const char *directory; /* absolute; NULL: the app's working directory */
        uint64_t timeout_usec; /* then it and its descendants are killed; 0, UINT64_MAX: no timeout */
        bool no_input;         /* standard input is not read: that of the command is /dev/null */
        bool no_terminal;      /* pipes, although this process has a terminal */
} EnterOptions;
int enter_app(Pod *p, const EnterOptions *o, int *ret_status, Error *e);

/* attach.c: connects the standard streams of this process to those of an app that was started with a
 * standard input, until the app ends, which sets *RET_STATUS (0…255), or the user detaches (*RET_DETACHED). */
typedef struct AttachOptions {
        const char *app; /* NULL: the only one that has a standard input */
        uint64_t lines;  /* number of lines of earlier output to show first; UINT64_MAX: all */
        bool keep_input; /* the end of standard input does not end that of the app */
        bool no_input; /* standard input is not read, and the app may have none; the terminal stays in its mode */
        DetachKeys keys;
        /* N bytes of output were left out. RAW: the terminal is in raw mode, and needs carriage returns. */
        void (*skipped)(uint64_t n, bool raw);
} AttachOptions;
int attach_app(Pod *p, const AttachOptions *o, int *ret_status, bool *ret_detached, Error *e);

/* app-process.c. The app that NAME names; NULL: the only one. */
int pod_find_app(Pod *p, const char *name, const PodApp **ret, Error *e);

typedef struct AppProcess {
        pid_t pid; /* by the host's numbers */
        int pid_fd;
} AppProcess;

/* The app's main process, once it is the app and not the launcher any more. -ESRCH: it does not run.
 * -EOPNOTSUPP: it runs, but its main thread has ended. */
int app_process_open(Pod *p, const PodApp *app, AppProcess *ret, Error *e);
/* Whether the main process PID of an app is already the app, and not the launcher, or systemd. -ESRCH: it
 * has ended. */
int app_process_has_begun(Pod *p, pid_t pid);
/* Whether the main thread of PID has ended while others continue: the kernel provides no information by its
 * pid any more. */
bool process_main_thread_has_ended(pid_t pid);
