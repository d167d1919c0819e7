/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Features of this host for a pod: the controllers of its cgroup while it runs, else those that it would
 * have; the security modules; and the disks of the pod's files.
 *
 * The I/O limits of cgroup v2 are per device, and only for whole disks, so a partition is mapped to its
 * disk. File systems that are not on a single device (btrfs, overlayfs, tmpfs, network file systems) report
 * a number that belongs to no device: I/O cannot be limited there, which is reported.
 */

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "stage0/host/device-filter.h"
#include "stage0/host/host-internal.h"
#include "stage1/launch-protocol.h"

static int add_disk(char ***l, const char *device)
{
        return strv_contains(*l, device) ? 0 : strv_extend(l, device);
}

/* "8:0" for 8:1. -ENODEV: it is not on a disk. */
static int disk_of(dev_t device, char **ret)
{
        _cleanup_free_ char *text = NULL, *partition = NULL, *whole = NULL;

        if (major(device) == 0)
                return -ENODEV;
        int r = xasprintf(&partition, "/sys/dev/block/%u:%u/partition", major(device), minor(device));
        if (r >= 0)
                r = xasprintf(&whole, "/sys/dev/block/%u:%u/%sdev", major(device), minor(device),
                              access(partition, F_OK) >= 0 ? "../" : "");
        if (r >= 0)
                r = read_file_at(AT_FDCWD, whole, 8192, &text, NULL);
        if (r < 0)
                return r == -ENOENT ? -ENODEV : r;
        text[strcspn(text, "\n")] = 0;
        *ret = TAKE_PTR(text);
        return 0;
}

/* Without asking its file system, which may not answer: the root of a mount and what is above it are always known to the kernel, so
 * that the nearest directory above PATH that is known is on the same file system, unless PATH does not exist. */
static int device_of_path(const char *path, dev_t *ret)
{
        _cleanup_free_ char *nearest = strdup(path);
        struct statx st;

        if (!nearest)
                return -ENOMEM;
        for (;;) {
                _cleanup_close_ int fd = open_cached(isempty(nearest) ? "/" : nearest, true);
                int r = fd < 0 ? fd : fd_stat_cached(fd, &st);
                if (r >= 0) {
                        *ret = makedev(st.stx_dev_major, st.stx_dev_minor);
                        return 0;
                }
                char *slash = strrchr(nearest, '/');
                if (!slash)
                        return r;
                *slash = 0;
        }
}

static int add_disk_of_path(const char *path, char ***l)
{
        _cleanup_free_ char *device = NULL;
        dev_t dev = 0;

        int r = device_of_path(path, &dev);
        if (r < 0)
                return r == -ENOMEM ? r : 0; /* mounting it will report the error */
        r = disk_of(dev, &device);
        if (r < 0)
                return r == -ENODEV ? 0 : r;
        return add_disk(l, device);
}

int pod_disks(const Pod *p, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;
        _cleanup_free_ char *device = NULL;
        struct stat st;

        if (fstat(p->dir_fd, &st) < 0)
                return -errno;
        int r = disk_of(st.st_dev, &device);
        if (r >= 0)
                r = add_disk(&l, device);
        for (size_t i = 0; r >= 0 && p->manifest && i < p->manifest->n_volumes; i++)
                if (p->manifest->volumes[i].kind == VOLUME_HOST && p->manifest->volumes[i].source)
                        r = add_disk_of_path(p->manifest->volumes[i].source, &l);
        if (r >= 0)
                *ret = TAKE_PTR(l);
        return r;
}

uint32_t security_modules(const HostFeatures *h)
{
        uint32_t apparmor = h->apparmor ? LAUNCH_APPARMOR : 0U,
                 missing = h->apparmor && stage1_has_no_profiles(h) ? LAUNCH_NO_PROFILES : 0U;

        return apparmor | missing | (h->selinux > SELINUX_NO_POLICY ? LAUNCH_SELINUX : 0U);
}

int pod_features(Pod *p, bool keep_unit, HostFeatures *ret)
{
        _cleanup_strv_free_ char **disks = NULL;
        HostFeatures h = {};

        int r = pod_cgroup_features(p, &h);
        if (r == -ENOENT)
                r = host_features_detect(keep_unit, &h);
        if (r < 0)
                return r;
        host_features_detect_security(&h);
        h.block_device = pod_disks(p, &disks) >= 0;
        h.shared = (SharedNamespaces){.network = p->config.net == NET_HOST, .ipc = p->config.host_ipc};
        h.own_users = p->config.private_users;
        *ret = h;
        return 0;
}

uint64_t pod_capabilities(const Pod *p)
{
        bool declared;

        return p->config.capabilities ?: stage1_pod_capabilities(p->manifest, &declared);
}

int pod_isolators_check(Pod *p, Error *e)
{
        HostFeatures h;

        int r = stage1_load_libraries(p->manifest, e);
        if (r < 0)
                return r;
        r = pod_features(p, false, &h);
        if (r < 0)
                return error_set_errno(e, r, "Cannot determine the features of this host for pod %s",
                                       pod_display_name(p));
        r = stage1_isolators_check(p->manifest, &h, e);
        return r < 0 ? r : device_filters_check(p->manifest, e);
}
