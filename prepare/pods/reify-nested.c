/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps that are nested under an app of a running pod: their names, paths, and the volumes that they have from above.
 *
 * An app is named by the user as always; among those under the same parent its name is unique. In the pod it has another
 * name, which says where it is (schema/nested.c). An app that replaces a nested one has its name and path. */

#include "prepare/pods/reify-internal.h"

static size_t count_nested(const PodManifest *m)
{
        size_t n = 0;

        for (size_t i = 0; i < m->n_apps; i++)
                n += nested_is_name(m->apps[i]->name);
        return n;
}

static int check_place(const Reify *r, const PodApp *parent, const char *name, const char *path, Error *e)
{
        int k = ac_name_check(name, e);

        if (k < 0)
                return k;
        if (pod_manifest_find_app(r->manifest, path)) {
                k = error_set(e, -EEXIST, "App %s has a nested app '%s' already", pod_app_path_name(parent),
                              name);
                return error_hint(e, k,
                                  "An app that has ended is there until it is removed, with 'acnspawn "
                                  "rm-app %s %s'.",
                                  pod_display_name(r->pod), path);
        }
        if (count_nested(r->manifest) >= NESTED_APPS_MAX)
                return error_set(e, -EUSERS, "Pod %s has %u nested apps, and cannot have more",
                                 pod_display_name(r->pod), NESTED_APPS_MAX);
        return 0;
}

static int make_name(const PodApp *parent, const AppOverrides *o, const char *path, char **ret, Error *e)
{
        int k = nested_name(parent->name, o->nested_number, ret);

        if (k == -E2BIG)
                return error_set(e, k, "App %s would be at level %u: apps can be nested to level %u", path,
                                 NESTED_LEVELS_MAX + 1, NESTED_LEVELS_MAX);
        if (k == -ENAMETOOLONG)
                return error_set(e, k,
                                 "App %s would be nested too deeply for the length of its first app's name",
                                 path);
        return k < 0 ? error_oom(e) : 0;
}

/* Volumes and settings of the command line cannot choose it. */
static int keep_place(const Reify *r, const AppOverrides *o, const char *name, char **ret_path, Error *e)
{
        const char *old = r->old ? pair_list_get(&r->old->annotations, SETTING_PREFIX NESTED_PATH_SETTING)
                                 : NULL;

        if (old)
                return copy_string(old, ret_path) < 0 ? error_oom(e) : 0;
        if (pair_list_get(&o->annotations, SETTING_PREFIX NESTED_PATH_SETTING)) {
                int k = error_set(e, -EINVAL,
                                  "App %s cannot have the annotation %s: nested apps are given theirs", name,
                                  SETTING_PREFIX NESTED_PATH_SETTING);
                return error_hint(e, k, "Leave it out; an app is nested under another one by --parent=.");
        }
        if (!nested_is_name(name))
                return 0;
        int k = error_set(e, -EINVAL,
                          "'%s' cannot be the name of an app: names like that, and their paths, are given "
                          "to nested apps",
                          name);
        return error_hint(e, k, "Give it another one with --name= after the image.");
}

int reify_nested_name(const Reify *r, const AppOverrides *o, char **name, char **ret_path, Error *e)
{
        _cleanup_free_ char *path = NULL, *own = NULL;

        if (!o->parent)
                return keep_place(r, o, *name, ret_path, e);
        const PodApp *parent = pod_manifest_find_app(r->manifest, o->parent);
        if (!parent)
                return error_set(e, -ENOENT, "Pod %s has no app '%s' for another one to be nested under",
                                 pod_display_name(r->pod), o->parent);
        if (xasprintf(&path, "%s/%s", pod_app_path_name(parent), *name) < 0)
                return error_oom(e);
        int k = check_place(r, parent, *name, path, e);
        if (k >= 0)
                k = make_name(parent, o, path, &own, e);
        if (k < 0)
                return k;
        free(*name);
        *name = TAKE_PTR(own);
        *ret_path = TAKE_PTR(path);
        return 0;
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

static bool has_mount_at(const PodApp *a, const char *path)
{
        for (size_t i = 0; i < a->n_mounts; i++)
                if (streq_ptr(a->mounts[i].path, path))
                        return true;
        return false;
}

static int add_mount(PodApp *a, const PodApp *parent, const Mount *above)
{
        Mount *m = pod_app_add_mount(a);
        int r = m ? mount_copy(above, m) : -ENOMEM;

        if (r >= 0)
                m->read_only = m->read_only || app_has_read_only(parent->app, above->path);
        return r;
}

static int share_volumes(const Reify *r, const PodApp *parent, PodApp *a, Error *e)
{
        for (size_t i = 0; i < parent->n_mounts; i++) {
                const Volume *v = pod_manifest_find_volume(r->manifest, parent->mounts[i].volume);
                VolumeSettings s;
                int k = v ? volume_settings_read(r->manifest, v, &s, e) : 0;

                if (k < 0)
                        return k;
                if (v && s.nested && !has_mount_at(a, parent->mounts[i].path) &&
                    add_mount(a, parent, &parent->mounts[i]) < 0)
                        return error_oom(e);
        }
        return 0;
}

int reify_nested_app(const Reify *r, PodApp *a, const char *path, Error *e)
{
        size_t n = nested_parent_length(a->name);
        _cleanup_free_ char *name = n > 0 ? strndup(a->name, n) : NULL;
        const PodApp *parent = name ? pod_manifest_find_app(r->manifest, name) : NULL;

        if (pair_list_set(&a->annotations, SETTING_PREFIX NESTED_PATH_SETTING, path) < 0)
                return error_oom(e);
        return parent && !r->old ? share_volumes(r, parent, a, e) : 0;
}
