/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/control/: what is done to pods by request. */

#include "library/libsystemd.h"
#include "stage0/runtime/runtime.h"

/* --- manager.c: the pod's systemd ---------------------------------------------------------------------- */

/* A connection to the private socket of the pod's systemd, which is made by a process that has joined the pod's user and
 * pid namespaces. sd_bus_flush_close_unref() ends it. */
int pod_manager_connect(Pod *p, sd_bus **ret, Error *e);
/* The object of a unit; to be freed. */
int manager_unit_path(const char *unit, char **ret);

/* detach-keys.c: what is typed on a terminal to leave an app alone: names of keys ("ctrl-]", "a") with
 * commas between. */
#define DETACH_KEYS_DEFAULT "ctrl-],ctrl-],ctrl-]"
typedef struct DetachKeys {
        unsigned char keys[8];
        size_t n;     /* 0: there is no such thing */
        size_t typed; /* so many of them, the first one at */
        uint64_t first_usec;
} DetachKeys;
int detach_keys_parse(const char *s, DetachKeys *ret); /* -EINVAL */
/* How many of the SIZE bytes come before the last of the keys; SIZE: they were not typed. */
size_t detach_keys_find(DetachKeys *k, const void *data, size_t size);

/* forward.c: between our standard streams and signals and something in a pod. */
typedef struct Forward Forward;
typedef struct ForwardOps {
        const char *what; /* for messages: whose streams they are */
        /* The socket is readable. 1: the other side has ended; negative: it is gone, or something failed. */
        int (*event)(Forward *f);
        /* We were sent SIG. 1: that ends us. */
        int (*signal)(Forward *f, int sig);
        void (*resized)(Forward *f, const struct winsize *size);
        void (*last)(Forward *f);               /* our standard input has ended; may be NULL */
        void (*stopped)(Forward *f, bool stop); /* we stop for a while, or go on again; may be NULL */
} ForwardOps;

struct Forward {
        const ForwardOps *ops;
        void *userdata;
        int fds[3]; /* to and from the other side, or -EBADF; those that end are closed */
        int socket;
        bool terminal;          /* the other side is one, and ours is raw as long as that is so */
        bool leave_when_unread; /* whoever does not read our output any more has left */
        DetachKeys keys;
        bool left;  /* result: they were typed, or nobody reads */
        int signal; /* result: what ended us, or 0 */
        struct ForwardLoop *loop;
};

#define FORWARD_NULL ((Forward){.fds = {-EBADF, -EBADF, -EBADF}, .socket = -EBADF})
/* Until the other side has ended, or we leave. */
int forward_streams(Forward *f, Error *e);
void forward_done(Forward *f); /* closes what is left of it */
/* From inside an event: the other side is a terminal from now on, or is none any more. */
void forward_set_terminal(Forward *f, bool terminal);
/* What others wrote to our terminal may have changed it. */
void forward_note_escapes(Forward *f);
/* The master of a terminal of the other side, which is there only now; it is both streams. */
void forward_take_terminal(Forward *f, int master);
/* The size of our terminal; zero if we have none. */
void forward_get_size(struct winsize *ret);

/* prepare-pod.c: request -> prepared pod. */
typedef struct PrepareOptions {
        const char *name, *hostname, *stage1;
        /* Another pod that has the name is stopped and removed, as soon as nothing speaks against this
         * one. */
        bool replace;
        bool private_users;
        NetMode net;
        char **networks; /* of NET_NETWORKS; see pod_network_check() */
        char **dns, **dns_search, **dns_options, **hosts_entries; /* see PodConfig */
        const char *const *config_dirs; /* where net.d is; NULL: the usual directories */
        ExitPolicy exit_policy;
        uint64_t stop_timeout_usec;
        uint64_t exit_idle_usec; /* 0 or UINT64_MAX: the pod stays up */
        bool strict;             /* refuse the pod unless all isolators are enforced here */
        /* The new pod is the successor of this one, which has ended and is locked by the caller; or which runs, and
         * is stopped as soon as nothing speaks against the new one. It gets its name, if it has one. */
        Pod *predecessor;
        bool dry_run; /* stop when it is known what the pod would be: it is in the state preparing, and the
                       * caller gives it up with pod_abandon() */
} PrepareOptions;
int prepare_pod(Store *s, const PodRequest *request, const PrepareOptions *o, Pod **ret, char ***warnings,
                Error *e);

