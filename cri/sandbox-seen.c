/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ready sandboxes and their containers as the table of the server has them (events-table.c), for calls that need of their pods no
 * more than the directory: no file of a pod is read, which takes longer than what such calls read of each. */

#include "cri/events-internal.h"

static int add_apps(const SeenSandbox *x, PodManifest *m)
{
        for (size_t i = 0; i < x->n; i++) {
                PodApp *a = pod_manifest_add_app(m);
                if (!a || !(a->name = strdup(x->containers[i].app)))
                        return -ENOMEM;
        }
        return 0;
}

static NetMode net_of(const SandboxConfig *c)
{
        const Runtime__V1__NamespaceOption *o =
                        c->linux && c->linux->security_context
                                        ? c->linux->security_context->namespace_options
                                        : NULL;

        return o && o->network == RUNTIME__V1__NAMESPACE_MODE__NODE ? NET_HOST : NET_NETWORKS;
}

/* -ENOENT: it is not ready any more. */
static int open_seen(CriJob *j, const SeenSandbox *x, Sandbox *ret)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = pod_look(j->store, x->uuid, &p, NULL);
        if (r >= 0 && p->state != POD_RUNNING)
                r = -ENOENT;
        if (r < 0)
                return r;
        p->manifest = pod_manifest_new();
        if (!p->manifest || add_apps(x, p->manifest) < 0)
                return -ENOMEM;
        p->config.net = net_of(x->config);
        *ret = (Sandbox){.pod = TAKE_PTR(p), .config = x->config, .handler = x->handler, .seen = x};
        memcpy(ret->id, x->sandbox.id, sizeof(ret->id));
        return 0;
}

static int compare(const void *a, const void *b)
{
        const SeenSandbox *x = ((const Sandbox *) a)->seen, *y = ((const Sandbox *) b)->seen;

        return x->sandbox.created_usec < y->sandbox.created_usec
                               ? -1
                               : x->sandbox.created_usec > y->sandbox.created_usec;
}

int sandbox_list_ready(CriJob *j, Sandbox **ret, size_t *ret_n, Error *e)
{
        const struct CriEvents *v = j->server->events;
        size_t n = 0, k = 0;

        if (!v || v->stale)
                return sandbox_list(j, ret, ret_n, e);
        for (const SeenSandbox *x = v->sandboxes; x; x = x->next)
                n++;
        Sandbox *l = calloc(MAX(n, (size_t) 1), sizeof(Sandbox));
        if (!l)
                return error_oom(e);
        for (const SeenSandbox *x = v->sandboxes; x; x = x->next) {
                int r = x->sandbox.state == STARTED ? open_seen(j, x, &l[k]) : -ENOENT;
                if (r == -ENOMEM) {
                        sandbox_list_free(l, k);
                        return error_oom(e);
                }
                k += r >= 0;
        }
        qsort(l, k, sizeof(Sandbox), compare);
        *ret = l;
        *ret_n = k;
        return 0;
}

int container_open_listed(CriJob *j, Sandbox *s, PodApp *app, Container *ret, Error *e)
{
        if (!s->seen)
                return container_open(j, s, app, ret, e);
        for (size_t i = 0; i < s->seen->n; i++) {
                const Seen *c = &s->seen->containers[i];
                if (!streq(c->app, app->name))
                        continue;
                *ret = (Container){.sandbox = s,
                                   .app = app,
                                   .config = c->config,
                                   .created_usec = c->created_usec};
                memcpy(ret->id, c->id, sizeof(ret->id));
                return 0;
        }
        return -ENOENT;
}
