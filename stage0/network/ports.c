/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ports of the host that are forwarded to the pod (spec: pods.md, "ports").
 *
 * Plugins with the capability "portMappings" do it, by rules of the packet filter that take precedence over
 * sockets that listen on the host, and conflicts between them are not detected. So the ports are reserved
 * here: a socket that is bound to the host's port, and does not listen, blocks the port for other processes,
 * fails if the port is in use, and is closed however this process ends.
 */

#include <arpa/inet.h>
#include <sys/socket.h>

#include "stage0/network/network-internal.h"

#define PORTS_MAX 4096U /* of the host, per pod */

const char *port_mapping_protocol(const PortMapping *q)
{
        return q->udp ? "udp" : q->sctp ? "sctp" : "tcp";
}

void port_mapping_done(PortMapping *q)
{
        free(q->name);
        free(q->host_ip);
        *q = (PortMapping){};
}

void port_mappings_free(PortMapping *l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                port_mapping_done(&l[i]);
        free(l);
}

/* --- From the manifest --------------------------------------------------------------------------------- */

/* The port of an app that an exposed port refers to. That it is unique was checked before. */
static const Port *find_port(const PodManifest *m, const ExposedPort *x)
{
        if (x->pod_port)
                return x->pod_port;
        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t k = 0; m->apps[i]->app && k < m->apps[i]->app->n_ports; k++)
                        if (streq_ptr(m->apps[i]->app->ports[k].name, x->name))
                                return &m->apps[i]->app->ports[k];
        return NULL;
}

/* A port that is exposed by its number may be a named port of an app. */
static bool is_socket_activated(const PodManifest *m, const Port *p)
{
        if (p->socket_activated)
                return true;
        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t k = 0; m->apps[i]->app && k < m->apps[i]->app->n_ports; k++) {
                        const Port *own = &m->apps[i]->app->ports[k];

                        if (own->socket_activated && own->port == p->port &&
                            streq_ptr(own->protocol, p->protocol))
                                return true;
                }
        return false;
}

static int check_mapping(const PortMapping *q, const char *protocol, Error *e)
{
        struct in6_addr buffer;

        if (!streq(protocol, port_mapping_protocol(q)))
                return error_set(e, -EINVAL,
                                 "Port '%s' cannot be exposed: its protocol is '%s', not tcp, udp or sctp",
                                 q->name, protocol);
        if (q->host_port == 0 || q->port == 0 || q->host_port + q->count - 1 > UINT16_MAX ||
            q->port + q->count - 1 > UINT16_MAX)
                return error_set(e, -EINVAL,
                                 "Port '%s' cannot be exposed: %u ports from %u of the pod and from %u of "
                                 "the host on do not lie between 1 and 65535",
                                 q->name, q->count, q->port, q->host_port);
        if (q->host_ip && inet_pton(AF_INET, q->host_ip, &buffer) != 1 &&
            inet_pton(AF_INET6, q->host_ip, &buffer) != 1)
                return error_set(e, -EINVAL, "Port '%s' cannot be exposed: '%s' is not an IP address",
                                 q->name, q->host_ip);
        return 0;
}

/* Returns the canonical form of an address, as addresses are compared as strings. IPv4 addresses in the form of IPv6 ones
 * (::ffff:192.0.2.1) are IPv4 addresses: so plugins understand them. */
static char *one_form_of(const char *ip)
{
        char text[INET6_ADDRSTRLEN];
        struct in6_addr six;

        if (inet_pton(AF_INET6, ip, &six) != 1)
                return strdup(ip);
        bool mapped = IN6_IS_ADDR_V4MAPPED(&six);
        return inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? &six.s6_addr[12] : six.s6_addr, text,
                         sizeof(text))
                               ? strdup(text)
                               : NULL;
}

