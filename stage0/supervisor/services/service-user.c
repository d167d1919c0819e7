/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The user of a pod's services on the host.
 *
 * A user of the pod's own range would be one that an app can become: then limits that the kernel has for a user, such as pages of pipes
 * and descriptors that are on their way, are those of both, and with the pids of the host in sight the app may send signals. A user that all
 * pods' services share would let one that was taken over reach those of other pods. So each range has one user in a block of numbers that
 * nothing is assigned to: systemd (doc/UIDS-GIDS) leaves it free, and it is above what directory services map. */

#include "stage0/supervisor/services/service-user.h"

#define BLOCK_SIZE UINT32_C(0x10000)
#define BLOCK_FIRST UINT32_C(0x7fff0000)

static bool overlaps(const PodConfig *c, uint32_t block)
{
        uint64_t end = (uint64_t) c->uid_base + pod_n_uids(c);

        return c->uid_base < (uint64_t) block + BLOCK_SIZE && block < end;
}

uid_t pod_service_user(const PodConfig *c)
{
        uint32_t block = BLOCK_FIRST;

        /* A range that was chosen may be anywhere. */
        while (overlaps(c, block) && block >= 2 * BLOCK_SIZE)
                block -= BLOCK_SIZE;
        return block + c->uid_base / BLOCK_SIZE;
}
