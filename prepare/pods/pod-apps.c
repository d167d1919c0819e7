/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The set of apps of a pod that runs: what is in its manifest, and in its directory.
 *
 * An app is prepared by a process of its own, which adds it to its copy of the manifest and makes its directory; it
 * hands the supervisor what it has added, as a manifest of that alone. The supervisor is the only one that writes
 * the pod's manifest, which is replaced in one step. What a killed process has left in the pod directory is not in
 * the manifest, and so is known to be rubbish.
 */

#include "prepare/pods/reify-internal.h"
#include "schema/settings.h"

static int setting_name(const char *volume, char **ret)
{
        return xasprintf(ret, VOLUME_SETTINGS_PREFIX "%s", volume);
}

/* The settings of a volume are an annotation of the pod. */
int volume_settings_copy(const PairList *from, const char *volume, PairList *to)
{
        _cleanup_free_ char *name = NULL;

        if (setting_name(volume, &name) < 0)
                return -ENOMEM;
        const char *value = pair_list_get(from, name);
        return value ? pair_list_set(to, name, value) : 0;
}

int pod_format_added(const Pod *p, size_t first_app, size_t first_volume, char **ret, Error *e)
{
        const PodManifest *m = p->manifest;
        PodManifest added = {.ac_version = m->ac_version,
                             .apps = m->apps + first_app,
                             .n_apps = m->n_apps - first_app,
                             .volumes = m->volumes + first_volume,
                             .n_volumes = m->n_volumes - first_volume};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < added.n_volumes; i++)
                r = volume_settings_copy(&m->annotations, added.volumes[i].name, &added.annotations);
        if (r >= 0)
                r = pod_manifest_format(&added, ret);
        pair_list_done(&added.annotations);
        return r < 0 ? error_oom(e) : 0;
}

static int merge_volume(Pod *p, PodManifest *added, Volume *v, char ***names)
{
        if (strv_extend(names, v->name) < 0 ||
            volume_settings_copy(&added->annotations, v->name, &p->manifest->annotations) < 0)
                return -ENOMEM;
        Volume *place = pod_manifest_add_volume(p->manifest);
        if (!place)
                return -ENOMEM;
        *place = *v;
        *v = (Volume){};
        return 0;
}

int pod_merge_added(Pod *p, PodManifest *added, PodApp **ret, char ***ret_volumes, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        PodManifest *m = p->manifest;

        if (added->n_apps != 1 || !added->apps[0]->app || pod_manifest_find_app(m, added->apps[0]->name))
                return error_set(e, -EBADMSG, "What was prepared for pod %s is not one new app",
                                 pod_display_name(p));
        for (size_t i = 0; i < added->n_volumes; i++)
                if (pod_manifest_find_volume(m, added->volumes[i].name))
                        return error_set(e, -EBADMSG, "A volume '%s' is there already",
                                         added->volumes[i].name);
        if (GREEDY_REALLOC(m->apps, m->apps_allocated, m->n_apps + 1) < 0)
                return error_oom(e);
        for (size_t i = 0; i < added->n_volumes; i++)
                if (merge_volume(p, added, &added->volumes[i], &names) < 0) {
                        STRV_FOREACH (name, names)
                                pod_drop_volume(p, *name);
                        return error_oom(e);
                }
        *ret = m->apps[m->n_apps++] = added->apps[0];
        added->n_apps = 0;
        *ret_volumes = TAKE_PTR(names);
        return 0;
}

static bool is_mounted(const PodManifest *m, const char *volume)
{
        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t k = 0; k < m->apps[i]->n_mounts; k++)
                        if (streq_ptr(m->apps[i]->mounts[k].volume, volume))
                                return true;
        return false;
}

