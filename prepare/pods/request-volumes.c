/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The named volumes that a request is for, before there is a manifest.
 *
 * While the images of a pod are fetched, which may take hours, nothing else says which volumes the pod will have. So that
 * they are not removed meanwhile, a file in the pod's directory has their names until the store's lock is held. */

#include "prepare/pods/reify-internal.h"
#include "schema/settings.h"

#define AWAITED_FILE "awaited-volumes"
#define AWAITED_SIZE_MAX (4U * 1024U * 1024U)

static int add_name(char ***names, const VolumeSettings *s)
{
        return !s->named[0] || strv_contains(*names, s->named) ? 0 : strv_extend(names, s->named);
}

/* Settings that are not valid make no pod. */
static int add_volume(char ***names, const Volume *v)
{
        VolumeSettings s;

        int r = v && v->settings ? volume_settings_parse(v->settings, v, &s, NULL) : -ENOENT;
        return r < 0 ? (r == -ENOMEM ? r : 0) : add_name(names, &s);
}

static int add_mounts(char ***names, const Mount *mounts, size_t n)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_volume(names, mounts[i].app_volume);
        return r;
}

static int add_template(char ***names, const PodManifest *m)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < m->n_volumes; i++) {
                VolumeSettings s;
                int k = volume_settings_read(m, &m->volumes[i], &s, NULL);

                r = k < 0 ? (k == -ENOMEM ? k : 0) : add_name(names, &s);
        }
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = add_mounts(names, m->apps[i]->mounts, m->apps[i]->n_mounts);
        return r;
}

int request_named_volumes(const PodRequest *q, char ***names)
{
        int r = q->template ? add_template(names, q->template) : 0;

        for (size_t i = 0; r >= 0 && i < q->n_volumes; i++)
                r = add_volume(names, &q->volumes[i]);
        if (r >= 0)
                r = add_mounts(names, q->mounts, q->n_mounts);
        for (size_t i = 0; r >= 0 && i < q->n_apps; i++)
                r = add_mounts(names, q->apps[i].mounts, q->apps[i].n_mounts);
        return r;
}

/* --- While images are fetched --------------------------------------------------------------------------- */

int awaited_volumes_write(const Pod *p, const PodRequest *q, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_text_ Text t = {};

        if (request_named_volumes(q, &names) < 0)
                return error_oom(e);
        if (!names)
                return 0;
        STRV_FOREACH (name, names)
                text_addf(&t, "%s\n", *name);
        if (t.failed)
                return error_oom(e);
        int r = write_file_atomic_at(p->dir_fd, AWAITED_FILE, t.data, t.size, 0600, false);
        return r < 0 ? error_set_errno(e, r, "Cannot write '" AWAITED_FILE "' of pod %s",
                                       pod_display_name(p))
                     : 0;
}

void awaited_volumes_drop(const Pod *p)
{
        (void) unlinkat(p->dir_fd, AWAITED_FILE, 0);
}

int pod_awaited_volumes(const Pod *p, char ***ret)
{
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(p->dir_fd, AWAITED_FILE, AWAITED_SIZE_MAX, &text, NULL);
        if (r == -ENOENT)
                return 0;
        return r < 0 ? r : strv_split(text, "\n", ret);
}
