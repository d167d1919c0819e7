/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The app's root, in a mount namespace that only this app's process has.
 *
 * stage0 sends the root and the volumes as detached mounts. They are attached below acnspawn/mnt after the
 * namespace was unshared, so that no other process ever sees them: the cost of one app does not grow with
 * the number of apps. /sys, and /proc unless the app is in another pid namespace, are the pod's own, with files that expose the host masked; /sys, the
 * cgroup tree in it included, is read-only.
 *
 * Paths inside the root are untrusted: they are resolved as in a chroot, never outside. /proc itself may be
 * a symlink there, and the app that runs beside a health check may change its target; so the files to mask
 * are found in the mounts, not by path from the root.
 */

#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

/* What is taken from the pod as it is. The first two have files that are masked. */
enum { PROC, SYS, _MASKED_MAX };
static const struct {
        const char *source, *target;
        bool read_only, optional;
} pod_mounts[] = {
                [PROC] = {"/proc", "/proc", false, false},     [SYS] = {"/sys", "/sys", true, false},
                {"/dev/shm", "/dev/shm", false, false},        {"/dev/mqueue", "/dev/mqueue", false, true},
                {"/dev/console", "/dev/console", false, true},
};

/* Files that expose information about the host, or let a privileged process change it: all that podman and
 * docker mask, and more (see acnspawn-defaults(7)). Each one takes 10 us for every process that is started;
 * in the pod's own mount namespace one mount would do for all, but its systemd would create a unit for each,
 * which takes longer. */
static const char *const masked_paths[] = {
                "/proc/acpi",        "/proc/asound",        "/proc/config.gz",
                "/proc/interrupts",  "/proc/kallsyms",      "/proc/kcore",
                "/proc/keys",        "/proc/latency_stats", "/proc/sched_debug",
                "/proc/scsi",        "/proc/sysrq-trigger", "/proc/timer_list",
                "/proc/timer_stats", "/sys/dev/block",      "/sys/devices/virtual/powercap",
                "/sys/firmware",     "/sys/fs/selinux",     "/sys/kernel/vmcoreinfo",
};

/* Files below every processor, if the first processor has them. */
#define PROCESSORS "/sys/devices/system/cpu"
#define PROCESSORS_MAX 8192U
static const char masked_of_processors[] = "thermal_throttle";

/* The same, only for root of the host: without a user namespace root of the app is that. */
static const char *const masked_from_root[] = {
                "/proc/dynamic_debug", "/proc/kpagecgroup", "/proc/kpagecount",  "/proc/kpageflags",
                "/proc/pagetypeinfo",  "/proc/slabinfo",    "/proc/vmallocinfo",
};

int root_set_read_only(int mount_fd, bool recursive)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

        if (syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &attr,
                    sizeof(attr)) < 0)
                return -errno;
        return 0;
}

static int clone_tree(const char *path)
{
        int fd = (int) syscall(SYS_open_tree, AT_FDCWD, path,
                               OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

        return fd < 0 ? -errno : fd;
}

/* *RET_FD is the mount. */
static int mount_from_pod(const Launch *l, int root_fd, size_t i, int *ret_fd, Failure *f)
{
        bool own = i == PROC && l->pid;
        _cleanup_close_ int fd = -EBADF;
        int r = own ? proc_mount(&fd) : (fd = clone_tree(pod_mounts[i].source));

        if (r == -ENOENT && pod_mounts[i].optional)
                return 0;
        if (r >= 0 && pod_mounts[i].read_only)
                r = root_set_read_only(fd, true);
        if (r >= 0)
                r = target_mount(root_fd, fd, pod_mounts[i].target);
        if (r >= 0 && own)
                r = proc_protect(fd);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount %s in the app's root",
                                         pod_mounts[i].target);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* The app's main process, and no handler or health check, gets the socket. */
static int mount_notify_socket(Launch *l, int root_fd, Failure *f)
{
        if (l->notify_fd < 0)
                return 0;
        int r = target_mount(root_fd, l->notify_fd, LAUNCH_NOTIFY_PATH);
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r,
                                         "Cannot mount the notification socket in the app's root");
        l->notify = true;
        return 0;
}

/* Whether this process may read or write the file of the descriptor. */
static bool is_accessible(int fd)
{
        return faccessat(fd, "", R_OK, AT_EMPTY_PATH) >= 0 || faccessat(fd, "", W_OK, AT_EMPTY_PATH) >= 0;
}

/* Opens PATH in the one of MOUNTS that contains it. */
static int open_in_mounts(const int mounts[static _MASKED_MAX], const char *path)
{
        for (size_t i = 0; i < _MASKED_MAX; i++) {
                const char *inside = startswith(path, pod_mounts[i].target);
                if (inside && *inside == '/')
                        return open_in_root(mounts[i], inside, O_PATH);
        }
        return -EINVAL;
}

