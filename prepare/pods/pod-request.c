/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests for pods, and copies of the parts of requests and manifests. */

#include "prepare/pods/reify-internal.h"

static void mounts_done(Mount *mounts, size_t n)
{
        for (size_t i = 0; i < n; i++)
                mount_done(&mounts[i]);
        free(mounts);
}

void app_overrides_done(AppOverrides *o)
{
        free(o->reference);
        free(o->name);
        strv_free(o->exec);
        strv_free(o->args);
        free(o->user);
        free(o->group);
        free(o->working_directory);
        pair_list_done(&o->environment);
        pair_list_done(&o->annotations);
        pair_list_done(&o->user_annotations);
        pair_list_done(&o->user_labels);
        free(o->owner_data.data);
        isolator_list_done(&o->isolators);
        credential_list_done(&o->credentials);
        mounts_done(o->mounts, o->n_mounts);
        free(o->supplementary_gids);
        free(o->parent);
        *o = (AppOverrides){};
}

static void port_free(Port *p)
{
        if (!p)
                return;
        free(p->name);
        free(p->protocol);
        free(p);
}

static void exposed_port_done(ExposedPort *p)
{
        free(p->name);
        free(p->host_ip);
        port_free(p->pod_port);
        *p = (ExposedPort){};
}

void pod_request_done(PodRequest *r)
{
        pod_manifest_free(r->template);
        for (size_t i = 0; i < r->n_apps; i++)
                app_overrides_done(&r->apps[i]);
        free(r->apps);
        for (size_t i = 0; i < r->n_volumes; i++)
                volume_done(&r->volumes[i]);
        free(r->volumes);
        mounts_done(r->mounts, r->n_mounts);
        pair_list_done(&r->annotations);
        pair_list_done(&r->user_annotations);
        pair_list_done(&r->user_labels);
        pair_list_done(&r->environment);
        credential_list_done(&r->credentials);
        isolator_list_done(&r->isolators);
        for (size_t i = 0; i < r->n_ports; i++)
                exposed_port_done(&r->ports[i]);
        free(r->ports);
        *r = (PodRequest){};
}

int pod_request_tolerate(const PodRequest *q, int r, char ***warnings, Error *e)
{
        if (r >= 0 || r == -ENOMEM || !q->again)
                return r;
        if (warnings && e && e->message && strv_extend(warnings, e->message) < 0)
                return error_oom(e);
        error_done(e);
        return 0;
}

/* --- Copies -------------------------------------------------------------------------------------------- */

int copy_string(const char *s, char **ret)
{
        *ret = s ? strdup(s) : NULL;
        return s && !*ret ? -ENOMEM : 0;
}

int volume_copy(const Volume *v, Volume *ret)
{
        Volume copy = *v;

        copy.source = copy.settings = NULL;
        if (copy_string(v->name, &copy.name) < 0 || copy_string(v->source, &copy.source) < 0 ||
            copy_string(v->settings, &copy.settings) < 0) {
                volume_done(&copy);
                return -ENOMEM;
        }
        *ret = copy;
        return 0;
}

int mount_copy(const Mount *m, Mount *ret)
{
        Mount copy = {.read_only = m->read_only};
        int r = copy_string(m->volume, &copy.volume);

        if (r >= 0)
                r = copy_string(m->path, &copy.path);
        if (r >= 0 && m->app_volume) {
                copy.app_volume = calloc(1, sizeof(Volume));
                r = copy.app_volume ? volume_copy(m->app_volume, copy.app_volume) : -ENOMEM;
        }
        if (r < 0) {
                mount_done(&copy);
                return r;
        }
        *ret = copy;
        return 0;
}

static int port_copy(const Port *p, Port **ret)
{
        Port *copy = calloc(1, sizeof(Port));

        if (!copy)
                return -ENOMEM;
        *copy = (Port){.port = p->port, .count = p->count, .socket_activated = p->socket_activated};
        if (copy_string(p->name, &copy->name) < 0 || copy_string(p->protocol, &copy->protocol) < 0) {
                port_free(copy);
                return -ENOMEM;
        }
        *ret = copy;
        return 0;
}

int exposed_port_copy(const ExposedPort *p, ExposedPort *ret)
{
        ExposedPort copy = {.host_port = p->host_port};
        int r = copy_string(p->name, &copy.name);

        if (r >= 0)
                r = copy_string(p->host_ip, &copy.host_ip);
        if (r >= 0 && p->pod_port)
                r = port_copy(p->pod_port, &copy.pod_port);
        if (r < 0) {
                exposed_port_done(&copy);
                return r;
        }
        *ret = copy;
        return 0;
}

int isolator_list_copy(const IsolatorList *l, IsolatorList *ret)
{
        /* Only schema/ knows the members of isolators; and it can copy apps. */
        _cleanup_(app_freep) App *copy = NULL;
        const App app = {.isolators = *l};

        int r = app_copy(&app, &copy);
        if (r < 0)
                return r;
        *ret = copy->isolators;
        copy->isolators = (IsolatorList){};
        return 0;
}

int pair_list_merge(PairList *into, const PairList *from)
{
        for (size_t i = 0; i < from->n; i++) {
                int r = pair_list_set(into, from->items[i].name, from->items[i].value);
                if (r < 0)
                        return r;
        }
        return 0;
}
