/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The protocol between the launcher (inside the pod) and the supervisor (outside), over acnspawn/socket of the pod's
 * root. The launcher sends one packet on a connection, and gets one LaunchReply.
 *
 * A LaunchRequest asks for something. The first ones are those of a process that becomes the app, or a handler or a
 * check of it; with them come two streams of the pod's journal that the launcher has opened: what is written to them
 * is logged as the app's output. On success descriptors come with the reply: the app's launch file, the writing ends
 * of two pipes, the app's root, a /dev/pts of its own and its /dev as detached mounts, and one detached mount for
 * each volume, in the order of the launch file's "mount" entries; after these one of the app's credentials, if it
 * has some; one of the root in which mount points can be made, if the root is read-only and locked
 * (reply.has_maker); one of the socket by which the app notifies that it is ready, if it does; the report (below), with
 * LAUNCH_MAIN; and its standard input, if it has one (reply.input): a terminal is also standard output and standard
 * error. If connections start the app, its sockets come with LAUNCH_MAIN in packets of their own behind the reply,
 * LaunchSockets, in the order in which the app gets them: there may be more than one packet can have. The launcher attaches the mounts in a namespace of its own, so that no namespace ever has the mounts of two
 * apps, and that of the pod's PID 1 has none of them.
 *
 * Standard output and standard error are pipes, not the journal's sockets, because programs open
 * /dev/stdout, which fails on a socket; the supervisor forwards their content. The streams of a health check are the
 * launcher's own, and are returned instead of pipes.
 *
 * The launcher of LAUNCH_MAIN keeps its connection until the exec, which closes it. What it has to report at that
 * time is in shared memory, a LaunchReport: the filter of the app may forbid every system call but the exec. A
 * connection that is closed therefore means that the app was executed, unless the report contains a failure by then.
 *
 * A LaunchEvent reports what has happened to the app. The supervisor alone keeps the status that results from it.
 */

#include "basic/basic.h"
#include "stage1/app-status.h"

#define LAUNCH_SOCKET_PATH "/acnspawn/socket"
#define LAUNCH_MOUNT_PATH "/acnspawn/mnt"
#define LAUNCH_CREDENTIALS_PATH "/dev/credentials" /* in the app's root */
/* Beside the credentials of an app that may launch others: its socket, and the token for it. */
#define LAUNCH_CONTROL_SOCKET "acnspawn.control"
#define LAUNCH_CONTROL_TOKEN "acnspawn.token"
#define LAUNCH_CONTROL_VARIABLE "ACNSPAWN_CONTROL" /* has the path of the socket */
#define LAUNCH_PROTOCOL_VERSION 11U
/* Where an app that notifies readiness finds the socket for that. */
#define LAUNCH_NOTIFY_NAME "notify"
#define LAUNCH_NOTIFY_PATH "/dev/" LAUNCH_NOTIFY_NAME
/* The pid namespace of an app that is not in the pod's, as the launcher's units have it: one of its own, the one that apps
 * share, whose process 1 is that of LAUNCH_PROCESSES_UNIT, or with a name behind it that of another app. */
#define LAUNCH_PID_PRIVATE "private"
#define LAUNCH_PID_SHARED "shared"
#define LAUNCH_PID_APP "app:"
#define LAUNCH_PROCESSES_UNIT "pod-init.service"
#define LAUNCH_MOUNTS_MAX 200U
#define LAUNCH_FILE_SIZE_MAX (16U * 1024U * 1024U)

typedef enum LaunchPhase {
        LAUNCH_PRE_START, /* the pre-start handler; the first phase of an execution gets a clean root */
        LAUNCH_MAIN,
        LAUNCH_POST_STOP,
        LAUNCH_HEALTH, /* a health check: like the app, but its output goes to the launcher */
        /* From here on without descriptors. */
        LAUNCH_DELAY, /* the app is about to be started, perhaps again: reply.value is how long to wait before
                             * that, in microseconds; LAUNCH_STARTS follows if it is not 0 */
        LAUNCH_AWAIT_EXEC,  /* answered when the app is executed */
        LAUNCH_AWAIT_READY, /* answered when the app has notified that it is ready */
        LAUNCH_ASK_READY,   /* answered at once: -EAGAIN if it has not */
        LAUNCH_CHECK, /* a periodic health check begins: reply.value is the number of the execution; -ECANCELED:
                             * there is nothing to check */
        LAUNCH_FLUSH, /* of the pod's process 1 that ends the pod, without an app: answered when everything is
                             * forwarded that the apps have written */
        _LAUNCH_PHASE_MAX,
} LaunchPhase;

/* Whether the process gets what belongs to the app. */
static inline bool launch_phase_has_root(LaunchPhase p)
{
        return p <= LAUNCH_HEALTH;
}

