/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Definitions of pods whose apps have changed while they ran.
 *
 * The file "definition" of a pod is what it was prepared from, and stays as it is. An app that was added, or whose image or
 * limits were changed, has a definition of its own beside its other files. So there is nothing that could contradict the
 * manifest: the apps of the pod are those that the manifest names, and what each is made from is its own definition, or
 * its part of the pod's.
 *
 * Options for all apps of a pod are for those that it was prepared with. In a definition of one app they are a part of that
 * app, which is separate then.
 *
 * A pod that was made from a pod manifest is made again from one: apps that have changed are taken from the manifest of the
 * pod as they are.
 */

#include "prepare/pods/reify-internal.h"

/* --- Options for all apps ------------------------------------------------------------------------------ */

static int separate_environment(const PodRequest *q, AppOverrides *o)
{
        PairList all = {};
        int r = pair_list_merge(&all, &q->environment);

        if (r >= 0)
                r = pair_list_merge(&all, &o->environment);
        if (r < 0) {
                pair_list_done(&all);
                return r;
        }
        pair_list_done(&o->environment);
        o->environment = all;
        return 0;
}

/* Those for all apps come first, as when a pod is made. */
static int separate_mounts(const PodRequest *q, AppOverrides *o)
{
        size_t n = 0;
        Mount *all = calloc(q->n_mounts + o->n_mounts + 1, sizeof(Mount));

        if (!all)
                return -ENOMEM;
        for (; n < q->n_mounts; n++)
                if (mount_copy(&q->mounts[n], &all[n]) < 0) {
                        while (n > 0)
                                mount_done(&all[--n]);
                        free(all);
                        return -ENOMEM;
                }
        if (o->n_mounts > 0)
                memcpy(all + n, o->mounts, o->n_mounts * sizeof(Mount));
        free(o->mounts);
        o->mounts = all;
        o->n_mounts += n;
        o->mounts_allocated = o->n_mounts + 1;
        return 0;
}

static bool has_credential(const CredentialList *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name))
                        return true;
        return false;
}

static int separate_credentials(const PodRequest *q, AppOverrides *o)
{
        CredentialList *l = &o->credentials;

        for (size_t i = 0; i < q->credentials.n; i++) {
                const Credential *from = &q->credentials.items[i];
                if (has_credential(l, from->name))
                        continue;
                if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                        return -ENOMEM;
                Credential *to = &l->items[l->n++];
                *to = (Credential){.source = from->source, .size = from->size};
                if (copy_string(from->name, &to->name) < 0 || copy_string(from->path, &to->path) < 0)
                        return -ENOMEM;
                if (!from->data)
                        continue;
                to->data = malloc(from->size + 1);
                if (!to->data)
                        return -ENOMEM;
                memcpy(to->data, from->data, from->size);
        }
        return 0;
}

int pod_request_separate(PodRequest *q)
{
        for (size_t i = 0; i < q->n_apps; i++) {
                AppOverrides *o = &q->apps[i];
                if (o->separate)
                        continue;
                if (separate_environment(q, o) < 0 || separate_mounts(q, o) < 0 ||
                    separate_credentials(q, o) < 0)
                        return -ENOMEM;
                o->separate = true;
        }
        return 0;
}

/* --- One app ------------------------------------------------------------------------------------------- */

static size_t index_of(const PodDefinition *d, const char *app)
{
        size_t i = 0;

        while (i < d->n_images && !streq(d->images[i].app, app))
                i++;
        return i;
}

static void defined_image_done(DefinedImage *i)
{
        free(i->app);
        free(i->id);
        free(i->name);
}

/* Removes the app with this index. */
static void remove_app(PodDefinition *d, size_t i)
{
        PodRequest *q = &d->request;

        if (q->template) {
                PodManifest *t = q->template;
                pod_app_free(t->apps[i]);
                memmove(t->apps + i, t->apps + i + 1, (--t->n_apps - i) * sizeof(PodApp *));
        } else {
                app_overrides_done(&q->apps[i]);
                memmove(q->apps + i, q->apps + i + 1, (--q->n_apps - i) * sizeof(AppOverrides));
        }
        defined_image_done(&d->images[i]);
        memmove(d->images + i, d->images + i + 1, (--d->n_images - i) * sizeof(DefinedImage));
}

