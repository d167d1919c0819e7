/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reifying (spec: pods.md): from a request to a complete pod manifest.
 *
 * There are two kinds of requests: a template, which is a pod manifest in which images may be given by name
 * instead of by ID and mount points may lack volumes; or a list of images with options of the command line
 * for each. Both are completed step by step: the apps with their images (reify-app.c), the volumes
 * (reify-volumes.c), the mounts (reify-mounts.c), the ports. The directories of the pod are created last,
 * after all checks (reify-write.c).
 *
 * Images are fetched first, if they have to be (reify-images.c). Then the store is locked against their
 * removal until the pod is published: from then on its manifest shows that it needs them.
 */

#include "prepare/pods/reify-internal.h"
#include "schema/settings.h"

int reify_warn(Reify *r, Error *e, const char *format, ...)
{
        char *s = NULL;
        va_list ap;

        if (!r->warnings)
                return 0;
        va_start(ap, format);
        int n = vasprintf(&s, format, ap);
        va_end(ap);
        return n < 0 || strv_consume(r->warnings, s) < 0 ? error_oom(e) : 0;
}

static void reify_done(Reify *r)
{
        for (size_t i = 0; i < r->n_images; i++) {
                image_free(r->images[i].image);
                strv_free(r->images[i].layers);
        }
        free(r->images);
        image_list_free(r->found, r->found ? r->n_found : 0);
        fetcher_free(r->fetcher);
        reify_volume_images_done(r);
        free(r->kept);
        pod_manifest_free(r->manifest);
}

/* --- The pod as a whole -------------------------------------------------------------------------------- */

static int merge_pairs(PodManifest *m, const PairList *annotations, const PairList *user_annotations,
                       const PairList *user_labels, Error *e)
{
        if (pair_list_merge(&m->annotations, annotations) < 0 ||
            pair_list_merge(&m->user_annotations, user_annotations) < 0 ||
            pair_list_merge(&m->user_labels, user_labels) < 0)
                return error_oom(e);
        return 0;
}

static int add_ports(PodManifest *m, const ExposedPort *ports, size_t n, Error *e)
{
        if (GREEDY_REALLOC(m->ports, m->ports_allocated, m->n_ports + n) < 0)
                return error_oom(e);
        for (size_t i = 0; i < n; i++) {
                if (exposed_port_copy(&ports[i], &m->ports[m->n_ports]) < 0)
                        return error_oom(e);
                m->n_ports++;
        }
        return 0;
}

/* The parts of the template other than apps and volumes, and the additions of the command line. */
static int reify_pod(Reify *r, Error *e)
{
        const PodRequest *q = r->request;
        const PodManifest *t = q->template;
        PodManifest *m = r->manifest;
        int k = 0;

        if (t) {
                k = isolator_list_copy(&t->isolators, &m->isolators) < 0 ? error_oom(e) : 0;
                if (k >= 0)
                        k = merge_pairs(m, &t->annotations, &t->user_annotations, &t->user_labels, e);
                if (k >= 0)
                        k = add_ports(m, t->ports, t->n_ports, e);
        }
        if (k >= 0)
                k = isolators_override(&m->isolators, &q->isolators, "the pod", e);
        if (k >= 0)
                k = merge_pairs(m, &q->annotations, &q->user_annotations, &q->user_labels, e);
        if (k >= 0)
                k = add_ports(m, q->ports, q->n_ports, e);
        return k;
}

/* --- Ports --------------------------------------------------------------------------------------------- */

static const Port *find_port(const App *a, const char *name)
{
        for (size_t i = 0; i < a->n_ports; i++)
                if (streq_ptr(a->ports[i].name, name))
                        return &a->ports[i];
        return NULL;
}

/* "http (app web), admin (app web)" */
static char *list_ports(const PodManifest *m)
{
        _cleanup_strv_free_ char **l = NULL;

        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t k = 0; k < m->apps[i]->app->n_ports && strv_length(l) < 16; k++)
                        if (strv_extendf(&l, "%s (app %s)", m->apps[i]->app->ports[k].name,
                                         m->apps[i]->name) < 0)
                                return NULL;
        return l ? strv_join(l, ", ") : NULL;
}

