/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the launcher (inside the pod) and stage0 (outside) say to each other, over acnspawn/socket of the
 * pod's root.
 *
 * The launcher sends one LaunchRequest as a packet; stage0 answers with one LaunchReply. On success
 * descriptors come with it: the app's launch file, its root and its /dev as detached mounts, and one
 * detached mount for each volume, in the order of the launch file's "mount" entries. The launcher attaches
 * them in a mount namespace of its own, so that no namespace ever holds the mounts of two apps, and the
 * pod's PID 1 none of them.
 */

#include "basic/basic.h"

#define LAUNCH_SOCKET_PATH "/acnspawn/socket"
#define LAUNCH_STATUS_PATH "/acnspawn/status"
#define LAUNCH_MOUNT_PATH "/acnspawn/mnt"
#define LAUNCH_PROTOCOL_VERSION 1U
#define LAUNCH_MOUNTS_MAX 200U
#define LAUNCH_FILE_SIZE_MAX (16U * 1024U * 1024U)

typedef enum LaunchPhase {
        LAUNCH_PRE_START, /* the pre-start handler; the first phase of an execution gets a clean root */
        LAUNCH_MAIN,
        LAUNCH_POST_STOP,
        _LAUNCH_PHASE_MAX,
} LaunchPhase;

enum { LAUNCH_FD_FILE, LAUNCH_FD_ROOT, LAUNCH_FD_DEV, LAUNCH_FD_VOLUMES };

typedef struct LaunchRequest {
        uint32_t version;
        uint32_t phase;
        char app[248]; /* NUL-terminated */
} LaunchRequest;

typedef struct LaunchReply {
        int32_t error; /* 0, or a negative errno; then text says why */
        uint32_t n_volumes;
        char text[2040]; /* NUL-terminated: AC_METADATA_URL, or the message */
} LaunchReply;
