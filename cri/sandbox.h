/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Sandboxes, which are pods, and containers, which are their apps.
 *
 * There is no other state than that of the store and of the pods' supervisors. The requests that sandboxes and containers
 * were made from are kept as data of the owner (see pod_set_owner()). */

#include "cri/cri-internal.h"
#include "stage0/arguments/pod-arguments.h"
#include "stage0/cli/options.h"
#include "stage0/stage0.h"

#define CRI_OWNER "cri"
#define CRI_ID_SIZE 65U /* 64 hexadecimal digits, and NUL */

typedef Runtime__V1__PodSandboxConfig SandboxConfig;
typedef Runtime__V1__ContainerConfig ContainerConfig;

/* --- ids.c --------------------------------------------------------------------------------------------- */

/* The ID of a sandbox begins with the UUID of its pod, that of a container with the name of its app, which is followed by the
 * UUID of its pod. The rest of the former, and the name of the app, follow from the names that the client gave. */
int cri_sandbox_id(const char *uuid, const Runtime__V1__PodSandboxMetadata *m, char ret[static CRI_ID_SIZE]);
int cri_container_id(const char *uuid, const Runtime__V1__ContainerMetadata *m,
                     char ret[static CRI_ID_SIZE]);
/* The name of the pod of a sandbox, which no other sandbox of the same metadata can have. */
int cri_pod_name(const Runtime__V1__PodSandboxMetadata *m, char **ret);
/* The UUID of the pod from 32 digits of an ID: those from here on. */
#define CRI_SANDBOX_UUID 0U
#define CRI_CONTAINER_UUID 32U
void cri_uuid_from_digits(const char *digits, char ret[static UUID_TEXT_SIZE]);
/* Whether it is a full ID, or the beginning of one. */
bool cri_id_is_valid(const char *s);
bool cri_id_is_full(const char *s);

/* --- fields.c ------------------------------------------------------------------------------------------ */

/* Refuses a request that sets a field that is not in HONOURED, whose names end with ".*" where all below is included.
 * -EINVAL, and the field is named. */
int cri_check_fields(const ProtobufCMessage *m, const char *const *honoured, Error *e);
/* Whether the value at P, which is no message, is not the default of proto3. */
bool cri_field_is_set(const ProtobufCFieldDescriptor *f, const void *p);
extern const char *const cri_sandbox_fields[], *const cri_container_fields[];

/* --- sandbox-find.c ------------------------------------------------------------------------------------ */

/* A sandbox with what it was made from. */
typedef struct Sandbox {
        Pod *pod;
        SandboxConfig *config; /* belongs to the memory of the call */
        const char *handler;   /* the same */
        char id[CRI_ID_SIZE];
} Sandbox;

void sandbox_done(Sandbox *s);
#define _cleanup_sandbox_ _cleanup_(sandbox_done)
/* By ID, or a unique prefix of it. -ENOENT (NOT_FOUND): there is none. */
int sandbox_find(CriJob *j, const char *id, Sandbox *ret, Error *e);
/* All of them, by time of creation. Pods that are being made or removed are left out. */
int sandbox_list(CriJob *j, Sandbox **ret, size_t *ret_n, Error *e);
void sandbox_list_free(Sandbox *l, size_t n);
/* The pod P, which belongs to this endpoint, as a sandbox, which takes it over on success. */
int sandbox_open(CriJob *j, Pod *p, Sandbox *ret, Error *e);
bool sandbox_is_ready(const Sandbox *s);
/* A call to the supervisor of S has failed with R. Returns true if the pod has ended, which ends its containers and makes
 * the sandbox not ready. A supervisor that does not answer may still run them. */
bool sandbox_has_ended(Sandbox *s, int r);
/* Sets FAILED_PRECONDITION if the pod has ended, or if the supervisor refused the call because the pod or the app does not
 * run. Returns R. */
int sandbox_not_running(CriJob *j, Sandbox *s, int r);

/* sandbox-dead.c: removes pods of sandboxes that no client knows: their calls were killed, or a loss of power has emptied
 * their files. Returns true if names or users were released, so that a call can be tried again. */
bool sandbox_clear_dead(CriJob *j);

/* A container, which is an app of the pod of its sandbox. */
typedef struct Container {
        Sandbox *sandbox;
        PodApp *app; /* lent by the manifest of the pod */
        ContainerConfig *config;
        uint64_t created_usec;
        char id[CRI_ID_SIZE];
} Container;

