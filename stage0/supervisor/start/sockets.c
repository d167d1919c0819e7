/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets by which apps of the pod are started.
 *
 * For ports that were passed no socket, sockets are opened here, in the pod's network: before the pod starts, so that
 * a port that is in use is an error of the start, and connections during the start wait. A pod without networks has
 * its network once its PID 1 is there. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stage0/host/socket-filter.h"
#include "stage0/supervisor/run-internal.h"

int pod_sockets_served(const PodSockets *s, ServedPort **ret, size_t *ret_n)
{
        ServedPort *l = calloc(s ? s->n + 1 : 1, sizeof(ServedPort));
        size_t n = 0;

        if (!l)
                return -ENOMEM;
        for (size_t i = 0; s && i < s->n; i++)
                if (s->items[i].port > 0)
                        l[n++] = (ServedPort){.udp = s->items[i].udp, .port = s->items[i].port};
        *ret = l;
        *ret_n = n;
        return 0;
}

/* --- Sockets that were not passed ---------------------------------------------------------------------- */

static int bind_one(int fd, int family, const char *ip, uint32_t port)
{
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t) port)};
        int only = ip != NULL; /* "::" is every address of IPv6, and none of IPv4 */

        if (family == AF_INET) {
                if (ip && inet_pton(AF_INET, ip, &in.sin_addr) != 1)
                        return -EINVAL;
                return bind(fd, (struct sockaddr *) &in, sizeof(in)) < 0 ? -errno : 0;
        }
        if (ip && inet_pton(AF_INET6, ip, &in6.sin6_addr) != 1)
                return -EINVAL;
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)) < 0 ||
            bind(fd, (struct sockaddr *) &in6, sizeof(in6)) < 0)
                return -errno;
        return 0;
}

/* Where sockets of ours are. */
typedef struct Place {
        const Pod *pod;
        pid_t leader;
} Place;

static int listen_in_pod(const Place *place, int family, bool udp, const char *ip, uint32_t port)
{
        _cleanup_close_ int fd =
                        network_socket(place->pod, place->leader, family, udp ? SOCK_DGRAM : SOCK_STREAM);
        int one = 1;

        if (fd < 0)
                return fd;
        /* Connections in TIME_WAIT do not prevent a new socket. */
        if (!udp && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
                return -errno;
        int r = bind_one(fd, family, ip, port);
        if (r >= 0 && !udp && listen(fd, 4096) < 0)
                r = -errno;
        return r < 0 ? r : TAKE_FD(fd);
}

static int add(PodSockets *s, PassedSocket *x, size_t target, Error *e)
{
        int r = pod_sockets_add(s, x, target);

        passed_socket_done(x);
        return r < 0 ? error_oom(e) : 0;
}

static int open_one(const Place *place, PodSockets *s, size_t target, const char *ip, uint32_t port,
                    Error *e)
{
        const SocketTarget *t = &s->targets[target];
        bool udp = streq(t->port->protocol, "udp"), v4 = ip && !strchr(ip, ':');
        PassedSocket x = {.number = -1};

        x.fd = listen_in_pod(place, v4 ? AF_INET : AF_INET6, udp, ip, port);
        if (!ip && (x.fd == -EAFNOSUPPORT || x.fd == -EADDRNOTAVAIL))
                x.fd = listen_in_pod(place, AF_INET, udp, ip, port);
        if (x.fd < 0)
                return error_set_errno(e, x.fd, "Cannot listen on port %u/%s for port '%s' of app %s", port,
                                       t->port->protocol, t->port->name, t->app->name);
        int r = socket_describe(&x, e);
        if (r < 0) {
                passed_socket_done(&x);
                return r;
        }
        return add(s, &x, target, e);
}

/* --- Those that are there already ---------------------------------------------------------------------- */

static int share(PodSockets *s, const PassedSocket *from, size_t target, Error *e)
{
        PassedSocket x = *from;

        x.fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 3);
        x.listen = strdup(from->listen);
        x.name = from->name ? strdup(from->name) : NULL;
        if (x.fd >= 0 && x.listen && (x.name || !from->name))
                return add(s, &x, target, e);
        int r = x.fd < 0 ? -errno : -ENOMEM;
        passed_socket_done(&x);
        return error_set_errno(e, r, "Cannot copy a socket of app %s", s->targets[target].app->name);
}

