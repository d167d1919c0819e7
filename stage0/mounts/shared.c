/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Volumes of the host that pass on mounts both ways.
 *
 * The mounts in the namespace of this process are slaves: what is mounted on a clone of them never reaches the host. So the
 * volume is cloned in the host's namespace, by a child (sources.c), which sends the clone back; it is attached in the namespace of the app
 * alone, and shares its mounts with the host from there. */

#include <sched.h>

#include "stage0/mounts/mounts-internal.h"

int pod_mounts_check_shared(const PodMounts *m, const Volume *v, Error *e)
{
        if (m->userns_fd < 0 && m->host_fd >= 0)
                return 0;
        return error_set(
                        e, -EINVAL,
                        "Volume '%s' cannot have propagation=shared in a pod with users of its own: it takes --no-userns",
                        v->name);
}

int pod_mounts_enter_host(const PodMounts *m, Error *e)
{
        return setns(m->host_fd, CLONE_NEWNS) < 0
                               ? error_set_errno(e, -errno, "Cannot enter the mount namespace of the host")
                               : 0;
}
