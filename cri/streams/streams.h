/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of Exec, Attach and PortForward: stream-*.c. */

#include "cri/sandbox.h"
#include "cri/streaming/streaming.h"

enum { CRI_STREAM_EXEC, CRI_STREAM_ATTACH, CRI_STREAM_PORT_FORWARD };

/* In the process of a stream, for which J is made. *RET_EXIT: the exit code of what was run. */
int cri_stream_exec(CriJob *j, Session *session, const void *request, int *ret_exit, Error *e);
int cri_stream_port_forward(CriJob *j, Session *session, const void *request, int *ret_exit, Error *e);
int cri_stream_attach(CriJob *j, Session *session, const void *request, int *ret_exit, Error *e);
