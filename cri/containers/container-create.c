/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CreateContainer: an app for the pod of a sandbox, which its supervisor makes, or refuses. */

#include "cri/events/events.h"

static bool is_image(const Image *i, const char *reference)
{
        return streq_ptr(i->info.config_digest, reference) ||
               streq_ptr(i->info.manifest_digest, reference) || streq(i->id, reference);
}

/* Clients name an image by the ID that they got, or by a reference. */
int container_find_image(CriJob *j, const char *reference, char **ret, Error *e)
{
        Image **l = NULL;
        size_t n = 0, n_damaged;
        int r = image_list_readable(j->store, &l, &n, &n_damaged, e);

        for (size_t i = 0; r >= 0 && i < n && !*ret; i++)
                if (is_image(l[i], reference))
                        *ret = cri_strdup(&j->memory, l[i]->id);
        image_list_free(l, n);
        if (r < 0 || *ret)
                return r;
        _cleanup_free_ char *id = NULL;
        r = image_find_id(j->store, reference, &id, e);
        if (r == -ENOENT)
                return cri_status(j, GRPC_NOT_FOUND, r);
        if (r >= 0)
                *ret = cri_strdup(&j->memory, id);
        return r < 0 || *ret ? r : error_oom(e);
}

static int check(const Runtime__V1__CreateContainerRequest *q, Error *e)
{
        const ContainerConfig *c = q->config;

        if (!c || !c->metadata || isempty(c->metadata->name))
                return error_set(e, -EINVAL, "The request has no config with metadata and a name");
        if (!c->image || isempty(c->image->image))
                return error_set(e, -EINVAL, "The config of container '%s' has no image", c->metadata->name);
        return cri_check_fields(&c->base, cri_container_fields, e);
}

static int keep_config(const ContainerConfig *c, OwnerData *ret)
{
        *ret = (OwnerData){.size = protobuf_c_message_get_packed_size(&c->base)};
        ret->data = malloc(MAX(ret->size, (size_t) 1));
        if (!ret->data)
                return -ENOMEM;
        (void) protobuf_c_message_pack(&c->base, ret->data);
        return 0;
}

static int add_app(CriJob *j, Sandbox *s, const ContainerConfig *c, PodRequest *q, const char *image,
                   Error *e)
{
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_(acn_disconnectp) AcnPod *a = NULL;
        _cleanup_free_ char *name = NULL;

        int r = acn_connect(s->pod, &a, e);
        if (r >= 0)
                r = acn_add_app(a, q, image, &name, &warnings, e);
        STRV_FOREACH (w, warnings)
                operation_message(store_operation(j->store), LOG_LEVEL_DEBUG, "Container %s: %s",
                                  c->metadata->name, *w);
        if (r != -EEXIST)
                return r < 0 ? sandbox_not_running(j, s, r) : r;
        return cri_status(j, GRPC_ALREADY_EXISTS,
                          error_set(e, r, "Sandbox %s has a container of name '%s' and attempt %u", s->id,
                                    c->metadata->name, c->metadata->attempt));
}

int cri_create_container(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__CreateContainerRequest *q = request;
        Runtime__V1__CreateContainerResponse *answer = reply;
        _cleanup_(pod_request_done) PodRequest app = {};
        _cleanup_sandbox_ Sandbox s = {};
        char id[CRI_ID_SIZE], *image = NULL;

        int r = check(q, e);
        if (r >= 0)
                r = sandbox_find(j, q->pod_sandbox_id, &s, e);
        if (r < 0)
                return r;
        if (!sandbox_is_ready(&s))
                return cri_status(j, GRPC_FAILED_PRECONDITION,
                                  error_set(e, -ESRCH, "Sandbox %s is not ready", s.id));
        r = container_find_image(j, q->config->image->image, &image, e);
        if (r < 0)
                return r;
        if (GREEDY_REALLOC(app.apps, app.apps_allocated, 1) < 0 ||
            cri_container_id(s.pod->uuid, q->config->metadata, id) < 0)
                return error_oom(e);
        app.apps[app.n_apps++] = (AppOverrides){.reference = strdup(image)};
        if (!app.apps[0].reference || keep_config(q->config, &app.apps[0].owner_data) < 0)
                return error_oom(e);
        r = container_request(j, &s, q->config, id, &app.apps[0], e);
        if (r >= 0)
                r = add_app(j, &s, q->config, &app, image, e);
        if (r < 0)
                return r;
        cri_event_note(j, CRI_NOTE_CREATED, s.pod->uuid, id);
        answer->container_id = cri_strdup(&j->memory, id);
        return answer->container_id ? 0 : error_oom(e);
}
