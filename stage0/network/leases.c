/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Leases of addresses that the plugin "host-local" keeps on disk.
 *
 * It writes a file for each address, with the UUID of the pod in it, syncs nothing, and finds the leases of a pod by their
 * contents. A loss of power ends all pods. So it does no harm if their leases are lost, and those that are there are released
 * with the pod, by its record, which is on disk before the plugin runs. But a file may be there without its contents: it
 * belongs to no pod, and its address would be taken for ever. Such files are removed when a pod leaves the network, and that
 * makes syncs after ADD unnecessary: the plugin writes under its lock, so an empty file is never a lease that is being made.
 *
 * The record is all that is known of a lease, so the removal of the lease is on disk before that of the record.
 */

#include <arpa/inet.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "stage0/network/network-internal.h"

#define LEASES_DEFAULT "/var/lib/cni/networks" /* of the plugin */
#define LEASES_LOCK "lock"

static bool is_address(const char *name)
{
        struct in6_addr a;

        return inet_pton(AF_INET, name, &a) == 1 || inet_pton(AF_INET6, name, &a) == 1;
}

static bool is_lost(int dir_fd, const char *name)
{
        struct stat st;

        return is_address(name) && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) >= 0 &&
               S_ISREG(st.st_mode) && st.st_size == 0;
}

/* If the lock is held, by a plugin that runs for another pod, they are left to the next pod. */
static int remove_lost(int dir_fd)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int lock = -EBADF;

        int r = list_names(dir_fd, &names);
        if (r < 0)
                return r;
        STRV_FOREACH (name, names) {
                if (!is_lost(dir_fd, *name))
                        continue;
                if (lock < 0) {
                        lock = openat(dir_fd, LEASES_LOCK, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                                      0600);
                        if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
                                return errno == EWOULDBLOCK ? 0 : -errno;
                }
                if (is_lost(dir_fd, *name) && unlinkat(dir_fd, *name, 0) < 0 && errno != ENOENT)
                        return -errno;
        }
        return 0;
}

int cni_leases_settle_in(const char *directory, const char *network)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;

        if (strchr(network, '/') || streq(network, ".."))
                return -EINVAL;
        if (xasprintf(&path, "%s/%s", directory ?: LEASES_DEFAULT, network) < 0)
                return -ENOMEM;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        int r = remove_lost(fd);
        return r < 0 ? r : fsync_dir(fd);
}

int cni_leases_settle(const Attachment *a, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(a->plugins); i++) {
                const char *directory = NULL;

                if (cni_plugin_keeps_leases(json_object_array_get_idx(a->plugins, i), &directory))
                        r = cni_leases_settle_in(directory, a->network);
        }
        return r < 0 ? error_set_errno(e, r, "Cannot put the addresses of network '%s' in order", a->network)
                     : 0;
}
