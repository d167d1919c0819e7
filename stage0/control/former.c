/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes former pods of a unit of the host.
 *
 * Each start of such a unit makes another pod, and the one that has ended stays for a while. If the unit crashes in a loop they
 * would fill the disk before a collector is due: so at each start only the last of them stay. */

#include "stage0/control/control-internal.h"

#define FORMER_MAX 5U  /* that stay */
#define REMOVED_MAX 4U /* at one start, which waits for that */

/* Pods of one unit have a name in common or, if it names its pod by the UUID, the pod that they were made from. */
static bool is_former(const Pod *p, const Pod *old)
{
        const char *name = old->config.name ?: old->former_name;

        if (old->state != POD_EXITED || old->config.owner || streq(old->uuid, p->uuid))
                return false;
        if (p->config.name && streq_ptr(name, p->config.name))
                return true;
        return p->config.predecessor && !streq(old->uuid, p->config.predecessor) &&
               streq_ptr(old->config.predecessor, p->config.predecessor);
}

/* What fails is repeated by the collector, or at the next start. */
static void remove_former(Pod *old)
{
        if (pod_lock(old, false, NULL) < 0 || old->state != POD_EXITED)
                return;
        if (pod_release(old, NULL, NULL) >= 0)
                (void) pod_remove(old, NULL);
}

void remove_former_pods(const Pod *p, const char *config_dir)
{
        _cleanup_kept_pods_ KeptPods kept = {};
        _cleanup_error_ Error e = ERROR_NULL;
        Pod **pods = NULL;
        size_t n = 0, n_former = 0;

        if (!p->config.predecessor || pod_list(p->store, &pods, &n, &e) < 0)
                return;
        for (size_t i = 0; i < n; i++) { /* the eldest first */
                Pod *old = pods[i];

                if (!is_former(p, old))
                        continue;
                pods[i] = pods[n_former];
                pods[n_former++] = old;
        }
        bool known = n_former <= FORMER_MAX || pods_of_units(config_dir, &kept.names, &e) >= 0;
        for (size_t i = 0; known && i < REMOVED_MAX && i + FORMER_MAX < n_former; i++)
                if (!kept_pods_have(&kept, pods[i]))
                        remove_former(pods[i]);
        pod_list_free(pods, n);
}
