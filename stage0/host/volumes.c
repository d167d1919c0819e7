/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Mounts of host volumes and of named volumes, and the owners of their files.
 *
 * In a pod with a user namespace, files of the host belong to the user "nobody", unless the mount is id-mapped. Not
 * every file system supports that. So it is tried when the pod is prepared: if id-mapping was requested,
 * failure is an error that names the file system, else a warning. When the pod runs, all sources are opened
 * again, as they may have been replaced.
 *
 * In a named volume the owners on disk are the pod's users, as pods with different ranges share it. So it is
 * always id-mapped for a pod with a user namespace, like image layers; failure is an error.
 */

#include <sys/stat.h>

#include "stage0/host/host.h"

bool volume_is_recursive(const Volume *v)
{
        return v->kind == VOLUME_HOST && (!v->has_recursive || v->recursive);
}

static int open_source(const Volume *v, const VolumeSettings *s, Error *e)
{
        int fd = open_to_mount(v->source, s->symlinks);
        if (fd == -ELOOP && !s->symlinks) {
                (void) error_set(e, fd, "Source %s of volume %s is, or passes through, a symbolic link",
                                 v->source, v->name);
                return error_hint(e, 0, "Name the directory itself: see realpath %s", v->source);
        }
        return fd < 0 ? error_set_errno(e, fd, "Cannot open source %s of volume %s", v->source, v->name)
                      : fd;
}

/* --- Errors ---------------------------------------------------------------------------------------------- */

/* The error for the volume's file system, or one that is mounted below it. */
static int refuse_map(const Volume *v, int code, int source_fd, int userns_fd, Error *e)
{
        _cleanup_close_ int alone = mount_clone(source_fd, "", false);
        _cleanup_free_ char *type = file_system_type(source_fd);
        bool below = alone >= 0 && mount_map_owners(alone, userns_fd, false) >= 0;

        int r = error_set_errno(
                        e, code,
                        "The owners of files in volume '%s' cannot be mapped: %s (%s) does not support that",
                        v->name, below ? "a file system that is mounted below its own" : "its file system",
                        type ?: "unknown");
        return error_hint(e, r, "Add %s to the volume.",
                          below ? "recursive=false, or idmap=auto," : "idmap=auto, or idmap=no,");
}

/* --- The whole ----------------------------------------------------------------------------------------- */

/* 1: owners match; 0: they do not, which is acceptable. */
static int map_owners(const Volume *v, const VolumeSettings *s, int source_fd, int tree_fd, int userns_fd,
                      int ranges_fd, Error *e)
{
        int map_fd = s->id_map == ID_MAP_RANGES ? ranges_fd : userns_fd;

        if (s->id_map == ID_MAP_NO)
                return userns_fd < 0;
        if (map_fd < 0)
                return 1;
        int r = mount_map_owners(tree_fd, map_fd, volume_is_recursive(v));
        if (r >= 0)
                return 1;
        return s->id_map == ID_MAP_AUTO ? 0 : refuse_map(v, r, source_fd, map_fd, e);
}

static int check_propagation(const Volume *v, const VolumeSettings *s, int source_fd, Error *e)
{
        bool shared = s->propagation == PROPAGATION_SHARED;
        int r = s->propagation != PROPAGATION_NONE ? fd_mount_is_shared(source_fd, !shared) : 1;

        if (r < 0)
                return error_set_errno(
                                e, r,
                                "Cannot find out about the mount that has the source %s of volume '%s'",
                                v->source, v->name);
        if (r > 0)
                return 0;
        r = error_set(e, -EINVAL,
                      "Volume '%s' cannot have propagation=%s: its source %s is on a mount that is %s",
                      v->name, shared ? "shared" : "slave", v->source,
                      shared ? "not shared" : "neither shared nor a slave");
        return error_hint(e, r, "See findmnt -o TARGET,PROPAGATION, and 'mount --make-shared'.");
}

int volume_mount_host(const Volume *v, const VolumeSettings *s, int userns_fd, int ranges_fd,
                      bool *ret_mapped, Error *e)
{
        _cleanup_close_ int source = open_source(v, s, e), tree = -EBADF;

        if (source < 0)
                return source;
        int r = check_propagation(v, s, source, e);
        if (r < 0)
                return r;
        tree = mount_clone(source, "", volume_is_recursive(v));
        if (tree < 0)
                return error_set_errno(e, tree, "Cannot mount volume %s", v->name);
        r = map_owners(v, s, source, tree, userns_fd, ranges_fd, e);
        if (r < 0)
                return r;
        *ret_mapped = r > 0;
        return TAKE_FD(tree);
}

