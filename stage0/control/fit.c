/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What apps cannot have in a pod with users of its own: users beyond its range, a writable /sys, hooks on the host, and
 * volumes that share their mounts with the host. The start of an app refuses these, too; here the pod or the app is not
 * prepared at all. Users by name, and owners of paths, are known only in the root of the app. */

#include "schema/settings.h"
#include "stage0/control/control-internal.h"

static int refuse(const PodApp *a, const char *what, Error *e)
{
        int r = error_set(e, -EINVAL, "App %s cannot have %s in a pod with users of its own",
                          pod_app_path_name(a), what);

        return error_hint(e, r, "A pod with --no-userns has those of the host.");
}

static int check_id(const Pod *p, const PodApp *a, const char *kind, uint32_t id, Error *e)
{
        char what[64];

        if (id < pod_n_uids(&p->config))
                return 0;
        snprintf(what, sizeof(what), "the %s %u, beyond 0 to %u,", kind, id, pod_n_uids(&p->config) - 1);
        return refuse(a, what, e);
}

static int check_word(const Pod *p, const PodApp *a, const char *kind, const char *word, Error *e)
{
        uint32_t id;

        return word && parse_u32(word, &id) >= 0 ? check_id(p, a, kind, id, e) : 0;
}

static int check_app(const Pod *p, const PodApp *a, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};

        int r = check_word(p, a, "user", a->app->user, e);
        if (r >= 0)
                r = check_word(p, a, "group", a->app->group, e);
        for (size_t i = 0; r >= 0 && i < a->app->n_supplementary_gids; i++)
                r = check_id(p, a, "group", a->app->supplementary_gids[i], e);
        if (r >= 0)
                r = app_settings_read(a, &s, e);
        if (r >= 0 && s.writable_sys)
                r = refuse(a, "a writable /sys", e);
        if (r >= 0 && s.hooks)
                r = refuse(a, "hooks on the host", e);
        return r;
}

static int check_volume(const Pod *p, const Volume *v, Error *e)
{
        VolumeSettings s;

        int r = v->kind == VOLUME_HOST ? volume_settings_read(p->manifest, v, &s, e) : 0;
        if (r < 0 || v->kind != VOLUME_HOST || s.propagation != PROPAGATION_SHARED)
                return r;
        return error_set(
                        e, -EINVAL,
                        "Volume '%s' cannot have propagation=shared in a pod with users of its own: it takes --no-userns",
                        v->name);
}

int check_users(const Pod *p, size_t first_app, size_t first_volume, Error *e)
{
        int r = 0;

        if (!p->config.private_users)
                return 0;
        for (size_t i = first_app; r >= 0 && i < p->manifest->n_apps; i++)
                r = check_app(p, p->manifest->apps[i], e);
        for (size_t i = first_volume; r >= 0 && i < p->manifest->n_volumes; i++)
                r = check_volume(p, &p->manifest->volumes[i], e);
        return r;
}