static int fill_mapping(const PodManifest *m, const ExposedPort *x, PortMapping *q, Error *e)
{
        const Port *p = find_port(m, x);

        if (!p)
                return error_set(e, -ENOENT,
                                 "The port '%s' cannot be exposed: no app has a port of that name", x->name);
        *q = (PortMapping){.udp = streq_ptr(p->protocol, "udp"),
                           .sctp = streq_ptr(p->protocol, "sctp"),
                           .socket_activated = is_socket_activated(m, p),
                           .host_port = x->host_port,
                           .port = p->port,
                           .count = MAX(p->count, 1U)};
        q->name = strdup(x->name ?: p->name ?: "");
        if (!isempty(x->host_ip))
                q->host_ip = one_form_of(x->host_ip);
        if (!q->name || (!isempty(x->host_ip) && !q->host_ip))
                return error_oom(e);
        if (q->count > UINT16_MAX)
                q->count = UINT16_MAX; /* which is too many in any case */
        return check_mapping(q, p->protocol ?: "", e);
}

bool port_mapping_is_ipv6(const PortMapping *q)
{
        return q->host_ip && strchr(q->host_ip, ':');
}

static bool is_any(const char *ip)
{
        return streq(ip, "0.0.0.0") || streq(ip, "::");
}

/* No address stands for those of both families, "0.0.0.0" and "::" for those of one. */
static bool addresses_overlap(const PortMapping *a, const PortMapping *b)
{
        if (!a->host_ip || !b->host_ip)
                return true;
        if (port_mapping_is_ipv6(a) != port_mapping_is_ipv6(b))
                return false;
        return is_any(a->host_ip) || is_any(b->host_ip) || streq(a->host_ip, b->host_ip);
}

bool port_mappings_overlap(const PortMapping *a, const PortMapping *b)
{
        return a->udp == b->udp && a->sctp == b->sctp && a->host_port < b->host_port + b->count &&
               b->host_port < a->host_port + a->count && addresses_overlap(a, b);
}

static int check_all(const PortMapping *l, size_t n, Error *e)
{
        size_t sum = 0;

        for (size_t i = 0; i < n; i++) {
                sum += l[i].count;
                for (size_t k = 0; k < i; k++)
                        if (port_mappings_overlap(&l[i], &l[k]))
                                return error_set(e, -EINVAL,
                                                 "Ports '%s' and '%s' are both exposed as port %u of "
                                                 "the host",
                                                 l[k].name, l[i].name, MAX(l[i].host_port, l[k].host_port));
        }
        if (sum > PORTS_MAX)
                return error_set(e, -E2BIG, "The pod exposes %zu ports, more than the maximum of %u", sum,
                                 PORTS_MAX);
        return 0;
}

int port_mappings_new(const PodManifest *m, PortMapping **ret, size_t *ret_n, Error *e)
{
        PortMapping *l = calloc(m->n_ports + 1, sizeof(PortMapping));
        size_t n = 0;
        int r = l ? 0 : error_oom(e);

        while (r >= 0 && n < m->n_ports) {
                r = fill_mapping(m, &m->ports[n], &l[n], e);
                n++;
        }
        if (r >= 0)
                r = check_all(l, n, e);
        if (r < 0) {
                port_mappings_free(l, l ? n : 0);
                return r;
        }
        *ret = l;
        *ret_n = n;
        return 0;
}

/* --- Other pods ---------------------------------------------------------------------------------------- */

static int refuse_taken(const Pod *other, const PortMapping *a, Error *e)
{
        int r = error_set(e, -EADDRINUSE, "Port %u/%s of the host is in use by pod %s%s%s%s", a->host_port,
                          port_mapping_protocol(a), other->uuid, other->config.name ? " (" : "",
                          other->config.name ?: "", other->config.name ? ")" : "");
        return error_hint(e, r, "Stop that pod, or expose '%s' as another port.", a->name);
}

static int check_pod(const Pod *other, const PortMapping *l, size_t n, Error *e)
{
        _cleanup_(network_record_done) NetworkRecord record = {};

        if (network_record_read(other, &record, NULL) < 0)
                return 0;
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < record.n_ports; k++)
                        if (port_mappings_overlap(&l[i], &record.ports[k]))
                                return refuse_taken(other, &l[i], e);
        return 0;
}

