/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of stage0/network/ and their tests. */

#include "stage0/network/network.h"

/* --- config.c: finding the configuration of a network -------------------------------------------------- */

#define CNI_CONFIG_SIZE_MAX (1024U * 1024U)
#define CNI_PLUGINS_MAX 32U /* per network */

typedef struct CniNetwork {
        char *name, *file;
        char **versions; /* of the CNI protocol that the configuration is written for, the highest first */
        json_object *plugins; /* an array of objects, each with a valid "type" */
        bool optional_ipv6;   /* its IPv6 settings are for hosts that support it */
        bool published_only;  /* from outside only published ports of its pods are reached */
        char *note;           /* what is left out on this host, and why; or NULL */
} CniNetwork;

CniNetwork *cni_network_free(CniNetwork *n);
DEFINE_TRIVIAL_CLEANUP_FUNC(CniNetwork *, cni_network_free);
/* Pure. LIST: the text is that of a .conflist, else of a .conf with one plugin. FILE is for messages. */
int cni_network_parse(const char *text, size_t size, bool list, const char *file, CniNetwork **ret,
                      Error *e);
/* The directories of net.d, by precedence. */
int cni_config_directories(const char *const *config_dirs, char ***ret);
/* The first of that name. -ENOENT: there is none; the hint lists those available. */
int cni_network_find(char *const *directories, const char *name, CniNetwork **ret, Error *e);
/* Whether nothing that PLUGINS keep, such as the addresses that they have assigned, outlives a reboot of the host: it is below
 * /run. False if that is not known. */
bool cni_state_is_volatile(json_object *plugins);
/* Whether the plugin assigns addresses by files that outlive a reboot, in this directory; NULL: in the usual one. */
bool cni_plugin_keeps_leases(json_object *plugin, const char **ret_directory);
/* Whether any plugin of the network, or this one, declares the capability. */
bool cni_network_can(const CniNetwork *n, const char *capability);
bool cni_plugin_can(json_object *plugin, const char *capability);
const char *cni_plugin_type(json_object *plugin);

/* --- ipv6.c: networks with optional IPv6 --------------------------------------------------------------- */

/* NULL: this host can give pods IPv6; else why it cannot, or should not. */
const char *ipv6_obstacle(void);
/* Pure, the same from the texts of the files in /proc, each of which may be NULL. */
const char *ipv6_obstacle_in(const char *disabled, const char *forwarding, const char *routes);
/* Removes the IPv6 ranges and routes from the configuration of N. */
int cni_network_drop_ipv6(CniNetwork *n, const char *why);

/* Whether A is at least B, both supported versions of the protocol. */
bool cni_version_at_least(const char *a, const char *b);
bool cni_version_is_known(const char *version);

/* --- request.c: networks as given by the user ---------------------------------------------------------- */

/* NAME[:ARG=VALUE[;…]] */
typedef struct NetworkRequest {
        char *name;
        char *args;     /* for CNI_ARGS */
        char **ips;     /* of IP=, as written */
        char **aliases; /* of ALIAS= */
        char *mac;      /* of MAC=, or NULL */
} NetworkRequest;

void network_request_done(NetworkRequest *r);
int network_request_parse(const char *s, NetworkRequest *ret, Error *e);

/* --- plugin.c: running one plugin ---------------------------------------------------------------------- */

#define CNI_OUTPUT_MAX (1024U * 1024U)
extern uint64_t cni_timeout_usec; /* per plugin; shorter in tests */
extern uint64_t cni_notice_usec;  /* after which waiting is reported */
extern uint64_t cni_others_usec; /* for all plugins of all dead pods but the predecessor, before a pod starts */

typedef struct CniCall {
        const char *command; /* "ADD" */
        const char *type;    /* the plugin */
        const char *network; /* for messages */
        const char *container, *netns, *interface, *args;
        const char *path; /* directories of plugins, between colons */
        json_object *input;
        bool interruptible;      /* see network_up() */
        const NetworkStop *stop; /* the same, if it is interruptible */
        uint64_t deadline;       /* see CniTarget */
} CniCall;

