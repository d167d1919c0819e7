/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/network/: the networks of a pod.
 *
 * With --net=none the pod has a namespace with only loopback, created by nspawn; with --net=host it has the
 * host's. With named networks the supervisor creates a network namespace, bound to a file below
 * /run/acnspawn/netns, and runs CNI plugins that create its interfaces: eth0, eth1 and so on, in the order of the
 * names. It reads the configuration of a network from net.d in the configuration directories.
 *
 * The supervisor records every operation that has to be undone in the file "network" of the pod directory before it
 * does it. However the pod ends, the operations are undone: by the supervisor, or, if that was killed, by the next
 * supervisor of a pod with networks, by gc or by rm.
 */

#include "prepare/prepare.h"
#include "stage1/stage1.h"

#define NETWORK_NETNS_DIRECTORY "/run/acnspawn/netns"
#define NETWORKS_MAX 16U /* per pod */

/* --- Results (result.c, record.c) ---------------------------------------------------------------------- */

typedef struct NetworkAddress {
        char *address; /* "10.1.2.3/24" */
        char *gateway; /* or NULL */
} NetworkAddress;

typedef struct NetworkRoute {
        char *destination; /* "0.0.0.0/0" */
        char *gateway;     /* or NULL: that of the address */
} NetworkRoute;

/* Name servers in the result of a plugin. All of it is valid in resolv.conf. */
typedef struct NetworkDns {
        char **servers, **search, **options;
        char *domain; /* or NULL */
} NetworkDns;

typedef struct NetworkReport {
        char *network;   /* its name */
        char *interface; /* "eth0" */
        char *mac;       /* or NULL */
        char *note;      /* what is not available on this host, and why; or NULL */
        NetworkAddress *addresses;
        size_t n_addresses;
        NetworkRoute *routes;
        size_t n_routes;
        NetworkDns dns;
} NetworkReport;

void network_dns_done(NetworkDns *d);
void network_report_free(NetworkReport *l, size_t n);
/* One for each network of a running pod, in their order; none for a pod that has no networks of its own, or
 * is not running. */
int network_report(Pod *p, NetworkReport **ret, size_t *ret_n, Error *e);
/* The name servers of all networks of a pod whose networks are up, for its resolv.conf: in their order,
 * without repetitions; the domain is that of the first that has one. Empty if no network has any. */
int network_dns(Pod *p, NetworkDns *ret, Error *e);

/* --- Ports (ports.c; spec: pods.md, "ports") ----------------------------------------------------------- */

/* COUNT ports of the host from HOST_PORT on are forwarded to as many of the pod's from PORT on. */
typedef struct PortMapping {
        char *name;
        char *host_ip;  /* "0.0.0.0", "::": all of one family; NULL: all addresses of the host */
        bool udp, sctp; /* neither: TCP */
        bool socket_activated;
        uint32_t host_port, port, count;
} PortMapping;

const char *port_mapping_protocol(const PortMapping *q);
void port_mappings_free(PortMapping *l, size_t n);
/* Pure: the mappings of the ports in a reified manifest. -EINVAL: one is not valid, or two conflict. */
int port_mappings_new(const PodManifest *m, PortMapping **ret, size_t *ret_n, Error *e);

/* --- The bandwidth (bandwidth.c; spec: ace.md, "resource/network-bandwidth") --------------------------- */

/* How the isolator I of APP, or of the pod as a whole if APP is NULL, is in force in such a pod: instead of
 * isolator_verdict(), which does not know networks. CONFIG_DIRS as in network_up(). */
int network_bandwidth_verdict(const Pod *p, const Isolator *i, const char *app,
                              const char *const *config_dirs, IsolatorVerdict *ret, char **ret_detail);

/* --- Up and down (network.c) --------------------------------------------------------------------------- */

/* Checks that the networks of the pod exist, and that its ports can be mapped. -ENETUNREACH: it has no
 * network for that. WARNINGS gets lines about ports that are not exposed as requested. To be called when the
 * pod is prepared; CONFIG_DIRS are the parents of net.d, NULL meaning usual_config_dirs, and /etc/cni after
 * those. With NETWORK_DIRECTORY_ITSELF before it, one is a directory of network configurations itself, whatever its name is. */