int port_mappings_check_pods(const Pod *p, const PortMapping *l, size_t n, Error *e)
{
        Pod **pods = NULL;
        size_t n_pods = 0;

        if (n == 0)
                return 0;
        int r = pod_list(p->store, &pods, &n_pods, e);
        if (r < 0)
                return r;
        for (size_t i = 0; r >= 0 && i < n_pods; i++)
                if (pods[i]->state == POD_RUNNING && !streq(pods[i]->uuid, p->uuid))
                        r = check_pod(pods[i], l, n, e);
        pod_list_free(pods, n_pods);
        return r;
}

/* --- Reserving them ------------------------------------------------------------------------------------ */

typedef union Address {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
} Address;

/* IP NULL: every address of the family. */
static int make_address(int family, const char *ip, uint32_t port, Address *ret)
{
        *ret = (Address){};
        ret->any.sa_family = (sa_family_t) family;
        if (family == AF_INET6) {
                ret->in6.sin6_port = htons((uint16_t) port);
                return !ip || inet_pton(AF_INET6, ip, &ret->in6.sin6_addr) == 1 ? 0 : -EINVAL;
        }
        ret->in.sin_port = htons((uint16_t) port);
        return !ip || inet_pton(AF_INET, ip, &ret->in.sin_addr) == 1 ? 0 : -EINVAL;
}

/* Connections of TCP in TIME_WAIT do not block the port. With other protocols SO_REUSEADDR would take the port from a
 * process that has set it, too. Later attempts to bind it must still be refused. */
