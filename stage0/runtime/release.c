/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What may be left of a pod outside of its directory, or on it, when it is to be removed.
 *
 * Its cgroups are left if the process that ran it was killed, and so is what its networks gave it; mounts,
 * namespaces that are not bound and processes of its own went with that process. What remains is what
 * somebody else did: a file system that was mounted by hand below the pod's directory, to look for something
 * or to bring something in. Removing never goes through a mount, so it would stop half-way there. Therefore
 * the table of mounts is looked at before anything is touched, and the pod stays as it is until whoever
 * mounted it has unmounted it. */

#include "library/libmnt.h"
#include "library/libsystemd.h"
#include "stage0/runtime/runtime-internal.h"

static void table_unrefp(struct libmnt_table **t)
{
        mnt_unref_table(*t);
}

static void iter_freep(struct libmnt_iter **i)
{
        mnt_free_iter(*i);
}

/* The mount at or below PATH that has to be unmounted first, which is the one made last; NULL if there is
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
                return error_set_errno(e, r, "Cannot tell where pod %s lies", pod_display_name(p));
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
        r = error_set(e, -EBUSY, "Cannot remove pod %s: something is mounted on %s", pod_display_name(p),
                      shown ?: path);
        return error_hint(e, r, "Unmount it first: umount %s", shown ?: path);
}

int pod_release(Pod *p, void *userdata, Error *e)
{
        if (p->state == POD_RUNNING)
                return 0;
        int r = refuse_if_mounted_on(p, e);
        /* A pod that has ended does not start again, so nobody can be using its cgroups; one that is
         * prepared has none, and somebody may be about to make them. */
        if (r < 0 || (p->state != POD_EXITED && p->state != POD_GARBAGE))
                return r;
        r = library_load(&systemd_library, e);
        if (r >= 0)
                r = pod_cgroup_remove(p, e);
        if (r >= 0 && sd_booted() > 0)
                r = pod_scope_stop(p, e);
        return r < 0 ? r : network_down(p, e);
}
