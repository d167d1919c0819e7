/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The /dev of apps: one small tmpfs for all apps of a pod, read-only once it is filled. The nodes are made
 * here, by root of the host, as mknod() is not permitted in a user namespace. */

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "schema/settings.h"
#include "stage0/mounts/mounts-internal.h"

/* Spec: OS-SPEC.md, "Devices and File Systems". The console of an app with a terminal is the pod's, which the launcher mounts; one without a
 * terminal gets the null device in its place, or none if it is of an OCI image: entrypoints write to it if it is there. */
static const struct {
        const char *name;
        unsigned major, minor;
} device_nodes[] = {
                {"null", 1, 3},    {"zero", 1, 5}, {"full", 1, 7},    {"random", 1, 8},
                {"urandom", 1, 9}, {"tty", 5, 0},  {"console", 1, 3},
};

static const struct {
        const char *name, *target;
} device_links[] = {
                {"ptmx", "pts/ptmx"},          {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
                {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
};

static const char *const device_directories[] = {"pts", "shm", "mqueue"};
/* Where the launcher mounts an app's credentials (see LAUNCH_CREDENTIALS_PATH). */
static const char credentials_directory[] = "credentials";

bool device_is_everyones(int fd)
{
        struct statx x;

        if (fd_stat_cached(fd, &x) < 0 || !S_ISCHR(x.stx_mode))
                return false;
        for (size_t i = 0; i < ELEMENTSOF(device_nodes); i++)
                if (x.stx_rdev_major == device_nodes[i].major && x.stx_rdev_minor == device_nodes[i].minor)
                        return true;
        return false;
}

/* A file system for those without a console, made when it is needed. */
#define PLAIN_DEV "plain-dev"

static bool has_console(const AppSettings *s)
{
        return s->input == INPUT_TERMINAL || !s->hostname_variable;
}

static bool lacks_console(const AppSettings *s)
{
        return !has_console(s);
}

static bool notifies(const AppSettings *s)
{
        return s->notify;
}

static bool any_app(const PodMounts *m, bool (*is_so)(const AppSettings *s))
{
        for (size_t i = 0; i < m->pod->manifest->n_apps; i++) {
                _cleanup_app_settings_ AppSettings s = {};
                if (app_settings_read(m->pod->manifest->apps[i], &s, NULL) >= 0 && is_so(&s))
                        return true;
        }
        return false;
}

static int make_notify_target(int dev_fd)
{
        _cleanup_close_ int fd =
                        openat(dev_fd, LAUNCH_NOTIFY_NAME, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0);

        return fd < 0 ? -errno : 0;
}

static int fill_dev(const PodMounts *m, int dev_fd, bool console, bool credentials)
{
        uid_t owner = pod_root_uid(m->pod);

        for (size_t i = 0; i < ELEMENTSOF(device_nodes); i++) {
                const char *name = device_nodes[i].name;
                if (!console && streq(name, "console"))
                        continue;
                if (mknodat(dev_fd, name, S_IFCHR | 0666,
                            makedev(device_nodes[i].major, device_nodes[i].minor)) < 0 ||
                    fchmodat(dev_fd, name, 0666, 0) < 0 ||
                    fchownat(dev_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                        return -errno;
        }
        for (size_t i = 0; i < ELEMENTSOF(device_links); i++)
                if (symlinkat(device_links[i].target, dev_fd, device_links[i].name) < 0)
                        return -errno;
        /* The place of the socket for readiness messages. */
        if (any_app(m, notifies) && make_notify_target(dev_fd) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(device_directories); i++) {
                int r = mkdir_at(dev_fd, device_directories[i], 0755);
                if (r < 0)
                        return r;
        }
        return credentials ? mkdir_at(dev_fd, credentials_directory, 0755) : 0;
}

int pod_mounts_fill_dev(const PodMounts *m, const AppSettings *s, int dev_fd, bool credentials)
{
        return fill_dev(m, dev_fd, has_console(s), credentials);
}

static int fill_new_dev(const PodMounts *m, const char *place, bool console)
{
        _cleanup_close_ int dev_fd = openat(m->holder_fd, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dev_fd < 0)
                return -errno;
        int r = fill_dev(m, dev_fd, console, m->has_credentials);
        return r < 0 ? r
                     : mount_set_attributes(dev_fd, &(struct mount_attr){.attr_set = MOUNT_ATTR_RDONLY},
                                            false);
}

/* A failure leaves no mount there, and can be followed by another start. */
static int make_dev(const PodMounts *m, const char *place, bool console)
{
        uid_t owner = pod_root_uid(m->pod);
        char options[64];

        snprintf(options, sizeof(options), "mode=0755,uid=%u,gid=%u,size=64k,nr_inodes=64", owner, owner);
        if ((mkdirat(m->holder_fd, place, 0755) < 0 && errno != EEXIST) || fchdir(m->holder_fd) < 0 ||
            mount("acnspawn-dev", place, "tmpfs", MS_NOSUID | MS_NOEXEC, options) < 0)
                return -errno;
        int r = fill_new_dev(m, place, console);
        if (r < 0)
                (void) umount2(place, MNT_DETACH);
        return r;
}

static int make_plain_dev(PodMounts *m)
{
        int r = m->has_plain_dev ? 0 : make_dev(m, PLAIN_DEV, false);

        m->has_plain_dev = r >= 0;
        return r;
}

/* While the pod's systemd boots: the first request of an app's launcher does not wait for it. */
int pod_mounts_make_dev(PodMounts *m)
{
        int r = make_dev(m, "dev", true);

        return r >= 0 && any_app(m, lacks_console) ? make_plain_dev(m) : r;
}

int pod_mounts_clone_common_dev(PodMounts *m, const AppSettings *s)
{
        if (has_console(s))
                return mount_clone(m->holder_fd, "dev", false);
        int r = make_plain_dev(m); /* for an app that was added */
        return r < 0 ? r : mount_clone(m->holder_fd, PLAIN_DEV, false);
}

/* The file system itself is writable: only its mounts are read-only. */
static int extend_dev(const PodMounts *m, const char *place, bool notify, bool credentials)
{
        _cleanup_close_ int mount_fd = -EBADF, dev_fd = -EBADF;

        mount_fd = mount_clone(m->holder_fd, place, false);
        if (mount_fd < 0)
                return mount_fd;
        int r = mount_set_attributes(mount_fd, &(struct mount_attr){.attr_clr = MOUNT_ATTR_RDONLY}, false);
        if (r < 0)
                return r;
        dev_fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dev_fd < 0)
                return -errno;
        r = notify ? make_notify_target(dev_fd) : 0;
        if (r < 0 && r != -EEXIST)
                return r;
        r = credentials ? mkdir_at(dev_fd, credentials_directory, 0755) : 0;
        return r < 0 && r != -EEXIST ? r : 0;
}

int pod_mounts_extend_dev(PodMounts *m, bool notify, bool credentials)
{
        if (!notify && !credentials)
                return 0;
        int r = extend_dev(m, "dev", notify, credentials);
        return r < 0 || !m->has_plain_dev ? r : extend_dev(m, PLAIN_DEV, notify, credentials);
}

int pod_mounts_open_null(const PodMounts *m)
{
        /* In a mount of its own: in this one the file's path is the store's. */
        _cleanup_close_ int mount_fd = mount_clone(m->holder_fd, "dev", false);
        int fd = mount_fd < 0 ? -1 : openat(mount_fd, "null", O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}
