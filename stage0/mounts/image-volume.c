/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Volumes that are images: their layers as a read-only overlay, which is mounted for the first process that gets it, and is
 * kept until no app has the volume any more. Processes get clones of it, or of one file or directory in it, which is found in
 * the merged tree by descriptor: neither '..' nor a symbolic link leads out of the image. */

#include <sys/mount.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

/* Without an upper layer an overlay takes two lower ones: an empty file system below those of the image. */
#define NOTHING "nothing"

static int hold_nothing(PodMounts *m)
{
        static const char *const options[] = {"size", "4k", "mode", "0755", NULL};
        _cleanup_close_ int fd = -EBADF;

        if (m->has_nothing)
                return 0;
        int r = mount_new("tmpfs", options, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_RDONLY, &fd);
        if (r >= 0)
                r = pod_mounts_hold(m, fd, NOTHING);
        m->has_nothing = r >= 0;
        return r;
}

static int format_options(PodMounts *m, const Volume *v, AppOverlay *o, char **ret, Error *e)
{
        _cleanup_strv_free_ char **lowers = NULL;
        _cleanup_free_ char *path = NULL;
        _cleanup_text_ Text t = {};
        size_t size;

        if (xasprintf(&path, "volumes/%s/lowers", v->name) < 0)
                return error_oom(e);
        int r = pod_lowers_read(m->pod, path, &lowers);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the list of image layers of volume %s", v->name);
        text_add(&t, "lowerdir=");
        r = pod_mounts_add_layers(m, lowers, o, &t, e);
        if (r < 0)
                return r;
        text_add(&t, ":" NOTHING);
        if (text_take(&t, ret, &size) < 0)
                return error_oom(e);
        if (size > OVERLAY_OPTIONS_MAX)
                return error_set(e, -E2BIG,
                                 "The image of volume %s has more layers than the kernel can stack",
                                 v->name);
        return 0;
}

static int mount_image(PodMounts *m, const Volume *v, AppOverlay *o, const char *name, Error *e)
{
        _cleanup_free_ char *options = NULL;

        int r = format_options(m, v, o, &options, e);
        if (r < 0)
                return r;
        r = hold_nothing(m);
        if (r < 0)
                return error_set_errno(e, r, "Cannot mount an empty file system for volume %s", v->name);
        if ((mkdirat(m->holder_fd, name, 0700) < 0 && errno != EEXIST) || fchdir(m->holder_fd) < 0 ||
            mount("overlay", name, "overlay", MS_NODEV | MS_NOSUID | MS_RDONLY, options) < 0)
                return error_set_errno(e, -errno, "Cannot mount the image of volume %s (%s)", v->name,
                                       options);
        o->mounted = true;
        return 0;
}

static int clone_path(int root_fd, const Volume *v, const VolumeSettings *s, Error *e)
{
        _cleanup_close_ int fd = open_in_root(root_fd, s->sub_path[0] ? s->sub_path : ".", O_PATH);
        struct stat st;

        int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : 0;
        if (r >= 0 && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                r = -EINVAL;
        if (r >= 0)
                r = mount_clone(fd, "", false);
        if (r >= 0)
                return r;
        _cleanup_free_ char *shown = text_escape_for_terminal(s->sub_path);
        return error_set_errno(e, r, "Cannot mount '%s' of the image of volume %s", shown ?: "?", v->name);
}

int pod_mounts_clone_image(PodMounts *m, const Volume *v, VolumeMount *known, Error *e)
{
        AppOverlay *o = &known->image;
        _cleanup_close_ int root = -EBADF;
        char name[16];

        if (!o->mounted) {
                pod_mounts_release_image(m, known); /* of an attempt that failed */
                o->index = o->credentials = m->next_index++;
        }
        snprintf(name, sizeof(name), "a%u", o->index);
        int r = o->mounted ? 0 : mount_image(m, v, o, name, e);
        if (r < 0)
                return r;
        root = openat(m->holder_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root < 0)
                return error_set_errno(e, -errno, "Cannot open the image of volume %s", v->name);
        return clone_path(root, v, &known->settings, e);
}
