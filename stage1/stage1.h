/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage1/: the inside of a pod: the root of its systemd, the units that make its apps, and the launcher that
 * every app's process starts as.
 *
 * The root of a pod (root/ in the pod directory) contains no operating system, only the files that its
 * systemd needs:
 *
 *     usr/ lib lib64 …                places for the host's systemd, journald and their libraries, bound
 *                                     read-only at start
 *     etc/                            os-release, machine-id, passwd, group, hostname,
 *                                     systemd/{journald,system}.conf
 *     acnspawn/units/                 every unit of the pod; the only unit path
 *     acnspawn/launch                 the launcher, bound at start
 *     acnspawn/socket                 where the launcher asks stage0 for an app's root, volumes and launch
 *                                     file
 *     acnspawn/mnt/                   where the launcher puts an app's root together, in a mount namespace
 *                                     of the app
 *     var/log/journal/<id>/           the journal of the pod
 *
 * Untrusted text (arguments, environment, paths) is in none of these files: the launch file of an app,
 * apps/<app>/launch in the pod directory, holds it NUL-separated, and stage0 hands it to the launcher as a
 * descriptor.
 */

#include "schema/nested.h"
#include "schema/schema.h"
#include "stage1/app-status.h"

/* --- The pod's root (root-files.c, units.c, launch-plan.c) --------------------------------------------- */

typedef struct Stage1Options {
        const char *uuid, *hostname;
        uint64_t stop_timeout_usec;
        bool host_pid;    /* the pod is in the pid namespace of the host */
        bool keeps_slice; /* the slice of all apps, and with it the pod's limits, are there without apps, too */
} Stage1Options;

/* One generated file: path relative to the pod's root, or a symlink if TARGET is set. */
typedef struct Stage1File {
        char *path;
        char *content;
        size_t size;
        char *target;
        mode_t mode;
} Stage1File;

typedef struct Stage1Files {
        Stage1File *items;
        size_t n, allocated;
} Stage1Files;

void stage1_files_done(Stage1Files *f);
#define _cleanup_stage1_files_ _cleanup_(stage1_files_done)

/* Pure function: the files of the pod's root for this reified manifest, in a fixed order. Same input, same
 * output. */
int stage1_generate(const PodManifest *m, const Stage1Options *o, Stage1Files *ret, Error *e);
/* Generates and writes the files below ROOT_FD (a new, empty directory) and gives them to OWNER (uid and
 * gid). */
int stage1_write_root(int root_fd, const PodManifest *m, const Stage1Options *o, uid_t owner, Error *e);
/* Writes the units of APP, one more app of a pod that runs, below ROOT_FD. Its systemd reads them when the app is first
 * started. */
int stage1_write_app(int root_fd, const PodApp *app, const Stage1Options *o, uid_t owner, Error *e);
/* Whether units can be made for APP. */
int stage1_check_app(const PodApp *app, const Stage1Options *o, Error *e);
/* Removes units of apps that are not in M. */
int stage1_sweep_units(int root_fd, const PodManifest *m, const Stage1Options *o);
/* Removes the units of APP. */
int stage1_remove_app(int root_fd, const PodApp *app, const Stage1Options *o);
/* The additional files if the pod is registered with the host's systemd-machined (bus-units.c): the bus by
 * which systemctl -M reaches its systemd. They have to be written before the pod's systemd is started. */
int stage1_generate_bus(Stage1Files *ret);
int stage1_write_bus(int root_fd);
/* The name of the unit of an app ("app-web.service"). */
int stage1_app_unit_name(const char *app, char **ret);
/* The name of the app's slice; its cgroup below app.slice is nested_slices(). */
int stage1_app_slice_name(const char *app, char **ret);
/* The text of that unit for an app with these isolators, and the directory of units in the pod's root. */
int stage1_app_slice_text(const char *app, const IsolatorList *isolators, char **ret);
#define STAGE1_UNITS "acnspawn/units"
/* The content of the launch file of APP (whose App object must be resolved). */
int stage1_launch_file(const PodManifest *m, const PodApp *app, char **ret, size_t *ret_size, Error *e);

/* --- Capabilities (capabilities.c) --------------------------------------------------------------------- */

/* Loads the library that capabilities are named by if M, or one of its apps, has an isolator with a set of them.
 * To be called before any function below, or those for launch files and verdicts, gets M or a part of it. */
int stage1_load_libraries(const PodManifest *m, Error *e);
int stage1_load_isolator_libraries(const IsolatorList *l, Error *e);
#define STAGE1_CAPABILITY_NAME_SIZE 64U
/* "CAP_CHOWN". False: it has no name. Capabilities beyond the default set need the library. */
bool stage1_capability_name(unsigned capability, char ret[static STAGE1_CAPABILITY_NAME_SIZE]);
/* The bounding set of an app's processes: bit n is capability n. */
uint64_t stage1_app_capabilities(const App *app);
/* The capabilities that bound every app of a pod prepared from M: the default set, and those that isolators of the pod retain
 * (*RET_DECLARED is true), or, without such isolators, the sets of the apps in M. */
