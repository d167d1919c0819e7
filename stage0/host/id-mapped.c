/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether the store's file system has id-mapped mounts. The type alone does not tell: ext2 has them if the driver of ext4 serves it.
 * So a detached clone of the store's mount is mapped, by a user namespace for which a process is forked: 0.4 ms. */

#include "stage0/host/host.h"

/* What mount_setattr() fails with on a file system, or a kernel, without. */
static bool is_missing(int r)
{
        return r == -EINVAL || r == -EOPNOTSUPP || r == -ENOSYS;
}

int refuse_id_mapped(Store *s, int r, const char *what, Error *e)
{
        _cleanup_free_ char *type = file_system_type(store_fd(s));

        (void) error_set_errno(e, r, "Cannot map the owners of %s to the range of a pod", what);
        if (!is_missing(r))
                return r;
        return error_hint(
                        e, r,
                        "The file system of the store%s%s%s cannot do id-mapped mounts: move the store, or "
                        "prepare with --no-userns.",
                        type ? " (" : "", type ?: "", type ? ")" : "");
}

int store_check_id_mapped(Store *s, Error *e)
{
        _cleanup_close_ int users = -EBADF, tree = -EBADF;
        _cleanup_free_ char *what = NULL;

        /* Other users run no pods. */
        if (geteuid() != 0 || store_is_id_mapped(s))
                return 0;
        tree = mount_clone(store_fd(s), "", false);
        if (tree < 0 || userns_open(UID_RANGE_SIZE, 1, &users, NULL) < 0)
                return 0;
        int r = mount_map_owners(tree, users, false);
        if (r >= 0)
                store_note_id_mapped(s);
        if (r >= 0 || !is_missing(r))
                return 0;
        if (xasprintf(&what, "the store %s", store_path(s)) < 0)
                return error_oom(e);
        return refuse_id_mapped(s, r, what, e);
}