typedef enum LaunchEventKind {
        LAUNCH_STARTS,          /* the delay is over */
        LAUNCH_PRE_START_ENDED, /* with how it ended, or the failure to start it, and the identity */
        LAUNCH_FAILED, /* the app could not be started; of a launcher that has no report to write to */
        LAUNCH_READY,
        LAUNCH_CHECKED, /* with how the check ended, or the failure to start it */
        LAUNCH_MAIN_ENDED, /* with how; answered when what the app has written is forwarded. -ECANCELED: it never
                                 * ran, and no handler runs */
        LAUNCH_POST_STOP_ENDED, /* as LAUNCH_PRE_START_ENDED; answered when what it has written is forwarded */
        _LAUNCH_EVENT_MAX,
} LaunchEventKind;

enum { LAUNCH_STREAM_STDOUT, LAUNCH_STREAM_STDERR, _LAUNCH_STREAM_MAX };

/* Descriptors of a reply. */
enum {
        LAUNCH_FD_FILE,
        LAUNCH_FD_STDOUT,
        LAUNCH_FD_STDERR,
        LAUNCH_FD_ROOT,
        LAUNCH_FD_PTS,
        LAUNCH_FD_DEV,
        LAUNCH_FD_VOLUMES, /* and after them the optional ones, as above */
};
/* Volumes, and credentials, a writable root, a socket, a report and a standard input. */
#define LAUNCH_FDS_MAX (LAUNCH_FD_VOLUMES + LAUNCH_MOUNTS_MAX + 5)

typedef struct LaunchRequest {
        uint32_t version;
        uint32_t phase;
        char app[248]; /* NUL-terminated; empty with LAUNCH_FLUSH */
} LaunchRequest;

#define LAUNCH_MESSAGE_MAX 2048U

/* Fields that a kind of event does not have are 0. */
typedef struct LaunchEvent {
        uint32_t version;
        uint32_t kind;
        int32_t exit_status; /* of a process: 0…255, or -1 */
        int32_t signal;      /* that ended it, or 0 */
        uint32_t known;      /* LAUNCH_MAIN_ENDED: both of them are */
        uint32_t core_dumped;
        uint32_t timed_out;
        uint32_t counts; /* LAUNCH_CHECKED: a failure counts */
        uint32_t cause;  /* AppCause: of a failure to start something; else CAUSE_NONE */
        uint64_t number; /* LAUNCH_CHECKED: of the execution; 0: of a check while the app starts */
        char app[248];   /* this and the next ones: NUL-terminated */
        char result[24]; /* LAUNCH_MAIN_ENDED: what systemd calls it: "success", "timeout", "oom-kill", … */
        char identity[APP_IDENTITY_MAX];
        char message[LAUNCH_MESSAGE_MAX];
} LaunchEvent;

/* What the launcher of LAUNCH_MAIN has to report. */
typedef struct LaunchReport {
        uint64_t started_usec; /* when it gave up its privileges; 0: it has not got that far */
        uint32_t cause;        /* AppCause: it could not execute the app; else CAUSE_NONE */
        uint32_t reserved;
        char identity[APP_IDENTITY_MAX]; /* the user and groups of the app */
        char message[LAUNCH_MESSAGE_MAX];
} LaunchReport;

/* Security modules that are active on the host; labels for others are ignored. LAUNCH_NO_PROFILES: AppArmor has none of the
 * profiles below. To request one would be a denial in the kernel's log. */
enum { LAUNCH_APPARMOR = 1, LAUNCH_SELINUX = 2, LAUNCH_NO_PROFILES = 4 };

/* The profiles that come with acnspawn: if AppArmor has them loaded, apps without a profile of their own run
 * in the first, or in the second if they may mount. */
#define APP_PROFILE "acnspawn-app"
#define APP_PROFILE_MOUNTS "acnspawn-app-mounts"

/* The app's standard input. */
typedef enum LaunchInput { LAUNCH_INPUT_NULL, LAUNCH_INPUT_PIPE, LAUNCH_INPUT_TERMINAL } LaunchInput;

typedef struct LaunchReply {
        int32_t error; /* 0, or a negative errno; then text is the message */
        uint32_t n_volumes;
        uint32_t modules;
        uint32_t has_credentials, has_maker, has_notify, has_report;
        uint32_t n_sockets; /* of the packets that follow */
        uint64_t value;     /* of the phases that have one */
        uint64_t processes; /* value for RLIMIT_NPROC; 0: unchanged */
        uint32_t input;     /* LaunchInput; unless it is LAUNCH_INPUT_NULL, one more descriptor follows */
        char terminal_type[TERMINAL_TYPE_MAX]; /* NUL-terminated: TERM, unless the app sets it; or empty */
        char identity[APP_IDENTITY_MAX];       /* NUL-terminated: of this execution, or empty */
        char text[2036];                       /* NUL-terminated: AC_METADATA_URL, or the message */
} LaunchReply;

/* Descriptors of listening sockets come with it, and the name of the port of each; of the last packet only the names that it
 * has are sent. */
#define LAUNCH_SOCKETS_STEP 64U
typedef struct LaunchSockets {
        uint32_t n;
        char names[LAUNCH_SOCKETS_STEP][256]; /* NUL-terminated */
} LaunchSockets;
#define LAUNCH_SOCKETS_SIZE(n)                                                                              \
        (offsetof(LaunchSockets, names) + (n) * sizeof(((LaunchSockets *) NULL)->names[0]))
