/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* outlet.c: writing to a standard stream of ours without ever waiting for whoever reads it. */

#include "basic/basic.h"
#include "library/libsystemd.h"

typedef struct Outlet Outlet;

/* FD stays the caller's. ROOM is called when an outlet that was full is no longer, and when all that was
 * kept is written; it may free the outlet. */
int outlet_new(sd_event *event, int fd, void (*room)(void *userdata), void *userdata, Outlet **ret);
Outlet *outlet_free(Outlet *o);
DEFINE_TRIVIAL_CLEANUP_FUNC(Outlet *, outlet_free);
/* What does not go out at once is kept. Fails if nobody reads any more. */
int outlet_write(Outlet *o, const void *data, size_t size);
/* So much is kept that no more should be added before there is room. */
bool outlet_is_full(const Outlet *o);
bool outlet_is_empty(const Outlet *o);
bool outlet_is_terminal(const Outlet *o);
/* Writes what is kept. -ETIME: nothing could be written for so long; -1: waits as long as it takes. The end of
 * the operation (or NULL) ends it, too. */
int outlet_finish(Outlet *o, const Operation *operation, int timeout_msec);
