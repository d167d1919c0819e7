/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Volumes that are images: mounted read-only, as a whole, or one file or directory of them.
 *
 * They are fetched with the images of the apps, before the store is locked. In the manifest of the pod the ID takes the place
 * of the reference: so the pod keeps the image in the store, and mounts the same one each time that it runs.
 *
 * A path in the image is looked up in its layers, so that one that is not there is reported when the pod is prepared. Opaque
 * directories are not taken into account here: the supervisor finds the path again, in the merged tree. */

#include <sys/stat.h>

#include "prepare/oci/oci.h"
#include "prepare/pods/reify-internal.h"

void reify_volume_images_done(Reify *r)
{
        for (size_t i = 0; i < r->n_volume_images; i++) {
                free(r->volume_images[i].reference);
                image_free(r->volume_images[i].image);
                strv_free(r->volume_images[i].layers);
        }
        free(r->volume_images);
}

/* --- Fetching ------------------------------------------------------------------------------------------ */

static VolumeImage *find_reference(const Reify *r, const char *reference)
{
        for (size_t i = 0; i < r->n_volume_images; i++)
                if (streq(r->volume_images[i].reference, reference))
                        return &r->volume_images[i];
        return NULL;
}

static int fetch_reference(Reify *r, const char *volume, const char *reference, Error *e)
{
        if (find_reference(r, reference))
                return 0;
        if (GREEDY_REALLOC(r->volume_images, r->volume_images_allocated, r->n_volume_images + 1) < 0)
                return error_oom(e);
        VolumeImage *i = &r->volume_images[r->n_volume_images];
        *i = (VolumeImage){.reference = strdup(reference)};
        if (!i->reference)
                return error_oom(e);
        r->n_volume_images++;
        int k = fetcher_fetch(r->fetcher, reference, &i->image, e);
        return k < 0 ? error_prefix(e, k, "Volume '%s'", volume) : 0;
}

/* SETTINGS may be NULL. */
static int fetch_volume(Reify *r, const Volume *v, const char *settings, Error *e)
{
        VolumeSettings s;

        if (!settings || (r->old && pod_manifest_find_volume(r->manifest, v->name)))
                return 0;
        int k = volume_settings_parse(settings, v, &s, e);
        return k < 0 || !s.image[0] ? k : fetch_reference(r, v->name, s.image, e);
}

static int fetch_mounts(Reify *r, const Mount *mounts, size_t n, Error *e)
{
        int k = 0;

        for (size_t i = 0; k >= 0 && i < n; i++)
                if (mounts[i].app_volume)
                        k = fetch_volume(r, mounts[i].app_volume, mounts[i].app_volume->settings, e);
        return k;
}

static int fetch_template(Reify *r, const PodManifest *t, Error *e)
{
        int k = 0;

        for (size_t i = 0; k >= 0 && i < t->n_volumes; i++) {
                _cleanup_free_ char *name = NULL;

                if (xasprintf(&name, VOLUME_SETTINGS_PREFIX "%s", t->volumes[i].name) < 0)
                        return error_oom(e);
                k = fetch_volume(r, &t->volumes[i], pair_list_get(&t->annotations, name), e);
        }
        return k;
}

int reify_fetch_volumes(Reify *r, Error *e)
{
        const PodRequest *q = r->request;

        int k = q->template ? fetch_template(r, q->template, e) : 0;
        for (size_t i = 0; k >= 0 && i < q->n_volumes; i++)
                k = fetch_volume(r, &q->volumes[i], q->volumes[i].settings, e);
        if (k >= 0)
                k = fetch_mounts(r, q->mounts, q->n_mounts, e);
        for (size_t i = 0; k >= 0 && i < q->n_apps; i++)
                k = fetch_mounts(r, q->apps[i].mounts, q->apps[i].n_mounts, e);
        return k;
}

/* --- In the manifest ----------------------------------------------------------------------------------- */

/* The store is locked by now, so the image stays if it is there. */
static int find_layers(Reify *r, VolumeImage *i, Error *e)
{
        _cleanup_free_ char *path = NULL;
        Store *s = r->pod->store;

        if (i->layers)
                return 0;
        if (xasprintf(&path, "images/%s", i->image->id) < 0)
                return error_oom(e);
        if (faccessat(store_fd(s), path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return error_set(e, -ENOENT, "The image %s was removed from the store %s meanwhile",
                                 i->image->id, store_path(s));
        int k = image_layers_used(s, r->index, i->image, &i->layers, e);
        if (k < 0 || !r->request->verify)
                return k;
        k = oci_image_check_unaltered(s, i->image->id, e);
        return k < 0 ? k : image_verify_layers(s, i->layers, e);
}

static int check_sub_path(const VolumeImage *i, const Volume *v, const char *path, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(path);
        struct stat st;

        int k = reify_find_path(i->layers, path, &st);
        if (k < 0)
                return error_set_errno(e, k, "Volume '%s' cannot be '%s' in the image %s", v->name,
                                       shown ?: "?", i->reference);
        if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
                return 0;
        return error_set(
                        e, -EINVAL,
                        "Volume '%s' cannot be '%s' in the image %s: it is neither a directory nor a regular file",
                        v->name, shown ?: "?", i->reference);
}

/* The settings with the ID. */
static int set_id(Reify *r, const Volume *v, const VolumeSettings *s, const char *id, Error *e)
{
        _cleanup_free_ char *name = NULL, *text = NULL;

        if (xasprintf(&name, VOLUME_SETTINGS_PREFIX "%s", v->name) < 0 ||
            volume_setting_add(&text, "kind", "image") < 0 || volume_setting_add(&text, "source", id) < 0 ||
            (s->sub_path[0] && volume_setting_add(&text, "subpath", s->sub_path) < 0) ||
            (s->no_exec && volume_setting_add(&text, "exec", "false") < 0) ||
            pair_list_set(&r->manifest->annotations, name, text) < 0)
                return error_oom(e);
        return 0;
}

int reify_volume_image(Reify *r, Volume *v, const VolumeSettings *s, Error *e)
{
        VolumeImage *i = find_reference(r, s->image);

        if (!i)
                return error_set(e, -EINVAL, "Volume '%s' is the image %s, which was not fetched", v->name,
                                 s->image);
        if (v->has_read_only && !v->read_only)
                return error_set(e, -EINVAL, "Volume '%s' is an image, and cannot be writable", v->name);
        v->has_read_only = v->read_only = true;
        int k = find_layers(r, i, e);
        if (k >= 0 && s->sub_path[0])
                k = check_sub_path(i, v, s->sub_path, e);
        return k < 0 ? k : set_id(r, v, s, i->image->id, e);
}

char *const *reify_volume_layers(const Reify *r, const char *id)
{
        for (size_t i = 0; i < r->n_volume_images; i++)
                if (r->volume_images[i].layers && streq(r->volume_images[i].image->id, id))
                        return r->volume_images[i].layers;
        return NULL;
}
