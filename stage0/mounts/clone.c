/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The mounts of the pod for one process of an app: clones, as descriptors that are attached nowhere. The
 * launcher puts them together in a mount namespace of the app, and they are visible only there. */

#include <linux/capability.h>

#include "stage0/mounts/mounts-internal.h"

#define TERMINAL_GROUP 5U /* "tty", as nspawn has it for the pod's own */

static int clone_mount(PodMounts *m, const PodApp *app, size_t i, Error *e)
{
        const Mount *mount = &app->mounts[i];
        const Volume *v = mount->app_volume ?: pod_manifest_find_volume(m->pod->manifest, mount->volume);

        if (!v)
                return error_set(e, -ENOENT, "App %s mounts volume %s, which the pod does not have",
                                 app->name, mount->volume);
        return pod_mounts_clone_volume(m, v, app_has_read_only(app->app, mount->path), e);
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

/* All mounts but the root. The credentials come last, if the app has some. */
static int clone_restricted(PodMounts *m, const PodApp *app, int *ret_fds, size_t *n, bool *ret_credentials,
                            DeviceRules *ret_rules, Error *e)
{
        int fd = pod_mounts_clone_dev(m, app, ret_rules, e);

        for (size_t i = 0; fd >= 0; i++) {
                ret_fds[(*n)++] = fd;
                if (i >= app->n_mounts)
                        break;
                fd = clone_mount(m, app, i, e);
        }
        if (fd < 0)
                return fd;
        fd = pod_mounts_clone_credentials(m, app, e);
        *ret_credentials = fd >= 0;
        if (fd >= 0)
                ret_fds[(*n)++] = fd;
        else if (fd != -ENOENT)
                return fd;
        return could_mount_anew(m, app) ? pod_mounts_lock(m, ret_fds, *n, e) : 0;
}

/* A separate instance of devpts: on a shared one, root of one app could open the terminals of the others,
 * and those of commands beside them. */
static int make_pts(const PodMounts *m, Error *e)
{
        char group[16];
        const char *const options[] = {"ptmxmode", "0666", "mode", "0620", "gid", group, NULL};
        int fd = -EBADF;

        snprintf(group, sizeof(group), "%u", (unsigned) pod_root_uid(m->pod) + TERMINAL_GROUP);
        int r = mount_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &fd);
        return r < 0 ? error_set_errno(e, r, "Cannot mount /dev/pts") : fd;
}

int pod_mounts_clone_app(PodMounts *m, const PodApp *app, int *ret_fds, size_t *ret_n, bool *ret_credentials,
                         DeviceRules *ret_rules, Error *e)
{
        size_t n = 0;
        int r = clone_root(m, app, e);

        if (r < 0)
                return r;
        ret_fds[n++] = r;
        r = make_pts(m, e);
        if (r >= 0) {
                size_t n_restricted = 0;
                ret_fds[n++] = r;
                r = clone_restricted(m, app, ret_fds + n, &n_restricted, ret_credentials, ret_rules, e);
                n += n_restricted;
        }
        if (r < 0) {
                while (n > 0)
                        safe_close(ret_fds[--n]);
                return r;
        }
        *ret_n = n;
        return 0;
}
