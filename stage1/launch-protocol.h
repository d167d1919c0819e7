/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The protocol between the launcher (inside the pod) and stage0 (outside), over acnspawn/socket of the pod's
 * root.
 *
 * The launcher sends one LaunchRequest as a packet, with two streams of the pod's journal that it has
 * opened: what is written to them is logged as the app's output. stage0 answers with one LaunchReply. On
 * success descriptors come with it: the app's launch file, the writing ends of two pipes, the app's root, a
 * /dev/pts of its own and its /dev as detached mounts, and one detached mount for each volume, in the order
 * of the launch file's "mount" entries; after these one of the app's credentials, if it has some, and one of
 * the socket by which the app notifies that it is ready, if it does. The launcher attaches the mounts in a
 * namespace of its own, so that no namespace ever has the mounts of two apps, and that of the pod's PID 1
 * has none of them.
 *
 * An app that has a standard input (reply.input) gets it as one more descriptor, the last; a terminal is
 * also standard output and standard error.
 *
 * Standard output and standard error are pipes, not the journal's sockets, because programs open
 * /dev/stdout, which fails on a socket; stage0 forwards their content. With LAUNCH_FLUSH, whose request and
 * reply have no descriptors, the launcher waits until everything that an app's processes wrote has been
 * forwarded; after the app's end the request has its exit status. The phases that follow LAUNCH_FLUSH below
 * report the state of the app, and are answered in the same way, at once. LAUNCH_AWAIT is answered once the
 * app has notified that it is ready; if the request has an exit status (0), at once: with an error (-EAGAIN)
 * if the app is not ready. The streams of a health check are the launcher's own, and are returned instead of
 * pipes.
 *
 * The launcher of LAUNCH_MAIN keeps its connection until the exec, which closes it. A connection that is
 * closed therefore means that the app was executed, unless the app's record contains a failure by then.
 */

#include "basic/basic.h"

#define LAUNCH_SOCKET_PATH "/acnspawn/socket"
#define LAUNCH_STATUS_PATH "/acnspawn/status"
#define LAUNCH_MOUNT_PATH "/acnspawn/mnt"
#define LAUNCH_CREDENTIALS_PATH "/dev/credentials" /* in the app's root */
#define LAUNCH_PROTOCOL_VERSION 8U
/* Where an app that notifies readiness finds the socket for that. */
#define LAUNCH_NOTIFY_NAME "notify"
#define LAUNCH_NOTIFY_PATH "/dev/" LAUNCH_NOTIFY_NAME
#define LAUNCH_MOUNTS_MAX 200U
#define LAUNCH_FILE_SIZE_MAX (16U * 1024U * 1024U)

typedef enum LaunchPhase {
        LAUNCH_PRE_START, /* the pre-start handler; the first phase of an execution gets a clean root */
        LAUNCH_MAIN,
        LAUNCH_POST_STOP,
        LAUNCH_HEALTH, /* a health check: like the app, but its output goes to the launcher */
        LAUNCH_FLUSH,
        LAUNCH_AWAIT,     /* asks whether the app has notified that it is ready */
        LAUNCH_READY,     /* the app is ready */
        LAUNCH_NOT_READY, /* it has ended before it was ready, and will not be started again */
        LAUNCH_UNHEALTHY, /* its health check has failed too often */
        LAUNCH_GIVEN_UP,  /* it was restarted too often, and no connection may start it any more */
        _LAUNCH_PHASE_MAX,
} LaunchPhase;

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
/* Volumes, and credentials, a socket and a standard input. */
#define LAUNCH_FDS_MAX (LAUNCH_FD_VOLUMES + LAUNCH_MOUNTS_MAX + 3)

typedef struct LaunchRequest {
        uint32_t version;
        uint32_t phase;
        int32_t exit_status; /* with LAUNCH_FLUSH: exit status of the app, 0…255; -1: it has not ended */
        char app[248];       /* NUL-terminated */
} LaunchRequest;

/* Security modules that are active on the host; labels for others are ignored. */
enum { LAUNCH_APPARMOR = 1, LAUNCH_SELINUX = 2 };

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
        uint32_t has_credentials, has_notify;
        uint64_t processes; /* value for RLIMIT_NPROC; 0: unchanged */
        uint32_t input;     /* LaunchInput; unless it is LAUNCH_INPUT_NULL, one more descriptor follows */
        char terminal_type[TERMINAL_TYPE_MAX]; /* NUL-terminated: TERM, unless the app sets it; or empty */
        char text[2036];                       /* NUL-terminated: AC_METADATA_URL, or the message */
} LaunchReply;