/* prepare-pod.c: adds the one app of REQUEST to the running pod P, all but to its manifest on disk: for a process of its
 * own, which is between the supervisor and the pod directory (see pod_reify_app()). *RET_ADDED is for
 * pod_merge_added(). */
int prepare_app(Pod *p, const PodRequest *request, char **ret_added, char ***warnings, Error *e);
/* Removes from the pod directory what a process that was to prepare an app has left there. */
void sweep_apps(Pod *p);
/* Removes the units of A, and what is recorded of it, from the pod directory. */
void discard_app(Pod *p, const PodApp *a);

/* successor.c: makes a pod like OLD, which has ended, and which gives its name to it. With REPLACE it may run,
 * and is stopped and removed. The images are those that OLD has run with, or what their references mean to
 * FETCH. -EBUSY: another process was faster. */
typedef struct SuccessorOptions {
        const FetchOptions *fetch; /* NULL: the same images */
        bool replace;
        const char *const *config_dirs; /* as in PrepareOptions */
} SuccessorOptions;
int make_successor(Pod *old, const SuccessorOptions *o, Pod **ret, char ***warnings, Error *e);

/* stop.c: asks a running pod to end in order, and kills it if it has not after TIMEOUT_USEC (0: at once,
 * without asking; UINT64_MAX: never); waits until it has ended. 1: it was killed. */
int stop_pod(Pod *p, uint64_t timeout_usec, Error *e);

/* Removes a pod with all that is left of it; one that runs is stopped in order before. */
int discard_pod(Pod *p, Error *e);

/* enter.c: runs a command beside an app that runs, confined as the app is, with our standard streams,
 * and waits until it has ended. *RET_STATUS is the command's exit status, 128 + the number of a signal; of a
 * command that could not be started 125 to 127, and of one that took too long 124, with the reason in E. */
typedef struct EnterOptions {
        const char *app;       /* NULL: the only one */
        char *const *argv;     /* empty: the shell of the image */
        const char *user;      /* USER[:GROUP] that the app could become; NULL: the app's */
        char **environment;    /* NAME=VALUE, added to the app's */
        const char *directory; /* absolute; NULL: the app's working directory */
        uint64_t timeout_usec; /* after which it is killed, with all that it has started; 0, UINT64_MAX: none */
} EnterOptions;
int enter_app(Pod *p, const EnterOptions *o, int *ret_status, Error *e);

/* attach.c: connects our standard streams to those of an app that was started with a standard input, until
 * it ends, which gives *RET_STATUS (0…255), or we leave it alone (*RET_LEFT). */
typedef struct AttachOptions {
        const char *app; /* NULL: the only one that has a standard input */
        uint64_t lines;  /* so many of what it wrote before come first; UINT64_MAX: all */
        bool keep_input; /* the end of our standard input is not the end of the app's */
        DetachKeys keys;
        /* N bytes of output were left out. RAW: our terminal is, and does not begin lines by itself. */
        void (*skipped)(uint64_t n, bool raw);
} AttachOptions;
int attach_app(Pod *p, const AttachOptions *o, int *ret_status, bool *ret_left, Error *e);

/* app-process.c. The app that NAME names; NULL: the only one. */
int pod_find_app(Pod *p, const char *name, const PodApp **ret, Error *e);

typedef struct AppProcess {
        pid_t pid; /* by the host's numbers */
        int pid_fd;
} AppProcess;

/* The app's main process, once it is the app and not the launcher any more. -ESRCH: it does not run.
 * -EOPNOTSUPP: it does, but has no first thread any more. */
int app_process_open(Pod *p, const PodApp *app, AppProcess *ret, Error *e);
/* Whether the main process PID of an app is the app already, and not the launcher, or systemd. -ESRCH: it has ended,
 * or, */
int app_process_has_begun(Pod *p, pid_t pid);
/* its first thread has, while others go on: the kernel tells nothing by its number any more. */
bool process_has_lost_its_first_thread(pid_t pid);