static int bind_port(int fd, const Address *a, bool tcp)
{
        socklen_t size = a->any.sa_family == AF_INET6 ? sizeof(a->in6) : sizeof(a->in);
        int on = 1, off = 0;

        if (bind(fd, &a->any, size) >= 0)
                return 0;
        if (errno != EADDRINUSE || !tcp || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
                return -errno;
        int r = bind(fd, &a->any, size) < 0 ? -errno : 0;
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
        return r;
}

static int take_port(int family, const PortMapping *q, const char *ip, uint32_t port)
{
        _cleanup_close_ int fd = -EBADF;
        int one = 1;
        Address a;

        int r = make_address(family, ip, port, &a);
        if (r < 0)
                return r;
        fd = socket(family, (q->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, q->sctp ? IPPROTO_SCTP : 0);
        if (fd < 0)
                return -errno;
        if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0)
                return -errno;
        r = bind_port(fd, &a, !q->udp && !q->sctp);
        return r < 0 ? r : TAKE_FD(fd);
}

static int cannot_take(const PortMapping *q, uint32_t port, int code, Error *e)
{
        const char *protocol = port_mapping_protocol(q);

        if (code == -EADDRINUSE) {
                int r = error_set(e, code, "Port %u/%s of the host is in use by another process", port,
                                  protocol);
                return error_hint(e, r,
                                  "To find it: ss -Hlnp%s 'sport = :%u'; or expose '%s' as another "
                                  "port.",
                                  q->udp    ? "u"
                                  : q->sctp ? "S"
                                            : "t",
                                  port, q->name);
        }
        if (code == -EPROTONOSUPPORT && q->sctp) {
                int r = error_set(e, code,
                                  "Port '%s' cannot be exposed: the kernel of this host has no SCTP",
                                  q->name);
                return error_hint(e, r, "Load the module: modprobe sctp.");
        }
        if (code == -EAFNOSUPPORT && port_mapping_is_ipv6(q)) {
                int r = error_set(
                                e, code,
                                "Port '%s' cannot be exposed: the host has no IPv6, of which %s is an address",
                                q->name, q->host_ip);
                return error_hint(e, r, "Name an IPv4 address, or none.");
        }
        if (code == -EADDRNOTAVAIL)
                return error_set(e, code, "Port '%s' cannot be exposed: the host has no address %s", q->name,
                                 q->host_ip ?: "0.0.0.0");
        return error_set_errno(e, code, "Cannot reserve port %u/%s of the host", port, protocol);
}

/* Without an address both families are reserved. The host may not support IPv6. */
static int reserve_one(const PortMapping *q, uint32_t port, int *fds, size_t *n, Error *e)
{
        int family = port_mapping_is_ipv6(q) ? AF_INET6 : AF_INET;
        int fd = take_port(family, q, q->host_ip, port);

        if (fd < 0)
                return cannot_take(q, port, fd, e);
        fds[(*n)++] = fd;
        fd = q->host_ip ? -EBADF : take_port(AF_INET6, q, NULL, port);
        if (fd == -EADDRINUSE)
                return cannot_take(q, port, fd, e);
        if (fd >= 0)
                fds[(*n)++] = fd;
        return 0;
}

int port_mappings_reserve(const PortMapping *l, size_t n, int **ret, size_t *ret_n, Error *e)
{
        size_t n_fds = 0, sum = 0;
        int r = 0;

        for (size_t i = 0; i < n; i++)
                sum += l[i].count;
        _cleanup_free_ int *fds = calloc(2 * sum + 1, sizeof(int));
        if (!fds)
                return error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                for (uint32_t k = 0; r >= 0 && k < l[i].count; k++)
                        r = reserve_one(&l[i], l[i].host_port + k, fds, &n_fds, e);
        if (r < 0) {
                for (size_t i = 0; i < n_fds; i++)
                        safe_close(fds[i]);
                return r;
        }
        *ret = TAKE_PTR(fds);
        *ret_n = n_fds;
        return 0;
}

/* --- After plugins have run ---------------------------------------------------------------------------- */

static bool has_family(const NetworkReport *l, bool ipv6)
{
        for (size_t i = 0; i < l->n_addresses; i++)
                if ((strchr(l->addresses[i].address, ':') != NULL) == ipv6)
                        return true;
        return false;
}

int port_mappings_check_families(const PortMapping *l, size_t n, const Attachment *a, Error *e)
{
        NetworkReport *report = calloc(1, sizeof(NetworkReport));
        int r = report ? cni_result_parse(a->result, a->interface, report, e) : error_oom(e);

        for (size_t i = 0; r >= 0 && i < n; i++) {
                bool ipv6 = port_mapping_is_ipv6(&l[i]);

                if (!l[i].host_ip || has_family(report, ipv6))
                        continue;
                r = error_set(e, -EADDRNOTAVAIL,
                              "Port '%s' cannot be exposed on %s: the network '%s' gives the pod no %s address%s%s%s",
                              l[i].name, l[i].host_ip, a->network, ipv6 ? "IPv6" : "IPv4",
                              a->note ? " (" : "", a->note ?: "", a->note ? ")" : "");
                r = error_hint(e, r, "Name an %s address, or none.", ipv6 ? "IPv4" : "IPv6");
        }
        network_report_free(report, report ? 1 : 0);
        return r;
}

/* --- For plugins --------------------------------------------------------------------------------------- */

static int add_mapping(json_object *l, const PortMapping *q, uint32_t k)
{
        json_object *o = json_object_new_object();
        bool failed = false;

        failed |= json_member_add(o, "hostPort", json_object_new_int64(q->host_port + k)) < 0;
        failed |= json_member_add(o, "containerPort", json_object_new_int64(q->port + k)) < 0;
        failed |= json_member_add(o, "protocol", json_object_new_string(port_mapping_protocol(q))) < 0;
        if (q->host_ip)
                failed |= json_member_add(o, "hostIP", json_object_new_string(q->host_ip)) < 0;
        if (!failed)
                return json_list_append(l, o);
        json_object_put(o);
        return -ENOMEM;
}

json_object *port_mappings_runtime(const PortMapping *l, size_t n)
{
        _cleanup_json_ json_object *list = json_object_new_array();
        int r = list ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < n; i++)
                for (uint32_t k = 0; r >= 0 && k < l[i].count; k++)
                        r = add_mapping(list, &l[i], k);
        return r < 0 ? NULL : TAKE_PTR(list);
}
