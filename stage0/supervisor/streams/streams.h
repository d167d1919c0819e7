/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* streams.c: the standard streams of a process of an app. */

#include "stage0/supervisor/streams/forwarder.h"

/* The descriptors for the launcher. */
typedef struct StreamEnds {
        AppInput kind;
        int fds[3]; /* standard input (unless there is none), standard output, standard error */
} StreamEnds;

#define STREAM_ENDS_NULL ((StreamEnds){.fds = {-EBADF, -EBADF, -EBADF}})
/* For a process in PHASE of its life. JOURNAL are the two streams of the pod's journal, of which those that
 * are used are taken. PTS_FD is the devpts that the process gets. */
int streams_open(Pod *p, Forwarders *forwarders, AppInstance *app, uint32_t phase, int pts_fd,
                 int journal[static _LAUNCH_STREAM_MAX], StreamEnds *ret, Error *e);
