/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pods that belong to another program, such as an endpoint for an orchestrator.
 *
 * The owner decides how long such a pod is kept after it has ended, so collectors leave it alone. The owner can keep data with
 * the pod, and with each of its apps: a file that acnspawn does not interpret, and that can be read whether or not the pod runs.
 * Such a pod does not run again after a reboot of the host: its owner makes a new one, and may read what the old one was and how
 * its apps ended. So the pod is synced while it starts (pod-life.c), its apps when they are added, and the status of an app when it
 * ends. It records the ID of the boot in which it was made. If the power was lost before the sync, its files may be empty, and any
 * collector removes it; a symbolic link also holds that ID, because file systems write the target of a link with its name.
 */

#include <sys/stat.h>

#include "prepare/pods/pods-internal.h"

#define OWNER_BOOT_LINK "owner-boot"
#define CGROUP_PARENT_MAX 2048U
#define CGROUP_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@\\-"

int pod_set_owner(Pod *p, const char *owner, Error *e)
{
        _cleanup_free_ char *name = strdup(owner), *boot = NULL;

        if (!name)
                return error_oom(e);
        int r = read_boot_id(&boot);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the boot ID of the host");
        if (symlinkat(boot, p->dir_fd, OWNER_BOOT_LINK) < 0 && errno != EEXIST)
                return error_set_errno(e, errno, "Cannot create the link '" OWNER_BOOT_LINK "' of pod %s",
                                       pod_display_name(p));
        free(p->config.owner);
        p->config.owner = TAKE_PTR(name);
        free(p->config.boot_id);
        p->config.boot_id = TAKE_PTR(boot);
        return 0;
}

bool pod_is_of_former_boot(const Pod *p)
{
        _cleanup_free_ char *boot = NULL;
        char link[UUID_TEXT_SIZE + 1] = "";
        const char *made = p->config.boot_id;

        if (!made) { /* the pod has no owner, or its configuration is lost */
                ssize_t n = readlinkat(p->dir_fd, OWNER_BOOT_LINK, link, sizeof(link) - 1);
                link[MAX(n, 0)] = 0;
                made = uuid_check(link, NULL) >= 0 ? link : NULL;
        }
        return made && read_boot_id(&boot) >= 0 && !streq(boot, made);
}

int pod_cgroup_parent_check(const char *s, Error *e)
{
        _cleanup_strv_free_ char **parts = NULL;

        if (strv_split(s, "/", &parts) < 0)
                return -ENOMEM;
        if (s[0] != '/' || !parts || !parts[0] || strlen(s) > CGROUP_PARENT_MAX)
                return error_set(e, -EINVAL, "the cgroup parent '%.*s' is not an absolute path",
                                 (int) CGROUP_PARENT_MAX, s);
        STRV_FOREACH (part, parts)
                if (streq(*part, ".") || streq(*part, "..") || (*part)[strspn(*part, CGROUP_CHARACTERS)])
                        return error_set(e, -EINVAL,
                                         "the cgroup parent '%s' has the part '%s', which is not a "
                                         "name of a cgroup",
                                         s, *part);
        return 0;
}

static int data_path(const Pod *p, const PodApp *app, char **ret)
{
        if (app)
                return pod_app_path(p, app, POD_OWNER_DATA_FILE, ret);
        *ret = strdup(POD_OWNER_DATA_FILE);
        return *ret ? 0 : -ENOMEM;
}

static int check_size(const Pod *p, const OwnerData *d, Error *e)
{
        return d->size <= OWNER_DATA_SIZE_MAX
                               ? 0
                               : error_set(e, -E2BIG,
                                           "The data of the owner of pod %s are larger than %u bytes",
                                           pod_display_name(p), OWNER_DATA_SIZE_MAX);
}

static int write_error(const Pod *p, const PodApp *app, int r, Error *e)
{
        return error_set_errno(e, r, "Cannot write the data of the owner of %s %s", app ? "app" : "pod",
                               app ? app->name : pod_display_name(p));
}

int pod_owner_data_write(const Pod *p, const PodApp *app, const OwnerData *d, Error *e)
{
        _cleanup_free_ char *path = NULL;

        if (!d->data)
                return 0;
        int r = check_size(p, d, e);
        if (r < 0)
                return r;
        r = data_path(p, app, &path);
        if (r >= 0)
                r = write_file_new_at(p->dir_fd, path, d->data, d->size, 0600);
        return r < 0 ? write_error(p, app, r, e) : 0;
}

/* A file of its own for each process that does so; it goes with the pod if the process is killed. */
static int replace_file(int dir_fd, const char *path, const OwnerData *d)
{
        _cleanup_free_ char *temporary = NULL;
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        int r = xasprintf(&temporary, "%s.%d.tmp", path, (int) getpid());
        if (r < 0)
                return r;
        fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
                    0600);
        if (fd < 0)
                return -errno;
        const struct timespec times[] = {st.st_atim, st.st_mtim};
        r = loop_write(fd, d->data, d->size);
        /* A loss of power leaves what was there before, or this. */
        if (r >= 0 &&
            (futimens(fd, times) < 0 || fsync(fd) < 0 || renameat(dir_fd, temporary, dir_fd, path) < 0))
                r = -errno;
        if (r < 0)
                (void) unlinkat(dir_fd, temporary, 0);
        return r;
}

int pod_owner_data_replace(const Pod *p, const PodApp *app, const OwnerData *d, Error *e)
{
        _cleanup_free_ char *path = NULL;
        int r = check_size(p, d, e);

        if (r < 0)
                return r;
        r = data_path(p, app, &path);
        if (r >= 0)
                r = replace_file(p->dir_fd, path, d);
        return r < 0 ? write_error(p, app, r, e) : 0;
}

int pod_owner_data_read(const Pod *p, const PodApp *app, OwnerData *ret, Error *e)
{
        _cleanup_free_ char *path = NULL, *data = NULL;
        size_t size;
        int r = data_path(p, app, &path);

        if (r >= 0)
                r = read_file_at(p->dir_fd, path, OWNER_DATA_SIZE_MAX, &data, &size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the data of the owner of %s %s",
                                       app ? "app" : "pod", app ? app->name : pod_display_name(p));
        *ret = (OwnerData){.data = TAKE_PTR(data), .size = size};
        return 0;
}
