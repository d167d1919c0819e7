/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The app's root, in a mount namespace that only this app's process has.
 *
 * stage0 sends the root and the volumes as detached mounts. They are attached below acnspawn/mnt after the
 * namespace was unshared, so that no other process ever sees them: the cost of one app does not grow with
 * the number of apps. /sys, and /proc unless the app is in another pid namespace, are the pod's own, with files that
 * expose the host masked (protect.c); /sys, with the app's own cgroups in it, is read-only unless the app may write to it.
 *
 * Paths inside the root are untrusted: they are resolved as in a chroot, never outside.
 */

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

/* What is taken from the pod as it is. */
static const struct {
        const char *source, *target;
        bool read_only, optional, terminal; /* terminal: for apps that have one */
} pod_mounts[] = {
                [POD_PROC] = {"/proc", "/proc", false, false},
                [POD_SYS] = {"/sys", "/sys", true, false},
                {"/dev/shm", "/dev/shm", false, false},
                {"/dev/mqueue", "/dev/mqueue", false, true},
                {"/dev/console", "/dev/console", false, true, true},
};

/* What is mounted at *RET_FD, and nowhere yet. */
static int make_mount(const Launch *l, size_t i, int *ret_fd)
{
        if (i == POD_PROC && l->pid)
                return proc_mount(ret_fd);
        if (i == POD_SYS && l->config.writable_sys)
                return sys_mount(ret_fd);
        int fd = root_clone_tree(AT_FDCWD, pod_mounts[i].source);
        int r = fd < 0 ? fd : pod_mounts[i].read_only ? root_set_read_only(fd, true) : 0;
        if (r < 0) {
                safe_close(fd);
                return r;
        }
        *ret_fd = fd;
        return 0;
}

/* What can be mounted on it only where it is attached. */
static int complete_mount(const Launch *l, size_t i, int fd)
{
        if (i == POD_PROC && l->pid && !l->config.has_read_only)
                return proc_protect(fd);
        return i == POD_SYS ? sys_mount_cgroups(fd, l->config.writable_sys) : 0;
}

/* *RET_FD is the mount. */
static int mount_from_pod(const Launch *l, size_t i, int *ret_fd, Failure *f)
{
        _cleanup_close_ int fd = -EBADF;
        if (pod_mounts[i].terminal && !l->terminal)
                return 0;
        int r = make_mount(l, i, &fd);

        if (r == -ENOENT && pod_mounts[i].optional)
                return 0;
        if (r >= 0)
                r = target_mount(l, fd, pod_mounts[i].target);
        if (r >= 0)
                r = complete_mount(l, i, fd);
        if (r < 0 && i == POD_SYS && l->config.writable_sys)
                return failure_set_errno(f, CAUSE_SETUP, r,
                                         "Cannot mount a writable /sys in the app's root, which takes a pod "
                                         "without users of its own");
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount %s in the app's root",
                                         pod_mounts[i].target);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* The app's main process, and no handler or health check, gets the socket. */
static int mount_notify_socket(Launch *l, Failure *f)
{
        if (l->notify_fd < 0)
                return 0;
        int r = target_mount(l, l->notify_fd, LAUNCH_NOTIFY_PATH);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r,
                                         "Cannot mount the notification socket in the app's root");
        l->notify = true;
        return 0;
}

/* The app's own, or a volume. *RET_FD is not to be closed. In a volume nothing is made for acnspawn itself. */
static int mount_dev(const Launch *l, int *ret_fd, Failure *f)
{
        size_t volume = launch_dev_volume(l);

        *ret_fd = volume == SIZE_MAX ? l->dev_fd : l->volume_fds[volume];
        if (volume != SIZE_MAX && (l->has_credentials || l->notify_fd >= 0))
                return failure_set(f, CAUSE_SETUP, -EINVAL,
                                   "An app that has credentials, or tells when it is ready, cannot have a "
                                   "volume at /dev");
        int r = target_mount(l, *ret_fd, "/dev");
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount /dev in the app's root");
        return volume == SIZE_MAX ? 0 : target_check_private(l->root_fd, *ret_fd, "/dev", f);
}

/* It need not be in the image, as with other runtimes. If it cannot be made, changing to it says why. */
static void make_working_directory(const Launch *l)
{
        int fd = -EBADF, r = mkdir_p_in_root(l->root_fd, l->config.working_directory, 0755, &fd);

        if (r == -EROFS && l->maker_fd >= 0)
                r = mkdir_p_in_root(l->maker_fd, l->config.working_directory, 0755, &fd);
        if (r >= 0)
                safe_close(fd);
}

static int fill_root(Launch *l, int mounts[static ELEMENTSOF(pod_mounts)], Failure *f)
{
        int dev_fd, r = mount_dev(l, &dev_fd, f);

        if (r < 0)
                return r;
        r = target_mount(l, l->pts_fd, "/dev/pts");
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount /dev/pts in the app's root");
        for (size_t i = 0; i < ELEMENTSOF(pod_mounts); i++) {
                r = mount_from_pod(l, i, &mounts[i], f);
                if (r < 0)
                        return r;
        }
        r = mount_notify_socket(l, f);
        if (r >= 0)
                r = protect_defaults(l, mounts, f);
        if (r >= 0)
                r = launch_mount_volumes(l, mounts[POD_PROC], dev_fd, f);
        if (r >= 0)
                make_working_directory(l);
        if (r >= 0)
                r = protect_given(l, l->root_fd, mounts, f);
        if (r < 0 || !l->has_credentials)
                return r;
        r = target_mount(l, l->credentials_fd, LAUNCH_CREDENTIALS_PATH);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount the app's credentials") : 0;
}

/* The old root is moved onto the new one, at the same place, and is then detached with everything in it. */
static int change_root(int root_fd, Failure *f)
{
        if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
            chdir("/") < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot change to the app's root");
        return 0;
}

int launch_enter_root(Launch *l, Failure *f)
{
        _cleanup_close_ int mount_point = -EBADF;
        int mounts[ELEMENTSOF(pod_mounts)];

        if (unshare(CLONE_NEWNS | CLONE_NEWCGROUP) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno,
                                         "Cannot create namespaces of mounts and cgroups");
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno,
                                         "Cannot set the mounts to private propagation");
        mount_point = open(LAUNCH_MOUNT_PATH, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (mount_point < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot open " LAUNCH_MOUNT_PATH);
        int r = target_attach(l->root_fd, mount_point);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot attach the app's root");
        for (size_t i = 0; i < ELEMENTSOF(mounts); i++)
                mounts[i] = -EBADF;
        r = fill_root(l, mounts, f);
        for (size_t i = 0; i < ELEMENTSOF(mounts); i++)
                safe_close(mounts[i]);
        if (r < 0)
                return r;
        if (l->config.read_only_root) {
                r = root_set_read_only(l->root_fd, false);
                if (r < 0)
                        return failure_set_errno(f, CAUSE_SETUP, r,
                                                 "Cannot remount the app's root read-only");
        }
        return change_root(l->root_fd, f);
}
