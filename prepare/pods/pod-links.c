/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What only one pod at a time may have: a name, a range of uids. Each is a symlink in names/ or uids/ whose
 * target is the UUID of the pod that has it.
 *
 * A pod that is killed before it can give back what it has leaves its links behind. A link whose pod is
 * nowhere any more is stale, and the next who wants it, or the collector, may take it away. Since looking
 * and taking away are two steps, they are done under an exclusive flock on the file .lock of the directory,
 * which is held for some microseconds only.
 */

#include <sys/file.h>

#include "prepare/pods/pods-internal.h"

#define UUID_LENGTH 36

/* Names are free as soon as their pod is garbage; uids not before the last file that has one of them is
 * gone. */
static const struct {
        const char *directory;
        PodState last;
} registries[_REGISTRY_MAX] = {
                [REGISTRY_NAMES] = {"names", POD_EXITED},
                [REGISTRY_UIDS] = {"uids", POD_GARBAGE},
};

const char *registry_directory(Registry g)
{
        return registries[g].directory;
}

static int open_directory(Store *s, Registry g, int *ret, Error *e)
{
        int fd = openat(store_fd(s), registries[g].directory,
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return error_set_errno(e, errno, "Cannot open %s/%s", store_path(s),
                                       registries[g].directory);
        *ret = fd;
        return 0;
}

static int lock_directory(Store *s, Registry g, int dir_fd, int *ret, Error *e)
{
        _cleanup_close_ int fd = openat(dir_fd, ".lock",
                                        O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
        int r = fd < 0 ? -errno : 0;

        while (r >= 0 && flock(fd, LOCK_EX) < 0)
                if (errno != EINTR)
                        r = -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot lock %s/%s", store_path(s), registries[g].directory);
        *ret = TAKE_FD(fd);
        return 0;
}

/* The UUID that the link KEY points to. -EINVAL: it is nothing of ours. */
static int read_link(int dir_fd, const char *key, char ret[static UUID_LENGTH + 1])
{
        ssize_t n = readlinkat(dir_fd, key, ret, UUID_LENGTH + 1);

        if (n < 0)
                return -errno;
        if (n != UUID_LENGTH)
                return -EINVAL;
        ret[n] = 0;
        return uuid_check(ret, NULL);
}

/* 1 and the pod that has KEY; 0: nobody, though a link may be there. */
static int holder_of(Store *s, Registry g, int dir_fd, const char *key, char ret[static UUID_LENGTH + 1])
{
        int r = read_link(dir_fd, key, ret);

        if (r == -ENOENT || r == -EINVAL)
                return 0;
        if (r < 0)
                return r;
        return pod_exists(s, ret, registries[g].last);
}

int registry_find(Store *s, Registry g, const char *key, char **ret_uuid, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF;
        char uuid[UUID_LENGTH + 1];

        int r = open_directory(s, g, &dir_fd, e);
        if (r < 0)
                return r;
        r = holder_of(s, g, dir_fd, key, uuid);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read %s/%s/%s", store_path(s), registries[g].directory,
                                       key);
        if (r == 0)
                return -ENOENT;
        if (ret_uuid) {
                *ret_uuid = strdup(uuid);
                if (!*ret_uuid)
                        return error_oom(e);
        }
        return 0;
}

int registry_take(Store *s, Registry g, const char *key, const char *uuid, char **ret_holder, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        char holder[UUID_LENGTH + 1];

        int r = open_directory(s, g, &dir_fd, e);
        if (r >= 0)
                r = lock_directory(s, g, dir_fd, &lock_fd, e);
        if (r < 0)
                return r;

        r = holder_of(s, g, dir_fd, key, holder);
        if (r > 0 && streq(holder, uuid))
                return 0;
        if (r > 0) {
                if (ret_holder)
                        *ret_holder = strdup(holder);
                return -EEXIST;
        }
        if (r == 0 && unlinkat(dir_fd, key, 0) < 0 && errno != ENOENT)
                r = -errno;
        if (r >= 0 && symlinkat(uuid, dir_fd, key) < 0)
                r = -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot make %s/%s/%s", store_path(s), registries[g].directory,
                                       key);
        return 0;
}

void registry_drop(Store *s, Registry g, const char *key, const char *uuid)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        char holder[UUID_LENGTH + 1];

        if (open_directory(s, g, &dir_fd, NULL) < 0 || lock_directory(s, g, dir_fd, &lock_fd, NULL) < 0)
                return;
        if (read_link(dir_fd, key, holder) >= 0 && streq(holder, uuid))
                (void) unlinkat(dir_fd, key, 0);
}

int registry_add_to_sync(Store *s, Registry g, SyncSet *set, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF;

        int r = open_directory(s, g, &dir_fd, e);
        if (r < 0)
                return r;
        r = sync_add(set, dir_fd);
        return r < 0 ? error_set_errno(e, r, "Cannot sync %s/%s", store_path(s), registries[g].directory)
                     : 0;
}

int registry_collect(Store *s, Registry g, bool dry_run, char ***removed, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        _cleanup_strv_free_ char **keys = NULL;
        char holder[UUID_LENGTH + 1];

        int r = open_directory(s, g, &dir_fd, e);
        if (r < 0)
                return r;
        r = list_names(dir_fd, &keys);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read %s/%s", store_path(s), registries[g].directory);
        /* Most often nothing is stale, and nobody has to wait for us. */
        STRV_FOREACH (key, keys) {
                if (streq(*key, ".lock") || holder_of(s, g, dir_fd, *key, holder) != 0)
                        continue;
                if (!dry_run) {
                        if (lock_fd < 0 && (r = lock_directory(s, g, dir_fd, &lock_fd, e)) < 0)
                                return r;
                        if (holder_of(s, g, dir_fd, *key, holder) != 0 || unlinkat(dir_fd, *key, 0) < 0)
                                continue;
                }
                if (strv_extend(removed, *key) < 0)
                        return error_oom(e);
        }
        return 0;
}
