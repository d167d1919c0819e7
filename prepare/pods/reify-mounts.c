/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The mounts of apps (spec: pods.md, "mounts"; aci.md, "mountPoints"; ace.md, "Volume Setup").
 *
 * Every mount point of an app has to get a volume: a mount with its path, else the pod's volume of its name,
 * else an empty volume that is made for it, with a warning, since what the app writes there is gone with the
 * pod.
 *
 * Where the targets are in the app's root, and which must not be, is in reify-targets.c.
 */

#include <limits.h>
#include <sys/stat.h>

#include "prepare/pods/reify-internal.h"
#include "schema/settings.h"

/* --- Targets ------------------------------------------------------------------------------------------- */

static int check_target(const PodApp *a, const Mount *m, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(m->path);
        const char *why = NULL;

        if (!utf8_is_valid(m->path, strlen(m->path)))
                why = "it is not valid UTF-8, which pod manifests require";
        else if (strlen(m->path) >= PATH_MAX)
                why = "it is too long";
        if (!why)
                return 0;
        return error_set(e, -EINVAL, "Volume '%s' cannot be mounted on '%s' in app %s: %s", m->volume,
                         shown ?: "?", pod_app_path_name(a), why);
}

static int normalize_target(const PodApp *a, Mount *m, Error *e)
{
        _cleanup_free_ char *normal = NULL, *shown = NULL;

        int r = path_normalize(m->path, &normal);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0) {
                shown = text_escape_for_terminal(m->path);
                return error_set(e, r,
                                 "Volume '%s' cannot be mounted on '%s' in app %s: the path contains "
                                 "'..'",
                                 m->volume, shown ?: "?", pod_app_path_name(a));
        }
        free(m->path);
        m->path = TAKE_PTR(normal);
        return check_target(a, m, e);
}

static char *list_mount_points(const App *a)
{
        _cleanup_strv_free_ char **l = NULL;

        for (size_t i = 0; i < a->n_mount_points && i < 16; i++)
                if (strv_extend(&l, a->mount_points[i].name) < 0)
                        return NULL;
        return l ? strv_join(l, ", ") : NULL;
}

