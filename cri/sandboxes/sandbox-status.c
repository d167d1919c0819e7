/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* PodSandboxStatus. */

#include "cri/sandbox.h"

#define NSEC_PER_USEC 1000

typedef Runtime__V1__PodSandboxStatus Status;

static Runtime__V1__PodSandboxState state_of(const Sandbox *s)
{
        return sandbox_is_ready(s) ? RUNTIME__V1__POD_SANDBOX_STATE__SANDBOX_READY
                                   : RUNTIME__V1__POD_SANDBOX_STATE__SANDBOX_NOTREADY;
}

/* --- Status -------------------------------------------------------------------------------------------- */

static int add_ip(CriJob *j, Runtime__V1__PodSandboxNetworkStatus *n, const char *address)
{
        char *ip = cri_printf(&j->memory, "%.*s", (int) strcspn(address, "/"), address);

        if (!ip)
                return -ENOMEM;
        if (isempty(n->ip)) {
                n->ip = ip;
                return 0;
        }
        Runtime__V1__PodIP **grown = cri_alloc(&j->memory,
                                               (n->n_additional_ips + 1) * sizeof(Runtime__V1__PodIP *)),
                           *item = cri_message(&j->memory, &runtime__v1__pod_ip__descriptor);
        if (!grown || !item)
                return -ENOMEM;
        if (n->n_additional_ips > 0)
                memcpy(grown, n->additional_ips, n->n_additional_ips * sizeof(Runtime__V1__PodIP *));
        item->ip = ip;
        grown[n->n_additional_ips++] = item;
        n->additional_ips = grown;
        return 0;
}

/* Those of the first network; none in the host's. */
static int add_network(CriJob *j, const Sandbox *s, Status *t, Error *e)
{
        NetworkReport *l = NULL;
        size_t n = 0;

        t->network = cri_message(&j->memory, &runtime__v1__pod_sandbox_network_status__descriptor);
        if (!t->network)
                return error_oom(e);
        int r = sandbox_is_ready(s) ? network_report(s->pod, &l, &n, e) : 0;
        for (size_t i = 0; r >= 0 && n > 0 && i < l[0].n_addresses; i++)
                r = add_ip(j, t->network, l[0].addresses[i].address) < 0 ? error_oom(e) : 0;
        network_report_free(l, n);
        return r;
}

static int add_namespaces(CriJob *j, const SandboxConfig *c, Status *t, Error *e)
{
        t->linux = cri_message(&j->memory, &runtime__v1__linux_pod_sandbox_status__descriptor);
        if (!t->linux ||
            !(t->linux->namespaces = cri_message(&j->memory, &runtime__v1__namespace__descriptor)))
                return error_oom(e);
        t->linux->namespaces->options = c->linux && c->linux->security_context
                                                        ? c->linux->security_context->namespace_options
                                                        : NULL;
        if (!t->linux->namespaces->options)
                t->linux->namespaces->options =
                                cri_message(&j->memory, &runtime__v1__namespace_option__descriptor);
        return t->linux->namespaces->options ? 0 : error_oom(e);
}

/* As the path of the network's namespace: that which outlives the processes of the pod, if it has one. */
static json_object *json_of_metadata(const Sandbox *s, const Status *t)
{
        _cleanup_json_ json_object *o = json_object_new_object(), *versioned = NULL;
        _cleanup_free_ char *path = NULL;

        if (s->pod->config.net == NET_NETWORKS)
                (void) network_namespace_path(s->pod, &path);
        if (!o || json_member_add_text(o, "ID", s->id) < 0 ||
            json_member_add_text(o, "NetNSPath", path ?: "") < 0 ||
            json_member_add_text(o, "IP", t->network->ip) < 0 ||
            json_member_add_text(o, "RuntimeHandler", s->handler) < 0)
                return NULL;
        versioned = json_new_text_member("Version", "v1");
        return versioned && json_member_add(versioned, "Metadata", TAKE_PTR(o)) >= 0 ? TAKE_PTR(versioned)
                                                                                     : NULL;
}

