/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The apps of a pod manifest as apps of the command line: for a running pod, whose apps all have that form.
 *
 * An app object changes what the image has, member by member; in a pod manifest that a pod is made from it replaces the whole
 * (spec: pods.md). What cannot be changed that way is refused. */

#include "prepare/pods/pods-internal.h"

static int refuse_member(const PodApp *a, const char *member, const char *hint, Error *e)
{
        int r = error_set(e, -EINVAL,
                          "The app object of app %s has '%s', which only that of the image can have",
                          a->name, member);

        return error_hint(e, r, "%s", hint);
}

static int check_app_object(const PodApp *a, Error *e)
{
        if (a->app->pre_start || a->app->post_stop)
                return refuse_member(a, "eventHandlers", "Build an image with them, see acnspawn-build(1).",
                                     e);
        if (a->app->n_ports > 0)
                return refuse_member(a, "ports", "Apps of a running pod have the ports of their images.", e);
        if (a->app->n_mount_points > 0)
                return refuse_member(a, "mountPoints", "Give the app 'mounts', with paths.", e);
        return 0;
}

static int take_app_object(PodApp *a, AppOverrides *o, Error *e)
{
        App *app = a->app;
        int r = check_app_object(a, e);

        if (r < 0)
                return r;
        o->exec = TAKE_PTR(app->exec);
        o->user = TAKE_PTR(app->user);
        o->group = TAKE_PTR(app->group);
        o->working_directory = TAKE_PTR(app->working_directory);
        o->supplementary_gids = TAKE_PTR(app->supplementary_gids);
        o->n_supplementary_gids = o->supplementary_gids_allocated = app->n_supplementary_gids;
        o->environment = TAKE_STRUCT(app->environment);
        o->isolators = TAKE_STRUCT(app->isolators);
        o->user_annotations = TAKE_STRUCT(app->user_annotations);
        o->user_labels = TAKE_STRUCT(app->user_labels);
        return 0;
}

static int take_app(PodApp *a, AppOverrides *o, Error *e)
{
        int r = a->app ? take_app_object(a, o, e) : 0;

        if (r < 0)
                return r;
        if (a->image_id)
                o->reference = TAKE_PTR(a->image_id);
        else if (image_name_format(a->image_name, &a->image_labels, &o->reference) < 0)
                return error_oom(e);
        o->name = TAKE_PTR(a->name);
        o->read_only_rootfs = a->read_only_rootfs;
        o->annotations = TAKE_STRUCT(a->annotations);
        o->mounts = TAKE_PTR(a->mounts);
        o->n_mounts = TAKE_GENERIC(a->n_mounts, size_t, 0);
        o->mounts_allocated = TAKE_GENERIC(a->mounts_allocated, size_t, 0);
        return 0;
}

static int check_pod(const PodManifest *m, Error *e)
{
        const char *member = m->n_ports > 0              ? "ports"
                             : m->isolators.n > 0        ? "isolators"
                             : m->annotations.n > 0      ? "annotations"
                             : m->user_annotations.n > 0 ? "userAnnotations"
                             : m->user_labels.n > 0      ? "userLabels"
                                                         : NULL;

        if (!member)
                return 0;
        return error_set(e, -EINVAL, "'%s' of a pod as a whole cannot be given for a pod that is running",
                         member);
}

int pod_request_take_template(PodRequest *q, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = TAKE_PTR(q->template);

        int r = check_pod(m, e);
        if (r >= 0)
                r = pod_template_check(m, e);
        if (r < 0)
                return r;
        q->apps = calloc(m->n_apps + 1, sizeof(AppOverrides));
        if (!q->apps)
                return error_oom(e);
        q->apps_allocated = m->n_apps + 1;
        while (r >= 0 && q->n_apps < m->n_apps) {
                r = take_app(m->apps[q->n_apps], &q->apps[q->n_apps], e);
                q->n_apps++; /* to be freed in any case */
        }
        q->volumes = TAKE_PTR(m->volumes);
        q->n_volumes = TAKE_GENERIC(m->n_volumes, size_t, 0);
        q->volumes_allocated = TAKE_GENERIC(m->volumes_allocated, size_t, 0);
        return r;
}