void pod_drop_volume(Pod *p, const char *name)
{
        PodManifest *m = p->manifest;
        Volume *v = is_mounted(m, name) ? NULL : pod_manifest_find_volume(m, name);
        _cleanup_free_ char *setting = NULL;

        if (!v)
                return;
        if (setting_name(name, &setting) >= 0)
                pair_list_remove(&m->annotations, setting);
        volume_done(v);
        memmove(v, v + 1, (size_t) (m->volumes + --m->n_volumes - v) * sizeof(Volume));
}

/* --- The pod directory --------------------------------------------------------------------------------- */

/* 0: there is nothing of it in the pod directory, as of a volume of the store or the host. */
static int sync_part(SyncSet *s, const Pod *p, const char *path)
{
        _cleanup_close_ int fd = openat(p->dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        int r = sync_add_tree(s, fd);
        return r < 0 ? r : 1;
}

static int sync_place(SyncSet *s, const Pod *p, const char *place)
{
        _cleanup_close_ int fd = openat(p->dir_fd, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : sync_add(s, fd);
}

int pod_sync_added(const Pod *p, size_t first_app, size_t first_volume, Error *e)
{
        const PodManifest *m = p->manifest;
        _cleanup_sync_ SyncSet s = {};
        bool any = false;
        int r = 0;

        for (size_t i = first_app; r >= 0 && i < m->n_apps; i++) {
                _cleanup_free_ char *path = NULL;

                r = pod_app_path(p, m->apps[i], NULL, &path);
                if (r >= 0)
                        r = sync_part(&s, p, path);
        }
        if (r >= 0)
                r = sync_place(&s, p, "apps");
        for (size_t i = first_volume; r >= 0 && i < m->n_volumes; i++) {
                _cleanup_free_ char *path = NULL;

                r = xasprintf(&path, "volumes/%s", m->volumes[i].name);
                if (r >= 0)
                        r = sync_part(&s, p, path);
                any = any || r > 0;
        }
        if (r >= 0 && any)
                r = sync_place(&s, p, "volumes");
        if (r >= 0)
                r = sync_finish(&s);
        return r < 0 ? error_set_errno(e, r, "Cannot write what was added to pod %s to disk",
                                       pod_display_name(p))
                     : 0;
}

static bool has_volume(const Pod *p, const PodManifest *m, const char *name)
{
        return pod_manifest_find_volume(m, name);
}

/* Of two directories of one app only one is the app's. */
static bool has_app_files(const Pod *p, const PodManifest *m, const char *name)
{
        for (size_t i = 0; i < m->n_apps; i++) {
                _cleanup_free_ char *path = NULL;

                if (pod_app_path(p, m->apps[i], NULL, &path) < 0 || streq(path + strlen("apps/"), name))
                        return true;
        }
        return false;
}

/* An older one than P->manifest if that could not be written. *RET is NULL: there is none yet. */
static int read_written(const Pod *p, PodManifest **ret)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(p->dir_fd, POD_MANIFEST_FILE, MANIFEST_SIZE_MAX, &text, &size);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        return pod_manifest_parse(text, size, ret, NULL, NULL);
}

int pod_sweep(const Pod *p)
{
        _cleanup_(pod_manifest_freep) PodManifest *written = NULL;
        static const struct {
                const char *directory;
                bool (*is_known)(const Pod *p, const PodManifest *m, const char *name);
        } places[] = {{"apps", has_app_files}, {"credentials", has_app_files}, {"volumes", has_volume}};
        int result = read_written(p, &written);

        if (result < 0)
                return result;
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                _cleanup_close_ int fd = openat(p->dir_fd, places[i].directory,
                                                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                _cleanup_strv_free_ char **names = NULL;
                int r = fd < 0 ? (errno == ENOENT ? 0 : -errno) : list_names(fd, &names);

                STRV_FOREACH (name, names)
                        if (r >= 0 && !places[i].is_known(p, p->manifest, *name) &&
                            (!written || !places[i].is_known(p, written, *name)))
                                r = rm_rf_at(fd, *name);
                result = result < 0 ? result : r;
        }
        return result;
}
