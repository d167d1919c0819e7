/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether a pod was ended by a reboot of the host: crash, loss of power, or a shutdown that did not wait for it.
 *
 * The supervisor could not record that. What is recorded is the boot ID of the kernel when the pod is started, as
 * the target of the symbolic link "boot", which is durable together with the move of the pod to "running"; and
 * again, in the file "ended", when another process notices that the pod has ended.
 */

#include "prepare/pods/pods-internal.h"

#define BOOT_LINK "boot"

int pod_record_boot(const Pod *p)
{
        _cleanup_free_ char *id = NULL;

        int r = read_boot_id(&id);
        if (r < 0)
                return r;
        if (unlinkat(p->dir_fd, BOOT_LINK, 0) < 0 && errno != ENOENT)
                return -errno;
        return symlinkat(id, p->dir_fd, BOOT_LINK) < 0 ? -errno : 0;
}

/* False: it has not been started, or is of an earlier version. */
static bool read_boot(const Pod *p, char started[static UUID_TEXT_SIZE + 1])
{
        ssize_t n = readlinkat(p->dir_fd, BOOT_LINK, started, UUID_TEXT_SIZE + 1);

        if (n <= 0 || n >= (ssize_t) UUID_TEXT_SIZE + 1)
                return false;
        started[n] = 0;
        return true;
}

bool pod_ran_in_earlier_boot(const Pod *p)
{
        _cleanup_free_ char *now = NULL;
        char started[UUID_TEXT_SIZE + 1];

        return p->state != POD_PREPARED && read_boot(p, started) && read_boot_id(&now) >= 0 &&
               !streq(now, started);
}

bool pod_ended_by_reboot(const Pod *p)
{
        _cleanup_free_ char *text = NULL, *now = NULL;
        char started[UUID_TEXT_SIZE + 1];

        if (p->state != POD_EXITED || !read_boot(p, started))
                return false;
        if (pod_read_ended(p, &text) >= 0) {
                char *id = strchr(text, '\n');
                if (id)
                        id[1 + strcspn(id + 1, "\n")] = 0;
                return id && id[1] && !streq(id + 1, started);
        }
        return read_boot_id(&now) >= 0 && !streq(now, started);
}
