/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of stage0/runtime/ share. */

#include "stage0/runtime/runtime.h"

/* --- cgroup-places.c ----------------------------------------------------------------------------------- */

/* Those that process PID is in. -ENOSYS: cgroup v2 is not mounted. */
int cgroups_of_process(pid_t pid, Cgroups *ret, Error *e);
/* Where the v2 hierarchy is mounted, or NULL. */
const char *cgroup_unified_mount(void);

/* --- cgroup-unit.c ------------------------------------------------------------------------------------- */

/* Where acnspawn itself is in a scope or unit that it divides. A cgroup that hands on controllers must not
 * hold processes: in the unit they are all in children of it. */
#define CGROUP_SUPERVISOR "supervisor"
#define CGROUP_PIDS_V1 "/sys/fs/cgroup/pids"

/* The cgroup PATH is to have all the controllers that its parent has. */
void cgroup_hand_on_controllers(const char *path);

/* --- cgroup.c ------------------------------------------------------------------------------------------ */

/* What P really has, while it runs. -ENOENT: it has no cgroup. */
int pod_cgroup_features(Pod *p, HostFeatures *ret);

/* --- scope.c: where systemd is the host's init --------------------------------------------------------- */

/* Moves process PID into a new scope unit of its own, which is delegated to us. */
int pod_scope_start(const Pod *p, pid_t pid, sd_bus *bus, Error *e);
/* Kills all processes in it. Success if there is none; nothing is done if the caller is in it: the scope then ends with
 * the caller. */
int pod_scope_stop(const Pod *p, Error *e);
