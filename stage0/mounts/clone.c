/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The mounts of the pod for one process of an app: clones, as descriptors that are attached nowhere. The
 * launcher puts them together in a mount namespace of the app, and they are visible only there. */

#include <linux/capability.h>

#include "stage0/mounts/mounts-internal.h"

#define TERMINALS_PART 16U
#define TERMINALS_MAX UINT64_C(65536)
#define TERMINAL_GROUP 5U /* "tty", as nspawn has it for the pod's own */

void terminal_options(const Pod *p, unsigned max, TerminalOptions *ret)
{
        const char *const list[] = {"ptmxmode", "0666", "mode",   "0620", "gid",
                                    ret->group, "max",  ret->max, NULL};

        snprintf(ret->max, sizeof(ret->max), "%u", max);
        snprintf(ret->group, sizeof(ret->group), "%u", (unsigned) pod_root_uid(p) + TERMINAL_GROUP);
        memcpy(ret->list, list, sizeof(list));
}

const Volume *pod_mounts_volume_of(const PodMounts *m, const PodApp *app, size_t i)
{
        const Mount *mount = &app->mounts[i];

        return mount->app_volume ?: pod_manifest_find_volume(m->pod->manifest, mount->volume);
}

static int clone_mount(PodMounts *m, const PodApp *app, MountSources *sources, size_t i, Error *e)
{
        const Mount *mount = &app->mounts[i];
        const Volume *v = pod_mounts_volume_of(m, app, i);

        if (!v)
                return error_set(e, -ENOENT, "App %s mounts volume %s, which the pod does not have",
                                 app->name, mount->volume);
        return pod_mounts_clone_volume(m, v, mount_sources_take(sources, i),
                                       app_has_read_only(app->app, mount->path), e);
}

static int clone_root(PodMounts *m, const PodApp *app, Error *e)
{
        AppMount *a = pod_mounts_know_app(m, app->name);
        char name[16];

        if (!a || !a->root.mounted)
                return error_set(e, -ENOENT, "App %s has no root", app->name);
        snprintf(name, sizeof(name), "a%u", a->root.index);
        a->root.used = true;
        int fd = mount_clone(m->holder_fd, name, false);
        return fd < 0 ? error_set_errno(e, fd, "Cannot clone the root of app %s", app->name) : fd;
}

/* Without a user namespace such an app is root of the host. */
static bool could_mount_anew(const PodMounts *m, const PodApp *app)
{
        return m->userns_fd >= 0 && stage1_app_capabilities(app->app) & UINT64_C(1) << CAP_SYS_ADMIN;
}

/* The launcher makes mount points in a root before it makes that read-only, but cannot lock it. */
static bool has_locked_read_only_root(const PodMounts *m, const PodApp *app)
{
        return app->read_only_rootfs && could_mount_anew(m, app);
}

static int clone_root_read_only(PodMounts *m, const PodApp *app, Error *e)
{
        _cleanup_close_ int fd = clone_root(m, app, e);

        if (fd < 0)
                return fd;
        int r = mount_set_attributes(fd, &(struct mount_attr){.attr_set = MOUNT_ATTR_RDONLY}, false);
        return r < 0 ? error_set_errno(e, r, "Cannot make the root of app %s read-only", app->name)
                     : TAKE_FD(fd);
}

/* The credentials come after the volumes, if the app has some. */
static int clone_restricted(PodMounts *m, const PodApp *app, MountSources *sources, int *ret_fds,
                            ClonedMounts *ret, DeviceRules *ret_rules, Error *e)
{
        int dev = mount_sources_take_dev(sources, ret_rules);

        if (dev < 0)
                return error_set(e, -EAGAIN, "The devices of app %s are not open", app->name);
        ret_fds[ret->n++] = dev;
        for (size_t i = 0; i < app->n_mounts; i++) {
                int fd = clone_mount(m, app, sources, i, e);
                if (fd < 0)
                        return fd;
                ret_fds[ret->n++] = fd;
        }
        int r = pod_mounts_finish_dev(app, dev, ret_fds + ret->n - app->n_mounts, e);
        if (r < 0)
                return r;
        int fd = pod_mounts_clone_credentials(m, app, e);
        if (fd < 0)
                return fd == -ENOENT ? 0 : fd;
        ret->has_credentials = true;
        ret_fds[ret->n++] = fd;
        return 0;
}

static uint64_t read_pty_parameter(const char *path, uint64_t otherwise)
{
        _cleanup_free_ char *text = NULL;
        uint64_t value = otherwise;

        if (read_file_at(AT_FDCWD, path, 64, &text, NULL) < 0)
                return otherwise;
        text[strcspn(text, "\n")] = 0;
        return parse_u64(text, &value) < 0 ? otherwise : value;
}

/* The kernel has one number of terminals for all instances but the host's: an app gets a part of what that is at the moment. */
static unsigned terminals_max(void)
{
        uint64_t all = read_pty_parameter("/proc/sys/kernel/pty/max", 4096),
                 kept = read_pty_parameter("/proc/sys/kernel/pty/reserve", 1024);
        uint64_t part = all > kept ? (all - kept) / TERMINALS_PART : 0;

        return (unsigned) MIN(MAX(part, (uint64_t) TERMINALS_MIN), TERMINALS_MAX);
}

/* A separate instance of devpts: on a shared one, root of one app could open the terminals of the others,
 * and those of commands beside them. */
static int make_pts(const PodMounts *m, Error *e)
{
        TerminalOptions options;
        int fd = -EBADF;

        terminal_options(m->pod, terminals_max(), &options);
        int r = mount_new("devpts", options.list, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &fd);
        return r < 0 ? error_set_errno(e, r, "Cannot mount /dev/pts") : fd;
}

static int clone_all(PodMounts *m, const PodApp *app, MountSources *sources, int *ret_fds, ClonedMounts *ret,
                     DeviceRules *ret_rules, Error *e)
{
        bool read_only = has_locked_read_only_root(m, app);

        int r = read_only ? clone_root_read_only(m, app, e) : clone_root(m, app, e);
        if (r < 0)
                return r;
        ret_fds[ret->n++] = r;
        r = make_pts(m, e);
        if (r < 0)
                return r;
        ret_fds[ret->n++] = r;
        r = clone_restricted(m, app, sources, ret_fds, ret, ret_rules, e);
        if (r >= 0 && could_mount_anew(m, app))
                r = pod_mounts_lock(m, ret_fds, ret->n, e);
        if (r < 0 || !read_only)
                return r;
        r = clone_root(m, app, e);
        if (r < 0)
                return r;
        ret->has_maker = true;
        ret_fds[ret->n++] = r;
        return 0;
}

int pod_mounts_clone_app(PodMounts *m, const PodApp *app, MountSources *sources, int *ret_fds,
                         ClonedMounts *ret, DeviceRules *ret_rules, Error *e)
{
        ClonedMounts cloned = {};

        int r = clone_all(m, app, sources, ret_fds, &cloned, ret_rules, e);
        if (r < 0) {
                while (cloned.n > 0)
                        safe_close(ret_fds[--cloned.n]);
                return r;
        }
        *ret = cloned;
        return 0;
}