static json_object *json_of_spec(const Sandbox *s, pid_t pid)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *cgroup = NULL;

        if (pid > 0)
                (void) pod_cgroup_unified(s->pod, &cgroup);
        return o && json_member_add_text(o, "hostname", s->config->hostname) >= 0 &&
                                               json_member_add(o, "linux", cri_json_linux(cgroup, pid)) >= 0
                               ? TAKE_PTR(o)
                               : NULL;
}

/* As JSON: the pod, for the commands of acnspawn, and what tools look for by the names of containerd. */
static int add_info(CriJob *j, const Sandbox *s, Runtime__V1__PodSandboxStatusResponse *answer, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        bool ready = sandbox_is_ready(s),
             fits = protobuf_c_message_get_packed_size(&s->config->base) <= CRI_JSON_CONFIG_MAX;
        PodRuntime runtime = {};

        pid_t pid = ready && pod_runtime_read(s->pod, &runtime) >= 0 ? runtime.leader : 0;
        if (!o || json_member_add_text(o, "pod", s->pod->uuid) < 0 ||
            json_member_add(o, "pid", json_object_new_int((int) pid)) < 0 ||
            json_member_add_text(o, "processStatus", ready ? "running" : "deleted") < 0 ||
            json_member_add(o, "netNamespaceClosed", json_object_new_boolean(!ready)) < 0 ||
            json_member_add_text(o, "runtimeType", CRI_RUNTIME_NAME) < 0 ||
            (fits && json_member_add(o, "config", cri_json(&s->config->base)) < 0) ||
            json_member_add(o, "runtimeSpec", json_of_spec(s, pid)) < 0 ||
            json_member_add(o, "sandboxMetadata", json_of_metadata(s, answer->status)) < 0)
                return error_oom(e);
        return cri_map_add(&j->memory, &answer->n_info, &answer->info,
                           &runtime__v1__pod_sandbox_status_response__info_entry__descriptor, "info",
                           json_print(o)) < 0
                               ? error_oom(e)
                               : 0;
}

/* All maps of text have the same layout, whatever message they are in. */
static int fill_status(CriJob *j, const Sandbox *s, Status *t, Error *e)
{
        const SandboxConfig *c = s->config;

        t->id = cri_strdup(&j->memory, s->id);
        t->metadata = c->metadata;
        t->state = state_of(s);
        t->created_at = (int64_t) s->pod->config.created_usec * NSEC_PER_USEC;
        t->n_labels = c->n_labels;
        t->labels = (void *) c->labels;
        t->n_annotations = c->n_annotations;
        t->annotations = (void *) c->annotations;
        t->runtime_handler = (char *) s->handler;
        if (!t->id)
                return error_oom(e);
        int r = add_network(j, s, t, e);
        return r < 0 ? r : add_namespaces(j, c, t, e);
}

int sandbox_status(CriJob *j, const Sandbox *s, Status **ret, Error *e)
{
        Status *t = cri_message(&j->memory, &runtime__v1__pod_sandbox_status__descriptor);
        int r = t ? fill_status(j, s, t, e) : error_oom(e);

        if (r >= 0)
                *ret = t;
        return r;
}

int cri_pod_sandbox_status(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__PodSandboxStatusRequest *q = request;
        Runtime__V1__PodSandboxStatusResponse *answer = reply;
        _cleanup_sandbox_ Sandbox s = {};

        int r = sandbox_find(j, q->pod_sandbox_id, &s, e);
        if (r < 0)
                return r;
        answer->timestamp = (int64_t) now_usec(CLOCK_REALTIME) * NSEC_PER_USEC;
        /* Containers first: reading their states may show that the pod has ended. */
        r = container_statuses(j, &s, &answer->containers_statuses, &answer->n_containers_statuses, e);
        if (r >= 0)
                r = sandbox_status(j, &s, &answer->status, e);
        return r < 0 || !q->verbose ? r : add_info(j, &s, answer, e);
}
