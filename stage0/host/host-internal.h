/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of stage0/host/. */

#include "stage0/host/host.h"

/* --- host.c: records that can be written on a full disk ------------------------------------------------- */

#define DROPS_FILE "dropped" /* drops.c */

/* --- cgroup-places.c ----------------------------------------------------------------------------------- */

/* The cgroups of process PID. -ENOSYS: cgroup v2 is not mounted. */
int cgroups_of_process(pid_t pid, Cgroups *ret, Error *e);
/* The cgroups PARENT, which are made if they are missing, in the same hierarchies. -ENOSYS as above. */
int cgroups_of_parent(const char *parent, Cgroups *ret, Error *e);
/* The mount point of the v2 hierarchy, or NULL. */
const char *cgroup_unified_mount(void);

/* --- cgroup-unit.c ------------------------------------------------------------------------------------- */

/* The cgroup of acnspawn itself in a scope or unit that it subdivides. A cgroup that enables controllers for
 * its children must not contain processes: in the unit they are all in children of it. */
#define CGROUP_SUPERVISOR "supervisor"
#define CGROUP_PIDS_V1 "/sys/fs/cgroup/pids"

/* Enables all controllers of the parent for the cgroup PATH. */
void cgroup_hand_on_controllers(const char *path);

/* --- cgroup.c ------------------------------------------------------------------------------------------ */

/* The actual features of P, while it runs. -ENOENT: it has no cgroup. */
int pod_cgroup_features(Pod *p, HostFeatures *ret);

/* --- host-systemd.c ------------------------------------------------------------------------------------ */

#define SYSTEMD_SOCKET "/run/systemd/private"

int host_systemd_connect(sd_bus **ret);
/* A property that is a string. END_USEC and STOP as with systemd_call(). */
int host_systemd_get(sd_bus *bus, const char *path, const char *interface, const char *property,
                     uint64_t end_usec, const struct NetworkStop *stop, char **ret);

/* --- scope.c: where systemd is the host's init --------------------------------------------------------- */

/* Moves process PID into a new delegated scope unit. -EINTR: PLACE->stop was requested. */
int pod_scope_start(const Pod *p, pid_t pid, const PodPlace *place, Error *e);
/* Stops the scope, killing all processes in it. Succeeds if there is none; does nothing if the caller is in
 * it: the scope then ends with the caller. */
int pod_scope_stop(const Pod *p, Error *e);
