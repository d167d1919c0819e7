/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a pod that is started records about where and when that was: the boot, and the store.
 *
 * Whether a pod was ended by a reboot of the host: crash, loss of power, or a shutdown that did not wait for it.
 *
 * The supervisor could not record that. What is recorded is the boot ID of the kernel when the pod is started, as
 * the target of the symbolic link "boot", which is durable together with the move of the pod to "running"; and
 * again, in the file "ended", when another process notices that the pod has ended.
 *
 * The path of the store is the target of the link "store". A copy of a store has the records of pods that run, and names their
 * cgroups and networks, which are still those of the pods in the store that was copied.
 */

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "prepare/pods/pods-internal.h"

#define BOOT_LINK "boot"
#define STORE_PREFIX "path:" /* nothing follows the link */

/* A pod that is started for the first time has none. */
static int replace_link(const Pod *p, const char *name, const char *target)
{
        if (symlinkat(target, p->dir_fd, name) >= 0)
                return 0;
        if (errno != EEXIST || unlinkat(p->dir_fd, name, 0) < 0)
                return -errno;
        return symlinkat(target, p->dir_fd, name) < 0 ? -errno : 0;
}

int pod_record_boot(const Pod *p)
{
        _cleanup_free_ char *id = NULL;

        int r = read_boot_id(&id);
        if (r < 0)
                return r;
        return replace_link(p, BOOT_LINK, id);
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

/* --- The store ----------------------------------------------------------------------------------------- */

int pod_record_store(const Pod *p)
{
        _cleanup_free_ char *target = NULL;

        int r = xasprintf(&target, STORE_PREFIX "%s", store_path(p->store));
        if (r < 0)
                return r;
        return replace_link(p, STORE_LINK, target);
}

/* Whether the store in DIR_FD has a pod of that UUID in another directory than P's. */
static bool has_another(int dir_fd, const Pod *p)
{
        struct stat ours, there;

        if (fstat(p->dir_fd, &ours) < 0)
                return false;
        for (size_t i = 0; i < N_POD_PLACES; i++) {
                _cleanup_free_ char *path = NULL;

                if (pod_place_path(p->uuid, pod_places[i], &path) < 0)
                        return false;
                if (fstatat(dir_fd, path, &there, AT_SYMLINK_NOFOLLOW) >= 0)
                        return ours.st_dev != there.st_dev || ours.st_ino != there.st_ino;
        }
        return false;
}

bool pod_is_copy(const Pod *p)
{
        char target[PATH_MAX];

        ssize_t n = readlinkat(p->dir_fd, STORE_LINK, target, sizeof(target) - 1);
        if (n <= 0)
                return false;
        target[n] = 0;
        const char *path = startswith(target, STORE_PREFIX);
        if (!path || path[0] != '/' || streq(path, store_path(p->store)))
                return false;
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 && has_another(fd, p);
}
