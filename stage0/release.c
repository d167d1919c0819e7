/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a pod that has ended may have left outside of its directory: its cgroups, if the process that ran it
 * was killed. Mounts, namespaces and processes went with that process. */

#include "stage0/supervisor.h"

int pod_release(Pod *p, void *userdata, Error *e)
{
        return pod_cgroup_remove(p, e);
}
