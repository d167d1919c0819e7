/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sets up the networks of a pod, before its first process.
 *
 * Leftovers of pods that were killed are removed first, as they may conflict; the ports of the host are
 * reserved; the record is written, the namespace created, and then for each network the record is updated,
 * the plugins' ADD run, and the record updated with the result. After the pod's last process network-down.c
 * undoes the operations in the record.
 */

#include "config.h"
#include "stage0/network/network-internal.h"

struct PodNetwork {
        int *ports;
        size_t n_ports;
        int mount_ns_fd;
};

PodNetwork *pod_network_free(PodNetwork *n)
{
        if (!n)
                return NULL;
        for (size_t i = 0; i < n->n_ports; i++)
                safe_close(n->ports[i]);
        free(n->ports);
        safe_close(n->mount_ns_fd);
        free(n);
        return NULL;
}

int network_namespace_path(const Pod *p, char **ret)
{
        return xasprintf(ret, NETWORK_NETNS_DIRECTORY "/%s", p->uuid);
}

/* --- The request of the pod ---------------------------------------------------------------------------- */

typedef struct Wanted {
        NetworkRequest request;
        CniNetwork *network;
} Wanted;

typedef struct WantedList {
        Wanted items[NETWORKS_MAX];
        size_t n;
        const ServedPort *served;
        size_t n_served;
} WantedList;

static void wanted_done(WantedList *l)
{
        for (size_t i = 0; i < l->n; i++) {
                network_request_done(&l->items[i].request);
                cni_network_free(l->items[i].network);
        }
        l->n = 0;
}

