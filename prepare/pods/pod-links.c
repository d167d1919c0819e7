/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Resources that only one pod at a time may have: a name, a range of uids. Each is a symlink in names/ or
 * uids/ whose target is the UUID of the pod that has it.
 *
 * A pod that is killed before it can release its resources leaves its links behind. A link whose pod does
 * not exist any more is stale, and may be removed by the next process that needs it, or by the collector.
 * Since checking and removing are two steps, they are done under an exclusive flock on the file .lock of the
 * directory, which is held for some microseconds only.
 *
 * The name of a pod that is run again passes from one pod to another, and must never be without an owner.
 * Its link is replaced by one whose target names both, the new owner and the present one: the former is the
 * owner as soon as it is published, so that the same rename(2) gives it its state and the name. Afterwards
 * the link is replaced by a plain one.
 */

#include <sys/file.h>
#include "prepare/pods/pods-internal.h"

#define UUID_LENGTH 36
#define NEXT_LINK ".next" /* temporary name of a link that replaces another */

/* The target of a link. */
typedef struct Link {
        char uuid[UUID_LENGTH + 1];
        char until[UUID_LENGTH + 1]; /* its owner until UUID is published; empty: UUID owns it in any case */
} Link;

/* Names are free as soon as their pod is garbage; uids only after the last file owned by one of them is
 * removed. */
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
        int fd = lock_file_at(dir_fd, ".lock", LOCK_EX, NULL, NULL);

        if (fd < 0)
                return error_set_errno(e, fd, "Cannot lock %s/%s", store_path(s), registries[g].directory);
        *ret = fd;
        return 0;
}

/* Reads the link KEY. -EINVAL: it was not written by acnspawn. */
static int read_link(int dir_fd, const char *key, Link *ret)
{
        char text[2 * UUID_LENGTH + 2];
        Link l = {};

        ssize_t n = readlinkat(dir_fd, key, text, sizeof(text));
        if (n < 0)
                return -errno;
        if (n != UUID_LENGTH && (n != 2 * UUID_LENGTH + 1 || text[UUID_LENGTH] != ' '))
                return -EINVAL;
        memcpy(l.uuid, text, UUID_LENGTH);
        if (n > UUID_LENGTH)
                memcpy(l.until, text + UUID_LENGTH + 1, UUID_LENGTH);
        if (uuid_check(l.uuid, NULL) < 0 || (l.until[0] && uuid_check(l.until, NULL) < 0))
                return -EINVAL;
        *ret = l;
        return 0;
}

/* Replaces the link KEY while the directory is locked. UNTIL may be NULL. */
static int write_link(int dir_fd, const char *key, const char *uuid, const char *until)
{
        char text[2 * UUID_LENGTH + 2];

        snprintf(text, sizeof(text), "%s%s%s", uuid, until ? " " : "", until ?: "");
        if (unlinkat(dir_fd, NEXT_LINK, 0) < 0 && errno != ENOENT)
                return -errno;
        if (symlinkat(text, dir_fd, NEXT_LINK) < 0 || renameat(dir_fd, NEXT_LINK, dir_fd, key) < 0)
                return -errno;
        return 0;
}

/* 1 and the pod that has KEY; 0: none, although a stale link may exist. */
static int holder_of(Store *s, Registry g, int dir_fd, const char *key, char ret[static UUID_LENGTH + 1])
{
        PodState last = registries[g].last;
        Link l;

        int r = read_link(dir_fd, key, &l);
        if (r == -ENOENT || r == -EINVAL)
                return 0;
        if (r < 0)
                return r;
        r = pod_exists(s, l.uuid, l.until[0] ? POD_PREPARED : POD_EMBRYO, last);
        if (r != 0 || !l.until[0]) {
                memcpy(ret, l.uuid, sizeof(l.uuid));
                return r;
        }
        memcpy(ret, l.until, sizeof(l.until));
        return pod_exists(s, l.until, POD_EMBRYO, last);
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
                return error_set_errno(e, r, "Cannot create %s/%s/%s", store_path(s),
                                       registries[g].directory, key);
        return 0;
}