/* The socket of OLD that was opened for that number. */
static const PassedSocket *find_number(const PodSockets *old, bool udp, uint32_t port)
{
        for (size_t i = 0; old && i < old->n; i++)
                if (old->items[i].number < 0 && old->items[i].udp == udp && old->items[i].port == port)
                        return &old->items[i];
        return NULL;
}

/* Passed sockets cannot be opened again: they stay with the port that they were for. */
static int share_passed(const PodSockets *old, PodSockets *s, size_t target, Error *e)
{
        const SocketTarget *t = &s->targets[target];
        uint32_t count = stage1_port_count(t->port);

        for (size_t i = 0; old && i < old->n; i++) {
                const Port *port = old->targets[old->target_of[i]].port;
                int r = old->items[i].number >= 0 && streq(port->name, t->port->name) &&
                                                        streq(port->protocol, t->port->protocol)
                                        ? share(s, &old->items[i], target, e)
                                        : 0;
                if (r < 0)
                        return r;
        }
        if (t->n == 0 || count == 1 || t->n == count)
                return 0;
        return error_set(e, -EADDRNOTAVAIL,
                         "%zu sockets were passed for port '%s' of app %s, which has %u numbers now", t->n,
                         t->port->name, t->app->name, count);
}

static int open_target(const Place *place, const PodSockets *old, PodSockets *s, size_t target, Error *e)
{
        const SocketTarget *t = &s->targets[target];
        /* In the host's network ports are not forwarded. */
        const ExposedPort *x = place->pod->config.net == NET_HOST
                                               ? socket_find_exposure(place->pod->manifest, t, NULL)
                                               : NULL;
        const char *ip = x && !isempty(x->host_ip) ? x->host_ip : NULL;
        uint32_t first = x ? x->host_port : t->port->port;

        for (uint32_t k = 0; k < stage1_port_count(t->port); k++) {
                const PassedSocket *known = find_number(old, streq(t->port->protocol, "udp"), first + k);
                int r = known ? share(s, known, target, e) : open_one(place, s, target, ip, first + k, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int pod_sockets_open(const Pod *p, pid_t leader, const PodSockets *old, PodSockets *s, Error *e)
{
        const Place place = {.pod = p, .leader = leader};

        for (size_t i = 0; i < s->n_targets; i++) {
                int r = s->targets[i].n == 0 ? share_passed(old, s, i, e) : 0;
                if (r >= 0 && s->targets[i].n == 0)
                        r = open_target(&place, old, s, i, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Those of one app ---------------------------------------------------------------------------------- */

static bool is_for(const PodSockets *s, size_t i, const SocketTarget *t)
{
        return s->targets[s->target_of[i]].port == t->port;
}

int pod_sockets_take_app(PodSockets *all, const PodApp *app, PodSockets **ret)
{
        _cleanup_(pod_sockets_freep) PodSockets *s = NULL;

        int r = pod_sockets_new_app(app, &s);
        if (r < 0)
                return r;
        for (size_t k = 0; k < s->n_targets; k++)
                for (size_t i = 0; i < all->n; i++)
                        if (is_for(all, i, &s->targets[k]) && pod_sockets_add(s, &all->items[i], k) < 0)
                                return -ENOMEM;
        *ret = TAKE_PTR(s);
        return 0;
}

/* --- What apps can do with passed sockets -------------------------------------------------------------- */

static bool is_passed(const PassedSocket *x)
{
        return x->number >= 0;
}

/* Connections to unix sockets stay what they are. */
static const char *judge(const PassedSocket *x, int filter, int unix_filter)
{
        int protocol = 0;
        socklen_t size = sizeof(protocol);

        if (x->port == 0 && x->type != SOCK_DGRAM)
                return NULL;
        if (x->port == 0 && unix_filter < 0)
                return "filters of unix sockets (BPF programs of cgroups, Linux 6.7) are not available";
        if (filter < 0)
                return socket_filter_failure(filter);
        if (x->port > 0 && !x->udp &&
            (getsockopt(x->fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) < 0 || protocol != IPPROTO_TCP))
                return "connections of MPTCP are not filtered by the kernel";
        return NULL;
}

size_t pod_sockets_judge(const Pod *p, PodSockets *s, int filter, int unix_filter)
{
        size_t n = 0;

        for (size_t i = 0; s && i < s->n; i++) {
                PassedSocket *x = &s->items[i];

                if (p->config.net == NET_HOST || !is_passed(x))
                        continue;
                x->exposed = judge(x, filter, unix_filter);
                n += x->exposed != NULL;
        }
        return n;
}

int pod_sockets_require_filter(const Pod *p, PodSockets *s, Error *e)
{
        size_t n_passed = 0;

        for (size_t i = 0; s && i < s->n; i++)
                n_passed += is_passed(&s->items[i]);
        if (n_passed == 0 ||
            pod_sockets_judge(p, s, socket_filter_available(), socket_filter_available_unix()) == 0)
                return 0;
        for (size_t i = 0; i < s->n; i++) {
                const PassedSocket *x = &s->items[i];

                if (!x->exposed)
                        continue;
                int r = error_set(e, -EOPNOTSUPP,
                                  "App %s could reach the host's network by the socket %s: %s",
                                  s->targets[s->target_of[i]].app->name, x->listen, x->exposed);
                return error_hint(e, r,
                                  "Without --strict the pod runs, and 'acnspawn status' shows the same.");
        }
        return 0;
}

static bool contains(const uint64_t *list, size_t n, uint64_t x)
{
        for (size_t i = 0; i < n; i++)
                if (list[i] == x)
                        return true;
        return false;
}

int pod_sockets_networks(const PodSockets *s, uint64_t *list, size_t *n)
{
        for (size_t i = 0; s && i < s->n; i++) {
                uint64_t network;

                if (!is_passed(&s->items[i]))
                        continue;
                int r = socket_network(s->items[i].fd, &network);
                if (r < 0)
                        return r;
                if (contains(list, *n, network))
                        continue;
                if (*n >= SOCKET_FILTER_NETWORKS_MAX)
                        return -E2BIG;
                list[(*n)++] = network;
        }
        return 0;
}

/* --- For "status" -------------------------------------------------------------------------------------- */

static const char *type_of(const PassedSocket *x)
{
        if (x->port > 0)
                return x->udp ? "udp" : "tcp";
        return x->type == SOCK_DGRAM ? "datagram" : x->type == SOCK_SEQPACKET ? "seqpacket" : "stream";
}

static int describe(const PodSockets *s, size_t i, ServedSocket *ret)
{
        const SocketTarget *t = &s->targets[s->target_of[i]];
        const PassedSocket *x = &s->items[i];

        *ret = (ServedSocket){.app = strdup(t->app->name),
                              .port = strdup(t->port->name),
                              .type = strdup(type_of(x)),
                              .address = strdup(x->listen)};
        if (!isempty(x->name) && !(ret->name = strdup(x->name)))
                return -ENOMEM;
        if (x->exposed && !(ret->exposed = strdup(x->exposed)))
                return -ENOMEM;
        return ret->app && ret->port && ret->type && ret->address ? 0 : -ENOMEM;
}

int pod_sockets_describe(const PodSockets *s, ServedSocket **list, size_t *n)
{
        for (size_t i = 0; i < s->n; i++) {
                if (s->items[i].number < 0)
                        continue;
                ServedSocket *grown = reallocarray(*list, *n + 1, sizeof(ServedSocket));
                if (!grown)
                        return -ENOMEM;
                *list = grown;
                if (describe(s, i, &grown[(*n)++]) < 0)
                        return -ENOMEM;
        }
        return 0;
}
