/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Volumes as mounts.
 *
 * Volumes of the host are opened anew for every process of an app (sources.c), by descriptor and, unless their settings
 * say otherwise, without following symlinks (those of the command line were resolved there), so that a source that was checked when the pod was prepared
 * cannot be exchanged. Empty volumes are directories of the pod, named ones of the store; for images see image-volume.c. Volumes in memory
 * are made for the first app that mounts them, and are kept until the pod ends; their content is charged to
 * the cgroup of the process that writes it. */

#include <inttypes.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

void volume_mount_done(VolumeMount *v)
{
        free(v->name);
        free(v->image.layers);
        safe_close(v->ranges_fd);
}

static int open_ranges(PodMounts *m, VolumeMount *known, Error *e)
{
        if (known->settings.id_map != ID_MAP_RANGES)
                return 0;
        return userns_open_ranges(known->settings.ranges, known->settings.n_ranges, pod_root_uid(m->pod),
                                  &known->ranges_fd, e);
}

/* Its place in the table; N_VOLUMES: it is not known. */
static size_t find_volume(const PodMounts *m, const char *name)
{
        size_t i = 0;

        while (i < m->n_volumes && !streq_ptr(m->volumes[i].name, name))
                i++;
        return i;
}

static int know_volume(PodMounts *m, const Volume *v, size_t *ret, Error *e)
{
        VolumeMount known = {.ranges_fd = -EBADF};

        *ret = find_volume(m, v->name);
        if (*ret < m->n_volumes)
                return 0;
        *ret = find_volume(m, NULL); /* a free place */
        int r = volume_settings_read(m->pod->manifest, v, &known.settings, e);
        if (r >= 0)
                r = open_ranges(m, &known, e);
        if (r >= 0 && (GREEDY_REALLOC(m->volumes, m->volumes_allocated, *ret + 1) < 0 ||
                       !(known.name = strdup(v->name))))
                r = error_oom(e);
        if (r < 0) {
                volume_mount_done(&known);
                return r;
        }
        m->volumes[*ret] = known;
        m->n_volumes = MAX(m->n_volumes, *ret + 1);
        return 0;
}

int pod_mounts_know_volume(PodMounts *m, const Volume *v, VolumeMount **ret, Error *e)
{
        size_t index = 0;
        int r = know_volume(m, v, &index, e);

        if (r >= 0)
                *ret = &m->volumes[index];
        return r;
}

/* --- In memory ----------------------------------------------------------------------------------------- */

static void hold_name(char name[static 16], size_t i)
{
        snprintf(name, 16, "v%u", (unsigned) i);
}

void pod_mounts_forget_volume(PodMounts *m, const char *name)
{
        size_t i = find_volume(m, name);
        char hold[16];

        if (i == m->n_volumes)
                return;
        hold_name(hold, i);
        if (m->volumes[i].held)
                pod_mounts_let_go(m, hold);
        pod_mounts_release_image(m, &m->volumes[i]);
        volume_mount_done(&m->volumes[i]);
        m->volumes[i] = (VolumeMount){.ranges_fd = -EBADF};
}

static int make_tmpfs(PodMounts *m, const Volume *v, const VolumeSettings *s)
{
        uint32_t base = pod_root_uid(m->pod);
        char mode[16], uid[16], gid[16], size[24], inodes[24];
        const char *options[12] = {"mode", mode, "uid", uid, "gid", gid};
        size_t n = 6;
        int fd;

        snprintf(mode, sizeof(mode), "%o", v->mode);
        snprintf(uid, sizeof(uid), "%u", base + v->uid);
        snprintf(gid, sizeof(gid), "%u", base + v->gid);
        snprintf(size, sizeof(size), "%" PRIu64, s->size);
        snprintf(inodes, sizeof(inodes), "%" PRIu64, s->n_inodes);
        if (s->size > 0) {
                options[n++] = "size";
                options[n++] = size;
        }
        if (s->n_inodes > 0) {
                options[n++] = "nr_inodes";
                options[n++] = inodes;
        }
        int r = mount_new("tmpfs", options, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, &fd);
        return r < 0 ? r : fd;
}

static int clone_tmpfs(PodMounts *m, const Volume *v, size_t index, Error *e)
{
        char name[16];

        hold_name(name, index);
        if (!m->volumes[index].held) {
                _cleanup_close_ int fd = make_tmpfs(m, v, &m->volumes[index].settings);
                int r = fd < 0 ? fd : pod_mounts_hold(m, fd, name);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot mount volume %s in memory", v->name);
                m->volumes[index].held = true;
        }
        int fd = mount_clone(m->holder_fd, name, false);
        return fd < 0 ? error_set_errno(e, fd, "Cannot mount volume %s", v->name) : fd;
}

/* --- All of them --------------------------------------------------------------------------------------- */

static int clone_empty(PodMounts *m, const Volume *v, Error *e)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int dir_fd = -EBADF;

        if (xasprintf(&path, "volumes/%s", v->name) < 0)
                return error_oom(e);
        dir_fd = open_beneath(m->dir_fd, path, O_PATH | O_DIRECTORY);
        int fd = dir_fd < 0 ? dir_fd : mount_clone(dir_fd, "", false);
        return fd < 0 ? error_set_errno(e, fd, "Cannot mount empty volume %s", v->name) : fd;
}

static int clone_tree(PodMounts *m, const Volume *v, size_t index, Error *e)
{
        VolumeMount *known = &m->volumes[index];

        if (known->settings.named[0])
                return volume_mount_named(m->pod->store, v, &known->settings, m->userns_fd, e);
        if (known->settings.image[0])
                return pod_mounts_clone_image(m, v, known, e);
        return known->settings.tmpfs ? clone_tmpfs(m, v, index, e) : clone_empty(m, v, e);
}

int pod_mounts_clone_volume(PodMounts *m, const Volume *v, int source, bool read_only, Error *e)
{
        struct mount_attr attr = {};
        _cleanup_close_ int tree = source;
        size_t index = 0;

        int r = know_volume(m, v, &index, e);
        if (r < 0)
                return r;
        if (tree < 0 && v->kind == VOLUME_HOST)
                return error_set(e, -EAGAIN, "The source %s of volume %s is not open", v->source, v->name);
        if (tree < 0)
                tree = clone_tree(m, v, index, e);
        if (tree < 0)
                return tree;
        /* Private: later mounts of the host below it would otherwise propagate, without any of these
         * restrictions. */
        const VolumeSettings *s = &m->volumes[index].settings;
        attr.attr_set = (s->devices || device_is_everyones(tree) ? 0 : MOUNT_ATTR_NODEV) |
                        (s->set_uid ? 0 : MOUNT_ATTR_NOSUID);
        static const uint64_t propagation[_PROPAGATION_MAX] = {MS_PRIVATE, MS_SLAVE, MS_SHARED};
        attr.propagation = propagation[s->propagation];
        if (s->no_exec)
                attr.attr_set |= MOUNT_ATTR_NOEXEC;
        const struct mount_attr protect = {.attr_set = MOUNT_ATTR_RDONLY};
        bool protects = read_only || s->image[0] || (v->has_read_only && v->read_only);
        r = mount_set_attributes(tree, &attr, volume_is_recursive(v));
        if (r >= 0 && protects)
                r = mount_set_attributes(tree, &protect, volume_is_recursive(v) && !s->writable_below);
        return r < 0 ? error_set_errno(e, r, "Cannot restrict volume %s", v->name) : TAKE_FD(tree);
}
