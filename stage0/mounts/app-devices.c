/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The /dev of an app that is to have devices of the host, or volumes in /dev.
 *
 * It is a file system of that app alone, made anew for each of its processes, so that a device which was plugged in meanwhile
 * is there. The nodes are copies of the host's: the paths are the operator's, and nothing of the app is walked. Where the devices
 * of the app are filtered, as they are by default for one that has CAP_SYS_ADMIN, the rules for that are found on the same walk. */

#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "schema/settings.h"
#include "stage0/mounts/mounts-internal.h"

#define HOST_DEV "/dev"
#define DEPTH_MAX 16U
#define NODES_MAX "65536"

/* Names in /dev of the host that are no devices of it: the pod has its own. */
static const char *const left_out[] = {"console", "fd", "mqueue", "pts", "shm"};

typedef struct Devices {
        int dev_fd; /* of the app */
        uid_t owner;
        bool own_users, keep; /* keep: nodes that are there already stay */
        bool waits; /* this process may ask file systems that do not answer; otherwise it stops with -EAGAIN */
        uint32_t major, minor; /* of the file system of /dev of the host, which always answers */
        DeviceRules *rules;    /* to which the nodes are added */
        unsigned access;
} Devices;

/* In a pod with users of its own they belong to its root. */
static int make_node(const Devices *d, int dir_fd, const char *name, const struct stat *st)
{
        mode_t mode = st->st_mode & 07777;

        int r = d->rules->closed ? device_rules_add(d->rules, S_ISBLK(st->st_mode), st->st_rdev, d->access)
                                 : 0;
        if (r < 0)
                return r;
        if (!d->keep && unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
                return -errno;
        if (mknodat(dir_fd, name, (st->st_mode & S_IFMT) | mode, st->st_rdev) < 0)
                return d->keep && errno == EEXIST ? 0 : -errno;
        if (fchmodat(dir_fd, name, mode, 0) < 0 ||
            fchownat(dir_fd, name, d->own_users ? d->owner : st->st_uid,
                     d->own_users ? d->owner : st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return 0;
}

/* Directories of /dev in which there is a device are made with it. */
static int add_node(const Devices *d, const char *target, const struct stat *st)
{
        const char *inside = target + strlen(HOST_DEV), *slash = strrchr(inside, '/');
        _cleanup_free_ char *parent = strndup(inside, (size_t) (slash - inside) + 1);
        _cleanup_close_ int parent_fd = -EBADF;

        if (!parent)
                return -ENOMEM;
        int r = mkdir_p_in_root(d->dev_fd, parent, 0755, &parent_fd);
        return r < 0 ? r : make_node(d, parent_fd, slash + 1, st);
}

static bool is_device(const struct stat *st)
{
        return S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode);
}

static bool is_left_out(const char *target)
{
        for (size_t i = 0; i < ELEMENTSOF(left_out); i++)
                if (streq(target + strlen(HOST_DEV "/"), left_out[i]))
                        return true;
        return false;
}

/* As fstat(), of file systems that this process may ask. */
static int stat_device(const Devices *d, int fd, struct stat *ret)
{
        struct statx st;
        int r = d->waits ? 0 : fd_stat_cached(fd, &st);

        if (r >= 0 && !d->waits && (st.stx_dev_major != d->major || st.stx_dev_minor != d->minor))
                return -EAGAIN;
        return r < 0 ? r : fstat(fd, ret) < 0 ? -errno : 0;
}

/* Links are left out. What disappears meanwhile is no error. */
static int add_directory(const Devices *d, int dir_fd, const char *target, unsigned depth)
{
        _cleanup_strv_free_ char **names = NULL;

        int r = depth > DEPTH_MAX ? -ELOOP : list_names(dir_fd, &names);
        STRV_FOREACH (name, names) {
                _cleanup_close_ int fd =
                                r < 0 ? -EBADF : openat(dir_fd, *name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                _cleanup_free_ char *path = NULL;
                struct stat st;

                if (r < 0 || fd < 0)
                        continue;
                if (xasprintf(&path, "%s/%s", target, *name) < 0)
                        return -ENOMEM;
                if (is_left_out(path))
                        continue;
                int k = stat_device(d, fd, &st);
                if (k == -EAGAIN)
                        return k;
                if (k < 0)
                        continue;
                if (is_device(&st))
                        r = add_node(d, path, &st);
                else if (S_ISDIR(st.st_mode)) {
                        _cleanup_close_ int below = openat(dir_fd, *name,
                                                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                        r = below < 0 ? 0 : add_directory(d, below, path, depth + 1);
                }
        }
        return r;
}

static int add_all(Devices *d)
{
        _cleanup_close_ int fd = open(HOST_DEV, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        d->keep = true;
        int r = add_directory(d, fd, HOST_DEV, 0);
        d->keep = false;
        return r;
}

/* A device, or a directory of them. */
static int add_device(Devices *d, const PodApp *app, const DeviceSetting *device, Error *e)
{
        _cleanup_close_ int fd = d->waits ? open(device->source, O_PATH | O_CLOEXEC)
                                          : open_cached(device->source, true),
                            dir_fd = -EBADF;
        struct stat st;

        int r = fd >= 0 ? stat_device(d, fd, &st) : d->waits ? -errno : fd;
        if (r == -EAGAIN && !d->waits)
                return r;
        if (r < 0)
                return error_set_errno(e, r, "Cannot give app %s the device %s of the host", app->name,
                                       device->source);
        if (!is_device(&st) && !S_ISDIR(st.st_mode))
                return error_set(e, -ENODEV, "%s of the host, which app %s is to have, is not a device",
                                 device->source, app->name);
        d->access = device->access ?: DEVICE_ACCESS_ALL;
        if (S_ISDIR(st.st_mode)) {
                dir_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                r = dir_fd < 0 ? -errno : add_directory(d, dir_fd, device->target, 0);
        } else
                r = add_node(d, device->target, &st);
        if (r == -E2BIG)
                return error_set(e, r, "App %s has too many devices to be filtered: at most %u are possible",
                                 app->name, DEVICE_RULES_MAX);
        if (r == -EAGAIN)
                return r;
        return r < 0 ? error_set_errno(e, r, "Cannot make the device %s of app %s", device->target,
                                       app->name)
                     : 0;
}

/* Once it is read-only no place for a volume can be made. Those of the pod that are mounted on its directories, such as
 * /dev/shm, come later, and the volumes in them are made there. */
static int make_target(int dev_fd, const char *inside, int volume_fd)
{
        const char *slash = strrchr(inside, '/');
        _cleanup_free_ char *parent = strndup(inside, (size_t) (slash - inside) + 1);
        _cleanup_close_ int parent_fd = -EBADF, fd = -EBADF;
        struct statx x;

        if (!parent)
                return -ENOMEM;
        int r = fd_stat_cached(volume_fd, &x);
        if (r < 0)
                return r;
        if (S_ISDIR(x.stx_mode))
                return mkdir_p_in_root(dev_fd, inside, 0755, &fd);
        r = mkdir_p_in_root(dev_fd, parent, 0755, &parent_fd);
        if (r < 0)
                return r;
        fd = openat(parent_fd, slash + 1, O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_WRONLY, 0644);
        return fd >= 0 || errno == EEXIST ? 0 : -errno;
}

static int make_targets(const PodApp *app, const int *volume_fds, int dev_fd, Error *e)
{
        for (size_t i = 0; i < app->n_mounts; i++) {
                const char *path = app->mounts[i].path;
                int r = startswith(path, HOST_DEV "/")
                                        ? make_target(dev_fd, path + strlen(HOST_DEV), volume_fds[i])
                                        : 0;
                if (r < 0)
                        return error_set_errno(e, r, "Cannot make the place of the volume at %s in app %s",
                                               path, app->name);
        }
        return 0;
}

static bool has_volumes_in_dev(const PodApp *app)
{
        for (size_t i = 0; i < app->n_mounts; i++)
                if (startswith(app->mounts[i].path, HOST_DEV "/"))
                        return true;
        return false;
}

static int fill(PodMounts *m, const PodApp *app, const AppSettings *s, int dev_fd, bool waits,
                DeviceRules *rules, Error *e)
{
        Devices d = {.dev_fd = dev_fd,
                     .owner = pod_root_uid(m->pod),
                     .own_users = m->userns_fd >= 0,
                     .waits = waits,
                     .rules = rules};
        const DevicesSetting *devices = &s->devices;
        struct stat st;

        int r = stat(HOST_DEV, &st) < 0 ? -errno : pod_mounts_fill_dev(m, s, dev_fd, true);
        d.major = r < 0 ? 0 : major(st.st_dev);
        d.minor = r < 0 ? 0 : minor(st.st_dev);
        if (r >= 0 && devices->all)
                r = add_all(&d);
        if (r == -EAGAIN)
                return r;
        if (r < 0)
                return error_set_errno(e, r, "Cannot make /dev of app %s", app->name);
        for (size_t i = 0; r >= 0 && i < devices->n; i++)
                r = add_device(&d, app, &devices->items[i], e);
        return r;
}

static int protect(const PodApp *app, int fd, Error *e)
{
        int r = mount_set_attributes(fd, &(struct mount_attr){.attr_set = MOUNT_ATTR_RDONLY}, false);

        return r < 0 ? error_set_errno(e, r, "Cannot protect /dev of app %s", app->name) : 0;
}

static int make_dev(PodMounts *m, const PodApp *app, const AppSettings *s, bool waits, DeviceRules *rules,
                    Error *e)
{
        _cleanup_close_ int fd = -EBADF, dev_fd = -EBADF;
        char owner[16];
        /* As options: where AppArmor confines this process, the root of a file system that is mounted nowhere has the name "/", of which
         * profiles seldom allow to change the owner. */
        const char *const options[] = {"mode", "0755", "uid",       owner,     "gid", owner,
                                       "size", "1m",   "nr_inodes", NODES_MAX, NULL};

        snprintf(owner, sizeof(owner), "%u", pod_root_uid(m->pod));
        int r = mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &fd);
        if (r >= 0 && (dev_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
                r = -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot mount /dev of app %s", app->name);
        r = fill(m, app, s, dev_fd, waits, rules, e);
        if (r >= 0 && !has_volumes_in_dev(app))
                r = protect(app, fd, e);
        return r < 0 ? r : TAKE_FD(fd);
}

int pod_mounts_finish_dev(const PodApp *app, int dev_fd, const int *volume_fds, Error *e)
{
        if (!has_volumes_in_dev(app))
                return 0;
        int r = make_targets(app, volume_fds, dev_fd, e);
        return r < 0 ? r : protect(app, dev_fd, e);
}

static bool has_devices_in_volumes(const PodMounts *m, const PodApp *app)
{
        for (size_t i = 0; i < app->n_mounts; i++) {
                const Volume *v = app->mounts[i].app_volume
                                                  ?: pod_manifest_find_volume(m->pod->manifest,
                                                                              app->mounts[i].volume);
                VolumeSettings s;
                if (v && volume_settings_read(m->pod->manifest, v, &s, NULL) >= 0 && s.devices)
                        return true;
        }
        return false;
}

/* An app that may mount is filtered, too, whatever the flags of its mounts are by then: unless the operator has given it devices that
 * are not known here, or the kernel has no such filters. */
static bool filter_by_default(const PodMounts *m, const PodApp *app, const AppSettings *s)
{
        return stage1_app_capabilities(app->app) & UINT64_C(1) << CAP_SYS_ADMIN && !s->devices.all &&
               !has_devices_in_volumes(m, app) && device_filter_available() >= 0;
}

static int clone_filtered(PodMounts *m, const PodApp *app, const AppSettings *s, bool filter, bool waits,
                          DeviceRules *ret_rules, Error *e)
{
        ret_rules->closed = filter;
        if (filter && device_rules_add_default(ret_rules) < 0)
                return error_oom(e);
        bool own = s->devices.all || s->devices.n > 0 || has_volumes_in_dev(app);
        if (own)
                return make_dev(m, app, s, waits, ret_rules, e);
        int fd = pod_mounts_clone_common_dev(m, s);
        return fd < 0 ? error_set_errno(e, fd, "Cannot clone /dev") : fd;
}

int pod_mounts_clone_dev(PodMounts *m, const PodApp *app, bool waits, DeviceRules *ret_rules, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};

        int r = app_settings_read(app, &s, e);
        if (r < 0)
                return r;
        bool requested = app_settings_filter_devices(&s);
        r = clone_filtered(m, app, &s, requested || filter_by_default(m, app, &s), waits, ret_rules, e);
        if (r == -EAGAIN) {
                device_rules_done(ret_rules);
                return r;
        }
        if (r != -E2BIG || requested)
                return r;
        /* It has more devices than a filter can have. */
        error_done(e);
        device_rules_done(ret_rules);
        return clone_filtered(m, app, &s, false, waits, ret_rules, e);
}
