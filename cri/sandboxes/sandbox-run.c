/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* RunPodSandbox: a pod without apps, that is up with its networks and kernel parameters when the call returns.
 *
 * If the call fails, or is cancelled, it removes the pod. If it is killed, the pod stays in the list and keeps its name
 * until the client removes it, or requests the same sandbox again. */

#include <unistd.h>

#include "cri/events/events.h"

#define START_WAIT_USEC UINT64_C(90000000)
#define UNDO_USEC UINT64_C(60000000) /* then nothing is begun any more */
#define UNDO_PAUSE_MSEC 50
#define PORT_MAX 65535

typedef Runtime__V1__NamespaceOption NamespaceOption;

static const NamespaceOption *namespaces_of(const SandboxConfig *c)
{
        return c->linux && c->linux->security_context ? c->linux->security_context->namespace_options : NULL;
}

/* --- Checks -------------------------------------------------------------------------------------------- */

static int refuse(const char *field, const char *why, Error *e)
{
        return error_set(e, -EINVAL, "The field '%s' of the request is not supported %s", field, why);
}

static int check_namespaces(const NamespaceOption *o, Error *e)
{
        static const char prefix[] = "linux.security_context.namespace_options.";
        const struct {
                const char *name;
                int mode;
        } modes[] = {{"network", o->network}, {"pid", o->pid}, {"ipc", o->ipc}};

        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                char field[80];
                snprintf(field, sizeof(field), "%s%s", prefix, modes[i].name);
                if (modes[i].mode == RUNTIME__V1__NAMESPACE_MODE__TARGET)
                        return refuse(field, "with the value TARGET", e);
        }
        if ((o->pid == RUNTIME__V1__NAMESPACE_MODE__NODE || o->ipc == RUNTIME__V1__NAMESPACE_MODE__NODE) &&
            o->userns_options && o->userns_options->mode != RUNTIME__V1__NAMESPACE_MODE__NODE)
                return refuse("linux.security_context.namespace_options.userns_options",
                              "in the pid or ipc namespace of the host", e);
        return 0;
}

static int check(CriJob *j, const Runtime__V1__RunPodSandboxRequest *q, Error *e)
{
        if (!q->config || !q->config->metadata || isempty(q->config->metadata->name))
                return error_set(e, -EINVAL, "The request has no config with metadata and a name");
        if (!isempty(q->runtime_handler) && !streq(q->runtime_handler, CRI_RUNTIME_NAME))
                return cri_status(j, GRPC_NOT_FOUND,
                                  error_set(e, -ENOENT, "There is no runtime handler '%s'",
                                            q->runtime_handler));
        int r = cri_check_fields(&q->config->base, cri_sandbox_fields, e);
        return r < 0 || !namespaces_of(q->config) ? r : check_namespaces(namespaces_of(q->config), e);
}

/* --- The request of the pod ---------------------------------------------------------------------------- */

static int set_list(PodArguments *a, const char *option, const char *field, char **values, size_t n,
                    Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = cri_set_option(pod_options, a, option, field, values[i], e);
        return r;
}

/* Without a name server of its own the pod has those of the host, as with other runtimes. */
static int set_dns(PodArguments *a, const Runtime__V1__DNSConfig *d, Error *e)
{
        if (!d || d->n_servers == 0) {
                int r = cri_set_option(pod_options, a, "dns", "dns_config.servers", "host", e);
                if (r < 0 || !d)
                        return r;
        }
        int r = set_list(a, "dns", "dns_config.servers", d->servers, d->n_servers, e);
        if (r >= 0)
                r = set_list(a, "dns-search", "dns_config.searches", d->searches, d->n_searches, e);
        return r < 0 ? r : set_list(a, "dns-option", "dns_config.options", d->options, d->n_options, e);
}

/* Mappings without a port of the host only describe. */
static int set_port(CriJob *j, PodArguments *a, const Runtime__V1__PortMapping *p, Error *e)
{
        static const char *const protocols[] = {[RUNTIME__V1__PROTOCOL__TCP] = "tcp",
                                                [RUNTIME__V1__PROTOCOL__UDP] = "udp",
                                                [RUNTIME__V1__PROTOCOL__SCTP] = "sctp"};
        bool v6 = strchr(p->host_ip, ':') != NULL;

        if (p->host_port == 0)
                return 0;
        if (p->host_port < 0 || p->host_port > PORT_MAX || p->container_port < 1 ||
            p->container_port > PORT_MAX)
                return error_set(e, -EINVAL, "'port_mappings' has %d and %d, which are not both ports",
                                 p->host_port, p->container_port);
        if ((size_t) p->protocol >= ELEMENTSOF(protocols))
                return refuse("port_mappings.protocol", "with this value", e);
        char *value = cri_printf(&j->memory, "%s%s%s%s%d:%d/%s", v6 ? "[" : "", p->host_ip, v6 ? "]" : "",
                                 *p->host_ip ? ":" : "", p->host_port, p->container_port,
                                 protocols[p->protocol]);
        return value ? cri_set_option(pod_options, a, "port", "port_mappings", value, e) : error_oom(e);
}

