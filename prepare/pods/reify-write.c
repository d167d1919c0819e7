/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The directories and files of a pod that follow from its manifest: for every app the directories of its
 * overlay (upper/, work/), the list of its lower directories and the manifest of its image as in the
 * archive; for every empty volume a directory, and for one that is an image a directory with the list of its
 * lower directories. Named volumes belong to the store.
 *
 * The upper directory is the root of the app, so it is owned by the pod's root user; empty volumes are owned
 * by their configured users. All names in here have passed ac_name_check(), so they are not ".." and contain
 * no "/".
 */

#include <sys/stat.h>

#include "prepare/pods/reify-internal.h"
#include "schema/settings.h"

static int set_owner(const Pod *p, int fd, uint32_t uid, uint32_t gid)
{
        if (fchown(fd, pod_root_uid(p) + uid, pod_root_uid(p) + gid) >= 0)
                return 0;
        return errno == EPERM && (p->store->flags & STORE_UNPRIVILEGED) ? 0 : -errno;
}

/* A directory whose mode does not depend on the umask. */
static int make_directory(int dir_fd, const char *name, mode_t mode, int *ret_fd)
{
        _cleanup_close_ int fd = -EBADF;

        if (mkdirat(dir_fd, name, 0700) < 0)
                return -errno;
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (fchmod(fd, mode) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int make_owned_directory(const Pod *p, int dir_fd, const char *name, const Volume *like, Error *e)
{
        _cleanup_close_ int fd = -EBADF;

        int r = make_directory(dir_fd, name, 0700, &fd);
        if (r >= 0)
                r = set_owner(p, fd, like->uid, like->gid);
        if (r >= 0 && fchmod(fd, like->mode) < 0) /* after fchown(), which clears some bits */
                r = -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the directory '%s' in pod %s", name,
                                       pod_display_name(p));
        return 0;
}

/* One directory per line. */
static int format_layers(const Reify *r, char *const *layers, char **ret, size_t *ret_size, Error *e)
{
        _cleanup_text_ Text t = {};

        STRV_FOREACH (layer, layers) {
                if (strchr(*layer, '\n'))
                        return error_set(e, -EINVAL, "The path of the store %s contains a newline",
                                         store_path(r->pod->store));
                text_addf(&t, "%s\n", *layer);
        }
        return text_take(&t, ret, ret_size) < 0 ? error_oom(e) : 0;
}

/* The same if it may be there. */
static int open_directory(int dir_fd, const char *name, mode_t mode, int *ret_fd)
{
        int r = make_directory(dir_fd, name, mode, ret_fd);

        if (r != -EEXIST)
                return r;
        *ret_fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return *ret_fd < 0 ? -errno : 0;
}

static int write_app(Reify *r, int apps_fd, const char *name, const AppImage *i, Error *e)
{
        static const Volume overlay = {.mode = 0755};
        _cleanup_free_ char *layers = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t size;

        int k = format_layers(r, i->layers, &layers, &size, e);
        if (k < 0)
                return k;
        k = make_directory(apps_fd, name, 0711, &fd);
        if (k >= 0)
                k = write_file_new_at(fd, "manifest", i->image->manifest_text, i->image->manifest_size,
                                      0644);
        if (k >= 0)
                k = write_file_new_at(fd, "lowers", layers, size, 0644);
        if (k < 0)
                return error_set_errno(e, k, "Cannot create the directory of app %s in pod %s", name,
                                       pod_display_name(r->pod));
        k = make_owned_directory(r->pod, fd, "upper", &overlay, e);
        return k < 0 ? k : make_owned_directory(r->pod, fd, "work", &overlay, e);
}

/* Beside those of the app that it replaces, if it does. */
static int write_files_of(Reify *r, int apps_fd, const PodApp *a, const AppImage *i, Error *e)
{
        _cleanup_free_ char *name = NULL;

        if (!r->old)
                return write_app(r, apps_fd, a->name, i, e);
        if (pod_app_replacement(a, &name) < 0)
                return error_oom(e);
        int k = rm_rf_at(apps_fd, name);
        if (k < 0)
                return error_set_errno(e, k, "Cannot remove the directory '%s' of pod %s", name,
                                       pod_display_name(r->pod));
        return write_app(r, apps_fd, name, i, e);
}

/* The layers of an image, as those of an app. */
static int write_image_volume(Reify *r, int volumes_fd, const Volume *v, const VolumeSettings *s, Error *e)
{
        _cleanup_free_ char *layers = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t size;

        int k = format_layers(r, reify_volume_layers(r, s->image), &layers, &size, e);
        if (k < 0)
                return k;
        k = make_directory(volumes_fd, v->name, 0711, &fd);
        if (k >= 0)
                k = write_file_new_at(fd, "lowers", layers, size, 0644);
        return k < 0 ? error_set_errno(e, k, "Cannot create the directory of volume '%s' in pod %s", v->name,
                                       pod_display_name(r->pod))
                     : 0;
}

static int write_volumes(Reify *r, int volumes_fd, Error *e)
{
        int k = 0;

        for (size_t i = r->first_volume; i < r->manifest->n_volumes && k >= 0; i++) {
                const Volume *v = &r->manifest->volumes[i];
                VolumeSettings s;

                k = volume_settings_read(r->manifest, v, &s, e);
                if (k >= 0 && s.image[0])
                        k = write_image_volume(r, volumes_fd, v, &s, e);
                else if (k >= 0 && v->kind == VOLUME_EMPTY && !s.tmpfs && !s.named[0])
                        k = make_owned_directory(r->pod, volumes_fd, v->name, v, e);
        }
        return k;
}

int reify_write(Reify *r, Error *e)
{
        _cleanup_close_ int apps_fd = -EBADF, volumes_fd = -EBADF;
        const Pod *p = r->pod;

        int k = open_directory(p->dir_fd, "apps", 0711, &apps_fd);
        if (k >= 0)
                k = open_directory(p->dir_fd, "volumes", 0711, &volumes_fd);
        if (k < 0)
                return error_set_errno(e, k, "Cannot create the directories of pod %s", pod_display_name(p));
        for (size_t i = r->first_app; i < r->manifest->n_apps && k >= 0; i++)
                k = write_files_of(r, apps_fd, r->manifest->apps[i], &r->images[i - r->first_app], e);
        if (k >= 0)
                k = write_volumes(r, volumes_fd, e);
        return k < 0 ? k : reify_write_credentials(r, e);
}