/* Whether it is one of the plugins that the CNI project itself maintains. */
bool cni_plugin_is_packaged(const char *type);
/* The file of the plugin TYPE. -ENOENT, with the package that has it. */
int cni_plugin_find(const char *path, const char *type, char **ret, Error *e);
/* Runs it, and returns its output if it succeeded. Else -EIO with its own error message, and *RET_CODE, the
 * code of the protocol (or 0). Time and output are bounded: -ETIME, -EFBIG. */
int cni_plugin_run(const CniCall *c, char **ret_output, size_t *ret_size, unsigned *ret_code, Error *e);
/* A hint for a failure of the plugin with MESSAGE, or NULL. */
const char *cni_failure_hint(const char *type, const char *message);

/* --- result.c: results of plugins ---------------------------------------------------------------------- */

/* Pure. Parses the result of an ADD for INTERFACE. */
int cni_result_parse(json_object *result, const char *interface, NetworkReport *ret, Error *e);

/* --- record.c: what to undo, and how ------------------------------------------------------------------- */

typedef struct Attachment {
        char *network, *interface, *args, *version;
        char *note;          /* see CniNetwork */
        bool published_only; /* the same; not recorded */
        json_object *plugins;
        json_object *runtime; /* an object: the runtimeConfig for plugins with the capability */
        json_object *result;  /* of ADD; NULL: it has not succeeded */
} Attachment;

typedef struct NetworkRecord {
        char *plugin_path;
        bool stuck; /* the start of another pod could not undo it either, or is trying to */
        PortMapping *ports;
        size_t n_ports;
        Attachment *attachments;
        size_t n_attachments;
} NetworkRecord;

void attachment_done(Attachment *a);
void network_record_done(NetworkRecord *r);
int network_record_parse(const char *text, size_t size, NetworkRecord *ret);
int network_record_format(const NetworkRecord *r, char **ret);
int network_record_read(const Pod *p, NetworkRecord *ret, Error *e); /* -ENOENT, without a message */
/* If a network of it has state that outlives the boot, it is on disk before the return. */
int network_record_write(Pod *p, const NetworkRecord *r, Error *e);
int network_record_remove(Pod *p, Error *e);
/* The time since it was written; UINT64_MAX: not known. */
uint64_t network_record_age(const Pod *p);

/* --- leases.c: what the plugin "host-local" keeps on disk ---------------------------------------------- */

/* To be called when the pod has left the network: removes leases whose contents a loss of power has lost, of any
 * pod; those of this pod are gone from the disk, too, after the return. */
int cni_leases_settle(const Attachment *a, Error *e);
/* The same for DIRECTORY/NETWORK; NULL: the usual one. */
int cni_leases_settle_in(const char *directory, const char *network);

/* --- network-down.c ------------------------------------------------------------------------------------ */

/* Before P starts: removes pods whose process was killed from their networks, the predecessor first (for four times cni_others_usec
 * at most), then the others (for cni_others_usec at most). A failure of the predecessor is a warning, others are reported when the
 * pods are removed. */
void network_undo_dead_pods(const Pod *p, const NetworkStop *stop);

/* --- attach.c: a network's plugins, one after the other ------------------------------------------------ */

typedef struct CniTarget {
        const char *container;   /* the pod's UUID */
        const char *netns;       /* "": it does not exist any more */
        const char *path;        /* directories of plugins */
        bool interruptible;      /* see network_up() */
        const NetworkStop *stop; /* the same, if it is interruptible */
        uint64_t deadline;       /* for all plugins together, beside cni_timeout_usec for each; 0: none */
} CniTarget;

/* The highest version of N that all plugins support. */
int cni_choose_version(const CniNetwork *n, const CniTarget *t, char **ret, Error *e);
/* Checks that all required programs exist. */
int cni_check_programs(json_object *plugins, const char *network, const char *path, Error *e);
/* Fills in A->result. */
int cni_attach(Attachment *a, const CniTarget *t, Error *e);
int cni_detach(const Attachment *a, const CniTarget *t, Error *e);

/* Runs the plugin that maps ports once more, after removing what is left of its rules. */
int cni_map_ports_again(const Attachment *a, const CniTarget *t, Error *e);

