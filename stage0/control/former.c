/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Removes former pods of a unit of the host.
 *
 * Each start of such a unit makes another pod, and the one that has ended stays for a while. If the unit crashes in a loop they
 * would fill the disk before a collector is due: so at each start only the last of them stay. */

#include "stage0/control/control-internal.h"

#define FORMER_MAX 5U  /* that stay */
#define REMOVED_MAX 4U /* at one start, which waits for that */
#define WAIT_USEC (5 * UINT64_C(1000000))
#define SHORT_USEC (60 * UINT64_C(1000000))

/* From its creation to its end. What was there longer has not crashed in a loop. */
static bool was_short(const Pod *old)
{
        uint64_t created = pod_created_usec(old), ended = pod_ended_usec(old);

        return ended >= created && ended - created < SHORT_USEC;
}

/* Pods of one unit have a name in common or, if it names its pod by the UUID, the pod that they were made from. */
static bool is_former(const Pod *p, const Pod *old)
{
        const char *name = old->config.name ?: old->former_name;

        if (old->state != POD_EXITED || old->config.owner || streq(old->uuid, p->uuid) || !was_short(old))
                return false;
        if (p->config.name && streq_ptr(name, p->config.name))
                return true;
        return p->config.predecessor && !streq(old->uuid, p->config.predecessor) &&
               streq_ptr(old->config.predecessor, p->config.predecessor);
}

/* Nothing that takes long: pods that have left networks, or processes, are the collector's. So is what fails here. */
static bool remove_former(Pod *old)
{
        if (old->place != POD_EXITED || network_is_left(old) || pod_lock(old, false, NULL) < 0 ||
            old->place != POD_EXITED || pod_exclude_readers(old, false, NULL) < 0)
                return false;
        return pod_release(old, NULL, NULL) >= 0 && pod_remove(old, NULL) >= 0;
}

/* The last pod of that name was there for long: this is no loop, and not worth reading all pods. */
static bool last_was_long(const Pod *p)
{
        _cleanup_(pod_freep) Pod *last = NULL;

        return p->config.name && pod_open(p->store, p->config.predecessor, &last, NULL) >= 0 &&
               !was_short(last);
}

void remove_former_pods(const Pod *p, const char *config_dir)
{
        _cleanup_kept_pods_ KeptPods kept = {};
        _cleanup_error_ Error e = ERROR_NULL;
        Pod **pods = NULL;
        size_t n = 0, n_former = 0;

        if (!p->config.predecessor || last_was_long(p) || pod_list(p->store, &pods, &n, &e) < 0)
                return;
        for (size_t i = 0; i < n; i++) { /* the eldest first */
                Pod *old = pods[i];

                if (!is_former(p, old))
                        continue;
                pods[i] = pods[n_former];
                pods[n_former++] = old;
        }
        uint64_t deadline = deadline_after(WAIT_USEC);
        bool known = n_former <= FORMER_MAX || pods_of_units(config_dir, &kept.names, &e) >= 0;
        for (size_t i = 0, removed = 0; known && removed < REMOVED_MAX && i + FORMER_MAX < n_former; i++)
                if (deadline_left(deadline) > 0 && !kept_pods_have(&kept, pods[i]))
                        removed += remove_former(pods[i]);
        pod_list_free(pods, n);
}