int root_mask(int target_fd)
{
        _cleanup_close_ int mask = -EBADF;
        struct stat st;

        if (fstat(target_fd, &st) < 0)
                return -errno;
        mask = clone_tree(S_ISDIR(st.st_mode) ? "/run/host/inaccessible/dir" : "/run/host/inaccessible/reg");
        return mask < 0 ? mask : target_attach(mask, target_fd);
}

static int mask_path(const int mounts[static _MASKED_MAX], const char *path, bool always)
{
        _cleanup_close_ int target = open_in_mounts(mounts, path);

        if (target == -ENOENT)
                return 0;
        if (target < 0)
                return target;
        return always || is_accessible(target) ? root_mask(target) : 0;
}

static int mask_paths(const int mounts[static _MASKED_MAX], const char *const *paths, size_t n, bool always,
                      Failure *f)
{
        for (size_t i = 0; i < n; i++) {
                int r = mask_path(mounts, paths[i], always);
                if (r < 0)
                        return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mask %s", paths[i]);
        }
        return 0;
}

/* The highest possible number of a processor; the file has ranges such as "0-3,8-11". */
static unsigned last_processor(void)
{
        _cleanup_free_ char *text = NULL;
        uint32_t last = 0;

        if (read_file_at(AT_FDCWD, PROCESSORS "/possible", 4096, &text, NULL) < 0)
                return 0;
        text[strcspn(text, "\n")] = 0;
        const char *dash = strrchr(text, '-'), *comma = strrchr(text, ',');
        const char *number = MAX(dash, comma) ? MAX(dash, comma) + 1 : text;
        return parse_u32(number, &last) < 0 ? 0 : MIN(last, PROCESSORS_MAX - 1);
}

static int mask_processors(const int mounts[static _MASKED_MAX], Failure *f)
{
        char path[sizeof(PROCESSORS) + 64];

        snprintf(path, sizeof(path), PROCESSORS "/cpu0/%s", masked_of_processors);
        if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        for (unsigned i = 0, last = last_processor(); i <= last; i++) {
                snprintf(path, sizeof(path), PROCESSORS "/cpu%u/%s", i, masked_of_processors);
                int r = mask_path(mounts, path, true);
                if (r < 0)
                        return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mask %s", path);
        }
        return 0;
}

static int mask(const int mounts[static _MASKED_MAX], Failure *f)
{
        int r = mask_paths(mounts, masked_paths, ELEMENTSOF(masked_paths), true, f);

        if (r >= 0)
                r = mask_paths(mounts, masked_from_root, ELEMENTSOF(masked_from_root), false, f);
        return r < 0 ? r : mask_processors(mounts, f);
}

/* nspawn makes /proc/sys read-only except the network parameters if the pod has a network of its own. They
 * belong to the pod, and are set by its isolators; without a user namespace every root could write to
 * them. */
static int protect_network_parameters(const Launch *l, int proc_fd, Failure *f)
{
        _cleanup_close_ int fd = -EBADF;

        if (l->config.capabilities & UINT64_C(1) << CAP_NET_ADMIN)
                return 0;
        fd = open_in_root(proc_fd, "/sys/net", O_PATH | O_DIRECTORY);
        int r = fd == -ENOENT ? 0 : fd < 0 ? fd : root_set_read_only(fd, true);
        if (r == -EINVAL) /* not a separate mount: /proc/sys as a whole is read-only */
                return 0;
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot remount /proc/sys/net read-only") : 0;
}

static int fill_root(Launch *l, int root_fd, int mounts[static ELEMENTSOF(pod_mounts)], Failure *f)
{
        int r = target_mount(root_fd, l->dev_fd, "/dev");

        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount /dev in the app's root");
        r = target_mount(root_fd, l->pts_fd, "/dev/pts");
        if (r < 0)
                return failure_set_errno(f, CAUSE_SETUP, r, "Cannot mount /dev/pts in the app's root");
        for (size_t i = 0; i < ELEMENTSOF(pod_mounts); i++) {
                r = mount_from_pod(l, root_fd, i, &mounts[i], f);
                if (r < 0)
                        return r;
        }
        r = mount_notify_socket(l, root_fd, f);
        if (r >= 0)
                r = mask(mounts, f);
        if (r >= 0)
                r = protect_network_parameters(l, mounts[PROC], f);
        if (r >= 0)
                r = launch_mount_volumes(l, root_fd, mounts[PROC], f);
        if (r < 0 || !l->has_credentials)
                return r;
        r = target_mount(root_fd, l->credentials_fd, LAUNCH_CREDENTIALS_PATH);
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

        if (unshare(CLONE_NEWNS) < 0)
                return failure_set_errno(f, CAUSE_SETUP, -errno, "Cannot create a mount namespace");
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
        r = fill_root(l, l->root_fd, mounts, f);
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
