/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers ListPodSandbox and ListContainers from the server's table (events-table.c): clients call them every second, and no pod is
 * opened. Maps of labels are copied by a cast: protobuf-c gives all maps of strings the same layout. */

#include "cri/events/events-internal.h"

#define NSEC_PER_USEC 1000

/* --- Sandboxes ----------------------------------------------------------------------------------------- */

static Runtime__V1__PodSandboxState sandbox_state(const SeenSandbox *x)
{
        return x->sandbox.state == STARTED ? RUNTIME__V1__POD_SANDBOX_STATE__SANDBOX_READY
                                           : RUNTIME__V1__POD_SANDBOX_STATE__SANDBOX_NOTREADY;
}

static bool sandbox_matches(const SeenSandbox *x, const Runtime__V1__PodSandboxFilter *f)
{
        return !f ||
               (startswith(x->sandbox.id, f->id) && (!f->state || f->state->state == sandbox_state(x)) &&
                cri_map_matches(x->config->n_labels, x->config->labels, f->n_label_selector,
                                f->label_selector));
}

static Runtime__V1__PodSandbox *sandbox_item(CriJob *j, const SeenSandbox *x)
{
        Runtime__V1__PodSandbox *t = cri_message(&j->memory, &runtime__v1__pod_sandbox__descriptor);

        if (!t)
                return NULL;
        t->id = (char *) x->sandbox.id;
        t->metadata = x->config->metadata;
        t->state = sandbox_state(x);
        t->created_at = (int64_t) x->sandbox.created_usec * NSEC_PER_USEC;
        t->n_labels = x->config->n_labels;
        t->labels = (void *) x->config->labels;
        t->n_annotations = x->config->n_annotations;
        t->annotations = (void *) x->config->annotations;
        t->runtime_handler = x->handler;
        return t;
}

int cri_list_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ListPodSandboxRequest *q = request;
        Runtime__V1__ListPodSandboxResponse *answer = reply;
        SeenSandbox **l;
        size_t n;

        int r = events_table_sorted(j, &l, &n, e);
        if (r < 0)
                return r;
        answer->items = cri_alloc(&j->memory, (n + 1) * sizeof(Runtime__V1__PodSandbox *));
        if (!answer->items)
                return error_oom(e);
        for (size_t i = 0; i < n; i++) {
                if (!sandbox_matches(l[i], q->filter))
                        continue;
                answer->items[answer->n_items] = sandbox_item(j, l[i]);
                if (!answer->items[answer->n_items++])
                        return error_oom(e);
        }
        return 0;
}

/* --- Containers ---------------------------------------------------------------------------------------- */

static Runtime__V1__ContainerState container_state(const Seen *c)
{
        return c->state == CREATED   ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_CREATED
               : c->state == STARTED ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING
                                     : RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED;
}

static bool container_matches(const Seen *c, const Runtime__V1__ContainerFilter *f)
{
        return !f || (startswith(c->id, f->id) && (!f->state || f->state->state == container_state(c)) &&
                      cri_map_matches(c->config->n_labels, c->config->labels, f->n_label_selector,
                                      f->label_selector));
}

static Runtime__V1__Container *container_item(CriJob *j, const SeenSandbox *x, const Seen *c)
{
        Runtime__V1__Container *t = cri_message(&j->memory, &runtime__v1__container__descriptor);

        if (!t)
                return NULL;
        t->id = (char *) c->id;
        t->pod_sandbox_id = (char *) x->sandbox.id;
        t->image_ref = t->image_id = c->image_id;
        t->metadata = c->config->metadata;
        t->image = c->config->image;
        t->state = container_state(c);
        t->created_at = (int64_t) c->created_usec * NSEC_PER_USEC;
        t->n_labels = c->config->n_labels;
        t->labels = (void *) c->config->labels;
        t->n_annotations = c->config->n_annotations;
        t->annotations = (void *) c->config->annotations;
        return t;
}

static int list_in(CriJob *j, const SeenSandbox *x, const Runtime__V1__ContainerFilter *f,
                   Runtime__V1__ListContainersResponse *answer, Error *e)
{
        for (size_t i = 0; i < x->n; i++) {
                if (!container_matches(&x->containers[i], f))
                        continue;
                answer->containers[answer->n_containers] = container_item(j, x, &x->containers[i]);
                if (!answer->containers[answer->n_containers++])
                        return error_oom(e);
        }
        return 0;
}

int cri_list_containers(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ListContainersRequest *q = request;
        Runtime__V1__ListContainersResponse *answer = reply;
        size_t n, all = 1;
        SeenSandbox **l;

        int r = events_table_sorted(j, &l, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                all += l[i]->n;
        if (r >= 0 && !(answer->containers = cri_alloc(&j->memory, all * sizeof(Runtime__V1__Container *))))
                r = error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                if (!q->filter || startswith(l[i]->sandbox.id, q->filter->pod_sandbox_id))
                        r = list_in(j, l[i], q->filter, answer, e);
        return r;
}