static int find_wanted(const Pod *p, const char *const *config_dirs, WantedList *l, Error *e)
{
        _cleanup_strv_free_ char **directories = NULL;

        if (cni_config_directories(config_dirs, &directories) < 0)
                return error_oom(e);
        STRV_FOREACH (s, p->config.networks) {
                if (l->n >= NETWORKS_MAX)
                        return error_set(e, -E2BIG, "A pod can be in no more than %u networks",
                                         NETWORKS_MAX);
                Wanted *w = &l->items[l->n++];
                *w = (Wanted){};
                int r = network_request_parse(*s, &w->request, e);
                if (r >= 0)
                        r = cni_network_find(directories, w->request.name, &w->network, e);
                const char *why = r >= 0 && w->network->optional_ipv6 ? ipv6_obstacle() : NULL;
                if (why && cni_network_drop_ipv6(w->network, why) < 0)
                        r = error_oom(e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The network that maps ports: the first that supports it, or l->n. */
static size_t port_network(const WantedList *l)
{
        size_t i = 0;

        while (i < l->n && !cni_network_can(l->items[i].network, "portMappings"))
                i++;
        return i;
}

static int check_ports_can(const Pod *p, const WantedList *l, size_t n_ports, Error *e)
{
        if (n_ports == 0 || port_network(l) < l->n)
                return 0;
        int r = error_set(e, -EOPNOTSUPP,
                          "The ports of pod %s cannot be exposed: no plugin of its networks has "
                          "the capability \"portMappings\"",
                          pod_display_name(p));
        return error_hint(e, r, "The network 'default' has one.");
}

/* Removes the ports that need no plugin: those of SERVED, or all that a socket may be passed for. */
static size_t leave_out_served(PortMapping *l, size_t n, const ServedPort *served, size_t n_served, bool all)
{
        size_t left = 0;

        for (size_t i = 0; i < n; i++) {
                bool out = all && l[i].socket_activated;

                for (size_t k = 0; k < n_served; k++)
                        out |= l[i].socket_activated && l[i].udp == served[k].udp && !l[i].sctp &&
                               served[k].port >= l[i].host_port &&
                               served[k].port - l[i].host_port < l[i].count;
                if (!out) {
                        PortMapping kept = l[i];

                        l[i] = l[left];
                        l[left++] = kept;
                }
        }
        for (size_t i = left; i < n; i++)
                port_mapping_done(&l[i]);
        return left;
}

/* --- Checks -------------------------------------------------------------------------------------------- */

/* Ports served by passed sockets need no network. */
static int refuse_without_network(const Pod *p, const PortMapping *l, size_t n, Error *e)
{
        for (size_t i = 0; p->config.net == NET_NONE && i < n; i++) {
                if (l[i].socket_activated)
                        continue;
                int r = error_set(e, -ENETUNREACH,
                                  "Port '%s' cannot be exposed as port %u of the host: the pod has no "
                                  "network (--net=none)",
                                  l[i].name, l[i].host_port);
                return error_hint(e, r,
                                  "--net=default gives it one. Without a network a port can be served only "
                                  "if it is socket-activated, by a socket that 'acnspawn run' is started "
                                  "with.");
        }
        return 0;
}

static int warn_of_ports(const Pod *p, const PortMapping *l, size_t n, char ***warnings)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && p->config.net == NET_HOST && i < n; i++) {
                const PortMapping *q = &l[i];

                if (!q->socket_activated && (q->host_port != q->port || q->host_ip))
                        r = strv_extendf(warnings,
                                         "Port '%s' is not exposed as port %u%s%s: the pod has the host's "
                                         "network (--net=host), in which it is port %u itself",
                                         q->name, q->host_port, q->host_ip ? " of " : "", q->host_ip ?: "",
                                         q->port);
        }
        return r;
}

int network_check(const Pod *p, const char *const *config_dirs, char ***warnings, Error *e)
{
        _cleanup_(wanted_done) WantedList l = {};
        PortMapping *ports = NULL;
        size_t n = 0;

        int r = port_mappings_new(p->manifest, &ports, &n, e);
        if (r < 0)
                return r;
        r = refuse_without_network(p, ports, n, e);
        if (r >= 0 && warn_of_ports(p, ports, n, warnings) < 0)
                r = error_oom(e);
        n = leave_out_served(ports, n, NULL, 0, true);
        port_mappings_free(ports, n);
        if (r >= 0 && p->config.net == NET_NETWORKS)
                r = find_wanted(p, config_dirs, &l, e);
        return r < 0 || p->config.net != NET_NETWORKS ? r : check_ports_can(p, &l, n, e);
}

/* --- Up ------------------------------------------------------------------------------------------------ */

/* The settings of the pod, for the plugins that declare to support them. */
static int make_runtime(const Pod *p, const NetworkRequest *q, const NetworkRecord *record, bool with_ports,
                        json_object **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        uint64_t limit = network_bandwidth_limit(p->manifest);
        int r = o ? 0 : -ENOMEM;

        if (r >= 0 && with_ports && record->n_ports > 0)
                r = json_member_add(o, "portMappings",
                                    port_mappings_runtime(record->ports, record->n_ports));
        if (r >= 0 && limit != UINT64_MAX)
                r = json_member_add(o, "bandwidth", network_bandwidth_runtime(limit));
        if (r >= 0 && q->ips)
                r = json_member_add(o, "ips", json_new_string_list(q->ips));
        if (r >= 0 && q->mac)
                r = json_member_add(o, "mac", json_object_new_string(q->mac));
        if (r >= 0 && q->aliases)
                r = json_member_add(o, "aliases", json_new_string_list(q->aliases));
        if (r >= 0)
                *ret = TAKE_PTR(o);
        return r;
}

static int make_attachment(const Pod *p, const Wanted *w, const NetworkRecord *record, bool with_ports,
                           const CniTarget *t, Attachment *ret, Error *e)
{
        _cleanup_(attachment_done) Attachment a = {.network = strdup(w->network->name),
                                                   .args = strdup(w->request.args),
                                                   .published_only = w->network->published_only,
                                                   .plugins = json_object_get(w->network->plugins)};

        if (w->network->note && !(a.note = strdup(w->network->note)))
                return error_oom(e);
        if (!a.network || !a.args || xasprintf(&a.interface, "eth%zu", record->n_attachments) < 0 ||
            make_runtime(p, &w->request, record, with_ports, &a.runtime) < 0)
                return error_oom(e);
        int r = cni_check_programs(a.plugins, a.network, t->path, e);
        if (r >= 0)
                r = cni_choose_version(w->network, t, &a.version, e);
        if (r < 0)
                return r;
        *ret = a;
        a = (Attachment){};
        return 0;
}

/* The record has all operations before the first of them is done. */
static int make_record(const Pod *p, const WantedList *l, const CniTarget *t, NetworkRecord *record,
                       Error *e)
{
        size_t by = port_network(l);

        record->plugin_path = strdup(t->path);
        record->attachments = calloc(NETWORKS_MAX, sizeof(Attachment));
        if (!record->plugin_path || !record->attachments)
                return error_oom(e);
        int r = port_mappings_new(p->manifest, &record->ports, &record->n_ports, e);
        if (r >= 0) {
                record->n_ports = leave_out_served(record->ports, record->n_ports, l->served, l->n_served,
                                                   false);
                r = check_ports_can(p, l, record->n_ports, e);
        }
        for (size_t i = 0; r >= 0 && i < l->n; i++) {
                r = make_attachment(p, &l->items[i], record, i == by, t, &record->attachments[i], e);
                if (r >= 0)
                        record->n_attachments++;
        }
        return r;
}

static int attach_all(Pod *p, NetworkRecord *record, const CniTarget *t, Error *e)
{
        size_t n = record->n_attachments;
        int r = 0;

        /* Nothing is done before it is recorded. */
        for (size_t i = 0; r >= 0 && i < n; i++) {
                record->n_attachments = i + 1;
                r = network_record_write(p, record, e);
                if (r >= 0)
                        r = cni_attach(&record->attachments[i], t, e);
                if (r >= 0 && attachment_maps_ports(&record->attachments[i]))
                        r = port_mappings_check_families(record->ports, record->n_ports,
                                                         &record->attachments[i], e);
                if (r >= 0)
                        r = network_record_write(p, record, e);
        }
        record->n_attachments = n;
        return r;
}

static int attach_and_shield(Pod *p, NetworkRecord *record, const CniTarget *t, Error *e)
{
        pid_t pid = network_shield_sources_start(t->netns);
        int r = attach_all(p, record, t, e), k = network_shield_sources_finish(pid, record);

        if (r >= 0 && k < 0)
                return error_oom(e);
        return r >= 0 && k > 0 ? network_record_write(p, record, e) : r;
}

static int build(Pod *p, NetworkRecord *record, const CniTarget *t, Error *e)
{
        size_t n = record->n_attachments;

        record->n_attachments = 0;
        int r = network_record_write(p, record, e);
        record->n_attachments = n;
        if (r >= 0)
                r = network_namespace_make(t->netns, p->config.private_users, e);
        if (r >= 0 && network_shield(record) < 0)
                r = error_oom(e);
        if (r >= 0)
                r = network_forwarding_keep(p, e);
        if (r >= 0)
                r = attach_and_shield(p, record, t, e);
        if (r < 0)
                (void) network_down(p, NULL);
        return r < 0 ? error_prefix(e, r, "Cannot connect pod %s", pod_display_name(p)) : 0;
}

static int plugin_path(char **ret)
{
        const char *first = getenv("CNI_PATH");

        return isempty(first) ? xasprintf(ret, ACNSPAWN_PLUGIN_PATH)
                              : xasprintf(ret, "%s:" ACNSPAWN_PLUGIN_PATH, first);
}

static int reserve(Pod *p, const NetworkRecord *record, PodNetwork *n, Error *e)
{
        int r = port_mappings_check_pods(p, record->ports, record->n_ports, e);

        return r < 0 ? r : port_mappings_reserve(record->ports, record->n_ports, &n->ports, &n->n_ports, e);
}

/* Binding is fast; only if it fails the owner is looked up. */
static int try_ports(const Pod *p, const PortMapping *l, size_t n, Error *e)
{
        _cleanup_error_ Error by_pod = ERROR_NULL;
        PodNetwork *held = calloc(1, sizeof(PodNetwork));

        if (!held)
                return error_oom(e);
        held->mount_ns_fd = -EBADF;
        int r = port_mappings_reserve(l, n, &held->ports, &held->n_ports, e);
        pod_network_free(held);
        if (r == -EADDRINUSE && e && port_mappings_check_pods(p, l, n, &by_pod) < 0) {
                error_done(e);
                *e = by_pod;
                by_pod = ERROR_NULL;
        }
        return r;
}

int network_check_ports(const Pod *p, const ServedPort *served, size_t n_served, Error *e)
{
        PortMapping *l = NULL;
        size_t n = 0;

        if (p->config.net != NET_NETWORKS || !p->manifest)
                return 0;
        int r = port_mappings_new(p->manifest, &l, &n, e);
        if (r < 0)
                return r;
        n = leave_out_served(l, n, served, n_served, false);
        if (n > 0)
                r = try_ports(p, l, n, e);
        port_mappings_free(l, n);
        return r;
}

static int bring_up(Pod *p, const char *const *config_dirs, const ServedPort *served, size_t n_served,
                    const NetworkStop *stop, PodNetwork *n, Error *e)
{
        _cleanup_(network_record_done) NetworkRecord record = {};
        _cleanup_(wanted_done) WantedList wanted = {.served = served, .n_served = n_served};
        _cleanup_free_ char *netns = NULL, *path = NULL;

        if (network_namespace_path(p, &netns) < 0 || plugin_path(&path) < 0)
                return error_oom(e);
        CniTarget t = {.container = p->uuid,
                       .netns = netns,
                       .path = path,
                       .interruptible = true,
                       .stop = stop};
        int r = find_wanted(p, config_dirs, &wanted, e);
        if (r >= 0)
                r = make_record(p, &wanted, &t, &record, e);
        if (r < 0)
                return r;
        network_undo_dead_pods(p, stop);
        r = reserve(p, &record, n, e);
        return r < 0 ? r : build(p, &record, &t, e);
}

int network_up(Pod *p, const char *const *config_dirs, const ServedPort *served, size_t n_served,
               const NetworkStop *stop, PodNetwork **ret, Error *e)
{
        _cleanup_(pod_network_freep) PodNetwork *n = NULL;

        if (p->config.net != NET_NETWORKS) {
                *ret = NULL;
                return 0;
        }
        n = calloc(1, sizeof(PodNetwork));
        if (!n)
                return error_oom(e);
        n->mount_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (n->mount_ns_fd < 0)
                return error_set_errno(e, -errno, "Cannot open our mount namespace");
        int r = bring_up(p, config_dirs, served, n_served, stop, n, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(n);
        return 0;
}

int pod_network_return(PodNetwork *n)
{
        return n ? mount_namespace_enter(n->mount_ns_fd) : 0;
}
