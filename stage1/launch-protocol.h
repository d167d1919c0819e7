/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the launcher (inside the pod) and stage0 (outside) say to each other, over acnspawn/socket of the
 * pod's root.
 *
 * The launcher sends one LaunchRequest as a packet, with two streams of the pod's journal that it has
 * opened: what they carry counts as the app's own. stage0 answers with one LaunchReply. On success
 * descriptors come with it: the app's launch file, the writing ends of two pipes, the app's root, a
 * /dev/pts of its own and its /dev as detached mounts, and one detached mount for each volume, in the order of the launch file's "mount"
 * entries; after these one of the app's credentials, if it has some, and one of the socket by which the app
 * tells that it is ready, if it does. The launcher attaches the mounts in a
 * namespace of its own, so that no namespace ever holds the mounts of two apps, and the pod's PID 1 none of
 * them.
 *
 * An app that has a standard input (reply.input) gets it as one more descriptor, the last; a terminal is
 * standard output and standard error, too.
 *
 * Standard output and standard error are pipes, not the journal's sockets, because programs open
 * /dev/stdout, which fails on a socket; stage0 passes on what comes out of them. With LAUNCH_FLUSH, which
 * carries and brings no descriptors, the launcher waits until everything that an app's processes wrote has
 * been passed on; once the app has ended it tells how with that. The words after it tell what became of the
 * app, and are answered alike, at once. LAUNCH_AWAIT is answered once the app has told that it is ready; with
 * an exit status (0) at once: with an error (-EAGAIN) if it has not. The streams of a health check are the launcher's own, and come back
 * instead of pipes.
 *
 * The launcher of LAUNCH_MAIN keeps its connection until the exec, which closes it. A connection that ends is
 * therefore an app that was executed, unless the app's record says by then why it could not be.
 */

#include "basic/basic.h"

#define LAUNCH_SOCKET_PATH "/acnspawn/socket"
#define LAUNCH_STATUS_PATH "/acnspawn/status"
#define LAUNCH_MOUNT_PATH "/acnspawn/mnt"
#define LAUNCH_CREDENTIALS_PATH "/dev/credentials" /* in the app's root */
#define LAUNCH_PROTOCOL_VERSION 7U
/* Where an app that is to tell when it is ready finds the socket for that. */
#define LAUNCH_NOTIFY_NAME "notify"
#define LAUNCH_NOTIFY_PATH "/dev/" LAUNCH_NOTIFY_NAME
#define LAUNCH_MOUNTS_MAX 200U
#define LAUNCH_FILE_SIZE_MAX (16U * 1024U * 1024U)

typedef enum LaunchPhase {
        LAUNCH_PRE_START, /* the pre-start handler; the first phase of an execution gets a clean root */
        LAUNCH_MAIN,
        LAUNCH_POST_STOP,
        LAUNCH_HEALTH, /* a health check: as the app, but what it writes goes to the launcher */
        LAUNCH_FLUSH,
        LAUNCH_AWAIT,     /* asks whether the app has told that it is ready */
        LAUNCH_READY,     /* the app is ready */
        LAUNCH_NOT_READY, /* it has ended before, and will not be started again */
        LAUNCH_UNHEALTHY, /* its health check has failed too often */
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
        LAUNCH_FD_VOLUMES, /* and after them what else there is, as above */
};
/* With credentials, a socket and a standard input. */
#define LAUNCH_FDS_MAX (LAUNCH_FD_VOLUMES + LAUNCH_MOUNTS_MAX + 3)

typedef struct LaunchRequest {
        uint32_t version;
        uint32_t phase;
        int32_t exit_status; /* with LAUNCH_FLUSH: 0…255, the app has ended with it; else -1 */
        char app[248];       /* NUL-terminated */
} LaunchRequest;

/* Security modules that are active on the host; labels for others are left aside. */
enum { LAUNCH_APPARMOR = 1, LAUNCH_SELINUX = 2 };

/* The profiles that come with acnspawn: where AppArmor has them loaded, apps without a profile of their own
 * run in the first, or in the second if they may mount. */
#define APP_PROFILE "acnspawn-app"
#define APP_PROFILE_MOUNTS "acnspawn-app-mounts"

/* What the app reads. */
typedef enum LaunchInput { LAUNCH_INPUT_NULL, LAUNCH_INPUT_PIPE, LAUNCH_INPUT_TERMINAL } LaunchInput;

typedef struct LaunchReply {
        int32_t error; /* 0, or a negative errno; then text says why */
        uint32_t n_volumes;
        uint32_t modules;
        uint32_t has_credentials, has_notify;
        uint64_t processes; /* what RLIMIT_NPROC is to be, or 0: what it is */
        uint32_t input;     /* LaunchInput; unless there is nothing to read, one descriptor more */
        char terminal_type[TERMINAL_TYPE_MAX]; /* NUL-terminated: TERM, unless the app has that; or empty */
        char text[2036];                       /* NUL-terminated: AC_METADATA_URL, or the message */
} LaunchReply;