/* --- ports.c ------------------------------------------------------------------------------------------- */

void port_mapping_done(PortMapping *q);
/* Whether it is on addresses of IPv6 alone. */
bool port_mapping_is_ipv6(const PortMapping *q);
bool port_mappings_overlap(const PortMapping *a, const PortMapping *b);
/* Whether a port of P belongs to another pod of the store. */
int port_mappings_check_pods(const Pod *p, const PortMapping *l, size_t n, Error *e);
/* Reserves the ports of the host, by sockets that are bound and otherwise unused. *RET has one or two of
 * them for each port. */
int port_mappings_reserve(const PortMapping *l, size_t n, int **ret, size_t *ret_n, Error *e);
/* Refuses ports on an address of a family in which the network A, which maps them, gives the pod no address: plugins would
 * leave them out silently. */
int port_mappings_check_families(const PortMapping *l, size_t n, const Attachment *a, Error *e);
/* The runtimeConfig for plugins with the capability "portMappings". NULL: out of memory. */
json_object *port_mappings_runtime(const PortMapping *l, size_t n);

/* --- program.c: programs of the packet filter ---------------------------------------------------------- */

/* Starts a program in a child process, in the network namespace NETNS_FD unless that is negative, with its output to
 * OUTPUT_FD or discarded. Returns a negative value and sets errno if the fork failed. */
pid_t network_program_start(const char *const *argv, int netns_fd, int output_fd);
/* Waits for the program to end; true if it exited with 0. */
bool network_program_succeeded(pid_t pid);
/* 1: the program printed NEEDLE; 0: it succeeded without; negative: it failed, or took too long. It is killed unless it has
 * ended. */
int network_program_prints(const char *const *argv, const char *needle);

/* --- shield.c ------------------------------------------------------------------------------------------ */

/* Whether a plugin of A maps the pod's ports. */
bool attachment_maps_ports(const Attachment *a);
/* Drops packets from outside for the host's loopback, if the pod's ports make the kernel route them, and those for pods of
 * networks with published ports only that are for none. If that is not possible, the attachment gets a note. -ENOMEM. */
int network_shield(NetworkRecord *record);
/* Makes the chains again that the plugin bridge has made for CONTAINER to translate its addresses, and fails to remove it
 * without: ACTION "-N"; or removes them, if they are empty: "-X". True if that was done for one. */
bool network_masquerade_chains(const Attachment *a, const char *container, const char *action);
/* Drops packets that the pod sends from IPv6 addresses of others. It takes as long as a plugin, so it is done beside those: the
 * process of _start() (0: there is nothing to do; negative: it failed) is waited for by _finish(). 1: it is not possible, and the
 * attachments have notes. */
pid_t network_shield_sources_start(const char *netns);
int network_shield_sources_finish(pid_t pid, NetworkRecord *record);

/* --- forwarding.c -------------------------------------------------------------------------------------- */

/* Stores the settings of the host, unless there is a pod already; to be called after the pod's record was written, and before
 * any plugin runs. */
int network_forwarding_keep(const Pod *p, Error *e);
/* Restores them after the last pod; before the pod's record is removed. Succeeds without network_forwarding_keep(). */
int network_forwarding_release(const Pod *p, Error *e);

/* --- bandwidth.c --------------------------------------------------------------------------------------- */

/* Bytes per second in each direction for the pod's interfaces; UINT64_MAX: unlimited. */
uint64_t network_bandwidth_limit(const PodManifest *m);
/* The runtimeConfig for plugins with the capability "bandwidth". NULL: out of memory. */
json_object *network_bandwidth_runtime(uint64_t limit);

/* --- namespace.c --------------------------------------------------------------------------------------- */

/* Creates a network namespace with loopback up, and binds it to PATH. ANY_PORT: all users in it may listen
 * on ports below 1024. */
int network_namespace_make(const char *path, bool any_port, Error *e);
/* Whether PATH is one: after a reboot of the host the file does not exist, or is a regular file. */
bool network_namespace_is_bound(const char *path);
int network_namespace_remove(const char *path, Error *e);