/* *SANDBOX is that of the container, and is filled in. */
int container_find(CriJob *j, const char *id, Sandbox *sandbox, Container *ret, Error *e);
/* APP is of the pod of S. -ENOENT: it is not one that was made here. */
int container_open(CriJob *j, Sandbox *s, PodApp *app, Container *ret, Error *e);

/* sandbox-status.c, container-status.c: statuses, as the calls of these names have them. */
int sandbox_status(CriJob *j, const Sandbox *s, Runtime__V1__PodSandboxStatus **ret, Error *e);
/* The ID that clients know the image of APP by. NULL: out of memory. */
char *container_image_id(CriJob *j, const PodApp *app);
int container_statuses(CriJob *j, Sandbox *s, Runtime__V1__ContainerStatus ***ret, size_t *ret_n, Error *e);

static inline bool container_is_privileged(const ContainerConfig *c)
{
        return c->linux && c->linux->security_context && c->linux->security_context->privileged;
}
/* container-security.c: whether a container that is not privileged has CAP_MKNOD. */
bool container_can_make_nodes(const Runtime__V1__LinuxContainerSecurityContext *x);
#define CONTAINER_HOST_SETTINGS_NO_DEV "symlinks=true,suid=true"
#define CONTAINER_HOST_SETTINGS "symlinks=true,dev=true,suid=true" /* of mounts, as with other runtimes */
/* Adds the mount of a directory or file of the host, with the settings of its volume. */
int container_add_host_mount(const char *source, const char *path, bool read_only, const char *settings,
                             AppOverrides *a, Error *e);
/* container-devices.c: adds the devices of C. */
int container_devices(CriJob *j, const Sandbox *s, const ContainerConfig *c, AppOverrides *a, Error *e);
/* Whether C can open only devices that it is given, wherever it finds others. */
bool container_devices_are_filtered(const ContainerConfig *c);
/* FIELD of the request gives C the device HOST_PATH of the host. PERMISSIONS are those of cdi_read_permissions(). */
int container_add_device(CriJob *j, const ContainerConfig *c, const char *field, const char *host_path,
                         const char *path, const char *permissions, AppOverrides *a, Error *e);
/* container-cdi.c: adds what C requests by the Container Device Interface. */
int container_cdi(CriJob *j, const Sandbox *s, const ContainerConfig *c, AppOverrides *a, Error *e);

/* signals.c: the number of S here; 0: it has none. And the other way. */
int cri_signal_to_number(Runtime__V1__Signal s);
Runtime__V1__Signal cri_signal_from_number(int number);

/* users.c: the users of a sandbox: a range that the request has, or those of the host. */
int sandbox_users(const SandboxConfig *c, PrepareOptions *o, Error *e);
/* Whether U, of a request for a container of S, are the users of S. -EINVAL. */
int container_users_check(const Sandbox *s, const Runtime__V1__UserNamespace *u, Error *e);
/* 1: files of M have the same owners in a container of S as on the host; 0: other owners. -EINVAL: M has another range. */
int container_mount_users(const Sandbox *s, const Runtime__V1__Mount *m, Error *e);

/* network.c: where O finds networks and plugins; *RET_NAME is the network of sandboxes. */
int sandbox_network_options(CriJob *j, PrepareOptions *o, char **ret_name, Error *e);

/* Sets NOT_FOUND if R is -ENOENT. Returns R. */
int cri_not_found(CriJob *j, int r);
/* R is the result of finding the object of a call that has no effect if there is none, and succeeds. 1: it was found; 0: there is none; or
 * R. */
int cri_found(CriJob *j, int r, Error *e);
/* A member of a map; NULL: it is not there. LIST are entries of any map of text. */
const char *cri_map_get(size_t n, const void *list, const char *key);
/* Whether the map has all of SELECTOR. */
bool cri_map_matches(size_t n, const void *list, size_t n_selector, const void *selector);

/* --- options.c ----------------------------------------------------------------------------------------- */

/* Sets the option NAME of a command line (see pod_options, app_options), by which a value has the same meaning as there.
 * FIELD is the field of the request, for messages. */
int cri_set_option(const Option *options, void *data, const char *name, const char *field, const char *value,
                   Error *e);

/* container-create.c: the ID in the store of the image that a client calls REFERENCE; it belongs to the memory of the call, and
 * *RET is NULL before. -ENOENT (NOT_FOUND): there is none. */
int container_find_image(CriJob *j, const char *reference, char **ret, Error *e);
/* container-app.c: fills in A, the app of a container; IMAGE is the one that it is made from. */
int container_request(CriJob *j, const Sandbox *s, const ContainerConfig *c, const char *id, AppOverrides *a,
                      Error *e);
