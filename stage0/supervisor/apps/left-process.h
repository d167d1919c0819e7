/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* left-process.c: kills a child that a file system may block, waits two seconds at most, and reaps it later. */

#include "library/libsystemd.h"
#include "stage0/host/host.h"

/* Waits for the end of a child for a second, kills it, and waits for another second. If it has not ended by then, a timer in
 * EVENT reaps it later. */
void leave_process(sd_event *event, pid_t pid);