uint64_t stage1_pod_capabilities(const PodManifest *m, bool *ret_declared);
/* The same for these isolators; NULL: the default. */
uint64_t stage1_capabilities(const IsolatorList *l);

/* --- The host's systemd (host-files.c) ----------------------------------------------------------------- */

/* Absolute paths of systemd, journald, systemd-executor where there is one, and every library they load
 * (found from the ELF headers, dlopen notes among them), in a fixed order. Each is the path that the loader
 * will open; it may be a symlink. */
typedef struct Stage1HostFiles {
        char **paths;
        const char *libcrypto;  /* the one of PATHS that the stub (stub/libcrypto.c) may replace, or NULL */
        bool program_uses_stub; /* it may replace that of the other program, too */
} Stage1HostFiles;

void stage1_host_files_done(Stage1HostFiles *f);
#define _cleanup_stage1_host_files_ _cleanup_(stage1_host_files_done)

/* Finds them in the tree that ROOT_FD is the root of. PROGRAM is another program of that tree, which loads its
 * libraries from there, or NULL. -ENOENT: the error names the missing file and the
 * package that has it. */
int stage1_host_files(int root_fd, const char *program, Stage1HostFiles *ret, Error *e);

/* --- Ports that are socket-activated (sockets.c; spec: aci.md, "ports") -------------------------------- */

#define STAGE1_SOCKETS_MAX 256U /* of a pod */

bool stage1_app_is_socket_activated(const App *app);
bool stage1_pod_is_socket_activated(const PodManifest *m);
/* The number of ports in the range PORT. */
uint32_t stage1_port_count(const Port *port);
/* -EINVAL, -ENAMETOOLONG, -E2BIG: a socket-activated port is not valid, or two conflict. */
int stage1_sockets_check(const PodManifest *m, Error *e);

/* --- Isolators (isolators*.c) -------------------------------------------------------------------------- */

typedef enum IsolatorVerdict {
        ISOLATOR_ENFORCED,
        ISOLATOR_MODIFIED,
        ISOLATOR_IGNORED,
        ISOLATOR_OFF, /* it disables a confinement, and that is done */
} IsolatorVerdict;
const char *isolator_verdict_to_string(IsolatorVerdict v);

/* State of SELinux on a host. */
typedef enum SelinuxState {
        SELINUX_OFF,       /* not built in, or not enabled */
        SELINUX_NO_POLICY, /* enabled, but no policy is loaded */
        SELINUX_PERMISSIVE,
        SELINUX_ENFORCING,
} SelinuxState;

/* Namespaces that the pod has in common with the host. */
typedef struct SharedNamespaces {
        bool network, ipc;
} SharedNamespaces;

/* Features of the host that isolators depend on. */
typedef struct HostFeatures {
        bool cpu, cpuset, memory, io, pids, hugetlb; /* cgroup v2 controllers that a pod can use */
        bool pids_v1;   /* the controller of this name is in a hierarchy of version 1 */
        bool own_users; /* the pod has a range of users of its own */
        bool apparmor;  /* this security module is active */
        SelinuxState selinux;
        /* Files of the kernel with the loaded profiles, and for querying contexts; NULL: not to be used. */
        const char *apparmor_profiles, *selinux_access;
        bool resources;    /* CAP_SYS_RESOURCE is available: needed to protect processes from the OOM
                            * killer */
        bool block_device; /* the disk that the pod's files are on is known */
        SharedNamespaces shared;
        int landlock; /* version of Landlock, which keeps apps from inspecting each other's processes;
                            * 0: none */
        bool landlock_refused; /* by a filter of system calls that this process runs in: that is why there is none */
        bool host_unit; /* the pod is in a unit of the host that acnspawn has not made */
} HostFeatures;

/* The verdict on I, one of L, on such a host; RET_DETAIL briefly describes how it is enforced, or why it is
 * not. */
int isolator_verdict(const IsolatorList *l, const Isolator *i, bool pod_scope, const HostFeatures *h,
                     IsolatorVerdict *ret, char **ret_detail);
/* Appends to SLICE (a [Slice] section) and SERVICE (a [Service] section; NULL at pod scope) the directives
 * for systemd. */
int stage1_isolator_directives(const IsolatorList *l, bool pod_scope, Text *slice, Text *service);
/* How many processes and threads an app, or all apps of a pod together, may have; STAGE1_TASKS_UNLIMITED: as
 * many as the host has. */