static int check_port_name(const PodManifest *m, const char *name, Error *e)
{
        _cleanup_free_ char *known = NULL;
        const char *found = NULL;

        for (size_t i = 0; i < m->n_apps; i++) {
                if (!find_port(m->apps[i]->app, name))
                        continue;
                if (found)
                        return error_set(e, -ENOTUNIQ,
                                         "The port '%s' cannot be exposed: apps %s and %s both have one "
                                         "of that name",
                                         name, found, m->apps[i]->name);
                found = m->apps[i]->name;
        }
        if (found)
                return 0;
        known = list_ports(m);
        int r = error_set(e, -ENOENT, "The port '%s' cannot be exposed: no app has a port of that name",
                          name);
        if (known)
                return error_hint(e, r, "Available ports: %s.", known);
        return error_hint(e, r,
                          "The images declare no ports; --port=PORT:APPPORT exposes one that no image "
                          "declares.");
}

static bool same_host_port(const ExposedPort *a, const ExposedPort *b)
{
        return a->host_port == b->host_port && (!a->host_ip || !b->host_ip || streq(a->host_ip, b->host_ip));
}

/* Whether both use the same protocol, as far as that is known. */
static bool same_protocol(const PodManifest *m, const ExposedPort *a, const ExposedPort *b)
{
        const ExposedPort *both[] = {a, b};
        const char *protocols[2] = {};

        for (size_t i = 0; i < 2; i++) {
                const Port *p = both[i]->pod_port;
                for (size_t k = 0; !p && k < m->n_apps; k++)
                        if (m->apps[k]->app)
                                p = find_port(m->apps[k]->app, both[i]->name);
                protocols[i] = p ? p->protocol : NULL;
        }
        return !protocols[0] || !protocols[1] || streq(protocols[0], protocols[1]);
}

/* COMPLETE: all apps have their app objects, so that their ports are known. */
static int check_ports(const PodManifest *m, bool complete, Error *e)
{
        for (size_t i = 0; i < m->n_ports; i++) {
                const ExposedPort *p = &m->ports[i];

                int k = p->pod_port || !complete ? 0 : check_port_name(m, p->name, e);
                if (k < 0)
                        return k;
                for (size_t j = 0; j < i; j++)
                        if (same_host_port(p, &m->ports[j]) && same_protocol(m, p, &m->ports[j]))
                                return error_set(e, -EINVAL,
                                                 "Ports '%s' and '%s' are both exposed as port %u of "
                                                 "the host",
                                                 m->ports[j].name, p->name, p->host_port);
        }
        return 0;
}

static int reify_ports(Reify *r, Error *e)
{
        return check_ports(r->manifest, true, e);
}

/* --- Templates ----------------------------------------------------------------------------------------- */

static int refuse_empty(bool template, Error *e)
{
        int r = error_set(e, -EINVAL, "A pod needs at least one app, and none was given");

        return error_hint(e, r, "%s With --exit-policy=never or tasks a pod can be without apps.",
                          template ? "Name images under 'apps' in the pod manifest."
                                   : "Name an image, as in: acnspawn run example.com/app.");
}

int pod_template_check(const PodManifest *t, Error *e)
{
        bool complete = true;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < t->n_apps; i++) {
                r = template_app_check(t->apps[i], e);
                complete = complete && t->apps[i]->app;
        }
        for (size_t i = 0; r >= 0 && i < t->n_volumes; i++)
                r = template_volume_check(&t->volumes[i], e);
        return r < 0 ? r : check_ports(t, complete, e);
}

/* --- The whole ----------------------------------------------------------------------------------------- */

static int check_request(const Pod *p, const PodRequest *q, Error *e)
{
        if (p->state != POD_PREPARING || !p->locked || p->manifest)
                return error_set(e, -EINVAL, "Pod %s is not being prepared by this process",
                                 pod_display_name(p));
        if (p->config.private_users && p->config.uid_base == 0)
                return error_set(e, -EINVAL, "Pod %s has no range of uids yet", pod_display_name(p));
        if (q->template && q->n_apps > 0)
                return error_set(e, -EINVAL,
                                 "A pod is made either from a pod manifest or from images, not from both");
        size_t n = q->template ? q->template->n_apps : q->n_apps;
        if (n == 0 && !exit_policy_is_open(p->config.exit_policy))
                return refuse_empty(q->template, e);
        return q->template ? pod_template_check(q->template, e) : 0;
}

static int reify_all(Reify *r, Error *e)
{
        static int (*const steps[])(Reify * r, Error * e) = {
                        reify_pod, reify_apps, reify_volumes, reify_mounts, reify_ports,
        };

        r->manifest = pod_manifest_new();
        if (!r->manifest)
                return error_oom(e);
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int k = steps[i](r, e);
                if (k < 0)
                        return k;
        }
        int k = pod_manifest_check_reified(r->manifest, e);
        if (k >= 0)
                k = pod_settings_check(r->manifest, e);
        if (k >= 0)
                k = pod_request_tolerate(r->request, pod_annotations_check(r->manifest, e), r->warnings, e);
        return k < 0 ? k : reify_write(r, e);
}

