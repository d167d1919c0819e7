/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How often something may happen: so many times at once, and one more in each interval. */

#include "containers/containers.h"

bool control_exceeds_rate(uint64_t *next, uint64_t now, unsigned burst, uint64_t interval)
{
        const uint64_t span = (burst - 1) * interval;
        uint64_t at = MAX(*next, now > span ? now - span : 0);

        if (at > now)
                return true;
        *next = at + interval;
        return false;
}