#define STAGE1_TASKS_UNLIMITED UINT64_MAX
uint64_t stage1_tasks_max(const IsolatorList *l, bool pod_scope);
/* The defaults on such a host for APP, or, if it is NULL, for a pod as a whole, unless one of its isolators
 * L overrides them: as isolators, which are static. Returns their number. */
#define STAGE1_DEFAULTS_MAX 2U
size_t stage1_default_isolators(const IsolatorList *l, const App *app, const HostFeatures *h,
                                const Isolator *ret[static STAGE1_DEFAULTS_MAX]);
/* Whether AppArmor is known to have none of the profiles that come with acnspawn. */
bool stage1_has_no_profiles(const HostFeatures *h);
/* Whether the filter of APP allows mounting; its capabilities may still not. */
bool stage1_app_may_mount(const App *app);
/* Requests of a pod's isolators for the pod as a whole, in competition with other pods; 0: none. */
typedef struct PodRequests {
        uint64_t cpu_weight; /* 1…10000, as cpu.weight of cgroup v2 has it */
        uint64_t memory_low; /* bytes */
} PodRequests;
void stage1_pod_requests(const IsolatorList *l, PodRequests *ret);
/* The rate that a block-bandwidth or block-iops isolator specifies. */
uint64_t stage1_block_limit(const Isolator *i);

/* A controller that ATTRIBUTES of an app's cgroup need and that is not available to pods on this host; NULL: none. */
const char *stage1_missing_controller(const PairList *attributes, const HostFeatures *h);
/* Whether the launcher can keep processes of APP, on such a host, from inspecting those of other apps; see
 * apply_landlock(). */
bool stage1_app_is_confined(const PodApp *app, const HostFeatures *h);

/* Refuses a manifest whose mandatory isolators such a host cannot enforce: kernel parameters that are not a
 * pod's own (-EPERM) or that have conflicting values (-EINVAL), a set of system calls that cannot be applied
 * (-EINVAL), an AppArmor profile that is not loaded (-ENOENT), a context that the SELinux policy does not
 * have (-EINVAL). The error names app and isolator. */
int stage1_isolators_check(const PodManifest *m, const HostFeatures *h, Error *e);
/* The checks that depend on the manifest alone: kernel parameters and sets of system calls as above, and
 * ports that cannot be socket-activated. Apps without an app object, as in templates, are skipped. */
int stage1_manifest_check(const PodManifest *m, Error *e);
/* The kernel parameters of all apps and of the pod: paths below /proc/sys, with values. Errors as above. */
int stage1_sysctls(const PodManifest *m, SharedNamespaces shared, PairList *ret, Error *e);

/* --- Privileges that images request (privileges.c) ----------------------------------------------------- */

/* A request of an app's isolators beyond what an app gets by default. */
typedef struct Privilege {
        IsolatorType type; /* type of the isolator that requests it; ISOLATOR_UNKNOWN: none */
        char *name;        /* name for granting it: CAP_SYS_ADMIN, seccomp, sysctl:NAME, … */
        char *text;        /* description for messages: "no system call filter" */
        char *option;      /* the option that gives it instead of the image, or NULL */
        bool grantable;    /* the operator can grant it to an image */
} Privilege;

typedef struct PrivilegeList {
        Privilege *items;
        size_t n, allocated;
} PrivilegeList;

void privilege_list_done(PrivilegeList *l);
/* The privileges that the isolators L of an app request, in a fixed order. */
int stage1_privileges(const IsolatorList *l, PrivilegeList *ret);
/* Appends the privileges that the ports of an app in the host's network request, in a pod with users of its
 * own: root of the host listens for the port where the app itself could not. Ports that M exposes are
 * requested by the operator and not listed. */
int stage1_port_privileges(const PodManifest *m, const App *a, PrivilegeList *ret);
/* Whether GRANTS (see grants_parse()) contain it. */
bool privilege_is_granted(const Privilege *p, char *const *grants);
/* Bounds a retain set of system calls among L by the default filter. */
int stage1_bound_system_calls(IsolatorList *l, Error *e);
/* Removes from L what goes beyond the defaults, in isolators of the types whose bits are set in TYPES. */
int stage1_withhold_privileges(IsolatorList *l, uint32_t types, Error *e);

/* Detects the controllers of a pod that this process would start now; KEEP_UNIT: as a sibling, in the unit
 * of the host's systemd that this process is in. */
int host_features_detect(bool keep_unit, HostFeatures *ret);
bool host_runs_systemd(void); /* as PID 1 */
/* The mount point of the version 1 hierarchy with the pids controller, if it is mounted and writable; else
 * NULL. */
const char *host_pids_v1_path(void);
/* The same from the list of controllers in FILE, a file of a cgroup. */
int host_features_read(const char *file, HostFeatures *ret);
/* Detects the features that do not depend on cgroups. */
void host_features_detect_security(HostFeatures *h);
