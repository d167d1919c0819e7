/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Paths that an app cannot read, or cannot write, whatever it may do otherwise.
 *
 * By default these are files of /proc and /sys. The user may give other lists, which replace the default ones, with
 * paths anywhere in the app's root; what does not exist is left out. Paths inside the root are untrusted, and /proc
 * itself may be a symlink there, whose target the app that runs beside a health check may change: so paths below
 * /proc and /sys are found in the mounts, the others as in a chroot, where the image cannot lead them out.
 */

#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stage1/launch/launch.h"

int root_set_read_only(int mount_fd, bool recursive)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

        if (syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &attr,
                    sizeof(attr)) < 0)
                return -errno;
        return 0;
}

int root_clone_tree(int fd, const char *path)
{
        int clone = (int) syscall(SYS_open_tree, fd, path,
                                  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);

        return clone < 0 ? -errno : clone;
}

int root_mask(int target_fd)
{
        _cleanup_close_ int mask = -EBADF;
        struct stat st;

        if (fstat(target_fd, &st) < 0)
                return -errno;
        mask = root_clone_tree(AT_FDCWD, S_ISDIR(st.st_mode) ? "/run/host/inaccessible/dir"
                                                             : "/run/host/inaccessible/reg");
        return mask < 0 ? mask : target_attach(mask, target_fd);
}

/* Opens PATH in the one of MOUNTS that contains it. -EINVAL: none does. */
static int open_in_mounts(const int mounts[static _POD_MOUNT_MAX], const char *path)
{
        static const char *const targets[_POD_MOUNT_MAX] = {[POD_PROC] = "/proc", [POD_SYS] = "/sys"};

        for (size_t i = 0; i < _POD_MOUNT_MAX; i++) {
                const char *inside = startswith(path, targets[i]);
                if (inside && *inside == '/')
                        return open_in_root(mounts[i], inside, O_PATH);
        }
        return -EINVAL;
}

/* --- By default -------------------------------------------------------------------------------------------- */

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

/* Whether this process may read or write the file of the descriptor. */
static bool is_accessible(int fd)
{
        return faccessat(fd, "", R_OK, AT_EMPTY_PATH) >= 0 || faccessat(fd, "", W_OK, AT_EMPTY_PATH) >= 0;
}

static int mask_path(const int mounts[static _POD_MOUNT_MAX], const char *path, bool always)
{
        _cleanup_close_ int target = open_in_mounts(mounts, path);

        if (target == -ENOENT)
                return 0;
        if (target < 0)
                return target;
        return always || is_accessible(target) ? root_mask(target) : 0;
}

static int mask_paths(const int mounts[static _POD_MOUNT_MAX], const char *const *paths, size_t n,
                      bool always, Failure *f)
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

static int mask_processors(const int mounts[static _POD_MOUNT_MAX], Failure *f)
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

static int mask_defaults(const int mounts[static _POD_MOUNT_MAX], Failure *f)
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

/* --- As the user says -------------------------------------------------------------------------------------- */

/* -ENOENT: there is no such file. */
static int open_given(int root_fd, const int mounts[static _POD_MOUNT_MAX], const char *path)
{
        int fd = open_in_mounts(mounts, path);

        if (fd == -EINVAL)
                fd = open_in_root(root_fd, path, O_PATH);
        return fd == -ENOTDIR ? -ENOENT : fd;
}

/* A mount of the file on itself. */
static int make_read_only(int target_fd)
{
        _cleanup_close_ int fd = root_clone_tree(target_fd, "");

        int r = fd < 0 ? fd : root_set_read_only(fd, true);
        return r < 0 ? r : target_attach(fd, target_fd);
}

static int apply_given(int root_fd, const int mounts[static _POD_MOUNT_MAX], char *const *paths,
                       int (*apply)(int target_fd), const char *what, Failure *f)
{
        STRV_FOREACH (path, paths) {
                _cleanup_close_ int target = open_given(root_fd, mounts, *path);
                int r = target == -ENOENT ? 0 : target;

                if (r > 0 && !path_has_prefix(*path, "/proc") && !path_has_prefix(*path, "/sys"))
                        r = target_check_private(root_fd, target, *path, f);
                if (r < 0 && f->error.message)
                        return r;
                if (r >= 0 && target >= 0)
                        r = apply(target);
                if (r < 0)
                        return failure_set_errno(f, CAUSE_SETUP, r, "Cannot %s %s", what, *path);
        }
        return 0;
}

int protect_defaults(const Launch *l, const int mounts[static _POD_MOUNT_MAX], Failure *f)
{
        int r = l->config.has_masked ? 0 : mask_defaults(mounts, f);

        return r < 0 || l->config.has_read_only ? r : protect_network_parameters(l, mounts[POD_PROC], f);
}

int protect_given(const Launch *l, int root_fd, const int mounts[static _POD_MOUNT_MAX], Failure *f)
{
        int r = apply_given(root_fd, mounts, l->config.read_only, make_read_only, "make read-only", f);

        return r < 0 ? r : apply_given(root_fd, mounts, l->config.masked, root_mask, "mask", f);
}