/* relabel.c: gives PATH, and all below it, the SELinux label of files of a container with the options X, or NULL; nothing without
 * SELinux. */
int container_relabel(CriJob *j, const Sandbox *s, const char *path, const Runtime__V1__SELinuxOption *x,
                      Error *e);
/* The same with any label. A file system without labels is success. -EINVAL: it is a directory of the system. */
int relabel_tree(const char *path, const char *label, const Operation *o, Error *e);
/* container-security.c: the same from its security context X. */
typedef Runtime__V1__LinuxContainerSecurityContext SecurityContext;
int container_security(CriJob *j, const Sandbox *s, const SecurityContext *x, AppOverrides *a, Error *e);
/* Pure. The capabilities that C asks for, and those of them that are to be ambient: bit n is entry n of the table. */
int security_capabilities(const Runtime__V1__Capability *c, uint64_t *ret, uint64_t *ret_ambient, Error *e);
/* capabilities.c: all that there are, and whether containers have them if the request says nothing. */
#define CRI_N_CAPABILITIES 41U
extern const struct CriCapability {
        const char *name;
        bool by_default;
} cri_capabilities[CRI_N_CAPABILITIES];
/* Resources of C as options of an app. */
int container_resources(const Runtime__V1__LinuxContainerResources *r, AppOverrides *a, Error *e);

/* resources.c: WANTED, fields of which are not set stay as in NOW. RET is NOW with them; *RET_CHANGED has only what differs,
 * and belongs to the memory of the call. -EINVAL: it cannot be changed. */
int resources_merge(CriJob *j, const Runtime__V1__LinuxContainerResources *now,
                    const Runtime__V1__LinuxContainerResources *wanted,
                    Runtime__V1__LinuxContainerResources *ret,
                    Runtime__V1__LinuxContainerResources *ret_changed, Error *e);
/* oom-score.c: processes of the cgroup at PATH that have the score NOW get WANTED. */
int oom_score_change(const char *path, int64_t now, int64_t wanted);

/* --- The calls ----------------------------------------------------------------------------------------- */

int cri_run_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e);
int cri_stop_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e);
int cri_remove_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e);
int cri_pod_sandbox_status(CriJob *j, const void *request, void *reply, Error *e);
int cri_list_pod_sandbox(CriJob *j, const void *request, void *reply, Error *e);
int cri_create_container(CriJob *j, const void *request, void *reply, Error *e);
int cri_start_container(CriJob *j, const void *request, void *reply, Error *e);
int cri_stop_container(CriJob *j, const void *request, void *reply, Error *e);
int cri_remove_container(CriJob *j, const void *request, void *reply, Error *e);
int cri_list_containers(CriJob *j, const void *request, void *reply, Error *e);
int cri_container_status(CriJob *j, const void *request, void *reply, Error *e);
int cri_reopen_container_log(CriJob *j, const void *request, void *reply, Error *e);
int cri_update_container_resources(CriJob *j, const void *request, void *reply, Error *e);
int cri_update_pod_sandbox_resources(CriJob *j, const void *request, void *reply, Error *e);
int cri_exec_sync(CriJob *j, const void *request, void *reply, Error *e);
/* stream-calls.c */
int cri_exec(CriJob *j, const void *request, void *reply, Error *e);
int cri_attach(CriJob *j, const void *request, void *reply, Error *e);
int cri_port_forward(CriJob *j, const void *request, void *reply, Error *e);
int cri_container_stats(CriJob *j, const void *request, void *reply, Error *e);
int cri_list_container_stats(CriJob *j, const void *request, void *reply, Error *e);
int cri_pod_sandbox_stats(CriJob *j, const void *request, void *reply, Error *e);
int cri_list_pod_sandbox_stats(CriJob *j, const void *request, void *reply, Error *e);
int cri_list_metric_descriptors(CriJob *j, const void *request, void *reply, Error *e);
int cri_list_pod_sandbox_metrics(CriJob *j, const void *request, void *reply, Error *e);
int cri_stream_pod_sandboxes(CriJob *j, const void *request, void *reply, Error *e);
int cri_stream_containers(CriJob *j, const void *request, void *reply, Error *e);
int cri_stream_container_stats(CriJob *j, const void *request, void *reply, Error *e);
int cri_stream_pod_sandbox_stats(CriJob *j, const void *request, void *reply, Error *e);
int cri_stream_pod_sandbox_metrics(CriJob *j, const void *request, void *reply, Error *e);