int volume_mount_named(const Store *s, const Volume *v, const VolumeSettings *settings, int userns_fd,
                       Error *e)
{
        _cleanup_close_ int source = named_volume_open_data(s, settings->named, O_PATH), tree = -EBADF;

        if (source == -ENOENT) {
                int r = error_set(e, source, "Volume '%s' is the named volume %s, which does not exist",
                                  v->name, settings->named);
                return error_hint(e, r, "To make it again, empty: acnspawn volume create %s",
                                  settings->named);
        }
        int r = source < 0 ? source : (tree = mount_clone(source, "", false));
        if (r < 0)
                return error_set_errno(e, r, "Cannot mount the named volume %s", settings->named);
        r = userns_fd < 0 ? 0 : mount_map_owners(tree, userns_fd, false);
        if (r >= 0)
                return TAKE_FD(tree);
        _cleanup_free_ char *type = file_system_type(source);
        r = error_set_errno(e, r,
                            "The owners of files in the named volume %s cannot be mapped: its file system "
                            "(%s) does not support that",
                            settings->named, type ?: "unknown");
        return error_hint(e, r, "Move the store to another file system, or prepare with --no-userns.");
}

static int warn(const Volume *v, char ***warnings, Error *e)
{
        _cleanup_close_ int fd = open(v->source, O_PATH | O_CLOEXEC);
        _cleanup_free_ char *type = fd < 0 ? NULL : file_system_type(fd);

        if (!warnings)
                return 0;
        if (strv_extendf(warnings,
                         "Volume '%s': its file system, %s, or one below it, cannot map owners: in the pod "
                         "its files belong to the user nobody, and other users of the pod have the permissions "
                         "of others; idmap=no states that this is intended",
                         v->name, type ?: "unknown") < 0)
                return error_oom(e);
        return 0;
}

/* *USERNS_FD is opened for the first of them. */
static int check_named(const Pod *p, const Volume *v, int *userns_fd, Error *e)
{
        _cleanup_close_ int tree = -EBADF;
        VolumeSettings s;

        int r = volume_settings_read(p->manifest, v, &s, e);
        if (r < 0 || !s.named[0])
                return r;
        if (p->config.private_users && *userns_fd < 0)
                r = userns_open(p->config.uid_base, pod_n_uids(&p->config), userns_fd, e);
        if (r >= 0)
                r = tree = volume_mount_named(p->store, v, &s, *userns_fd, e);
        return r < 0 ? r : 0;
}

static int check_volume(const Pod *p, const Volume *v, int userns_fd, char ***warnings, Error *e)
{
        _cleanup_close_ int ranges = -EBADF, tree = -EBADF;
        VolumeSettings s;
        bool mapped = true;

        int r = volume_settings_read(p->manifest, v, &s, e);
        if (r >= 0 && s.id_map == ID_MAP_RANGES)
                r = userns_open_ranges(s.ranges, s.n_ranges, pod_root_uid(p), &ranges, e);
        if (r < 0 || s.id_map == ID_MAP_NO)
                return r;
        tree = volume_mount_host(v, &s, userns_fd, ranges, &mapped, e);
        if (tree < 0)
                return tree;
        return mapped ? 0 : warn(v, warnings, e);
}

static size_t count_host_volumes(const PodManifest *m, size_t first)
{
        size_t n = 0;

        for (size_t i = first; i < m->n_volumes; i++)
                n += m->volumes[i].kind == VOLUME_HOST;
        return n;
}

int pod_named_volumes_check(const Pod *p, size_t first, Error *e)
{
        _cleanup_close_ int userns = -EBADF;
        int r = 0;

        if (p->store->flags & STORE_UNPRIVILEGED)
                return 0;
        for (size_t i = first; r >= 0 && i < p->manifest->n_volumes; i++)
                r = check_named(p, &p->manifest->volumes[i], &userns, e);
        return r;
}

int pod_volumes_check(const Pod *p, size_t first, char ***warnings, Error *e)
{
        _cleanup_close_ int userns = -EBADF;
        int r = 0;

        if (count_host_volumes(p->manifest, first) == 0 || p->store->flags & STORE_UNPRIVILEGED)
                return 0;
        if (p->config.private_users)
                r = userns_open(p->config.uid_base, pod_n_uids(&p->config), &userns, e);
        for (size_t i = first; r >= 0 && i < p->manifest->n_volumes; i++)
                if (p->manifest->volumes[i].kind == VOLUME_HOST)
                        r = check_volume(p, &p->manifest->volumes[i], userns, warnings, e);
        return r;
}
