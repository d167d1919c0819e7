/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Releases resources of a pod outside of its directory before it is removed.
 *
 * If the process that ran it was killed, its cgroups and networks remain; its mounts, unbound namespaces and
 * processes ended with that process. There may also be a file system that a user has mounted below the pod's
 * directory. Removal never crosses a mount, so it would fail half-way. Therefore the mount table is checked
 * first, and the pod remains unchanged until the file system is unmounted. */

#include "library/libmnt.h"
#include "library/libsystemd.h"
#include "stage0/host/host-internal.h"
#include "stage0/host/socket-filter.h"
#include "stage0/host/user-claim.h"

static void table_unrefp(struct libmnt_table **t)
{
        mnt_unref_table(*t);
}

static void iter_freep(struct libmnt_iter **i)
{
        mnt_free_iter(*i);
}

/* The mount at or below PATH that has to be unmounted first, which is the latest one; NULL if there is
 * none. */
static const char *find_mount_below(struct libmnt_table *table, struct libmnt_iter *iter, const char *path)
{
        struct libmnt_fs *fs;

        while (mnt_table_next_fs(table, iter, &fs) == 0) {
                const char *target = mnt_fs_get_target(fs);

                if (target && path_has_prefix(target, path))
                        return target;
        }
        return NULL;
}

static int refuse_if_mounted_on(const Pod *p, Error *e)
{
        _cleanup_(table_unrefp) struct libmnt_table *table = NULL;
        _cleanup_(iter_freep) struct libmnt_iter *iter = NULL;
        _cleanup_free_ char *path = NULL, *shown = NULL;
        const char *target;

        int r = library_load(&mount_library, e);
        if (r < 0)
                return r;
        r = pod_path(p, &path);
        if (r < 0)
                return error_set_errno(e, r, "Cannot determine the path of pod %s", pod_display_name(p));
        errno = 0;
        table = mnt_new_table_from_file("/proc/self/mountinfo");
        if (!table)
                return error_set_errno(e, errno ?: EIO, "Cannot read /proc/self/mountinfo");
        iter = mnt_new_iter(MNT_ITER_BACKWARD);
        if (!iter)
                return error_oom(e);
        target = find_mount_below(table, iter, path);
        if (!target)
                return 0;
        shown = text_escape_for_terminal(target);
        r = error_set(e, -EBUSY, "Cannot remove pod %s: a file system is mounted on %s", pod_display_name(p),
                      shown ?: path);
        return error_hint(e, r, "Unmount it first: umount %s", shown ?: path);
}

/* What does not end may wait for a file system that the pod has served. */
static int remove_cgroups(Pod *p, Error *e)
{
        int r = pod_cgroup_remove(p, e);

        if (r != -EBUSY || pod_abort_file_systems(p) <= 0)
                return r;
        error_done(e);
        return pod_cgroup_remove(p, e);
}

int pod_release_processes(Pod *p, Error *e)
{
        if (pod_is_copy(p))
                return 0;
        user_claim_remove_leftovers(p);
        socket_filter_remove_leftovers();
        bool systemd = host_runs_systemd();
        int r = systemd ? library_load(&systemd_library, e) : 0;
        if (r >= 0)
                r = remove_cgroups(p, e);
        return r >= 0 && systemd ? pod_scope_stop(p, e) : r;
}

/* The pod is about to be removed, and its plugins may take a minute each. If the lock of the pod is held, as by the collector, a pod that is
 * started by the name meanwhile does not wait for that, but for its networks (network_up()), and for some seconds only. If the pod stays, it
 * gets its name again (also by pod_remove()), unless that was taken. Without the lock the name may be passing to a successor. */
static int take_out(Pod *p, Error *e)
{
        if (p->locked && !p->config.owner && network_is_left(p))
                pod_drop_name(p);
        int r = network_down(p, e);
        if (r < 0)
                pod_take_name_back(p);
        return r;
}

int pod_release(Pod *p, void *userdata, Error *e)
{
        if (p->state == POD_RUNNING)
                return 0;
        int r = refuse_if_mounted_on(p, e);
        /* A pod that has ended does not start again, so its cgroups are not in use; a prepared pod has none,
         * and another process may be about to create them. */
        if (r < 0 || (p->state != POD_EXITED && p->state != POD_GARBAGE))
                return r;
        r = pod_release_processes(p, e);
        return r < 0 ? r : take_out(p, e);
}