/* The first network that is configured is that of pods. */
static int set_network(CriJob *j, PodArguments *a, const SandboxConfig *c, Error *e)
{
        const NamespaceOption *o = namespaces_of(c);
        _cleanup_free_ char *name = NULL;

        if (o && o->network == RUNTIME__V1__NAMESPACE_MODE__NODE) {
                a->options.net = NET_HOST;
                return 0;
        }
        int r = sandbox_network_options(j, &a->options, &name, e);
        if (r >= 0)
                r = cri_set_option(pod_options, a, "net", "network", name, e);
        for (size_t i = 0; r >= 0 && i < c->n_port_mappings; i++)
                r = set_port(j, a, c->port_mappings[i], e);
        return r;
}

static int set_sysctls(CriJob *j, PodArguments *a, const SandboxConfig *c, Error *e)
{
        for (size_t i = 0; c->linux && i < c->linux->n_sysctls; i++) {
                char *value = cri_printf(&j->memory, "%s=%s", c->linux->sysctls[i]->key,
                                         c->linux->sysctls[i]->value);
                int r = value ? cri_set_option(pod_options, a, "sysctl", "linux.sysctls", value, e)
                              : error_oom(e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* In the host's network it is the host's. */
static int set_hostname(CriJob *j, PodArguments *a, const SandboxConfig *c, Error *e)
{
        char host[HOST_NAME_MAX + 1] = "";
        char *name = c->hostname;

        if (isempty(name) && a->options.net == NET_HOST && gethostname(host, sizeof(host) - 1) >= 0)
                name = cri_strdup(&j->memory, host);
        return isempty(name) ? 0 : cri_set_option(pod_options, a, "hostname", "hostname", name, e);
}

/* What the pod can give its containers: they have less. */
static int set_capabilities(PodArguments *a, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_free_ char *list = NULL;

        for (size_t i = 0; i < CRI_N_CAPABILITIES; i++)
                if (strv_extend(&names, cri_capabilities[i].name) < 0)
                        return error_oom(e);
        list = strv_join(names, ",");
        return list ? cri_set_option(pod_options, a, "caps-retain", "capabilities", list, e) : error_oom(e);
}

static int fill(CriJob *j, const SandboxConfig *c, PodArguments *a, Error *e)
{
        int r = set_network(j, a, c, e);

        a->options.exit_policy = EXIT_NEVER;
        a->options.owner = CRI_OWNER;
        a->options.host_pid = namespaces_of(c) && namespaces_of(c)->pid == RUNTIME__V1__NAMESPACE_MODE__NODE;
        a->options.host_ipc = namespaces_of(c) && namespaces_of(c)->ipc == RUNTIME__V1__NAMESPACE_MODE__NODE;
        if (c->linux && !isempty(c->linux->cgroup_parent))
                a->options.cgroup_parent = c->linux->cgroup_parent;
        if (r >= 0)
                r = sandbox_users(c, &a->options, e);
        if (r >= 0)
                r = set_dns(a, c->dns_config, e);
        if (r >= 0)
                r = set_sysctls(j, a, c, e);
        if (r >= 0)
                r = set_hostname(j, a, c, e);
        return r < 0 ? r : set_capabilities(a, e);
}

/* --- Running ------------------------------------------------------------------------------------------- */

static int prepare(CriJob *j, const Runtime__V1__RunPodSandboxRequest *q, PodArguments *a, Pod **ret,
                   Error *e)
{
        size_t size = protobuf_c_message_get_packed_size(&q->base);
        _cleanup_strv_free_ char **warnings = NULL;
        _cleanup_free_ char *name = NULL;
        uint8_t *data = cri_alloc(&j->memory, size);

        if (!data || cri_pod_name(q->config->metadata, &name) < 0)
                return error_oom(e);
        a->options.owner_data = (OwnerData){.data = data, .size = protobuf_c_message_pack(&q->base, data)};
        a->options.name = name;
        a->options.no_metadata = true;
        int r = prepare_pod(j->store, &a->request, &a->options, ret, &warnings, e);
        a->options.name = NULL;
        STRV_FOREACH (w, warnings)
                operation_message(store_operation(j->store), LOG_LEVEL_DEBUG, "Sandbox %s: %s",
                                  q->config->metadata->name, *w);
        if (r != -EEXIST)
                return r;
        return cri_status(
                        j, GRPC_ALREADY_EXISTS,
                        error_set(e, r,
                                  "There is a sandbox of name '%s', namespace '%s', UID '%s' and attempt %u",
                                  q->config->metadata->name, q->config->metadata->namespace_,
                                  q->config->metadata->uid, q->config->metadata->attempt));
}

/* If the call fails, removes dead sandboxes, which may hold its name or users, and tries again. */
static int prepare_anew(CriJob *j, const Runtime__V1__RunPodSandboxRequest *q, PodArguments *a, Pod **ret,
                        Error *e)
{
        int r = prepare(j, q, a, ret, e);

        if (r >= 0 || r == -EINVAL || operation_ended(r) || !sandbox_clear_dead(j))
                return r;
        error_done(e);
        j->status = GRPC_OK;
        return prepare(j, q, a, ret, e);
}

/* The pod has no containers that would have to be stopped in order, so it is killed. */
static int remove_pod(Store *s, const char *uuid)
{
        _cleanup_(pod_freep) Pod *running = NULL, *p = NULL;

        int r = pod_open(s, uuid, &running, NULL);
        if (r >= 0 && running->state == POD_RUNNING)
                r = stop_pod(running, 0, NULL);
        if (r >= 0)
                r = operation_check(store_operation(s), NULL);
        if (r >= 0)
                r = pod_open(s, uuid, &p, NULL);
        return r < 0 ? r : discard_pod(p, NULL);
}

/* Does not use the operation of the call, which may be cancelled. The supervisor may be about to start: it holds the lock of
 * a prepared pod (-EBUSY), or has no interface yet (-EAGAIN). One that does not answer at all is left to RemovePodSandbox; so are networks whose
 * plugins have hung for that long. A plugin that is called before takes its own time. */
static void undo(CriJob *j, const char *uuid)
{
        const OperationOptions options = {.deadline_usec = now_usec(CLOCK_MONOTONIC) + UNDO_USEC};
        _cleanup_(operation_freep) Operation *o = NULL;
        _cleanup_(store_unrefp) Store *s = NULL;

        if (operation_new(&options, &o) < 0 || store_open_again(j->store, o, &s, NULL) < 0)
                return;
        for (;;) {
                int r = remove_pod(s, uuid);
                if ((r != -EBUSY && r != -EAGAIN) || operation_poll(o, -1, 0, UNDO_PAUSE_MSEC, NULL) < 0)
                        return;
        }
}

/* Frees P. */
static int run(CriJob *j, Pod *p, const PodArguments *a, Error *e)
{
        const RunOptions o = {.detach = true,
                              .config_dirs = a->options.config_dirs,
                              .ready_timeout_usec = UINT64_MAX,
                              .start_wait_usec = START_WAIT_USEC};
        char uuid[UUID_TEXT_SIZE];
        bool left = false;

        snprintf(uuid, sizeof(uuid), "%s", p->uuid);
        int r = run_pod(p, &o, &left, e);
        pod_free(p);
        if (r == 0 && (r = operation_check(store_operation(j->store), e)) >= 0)
                return 0;
        undo(j, uuid);
        return r < 0 ? r : error_set(e, -EIO, "The pod of the sandbox has ended at once");
}

int cri_run_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__RunPodSandboxRequest *q = request;
        Runtime__V1__RunPodSandboxResponse *answer = reply;
        _cleanup_pod_arguments_ PodArguments a;
        char id[CRI_ID_SIZE], uuid[UUID_TEXT_SIZE];
        Pod *p = NULL;

        pod_arguments_init(&a);
        int r = check(j, q, e);
        if (r >= 0)
                r = fill(j, q->config, &a, e);
        if (r >= 0)
                r = prepare_anew(j, q, &a, &p, e);
        if (r < 0)
                return r;
        snprintf(uuid, sizeof(uuid), "%s", p->uuid);
        r = run(j, p, &a, e);
        if (r >= 0)
                r = cri_sandbox_id(uuid, q->config->metadata, id);
        if (r < 0)
                return r;
        cri_event_note(j, CRI_NOTE_UP, uuid, id);
        answer->pod_sandbox_id = cri_strdup(&j->memory, id);
        return answer->pod_sandbox_id ? 0 : error_oom(e);
}