static int open_locked(Store *s, Registry g, int *ret_dir_fd, int *ret_lock_fd, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF;

        int r = open_directory(s, g, &dir_fd, e);
        if (r >= 0)
                r = lock_directory(s, g, dir_fd, ret_lock_fd, e);
        if (r >= 0)
                *ret_dir_fd = TAKE_FD(dir_fd);
        return r;
}

/* If a pod that was to get KEY was not published, KEY remains with its owner. */
void registry_drop(Store *s, Registry g, const char *key, const char *uuid)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        const char *keep = NULL;
        Link l;

        if (open_locked(s, g, &dir_fd, &lock_fd, NULL) < 0 || read_link(dir_fd, key, &l) < 0)
                return;
        if (!streq(l.uuid, uuid) && !streq(l.until, uuid))
                return;
        if (l.until[0] && streq(l.uuid, uuid))
                keep = pod_exists(s, l.until, POD_EMBRYO, registries[g].last) > 0 ? l.until : NULL;
        else if (l.until[0])
                keep = pod_exists(s, l.uuid, POD_PREPARED, registries[g].last) > 0 ? l.uuid : NULL;
        if (keep)
                (void) write_link(dir_fd, key, keep, NULL);
        else
                (void) unlinkat(dir_fd, key, 0);
}

int registry_pass(Store *s, Registry g, const char *key, const char *from, const char *to, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        char holder[UUID_LENGTH + 1];

        int r = open_locked(s, g, &dir_fd, &lock_fd, e);
        if (r < 0)
                return r;
        r = holder_of(s, g, dir_fd, key, holder);
        if (r == 0 || (r > 0 && !streq(holder, from)))
                return -EEXIST;
        if (r >= 0)
                r = write_link(dir_fd, key, to, from);
        return r < 0 ? error_set_errno(e, r, "Cannot change %s/%s/%s", store_path(s),
                                       registries[g].directory, key)
                     : 0;
}

void registry_settle(Store *s, Registry g, const char *key, const char *uuid)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        Link l;

        if (open_locked(s, g, &dir_fd, &lock_fd, NULL) >= 0 && read_link(dir_fd, key, &l) >= 0 &&
            streq(l.uuid, uuid) && l.until[0])
                (void) write_link(dir_fd, key, uuid, NULL);
}

int registry_holds(Store *s, Registry g, const char *key, const char *uuid)
{
        _cleanup_close_ int dir_fd = -EBADF;
        char holder[UUID_LENGTH + 1];
        Link l;

        int r = open_directory(s, g, &dir_fd, NULL);
        if (r >= 0)
                r = read_link(dir_fd, key, &l);
        if (r < 0)
                return r == -ENOENT || r == -EINVAL ? 0 : r;
        if (!l.until[0])
                return streq(l.uuid, uuid);
        r = holder_of(s, g, dir_fd, key, holder);
        return r > 0 ? streq(holder, uuid) : r;
}

int registry_list_of(Store *s, Registry g, const char *uuid, char ***keys, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int dir_fd = -EBADF;

        int r = open_directory(s, g, &dir_fd, e);
        if (r < 0)
                return r;
        r = list_names(dir_fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read %s/%s", store_path(s), registries[g].directory);
        STRV_FOREACH (name, names)
                if ((*name)[0] != '.' && registry_holds(s, g, *name, uuid) > 0 &&
                    strv_extend(keys, *name) < 0)
                        return error_oom(e);
        return 0;
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
        /* Most often nothing is stale, so the lock is not taken for the first check. */
        STRV_FOREACH (key, keys) {
                if ((*key)[0] == '.' || holder_of(s, g, dir_fd, *key, holder) != 0)
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
