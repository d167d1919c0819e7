/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* cgroup-moves.c: processes are moved to their cgroups without a wait while apps are started. */

#include "library/libsystemd.h"

typedef struct CgroupMoves CgroupMoves;

int cgroup_moves_new(sd_event *event, CgroupMoves **ret);
CgroupMoves *cgroup_moves_free(CgroupMoves *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(CgroupMoves *, cgroup_moves_free);
/* Processes will be moved within USEC from now on; replaces what was said before. A failure has no other effect than that moves
 * take longer. M may be NULL. */
void cgroup_moves_expect(CgroupMoves *m, uint64_t usec);
