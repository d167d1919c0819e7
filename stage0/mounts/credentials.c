/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials of apps while the pod runs: a file system in memory, which the kernel never swaps, for each
 * app that has some. The copy on disk is removed once it is in memory, before any app starts. The launcher
 * mounts it in that app alone, gives it to the app's user, and makes it read-only. */

#include <sys/mount.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif

#define MOUNT_ATTRIBUTES (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSYMFOLLOW)

static void hold_name(const AppMount *a, char name[static 16])
{
        snprintf(name, 16, "c%u", a->root.credentials);
}

static int copy_file(int from_fd, int to_fd, const char *name, uid_t owner)
{
        _cleanup_free_ char *data = NULL;
        size_t size;

        int r = read_file_at(from_fd, name, CREDENTIALS_SIZE_MAX, &data, &size);
        if (r < 0)
                return r;
        r = write_file_new_at(to_fd, name, data, size, 0400);
        explicit_bzero(data, size);
        if (r >= 0 && fchownat(to_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        return r;
}

static int fill(int from_fd, int to_fd, uid_t owner)
{
        _cleanup_strv_free_ char **names = NULL;
        int r = list_names(from_fd, &names);

        for (char **name = names; r >= 0 && name && *name; name++)
                r = copy_file(from_fd, to_fd, *name, owner);
        if (r >= 0 && (fchown(to_fd, owner, owner) < 0 || fchmod(to_fd, 0500) < 0))
                r = -errno;
        for (char **name = names; r >= 0 && name && *name; name++)
                if (unlinkat(from_fd, *name, 0) < 0)
                        r = -errno;
        return r;
}

/* The file system for credentials at NAME of the holder. It is filled there: AppArmor, where it confines this process, may not allow to
 * change the root of one that is mounted nowhere. */
static int make_place(PodMounts *m, const char *name)
{
        static const char *const options[] = {"mode", "0500", NULL};
        _cleanup_close_ int mount_fd = -EBADF;

        int r = mount_new("ramfs", options, MOUNT_ATTRIBUTES, &mount_fd);
        if (r >= 0)
                r = pod_mounts_hold(m, mount_fd, name);
        if (r < 0)
                return r;
        int fd = openat(m->holder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int take(PodMounts *m, int from_fd, const AppMount *a)
{
        char name[16];

        hold_name(a, name);
        _cleanup_close_ int fd = make_place(m, name);
        int r = fd < 0 ? fd : fill(from_fd, fd, pod_root_uid(m->pod));
        if (r < 0)
                pod_mounts_let_go(m, name);
        m->has_credentials |= r >= 0;
        return r;
}

static int take_app(PodMounts *m, const PodApp *app)
{
        _cleanup_close_ int fd = pod_app_open_credentials(m->pod, app);

        if (fd < 0)
                return fd == -ENOENT ? 0 : fd;
        const AppMount *a = pod_mounts_know_app(m, app->name);
        return a ? take(m, fd, a) : -ENOMEM;
}

int pod_mounts_take_credentials(PodMounts *m, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < m->pod->manifest->n_apps; i++)
                r = take_app(m, m->pod->manifest->apps[i]);
        return r < 0 ? error_set_errno(e, r, "Cannot load the credentials of pod %s into memory",
                                       pod_display_name(m->pod))
                     : 0;
}

int pod_mounts_take_app(PodMounts *m, const PodApp *app, bool notify, Error *e)
{
        int r = pod_mounts_extend_dev(m, notify, pod_app_has_credentials(m->pod, app));

        if (r < 0)
                return error_set_errno(e, r, "Cannot extend the devices of pod %s",
                                       pod_display_name(m->pod));
        r = take_app(m, app);
        return r < 0 ? error_set_errno(e, r, "Cannot load the credentials of app %s into memory", app->name)
                     : 0;
}

int pod_mounts_open_credentials(PodMounts *m, const PodApp *app)
{
        const AppMount *a = pod_mounts_know_app(m, app->name);
        char name[16];
        int r = a ? 0 : -ENOMEM;

        if (r < 0)
                return r;
        hold_name(a, name);
        int fd = openat(m->holder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 || errno != ENOENT)
                return fd < 0 ? -errno : fd;
        r = pod_mounts_extend_dev(m, false, true);
        if (r >= 0)
                r = fd = make_place(m, name);
        m->has_credentials |= r >= 0;
        return r;
}

int pod_mounts_exchange_credentials(PodMounts *m, const PodApp *app, AppMount *a)
{
        _cleanup_close_ int fd = pod_app_open_credentials(m->pod, app);
        _cleanup_strv_free_ char **names = NULL;
        int r = fd < 0 ? fd : list_names(fd, &names);

        if (r < 0 && r != -ENOENT)
                return r;
        if (r >= 0 && strv_length(names) == 0) /* they stay */
                return 0;
        a->root.credentials = m->next_index++;
        return r < 0 ? 0 : take(m, fd, a);
}

int pod_mounts_clone_credentials(PodMounts *m, const PodApp *app, Error *e)
{
        char name[16];

        if (!m->has_credentials)
                return -ENOENT;
        const AppMount *a = pod_mounts_know_app(m, app->name);
        if (!a)
                return error_oom(e);
        hold_name(a, name);
        int fd = mount_clone(m->holder_fd, name, false);
        return fd < 0 && fd != -ENOENT
                               ? error_set_errno(e, fd, "Cannot mount the credentials of app %s", app->name)
                               : fd;
}

/* --- Comparing ----------------------------------------------------------------------------------------- */

static int compare_file(int dir_fd, const Credential *c, char ***different)
{
        char *data = NULL;
        size_t size = 0;

        int r = dir_fd < 0 ? -ENOENT : read_file_at(dir_fd, c->name, CREDENTIALS_SIZE_MAX, &data, &size);
        bool same = r >= 0 && size == c->size && memcmp(data, c->data, size) == 0;
        if (data)
                explicit_bzero(data, size);
        free(data);
        if (r < 0 && r != -ENOENT)
                return r;
        return same ? 0 : strv_extend(different, c->name);
}

/* They are not the user's. */
static bool is_control_file(const char *name)
{
        return streq(name, LAUNCH_CONTROL_SOCKET) || streq(name, LAUNCH_CONTROL_TOKEN);
}

static bool has_name(const CredentialList *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name))
                        return true;
        return false;
}

int pod_mounts_compare_credentials(const PodMounts *m, const PodApp *app, const CredentialList *l,
                                   char ***ret)
{
        _cleanup_strv_free_ char **names = NULL, **different = NULL;
        _cleanup_close_ int fd = -EBADF;
        char hold[16];
        int r = 0;

        for (size_t i = 0; i < m->n_apps; i++)
                if (streq(m->apps[i].name, app->name)) {
                        hold_name(&m->apps[i], hold);
                        fd = openat(m->holder_fd, hold, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                }
        if (fd >= 0)
                r = list_names(fd, &names);
        for (size_t i = 0; r >= 0 && i < l->n; i++)
                r = compare_file(fd, &l->items[i], &different);
        STRV_FOREACH (name, names)
                if (r >= 0 && !has_name(l, *name) && !is_control_file(*name))
                        r = strv_extend(&different, *name);
        if (r < 0)
                return r;
        strv_sort(different);
        *ret = TAKE_PTR(different);
        return 0;
}
