/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which pods use which named volumes: those whose manifests have them, whatever their state, as a pod that
 * has ended may be run again from what it was made of; and those whose images are still being fetched, which have no manifest yet. */

#include "prepare/volumes/volumes-internal.h"
#include "schema/settings.h"

void volume_users_done(VolumeUsers *u)
{
        for (size_t i = 0; i < u->n; i++) {
                free(u->items[i].volume);
                free(u->items[i].pod);
        }
        free(u->items);
        free(u->unknown);
        *u = (VolumeUsers){};
}

static bool is_noted(const VolumeUsers *u, size_t first, const char *volume)
{
        for (size_t i = first; i < u->n; i++)
                if (streq(u->items[i].volume, volume))
                        return true;
        return false;
}

static int note_user(VolumeUsers *u, const Pod *p, const char *volume)
{
        VolumeUser x = {.volume = strdup(volume), .pod = strdup(pod_display_name(p)), .state = p->state};

        if (!x.volume || !x.pod || GREEDY_REALLOC(u->items, u->allocated, u->n + 1) < 0) {
                free(x.volume);
                free(x.pod);
                return -ENOMEM;
        }
        u->items[u->n++] = x;
        return 0;
}

static bool is_user(const Pod *p)
{
        return p->state == POD_PREPARING || p->state == POD_PREPARED || p->state == POD_RUNNING ||
               p->state == POD_EXITED;
}

static int note_unknown(VolumeUsers *u, const Pod *p)
{
        if (u->unknown)
                return 0;
        u->unknown = strdup(pod_display_name(p));
        return u->unknown ? 0 : -ENOMEM;
}

/* Of a pod without a manifest. */
static int read_awaited(VolumeUsers *u, const Pod *p)
{
        _cleanup_strv_free_ char **names = NULL;

        int r = p->state == POD_PREPARING ? pod_awaited_volumes(p, &names) : -ENOENT;
        if (r < 0 && r != -ENOMEM)
                return note_unknown(u, p);
        for (char **name = names; r >= 0 && name && *name; name++)
                r = note_user(u, p, *name);
        return r;
}

static int read_pod(VolumeUsers *u, const Pod *p)
{
        const PodManifest *m = p->manifest;
        size_t first = u->n;

        if (!is_user(p) || pod_is_of_former_boot(p)) /* that is never run again */
                return 0;
        if (!m)
                return read_awaited(u, p);
        for (size_t i = 0; i < m->n_volumes; i++) {
                VolumeSettings s;

                int r = volume_settings_read(m, &m->volumes[i], &s, NULL);
                if (r == -ENOMEM || (r < 0 && note_unknown(u, p) < 0))
                        return -ENOMEM;
                if (r < 0 || !s.named[0] || is_noted(u, first, s.named))
                        continue;
                r = note_user(u, p, s.named);
                if (r < 0)
                        return r;
        }
        return 0;
}

int volume_users_read(Store *s, VolumeUsers *ret, Error *e)
{
        _cleanup_volume_users_ VolumeUsers u = {};
        Pod **pods = NULL;
        size_t n = 0;

        int r = pod_list_all(s, &pods, &n, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n && r >= 0; i++)
                r = read_pod(&u, pods[i]);
        pod_list_free(pods, n);
        if (r < 0)
                return error_oom(e);
        *ret = u;
        u = (VolumeUsers){};
        return 0;
}

int volume_users_of(const VolumeUsers *u, const char *volume, char ***ret)
{
        _cleanup_strv_free_ char **pods = NULL;

        for (size_t i = 0; i < u->n; i++)
                if (streq(u->items[i].volume, volume) && strv_extend(&pods, u->items[i].pod) < 0)
                        return -ENOMEM;
        *ret = TAKE_PTR(pods);
        return 0;
}