static int app_definition_path(const Pod *p, const PodApp *app, char **ret)
{
        _cleanup_free_ char *path = NULL;

        if (pod_app_path(p, app, DEFINITION_FILE, &path) < 0)
                return -ENOMEM;
        if (faccessat(p->dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        *ret = TAKE_PTR(path);
        return 0;
}

/* The app's own. -ENOENT, without a message: it has none. */
static int read_own(const Pod *p, const PodApp *app, PodDefinition *ret, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_free_ char *path = NULL;

        int r = app_definition_path(p, app, &path);
        if (r == -ENOENT)
                return r;
        if (r < 0)
                return error_set_errno(e, r, "Cannot find the definition of app %s", app->name);
        r = definition_read(p, path, &d, e);
        if (r < 0)
                return r;
        if (d.n_images != 1 || !streq(d.images[0].app, app->name))
                return error_set(e, -EINVAL, "The definition of app %s of pod %s is damaged", app->name,
                                 pod_display_name(p));
        *ret = d;
        d = (PodDefinition){};
        return 0;
}

int pod_app_definition_read(const Pod *p, const PodApp *app, PodDefinition *ret, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};

        int r = read_own(p, app, ret, e);
        if (r != -ENOENT)
                return r;
        r = pod_definition_read(p, &d, e);
        if (r < 0)
                return r;
        if (index_of(&d, app->name) == d.n_images)
                return error_set(e, -ENODATA, "What app %s of pod %s was made from is not recorded",
                                 app->name, pod_display_name(p));
        for (size_t i = d.n_images; i > 0; i--)
                if (!streq(d.images[i - 1].app, app->name))
                        remove_app(&d, i - 1);
        if (pod_request_separate(&d.request) < 0)
                return error_oom(e);
        *ret = d;
        d = (PodDefinition){};
        return 0;
}

int pod_definition_set_image(PodDefinition *d, const char *reference, const char *id)
{
        PodRequest *q = &d->request;

        if (!q->template) {
                free(q->apps[0].reference);
                return copy_string(reference, &q->apps[0].reference);
        }
        PodApp *t = q->template->apps[0];
        _cleanup_free_ char *name = NULL;
        if (t->image_name && image_name_format(t->image_name, &t->image_labels, &name) < 0)
                return -ENOMEM;
        free(t->image_id);
        t->image_id = NULL;
        if (streq_ptr(name, reference)) /* what the pod manifest calls it, which is another image now */
                return copy_string(id, &t->image_id);
        free(t->image_name);
        t->image_name = NULL;
        pair_list_done(&t->image_labels);
        return copy_string(id, &t->image_id);
}

/* --- The pod as it is ---------------------------------------------------------------------------------- */

static bool has_volume(const PodRequest *q, const char *name)
{
        for (size_t i = 0; i < q->n_volumes; i++)
                if (streq(q->volumes[i].name, name))
                        return true;
        return false;
}

static int add_image(PodDefinition *d, const PodApp *app)
{
        if (GREEDY_REALLOC(d->images, d->images_allocated, d->n_images + 1) < 0)
                return -ENOMEM;
        DefinedImage *i = &d->images[d->n_images++];
        *i = (DefinedImage){};
        return copy_string(app->name, &i->app) < 0 || copy_string(app->image_id, &i->id) < 0 ||
                                               copy_string(app->image_name ?: app->image_id, &i->name) < 0
                               ? -ENOMEM
                               : 0;
}

/* Moves the app of OWN, and the volumes that came with it, to D. */
static int merge_own(PodDefinition *d, PodDefinition *own)
{
        PodRequest *q = &d->request, *o = &own->request;

        if (GREEDY_REALLOC(q->apps, q->apps_allocated, q->n_apps + 1) < 0 ||
            GREEDY_REALLOC(q->volumes, q->volumes_allocated, q->n_volumes + o->n_volumes) < 0)
                return -ENOMEM;
        q->apps[q->n_apps++] = o->apps[0];
        o->apps[0] = (AppOverrides){};
        for (size_t i = 0; i < o->n_volumes; i++)
                if (!has_volume(q, o->volumes[i].name)) {
                        q->volumes[q->n_volumes++] = o->volumes[i];
                        o->volumes[i] = (Volume){};
                }
        return 0;
}

/* An app that has a definition of its own, or none. */
static int take_own(const Pod *p, const PodApp *app, PodDefinition *d, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition own = {};

        int r = read_own(p, app, &own, e);
        if (r < 0)
                return r;
        if (own.request.n_apps != 1)
                return error_set(e, -EINVAL, "The definition of app %s of pod %s is damaged", app->name,
                                 pod_display_name(p));
        size_t i = index_of(d, app->name);
        if (i < d->n_images)
                remove_app(d, i);
        return merge_own(d, &own) < 0 || add_image(d, app) < 0 ? error_oom(e) : 0;
}

static int add_copy(PodManifest *t, const PodApp *app, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *copy = NULL;
        PodApp *apps[] = {(PodApp *) app};
        const PodManifest one = {.ac_version = t->ac_version, .apps = apps, .n_apps = 1};
        _cleanup_free_ char *text = NULL;

        if (pod_manifest_format(&one, &text) < 0 ||
            GREEDY_REALLOC(t->apps, t->apps_allocated, t->n_apps + 1) < 0)
                return error_oom(e);
        int r = pod_manifest_parse(text, strlen(text), &copy, NULL, e);
        if (r >= 0)
                t->apps[t->n_apps++] = pod_manifest_take_app(copy, app->name);
        return r;
}

static int add_volumes(const Pod *p, const PodApp *app, PodDefinition *d)
{
        PodManifest *t = d->request.template;

        for (size_t i = 0; i < app->n_mounts; i++) {
                const Volume *v = pod_manifest_find_volume(p->manifest, app->mounts[i].volume);
                if (!v || pod_manifest_find_volume(t, v->name) || has_volume(&d->request, v->name))
                        continue;
                Volume *added = pod_manifest_add_volume(t);
                if (!added || volume_copy(v, added) < 0 ||
                    volume_settings_copy(&p->manifest->annotations, v->name, &t->annotations) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* The same in a pod manifest, which has no place for an app's own credentials. */
static int take_from_manifest(const Pod *p, const PodApp *app, PodDefinition *d, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition own = {};

        int r = read_own(p, app, &own, e);
        if (r < 0)
                return r;
        if (own.request.n_apps > 0 && own.request.apps[0].credentials.n > 0)
                return error_set(e, -EOPNOTSUPP,
                                 "App %s of pod %s, which is made from a pod manifest, has credentials of "
                                 "its own",
                                 app->name, pod_display_name(p));
        size_t i = index_of(d, app->name);
        if (i < d->n_images)
                remove_app(d, i);
        r = add_copy(d->request.template, app, e);
        if (r < 0)
                return r;
        return add_volumes(p, app, d) < 0 || add_image(d, app) < 0 ? error_oom(e) : 0;
}

/* An app that has no definition of its own goes behind those that are in order already. */
static void move_to_end(PodDefinition *d, size_t i)
{
        PodRequest *q = &d->request;
        DefinedImage image = d->images[i];
        size_t last = d->n_images - 1;

        if (q->template) {
                PodApp *app = q->template->apps[i];
                memmove(q->template->apps + i, q->template->apps + i + 1, (last - i) * sizeof(PodApp *));
                q->template->apps[last] = app;
        } else {
                AppOverrides app = q->apps[i];
                memmove(q->apps + i, q->apps + i + 1, (last - i) * sizeof(AppOverrides));
                q->apps[last] = app;
        }
        memmove(d->images + i, d->images + i + 1, (last - i) * sizeof(DefinedImage));
        d->images[last] = image;
}

static int take_app(const Pod *p, const PodApp *app, PodDefinition *d, Error *e)
{
        int r = d->request.template ? take_from_manifest(p, app, d, e) : take_own(p, app, d, e);

        if (r != -ENOENT)
                return r;
        size_t i = index_of(d, app->name);
        if (i == d->n_images)
                return error_set(e, -ENODATA, "What app %s of pod %s was made from is not recorded",
                                 app->name, pod_display_name(p));
        move_to_end(d, i);
        return 0;
}

/* The volume of the pod, unless the definition has it. */
static int add_missing_volume(const Pod *p, const char *name, PodRequest *q)
{
        const Volume *v = name && !has_volume(q, name) ? pod_manifest_find_volume(p->manifest, name) : NULL;
        _cleanup_free_ char *key = NULL;

        if (!v)
                return 0;
        if (GREEDY_REALLOC(q->volumes, q->volumes_allocated, q->n_volumes + 1) < 0 ||
            xasprintf(&key, VOLUME_SETTINGS_PREFIX "%s", name) < 0)
                return -ENOMEM;
        Volume *to = &q->volumes[q->n_volumes++];
        *to = (Volume){};
        int r = volume_copy(v, to);
        return r < 0 ? r : copy_string(pair_list_get(&p->manifest->annotations, key), &to->settings);
}

static bool is_point(const App *app, const char *name, const char *path)
{
        for (size_t i = 0; i < app->n_mount_points; i++)
                if (streq(app->mount_points[i].name, name) && streq(app->mount_points[i].path, path))
                        return true;
        return false;
}

/* "APP-POINT", or "APP-POINT-N": as make_implicit_volume() does. */
static bool is_made_at(const PodApp *app, const Mount *m)
{
        const char *rest = startswith(m->volume, app->name);

        for (size_t i = 0; rest && *rest == '-' && i < app->app->n_mount_points; i++) {
                const char *end = startswith(rest + 1, app->app->mount_points[i].name);

                if (end && (*end == 0 || *end == '-') && streq(app->app->mount_points[i].path, m->path))
                        return true;
        }
        return false;
}

/* Whether the volume was made for a mount point of an app, and is made again with the app. */
static bool is_made(const Pod *p, const Volume *v)
{
        _cleanup_free_ char *key = NULL;

        if (v->kind != VOLUME_EMPTY || xasprintf(&key, VOLUME_SETTINGS_PREFIX "%s", v->name) < 0 ||
            pair_list_get(&p->manifest->annotations, key))
                return false;
        for (size_t i = 0; i < p->manifest->n_apps; i++) {
                const PodApp *app = p->manifest->apps[i];

                for (size_t k = 0; app->app && !nested_is_name(app->name) && k < app->n_mounts; k++)
                        if (streq(app->mounts[k].volume, v->name) && is_made_at(app, &app->mounts[k]))
                                return true;
        }
        return false;
}

/* "APP-VOLUME", of a volume in the definition of the app: as reify_volumes() names it. */
static bool is_own(const PodDefinition *d, const PodApp *app, const Mount *m)
{
        const char *rest = startswith(m->volume, app->name);
        size_t i = index_of(d, app->name);

        if (!rest || *rest != '-' || i >= d->request.n_apps)
                return false;
        const AppOverrides *o = &d->request.apps[i];
        for (size_t k = 0; k < o->n_mounts; k++)
                if (o->mounts[k].app_volume && streq(o->mounts[k].app_volume->name, rest + 1))
                        return true;
        return false;
}

/* Of the mounts of an app that are not defined, those of mount points of the image at a volume of the pod of the same name. */
static bool is_at_mount_point(const Pod *p, const PodDefinition *d, const PodApp *app, const Mount *m)
{
        const Volume *v = is_point(app->app, m->volume, m->path)
                                          ? pod_manifest_find_volume(p->manifest, m->volume)
                                          : NULL;

        return v && !is_made(p, v) && !is_own(d, app, m);
}

/* A volume that came with one app is in the definition of that app, and not in those of others that mount it: they need it also when that
 * app was removed or replaced. */
static int add_missing_volumes(const Pod *p, PodDefinition *d)
{
        PodRequest *q = &d->request;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < q->n_apps; i++)
                for (size_t k = 0; r >= 0 && k < q->apps[i].n_mounts; k++)
                        if (!q->apps[i].mounts[k].app_volume)
                                r = add_missing_volume(p, q->apps[i].mounts[k].volume, q);
        for (size_t i = 0; r >= 0 && i < p->manifest->n_apps; i++) {
                const PodApp *app = p->manifest->apps[i];

                for (size_t k = 0; r >= 0 && !nested_is_name(app->name) && k < app->n_mounts; k++)
                        if (app->app && is_at_mount_point(p, d, app, &app->mounts[k]))
                                r = add_missing_volume(p, app->mounts[k].volume, q);
        }
        return r;
}

int pod_definition_read_current(const Pod *p, PodDefinition *ret, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};

        int r = pod_definition_read(p, &d, e);
        for (size_t i = r < 0 ? 0 : d.n_images; i > 0; i--)
                if (!pod_manifest_find_app(p->manifest, d.images[i - 1].app))
                        remove_app(&d, i - 1);
        for (size_t i = 0; r >= 0 && i < p->manifest->n_apps; i++)
                if (!nested_is_name(p->manifest->apps[i]
                                                    ->name)) /* which end with the pod that they were launched in */
                        r = take_app(p, p->manifest->apps[i], &d, e);
        if (r >= 0 && !d.request.template && add_missing_volumes(p, &d) < 0)
                r = error_oom(e);
        if (r < 0)
                return r;
        *ret = d;
        d = (PodDefinition){};
        return 0;
}