#define NETWORK_DIRECTORY_ITSELF "net.d="
int network_check(const Pod *p, const char *const *config_dirs, char ***warnings, Error *e);

/* The resources that the supervisor holds while its pod runs: ports of the host. */
typedef struct PodNetwork PodNetwork;
PodNetwork *pod_network_free(PodNetwork *n);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodNetwork *, pod_network_free);

/* A port of the host that is served by a socket that was passed for the pod. */
typedef struct ServedPort {
        bool udp;
        uint32_t port;
} ServedPort;

/* Requests that end the wait for network plugins. */
typedef struct NetworkStop {
        int fd; /* can be read when there are requests */
        /* Serves them. Whether the pod is to stop. */
        bool (*requested)(void *userdata);
        void *userdata;
} NetworkStop;

/* A signal, or as STOP (or NULL) says; see network_up(). */
bool network_stop_is_pending(const NetworkStop *stop);

/* Checks that the pod's ports can be reserved: -EADDRINUSE as with network_up(), but before the pod is
 * started, which is possible only once. */
int network_check_ports(const Pod *p, const ServedPort *served, size_t n_served, Error *e);
/* Reserves the pod's ports, except for SERVED ones, creates its network namespace and adds it to its
 * networks; *RET is NULL if there is nothing to do. On failure everything is undone, as far as possible.
 * -EADDRINUSE, with the pod that has it: a port of the host is taken. The caller has to be in the host's
 * mount and network namespace, and single-threaded. SIGINT, SIGTERM and SIGHUP, if blocked, end the wait for
 * a plugin once they are pending, as does STOP (or NULL), once it is requested (-EINTR). */
int network_up(Pod *p, const char *const *config_dirs, const ServedPort *served, size_t n_served,
               const NetworkStop *stop, PodNetwork **ret, Error *e);
/* Returns to the mount namespace that network_up() was called in, for network_down(). */
int pod_network_return(PodNetwork *n);
/* Restores what the networks of a running pod need of the host: rules of the packet filter that were removed (reload.c). The
 * same conditions hold as for network_up(). -ESRCH: it has ended meanwhile. */
int network_reload(Pod *p, const char *const *config_dirs, Error *e);
/* Adds a note to the networks in L of a running pod for whose ports such rules are missing; in the network namespace of the
 * host. -ENOMEM. */
int network_find_missing_rules(Pod *p, NetworkReport *l, size_t n);
/* Undoes all recorded operations, in reverse order. Succeeds without a record. Operations that cannot be
 * undone remain recorded. */
int network_down(Pod *p, Error *e);
/* Whether network_down() has, or may have, operations to undo. */
bool network_is_left(const Pod *p);
/* Enters the pod's network namespace permanently, if network_up() has created one. */
int network_enter(const Pod *p, Error *e);
/* A socket in the pod's network namespace: the one that network_up() has created; or, of a pod without networks, that of its
 * PID 1, LEADER; else in the current one. It is O_CLOEXEC. */
int network_socket(const Pod *p, pid_t leader, int family, int type);
/* The network namespace of a process. */
int network_namespace_open(pid_t leader);
/* Calls FUNCTION in that network namespace, in a thread that ends then: the calling one stays where it is. Returns its
 * result, or the negative errno with which it could not be called. FUNCTION must not allocate memory (basic/thread.c). */
int network_namespace_run(int netns_fd, int (*function)(void *userdata), void *userdata);
/* The first valid network, in the order of the names of files, in DIRECTORIES, which are lists of paths of configurations
 * themselves, not of parents of net.d. -ENOENT, with the reason: there is none, or one of its plugins is not in
 * PLUGIN_DIRECTORIES. */
int network_first(char *const *directories, char *const *plugin_directories, char **ret_name, Error *e);
/* The names of all networks that are configured. */
int network_names(const char *const *config_dirs, char ***ret);
/* The path that the pod's network namespace is bound to. */
int network_namespace_path(const Pod *p, char **ret);