/* Targets may be names of mount points. */
static int resolve_targets(PodApp *a, Error *e)
{
        _cleanup_free_ char *known = NULL;

        int r = pod_app_resolve_mounts(a, a->app, e);
        if (r == -ENOENT) {
                known = list_mount_points(a->app);
                return error_hint(e, r, "Give an absolute path%s%s.",
                                  known ? ", or one of its mount points: " : "", known ?: "");
        }
        for (size_t i = 0; i < a->n_mounts && r >= 0; i++)
                r = normalize_target(a, &a->mounts[i], e);
        return r;
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

static int refuse_volume(const PodManifest *m, const PodApp *a, const Mount *mount, Error *e)
{
        _cleanup_free_ char *text = NULL, *shown = text_escape_for_terminal(mount->path);
        _cleanup_strv_free_ char **names = NULL;

        for (size_t i = 0; i < m->n_volumes && i < 16; i++)
                if (strv_extend(&names, m->volumes[i].name) < 0)
                        return error_oom(e);
        text = names ? strv_join(names, ", ") : NULL;
        int r = error_set(e, -ENOENT, "App %s mounts volume '%s' on %s, but the pod has no such volume",
                          pod_app_path_name(a), mount->volume, shown ?: "?");
        if (text)
                return error_hint(e, r, "Its volumes are: %s. Others are defined with --volume=.", text);
        return error_hint(e, r, "Define it with: --volume=%s,kind=host,source=PATH or kind=empty.",
                          mount->volume);
}

static bool is_mounted(const PodApp *a, const char *path)
{
        for (size_t i = 0; i < a->n_mounts; i++)
                if (streq(a->mounts[i].path, path))
                        return true;
        return false;
}

/* OCI images expect that a volume has the owner and mode of the image's directory: their apps, which often
 * run as a user of their own, rely on being able to write there. An owner that the pod does not have is none of an app's. */
static void take_attributes(const Reify *r, const PodApp *a, const char *path, Volume *volume)
{
        const AppImage *image = &r->images[pod_manifest_index_of(r->manifest, a) - r->first_app];
        uint32_t n = MIN(pod_n_uids(&r->pod->config), UID_RANGE_SIZE);

        if (image->image->info.kind != IMAGE_KIND_OCI)
                return;
        STRV_FOREACH (layer, image->layers) {
                _cleanup_close_ int root_fd = open(*layer, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -EBADF;
                struct stat st;

                fd = root_fd < 0 ? root_fd : open_in_root(root_fd, path, O_PATH | O_DIRECTORY);
                if (fd < 0 || fstat(fd, &st) < 0)
                        continue;
                volume->uid = st.st_uid < n ? st.st_uid : 0;
                volume->gid = st.st_gid < n ? st.st_gid : 0;
                volume->mode = st.st_mode & 01777U;
                return;
        }
}

static int make_implicit_volume(Reify *r, const PodApp *a, const MountPoint *p, const char **ret_name,
                                Error *e)
{
        Volume empty = {.kind = VOLUME_EMPTY, .mode = 0755};
        _cleanup_free_ char *name = NULL, *shown = text_escape_for_terminal(p->path);

        if (!shown || xasprintf(&name, "%s-%s", a->name, p->name) < 0)
                return error_oom(e);
        take_attributes(r, a, p->path, &empty);
        int k = reify_add_volume(r, name, &empty, ret_name, e);
        if (k < 0)
                return error_prefix(e, k, "App %s, mount point '%s'", pod_app_path_name(a), p->name);
        if (r->old)
                return reify_warn(r, e,
                                  "App %s: its mount point '%s' (%s) gets an empty volume, whose content is "
                                  "removed with the app",
                                  pod_app_path_name(a), p->name, shown);
        if (r->adds)
                return reify_warn(r, e,
                                  "App %s: its mount point '%s' (%s) gets an empty volume, whose content is "
                                  "removed with the app; to keep it, give --volume=PATH:%s after the image",
                                  pod_app_path_name(a), p->name, shown, shown);
        return reify_warn(r, e,
                          "App %s: its mount point '%s' (%s) gets an empty volume, whose content is removed "
                          "with the pod; to keep it, give --volume=%s,kind=host,source=PATH",
                          pod_app_path_name(a), p->name, shown, p->name);
}

static const Mount *find_mount(const PodApp *a, const char *path)
{
        for (size_t i = 0; i < a->n_mounts; i++)
                if (streq(a->mounts[i].path, path))
                        return &a->mounts[i];
        return NULL;
}

static bool mounts_volume(const PodApp *a, const char *volume)
{
        for (size_t i = 0; i < a->n_mounts; i++)
                if (streq(a->mounts[i].volume, volume))
                        return true;
        return false;
}

static bool is_used(const PodManifest *m, const char *volume);

/* The volume that the app before this one had at the mount point: at its path, else at the point of its name. One that an
 * image before that had, and the last one did not, is still there. */
static const char *find_old_volume(const Reify *r, const PodApp *a, const MountPoint *p)
{
        const PodApp *old = r->old;
        const Mount *m = old ? find_mount(old, p->path) : NULL;
        _cleanup_free_ char *name = NULL;

        for (size_t i = 0; old && !m && i < old->app->n_mount_points; i++)
                if (streq(old->app->mount_points[i].name, p->name))
                        m = find_mount(old, old->app->mount_points[i].path);
        if (m && !mounts_volume(a, m->volume) && pod_manifest_find_volume(r->manifest, m->volume))
                return m->volume;
        if (!old || xasprintf(&name, "%s-%s", a->name, p->name) < 0)
                return NULL;
        const Volume *v = pod_manifest_find_volume(r->manifest, name);
        return v && v->kind == VOLUME_EMPTY && !is_used(r->manifest, name) ? v->name : NULL;
}

static int fill_mount_point(Reify *r, PodApp *a, const MountPoint *p, Error *e)
{
        const char *volume = find_old_volume(r, a, p);
        Mount *m;
        int k = 0;

        if (is_mounted(a, p->path))
                return 0;
        if (!volume && pod_manifest_find_volume(r->manifest, p->name))
                volume = p->name;
        if (!volume)
                k = make_implicit_volume(r, a, p, &volume, e);
        if (k < 0)
                return k;
        m = pod_app_add_mount(a);
        if (!m || copy_string(volume, &m->volume) < 0 || copy_string(p->path, &m->path) < 0)
                return error_oom(e);
        return check_target(a, m, e);
}

/* --- Read-only mounts ---------------------------------------------------------------------------------- */

static bool has_mount_point(const App *a, const char *name)
{
        for (size_t i = 0; i < a->n_mount_points; i++)
                if (streq(a->mount_points[i].name, name))
                        return true;
        return false;
}

static int add_mount_point(App *a, const Mount *m, Error *e)
{
        _cleanup_free_ char *name = strdup(m->volume), *path = strdup(m->path);
        MountPoint *points;

        for (unsigned i = 2; name && has_mount_point(a, name); i++) {
                free(TAKE_PTR(name));
                (void) xasprintf(&name, "%s-%u", m->volume, i);
        }
        points = name && path ? realloc(a->mount_points, (a->n_mount_points + 1) * sizeof(MountPoint))
                              : NULL;
        if (!points)
                return error_oom(e);
        a->mount_points = points;
        points[a->n_mount_points++] =
                        (MountPoint){.name = TAKE_PTR(name), .path = TAKE_PTR(path), .read_only = true};
        return 0;
}

/* In a manifest a mount is read-only if the mount point on its path is. */
int pod_app_keep_read_only(PodApp *pa, const Mount *m, Error *e)
{
        App *a = pa->app;

        if (!m->read_only)
                return 0;
        for (size_t i = 0; i < a->n_mount_points; i++)
                if (streq(a->mount_points[i].path, m->path)) {
                        a->mount_points[i].read_only = true;
                        return 0;
                }
        return add_mount_point(a, m, e);
}

/* A mount can satisfy only one of them. */
int mount_points_check(const PodApp *a, Error *e)
{
        const MountPoint *points = a->app->mount_points;

        if (a->n_mounts + a->app->n_mount_points > APP_MOUNTS_MAX)
                return error_set(e, -E2BIG, "App %s has more than %u mounts and mount points",
                                 pod_app_path_name(a), APP_MOUNTS_MAX);

        for (size_t i = 0; i < a->app->n_mount_points; i++)
                for (size_t k = i + 1; k < a->app->n_mount_points; k++)
                        if (streq(points[i].path, points[k].path)) {
                                _cleanup_free_ char *shown = text_escape_for_terminal(points[i].path);
                                return error_set(e, -EINVAL,
                                                 "App %s: the mount points '%s' and '%s' have the same "
                                                 "path %s",
                                                 pod_app_path_name(a), points[i].name, points[k].name,
                                                 shown ?: "?");
                        }
        return 0;
}

/* --- Owners of named volumes --------------------------------------------------------------------------- */

static const Mount *first_mount(const PodApp *a, const char *volume)
{
        for (size_t i = 0; i < a->n_mounts; i++)
                if (streq(a->mounts[i].volume, volume))
                        return &a->mounts[i];
        return NULL;
}

/* A named volume that is to be as the image's directory is so at its first mount, should it be new. */
static int settle_owner(Reify *r, Volume *v, Error *e)
{
        _cleanup_free_ char *name = NULL, *text = NULL;
        char quota[32] = "";
        VolumeSettings s;

        int k = volume_settings_read(r->manifest, v, &s, e);
        if (k < 0 || !s.owner_image)
                return k;
        for (size_t i = r->first_app; i < r->manifest->n_apps; i++) {
                const Mount *m = first_mount(r->manifest->apps[i], v->name);
                if (!m)
                        continue;
                take_attributes(r, r->manifest->apps[i], m->path, v);
                break;
        }
        if (s.quota > 0)
                snprintf(quota, sizeof(quota), ",quota=%" PRIu64, s.quota);
        if (xasprintf(&name, VOLUME_SETTINGS_PREFIX "%s", v->name) < 0 ||
            xasprintf(&text, "kind=named,source=%s%s", s.named, quota) < 0 ||
            pair_list_set(&r->manifest->annotations, name, text) < 0)
                return error_oom(e);
        return 0;
}

/* --- The whole ----------------------------------------------------------------------------------------- */

static int reify_app_mounts(Reify *r, PodApp *a, char *const *layers, Error *e)
{
        int k = mount_points_check(a, e);
        if (k >= 0)
                k = resolve_targets(a, e);
        for (size_t n = 0; n < a->n_mounts && k >= 0; n++)
                if (!pod_manifest_find_volume(r->manifest, a->mounts[n].volume))
                        k = refuse_volume(r->manifest, a, &a->mounts[n], e);
        for (size_t n = 0; n < a->app->n_mount_points && k >= 0; n++)
                k = fill_mount_point(r, a, &a->app->mount_points[n], e);
        if (k >= 0)
                k = reify_targets(r, a, layers, e);
        for (size_t n = 0; n < a->n_mounts && k >= 0; n++)
                k = pod_app_keep_read_only(a, &a->mounts[n], e);
        return k;
}

static bool is_used(const PodManifest *m, const char *volume)
{
        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t k = 0; k < m->apps[i]->n_mounts; k++)
                        if (streq(m->apps[i]->mounts[k].volume, volume))
                                return true;
        return false;
}

int reify_mounts(Reify *r, Error *e)
{
        const PodManifest *m = r->manifest;
        int k = 0;

        for (size_t i = r->first_app; i < m->n_apps && k >= 0; i++)
                k = reify_app_mounts(r, m->apps[i], r->images[i - r->first_app].layers, e);
        for (size_t i = r->first_volume; i < m->n_volumes && k >= 0; i++)
                k = settle_owner(r, &m->volumes[i], e);
        for (size_t i = r->first_volume; i < m->n_volumes && k >= 0; i++)
                if (!is_used(m, m->volumes[i].name))
                        k = reify_warn(r, e,
                                       "Volume '%s' is not used: no app has a mount point or a mount of "
                                       "that name",
                                       m->volumes[i].name);
        return k;
}