int pod_reify(Pod *p, const PodRequest *request, char ***warnings, Error *e)
{
        _cleanup_(reify_done) Reify r = {.pod = p, .request = request, .warnings = warnings};

        int k = check_request(p, request, e);
        if (k >= 0)
                k = awaited_volumes_write(p, request, e);
        if (k >= 0)
                k = reify_fetch(&r, e);
        if (k >= 0)
                k = reify_fetch_volumes(&r, e);
        if (k >= 0 && p->store_lock_fd < 0)
                k = store_lock_shared(p->store, &p->store_lock_fd, e);
        if (k >= 0) /* the lock keeps them now */
                awaited_volumes_drop(p);
        if (k >= 0)
                k = reify_all(&r, e);
        if (k < 0)
                return k;
        p->manifest = TAKE_PTR(r.manifest);
        return 0;
}

/* --- Another app for a pod that runs ------------------------------------------------------------------- */

/* What belongs to the pod as a whole is settled when it is prepared. */
static int check_app_request(const Pod *p, const PodRequest *q, const PodApp *old, Error *e)
{
        if (!p->manifest || p->state != POD_RUNNING)
                return error_set(e, -ESRCH, "Pod %s does not run", pod_display_name(p));
        if ((q->template && !old) || (q->template ? q->template->n_apps : q->n_apps) != 1)
                return error_set(e, -EINVAL, "One app at a time is added to a pod, by its image");
        if (old)
                return 0; /* the rest of its definition is that of the pod */
        if (q->n_ports > 0 || q->isolators.n > 0 || q->annotations.n > 0 || q->user_annotations.n > 0 ||
            q->user_labels.n > 0)
                return error_set(e, -EINVAL,
                                 "Ports, isolators and annotations of a pod as a whole cannot be added to "
                                 "pod %s, which runs",
                                 pod_display_name(p));
        return 0;
}

static bool same_port(const Port *a, const Port *b)
{
        return a->port == b->port && streq_ptr(a->protocol, b->protocol) &&
               MAX(a->count, 1U) == MAX(b->count, 1U);
}

/* What leads to the ports of the pod was settled with its networks. */
static int check_exposed(const Reify *r, Error *e)
{
        const PodManifest *m = r->manifest;
        const PodApp *app = r->old ? m->apps[r->first_app] : NULL;

        for (size_t i = 0; app && i < m->n_ports; i++) {
                const Port *was = m->ports[i].pod_port ? NULL : find_port(r->old->app, m->ports[i].name),
                           *is;

                if (!was)
                        continue;
                is = find_port(app->app, m->ports[i].name);
                if (is && same_port(was, is))
                        continue;
                int k = error_set(e, -EINVAL,
                                  "The image %s cannot replace that of app %s: the pod exposes its port "
                                  "'%s', %u/%s, which the image %s",
                                  app->image_name, app->name, was->name, was->port, was->protocol ?: "",
                                  is ? "has with another number or protocol" : "does not have");
                return error_hint(e, k, "Ports of the host are settled when a pod is prepared.");
        }
        return 0;
}

static int reify_one(Reify *r, Error *e)
{
        static int (*const steps[])(Reify * r, Error * e) = {
                        reify_fetch, reify_fetch_volumes, reify_keep_volumes,
                        reify_apps,  reify_volumes,       reify_mounts,
        };

        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int k = steps[i](r, e);
                if (k < 0)
                        return k;
        }
        int k = pod_manifest_check_reified(r->manifest, e);
        if (k >= 0)
                k = pod_settings_check(r->manifest, e);
        if (k >= 0)
                k = check_exposed(r, e);
        return k < 0 ? k : reify_write(r, e);
}

int pod_reify_app(Pod *p, const PodRequest *request, const PodApp *old, char ***warnings, Error *e)
{
        Reify r = {.pod = p, .request = request, .warnings = warnings, .adds = true, .old = old};

        int k = check_app_request(p, request, old, e);
        if (k >= 0 && p->store_lock_fd < 0)
                k = store_lock_shared(p->store, &p->store_lock_fd, e);
        if (k < 0)
                return k;
        r.manifest = p->manifest;
        r.first_app = p->manifest->n_apps;
        r.first_volume = p->manifest->n_volumes;
        k = reify_one(&r, e);
        r.manifest = NULL; /* it is the pod's */
        reify_done(&r);
        return k;
}
