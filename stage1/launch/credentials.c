/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The app's credentials: a small file system in memory at LAUNCH_CREDENTIALS_PATH, which only this app's
 * processes have. The launcher mounts /dev in every app, so no volume and no symlink of the image can be in
 * it. Once the app's user is known, the files are given to that user, and made read-only. */

#include "stage1/launch/launch.h"

static int give_to(int dir_fd, const Identity *id)
{
        _cleanup_strv_free_ char **names = NULL;
        int r = list_names(dir_fd, &names);

        STRV_FOREACH (name, names)
                if (r >= 0 && fchownat(dir_fd, *name, id->uid, id->gid, AT_SYMLINK_NOFOLLOW) < 0)
                        r = -errno;
        if (r >= 0 && fchown(dir_fd, id->uid, id->gid) < 0)
                r = -errno;
        return r;
}

int launch_give_credentials(Launch *l, const Identity *id, Failure *f)
{
        _cleanup_close_ int fd = -EBADF;

        if (!l->has_credentials)
                return 0;
        fd = openat(l->credentials_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = fd < 0 ? -errno : give_to(fd, id);
        if (r == -EINVAL)
                return failure_set(f, CAUSE_USER, r,
                                   "Cannot give the credentials to user %u, group %u, which is not in the "
                                   "pod's range",
                                   id->uid, id->gid);
        if (r >= 0)
                r = root_set_read_only(l->credentials_fd, false);
        l->credentials_fd = safe_close(l->credentials_fd);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot give the credentials to the app") : 0;
}
