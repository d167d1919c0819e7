/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/pods/: pod directories and their life cycle, names and ranges of uids, and reifying pod manifest
 * templates. */

#include "prepare/fetch/fetch.h"

/* --- Pods (pod*.c, uids.c) ----------------------------------------------------------------------------- */

typedef enum PodState {
        POD_EMBRYO,
        POD_PREPARING,
        POD_ABORTED_PREPARE, /* preparing, but its process has ended */
        POD_PREPARED,
        POD_RUNNING,
        POD_EXITED,
        POD_GARBAGE, /* being removed */
        _POD_STATE_MAX,
} PodState;

const char *pod_state_to_string(PodState s);

typedef enum ExitPolicy {
        EXIT_ON_FAILURE, /* when all apps have ended, or as soon as one has failed (default) */
        EXIT_ON_ALL,     /* when all apps have ended */
        EXIT_ON_ANY,     /* as soon as one app has ended */
        EXIT_NEVER,      /* only when it is stopped; such a pod needs no apps */
        EXIT_ON_TASKS, /* when all apps that were started have ended; it needs none either, and waits for the first */
        _EXIT_POLICY_MAX,
} ExitPolicy;

/* Whether a pod with that policy can be without apps. */
static inline bool exit_policy_is_open(ExitPolicy p)
{
        return p == EXIT_NEVER || p == EXIT_ON_TASKS;
}
const char *exit_policy_to_string(ExitPolicy p);
int exit_policy_from_string(const char *s); /* -EINVAL */

typedef enum NetMode {
        NET_NONE,     /* loopback only */
        NET_HOST,     /* the host's */
        NET_NETWORKS, /* those of PodConfig.networks */
        _NET_MODE_MAX,
} NetMode;

const char *net_mode_to_string(NetMode m);
int net_mode_from_string(const char *s); /* -EINVAL */
/* Checks a network as given by the user: NAME[:ARG=VALUE[;ARG=VALUE…]]. -EINVAL with the reason. */
int pod_network_check(const char *s, Error *e);

/* Check settings of name resolution as given by the user (pod-resolver.c). The lists are checked as a whole:
 * "none" and "host" cannot be combined with others. -EINVAL with the reason. */
int pod_dns_check(char *const *servers, Error *e);
int pod_dns_search_check(const char *s, Error *e); /* a domain, or "." for none */
int pod_dns_option_check(const char *s, Error *e);
int pod_hosts_entry_check(const char *s, Error *e); /* IP=NAME[,NAME…], or "host" */

/* Check the name of a pod, and of a host (pod-names.c). -EINVAL with the reason. */
int pod_name_check(const char *s, Error *e);
int hostname_check(const char *s, Error *e);

/* The longest name of an app: it becomes part of file and unit names. */
#define APP_NAME_MAX 200U
#define NESTED_APPS_MAX 1024U /* of a pod, at a time */

#define UID_RANGE_SIZE 65536U
#define UID_RANGES_MAX 256U /* of a pod, one after the other */
#define POD_UIDS_MAX (UID_RANGES_MAX * UID_RANGE_SIZE)

/* Properties of a pod beyond the specification's manifest. */
typedef struct PodConfig {
        char *name;            /* or NULL */
        char *hostname;        /* or NULL: derived from the name or the UUID */
        uint32_t uid_base;     /* the pod's users; set also when private_users is off */
        uint32_t n_uid_ranges; /* UID_RANGE_SIZE users each; 0: one, see pod_n_uids() */
        uint32_t n_uids;       /* instead, if the range is no such multiple; 0: it is one */
        bool private_users;
        bool strict;           /* refuse to run unless all isolators are enforced */
        bool reduced_metadata; /* the metadata service shows no environment of apps, nor paths of the host */
        bool no_metadata;      /* no metadata service, and no variables of the App Container specification */
        NetMode net;
        char **networks; /* as of pod_network_check(); not empty if and only if NET_NETWORKS */
        char **dns;      /* "none", "host", or addresses; NULL: those of the network */
        char **dns_search, **dns_options; /* instead of those of the network */
        char **hosts_entries;             /* as of pod_hosts_entry_check() */
        ExitPolicy exit_policy;
        uint64_t stop_timeout_usec; /* from SIGTERM to SIGKILL, and the timeout of a post-stop handler */
        uint64_t exit_idle_usec;    /* stop the pod when its apps are idle for so long; 0: never */
        uint64_t created_usec;      /* since the epoch */
        char *stage1;               /* directory of a systemd tree to boot instead of the host's, or NULL */
        char *predecessor;          /* UUID of the pod that this one was made from, or NULL */
        char *name_from;            /* UUID of the pod that had the name before; NULL: the predecessor */
        char *owner;                /* the program that removes it, or NULL; see pod_set_owner() */
        char *boot_id;              /* not NULL: the pod does not run in another boot of the host */
        bool host_pid, host_ipc;    /* the pod is in these namespaces of the host */
        uint64_t capabilities; /* what an app of it can have, bit n is capability n; 0: a pod of an earlier version */
        char *cgroup_parent; /* "/kubepods/podX": the cgroup, or on hosts with systemd the slice, that it is in; or NULL */
        char *declared_run; /* of a declared pod: how its file says that it is run, in words KEY=VALUE; NULL: not known */
} PodConfig;

void pod_config_done(PodConfig *c);

typedef struct Pod {
        Store *store;
        char *uuid;     /* lower case, with dashes */
        PodState state; /* when the pod was opened or last moved by this process */
        PodState place; /* parent of the directory; differs from STATE if a process was killed (see pod.c) */
        int dir_fd;     /* the pod directory; carries the flock while LOCKED */
        bool locked;
        int store_lock_fd;     /* keeps the images until the pod is published, or pod_keep_images() */
        int readers_fd;        /* has a lock of its readers, see pod_lock_for_reading() */
        PodConfig config;      /* filled in by pod_load() */
        PodManifest *manifest; /* filled in by pod_load(); NULL: none there, damaged, or UNREADABLE */
        bool unreadable; /* set by pod_load() if one of the two, or whose the name is, cannot be read now */
        bool found_by_uuid; /* set by pod_find() */
        bool name_dropped;  /* by pod_drop_name(), in this process */
        char *former_name;  /* set by pod_load() instead of config.name if it belongs to another pod now */
} Pod;

/* The operation of the pod's store, or NULL. */
static inline Operation *pod_operation(const Pod *p)
{
        return p->store ? store_operation(p->store) : NULL;
}

/* The pod in messages: its name, unless it has none or the user has given its UUID. */
const char *pod_display_name(const Pod *p);

Pod *pod_free(Pod *p); /* closes and so unlocks */
DEFINE_TRIVIAL_CLEANUP_FUNC(Pod *, pod_free);

/* A new pod directory with a fresh UUID, locked, in the state preparing. */
int pod_new(Store *s, Pod **ret, Error *e);
/* Gives the pod (state preparing) its range of uids; disjoint from every other pod's and from the host's
 * users. */
int pod_allocate_uids(Pod *p, Error *e);
/* The same with the N users from BASE on. -EUSERS: another pod, which has not ended, has users in the same blocks. */
int pod_take_uids(Pod *p, uint32_t base, uint32_t n, Error *e);
/* True if N users from BASE on can be those of a pod, whether or not they are free. */
bool pod_uids_are_valid(uint32_t base, uint32_t n);
/* How many users the pod has. */
static inline uint32_t pod_n_uids(const PodConfig *c)
{
        return c->n_uids > 0 ? c->n_uids : MAX(c->n_uid_ranges, 1U) * UID_RANGE_SIZE;
}
/* Users are registered by blocks of UID_RANGE_SIZE, from multiples of that on: the first uid of the first block that the pod has
 * users in, and the number of blocks. No other pod has users in these. */
static inline uint32_t pod_first_block(const PodConfig *c)
{
        return c->uid_base - c->uid_base % UID_RANGE_SIZE;
}
static inline uint32_t pod_n_blocks(const PodConfig *c)
{
        return (c->uid_base % UID_RANGE_SIZE + pod_n_uids(c) + UID_RANGE_SIZE - 1) / UID_RANGE_SIZE;
}
/* Reserves the pod's name; -EEXIST with the pod that has it. */
int pod_reserve_name(Pod *p, const char *name, Error *e);
/* Others can have the name of P, which this process has locked, from now on. */
void pod_drop_name(Pod *p);
/* The opposite, unless another pod has taken it meanwhile, or P has not dropped it. */
void pod_take_name_back(Pod *p);
/* Makes P (state preparing) the successor of OLD, which this process has locked and which has ended: OLD's
 * name, if it has one, passes to P when P is published; or that of HOLDER (or NULL), of which the same is true. -EBUSY: another process was faster; -EEXIST: a name
 * that OLD once had belongs to a third pod. (pod-successor.c) */
int pod_succeed(Pod *p, Pod *old, Pod *holder, Error *e);
/* Whether P was made of OLD, or of a successor of it and so on. */
bool pod_descends_from(const Pod *p, const Pod *old);
/* -EBUSY: OLD, which the caller has locked, has a successor that has not ended; or the name that it had in
 * REFERENCE, opened earlier, has passed to one. */
int pod_successor_check(Pod *old, const Pod *reference, Error *e);
/* The latest successor of P, if it still exists; else *RET is NULL. */
int pod_successor(const Pod *p, char **ret);
/* Returns the name of P, which is about to be removed, to the pod that it had the name from, if that still exists. */
void pod_return_name(Pod *p);
/* To be called before the preparation of P, which has a manifest, waits for long: the manifest is written, so that other
 * processes see which images P needs, and the lock of the store is released. What changes later is written again when
 * P is published. */
int pod_keep_images(Pod *p, Error *e);
/* Writes config and manifest, syncs, and makes the pod prepared. On failure the pod is removed again. */
int pod_publish(Pod *p, Error *e);
/* The file with a pod's manifest. pod_format_manifest() formats the manifest of a running pod, which its supervisor has
 * changed, without tentative apps. -E2BIG: it is too large. */
#define POD_MANIFEST_FILE "pod"
int pod_format_manifest(Pod *p, char **ret, Error *e);
/* Replaces the file with that text, atomically and durably. Files of apps and volumes that left the manifest can be removed
 * afterwards. */
int pod_update_manifest(Pod *p, Error *e);
/* Removes a pod that could not be prepared. */
void pod_abandon(Pod *p);

/* Finds a pod by UUID, unique prefix of it (at least one digit), or name; determines its state; loads config
 * and manifest if they exist. Messages list candidates. */
int pod_find(Store *s, const char *reference, Pod **ret, Error *e);
/* The pod of exactly that UUID, in lower case, without config and manifest. -ENOENT. */
int pod_look(Store *s, const char *uuid, Pod **ret, Error *e);
/* Reads config and manifest (again). pod_find() and pod_list() call it themselves, but ignore failure, so
 * that damaged pods can be shown and removed: this returns the error. */
int pod_load(Pod *p, Error *e);
/* All pods, by time of creation. Pods that are removed meanwhile are left out; incomplete ones are listed
 * with their state. Pods that cannot be opened are left out with a message of the store's operation. */
int pod_list(Store *s, Pod ***ret, size_t *ret_n, Error *e);
/* The same, with the UUIDs of the latter. */
int pod_list_with_unread(Store *s, Pod ***ret, size_t *ret_n, char ***unread, Error *e);
/* The same, which fails if a pod cannot be opened: for what must not take that for "there is no such pod". */
int pod_list_all(Store *s, Pod ***ret, size_t *ret_n, Error *e);
void pod_list_free(Pod **l, size_t n);
/* The layers in the file PATH of the pod's directory, at least one, the uppermost first (pod-lowers.c). */
int pod_lowers_read(const Pod *p, const char *path, char ***ret);
/* The host's uid of the pod's root user. */
uint32_t pod_root_uid(const Pod *p);
/* Absolute path of the pod directory in its present state. */
int pod_path(const Pod *p, char **ret);
/* When a pod that has run ended, in microseconds since the epoch. */
uint64_t pod_ended_usec(const Pod *p);
/* How long ago that was, and its creation, as far as it can be known where the clock was set since. */
uint64_t pod_ended_age_usec(const Pod *p);
uint64_t pod_created_age_usec(const Pod *p);
/* Whether the host was rebooted before the end of a pod, which has ended, could be recorded (pod-boot.c). */
bool pod_ended_by_reboot(const Pod *p);
/* Whether it was started in another boot of the host, of which nothing but what is on disk is left. */
bool pod_ran_in_earlier_boot(const Pod *p);
/* True if it was copied, with its store, after it was started, and the pod that it was copied from is there: the cgroups, networks and
 * other objects of the host that its records name are those of that pod. */
bool pod_is_copy(const Pod *p);
/* When it was created, as in its configuration; without a configuration, the time of its directory. */
uint64_t pod_created_usec(const Pod *p);

/* Takes the lock of a prepared pod: nothing removes it, or runs it, until this process has ended. -EBUSY: another process was
 * faster; -ESTALE: exited already. */
int pod_lock_to_run(Pod *p, Error *e);
/* prepared -> running; takes that lock; dir_fd may be inherited by the supervisor. Errors as above. */
int pod_begin_run(Pod *p, Error *e);
/* Makes that move durable, which takes a while. Until then a loss of power may make it a prepared pod again, so nothing
 * that cannot be repeated must be done before. A pod with an owner never runs again: this makes the pod itself durable,
 * at any time before it is reported as up. */
int pod_sync_run(const Pod *p, Error *e);
/* The files that hold the space for records of a pod until it has ended (file_reserve_at()): of its end, of its result, and of its apps
 * (STATUS_RESERVE). */
#define POD_ENDED_RESERVE "ended.reserve"
#define POD_RESULT_RESERVE "result.reserve"
#define POD_STATUS_RESERVE "status/.reserve"
/* running -> exited. The lock is kept until the pod is freed. */
int pod_end_run(Pod *p, Error *e);
/* Removes a pod that is not running. -EBUSY: it is. */
int pod_remove(Pod *p, Error *e);
/* Releases the name and the users of a locked pod that never runs again and cannot be removed yet, so that other pods can
 * have them. Returns how many were released. */
size_t pod_drop_keys(const Pod *p);

/* --- For garbage collection (pod.c, pod-life.c, pod-links.c) ------------------------------------------- */

/* The pod of exactly that UUID, with config and manifest, if these can be read. -ENOENT. */
int pod_open(Store *s, const char *uuid, Pod **ret, Error *e);
/* The same for the pod that has the name. */
int pod_open_by_name(Store *s, const char *name, Pod **ret, Error *e);
/* Locks the pod, and updates its state if it was moved before. WAIT: wait for processes that only check
 * whether it is locked. -EBUSY: another process has the lock; -ENOENT: it was removed. */
int pod_lock(Pod *p, bool wait, Error *e);
/* Gives the lock back. */
void pod_unlock(Pod *p);
/* Shares the files of a pod that has ended, and its images, with other readers, until P is freed. -EBUSY, -ENOENT. (pod-readers.c) */
int pod_lock_for_reading(Pod *p, Error *e);
/* Whether a process has such a lock of the pod whose directory is PATH in the store, or that cannot be found out. While the
 * caller holds the store's lock exclusively, none gets one. */
bool pod_is_read(const Store *s, const char *path);
/* For the process that has locked the pod, before it changes or removes the files: there are no readers, until P is freed. WAIT: wait
 * for them, for a second. -EBUSY. */
int pod_exclude_readers(Pod *p, bool wait, Error *e);
/* Takes FD, the pod's directory opened and locked by another process, and its lock for P. -ESTALE: it is
 * another directory; -EBUSY: it is locked, but by another descriptor. */
int pod_take_lock(Pod *p, int fd, Error *e);
/* Every pod there is, whatever its state; sorted. */
int pod_list_uuids(Store *s, char ***ret, Error *e);

/* Resources that only one pod may have. */
typedef enum Registry { REGISTRY_NAMES, REGISTRY_UIDS, _REGISTRY_MAX } Registry;

const char *registry_directory(Registry g); /* "names" */
/* Removes the links whose pods do not exist any more; appends their keys to the list. */
int registry_collect(Store *s, Registry g, bool dry_run, char ***removed, Error *e);
/* The same for ranges of uids that are registered on the host for pods of any store; those of S are removed, but
 * not appended. */
int host_uids_collect(const Store *s, bool dry_run, char ***removed, Error *e);

/* Removes the links in /var/log/journal that lead to journals of pods of S that do not exist any more. */
void pod_journal_links_collect(const Store *s);

/* --- Pods of other programs (pod-owner.c) -------------------------------------------------------------- */

#define OWNER_DATA_SIZE_MAX (256U * 1024U) /* of a pod, and of each app */

/* Data that the owner of a pod keeps with the pod, or with an app. */
typedef struct OwnerData {
        void *data; /* NULL: nothing */
        size_t size;
} OwnerData;

/* Makes OWNER, an AC name, the owner of P (state preparing): collectors do not remove the pod before the host was rebooted,
 * and it is not synced to disk before pod_sync_run(). */
int pod_set_owner(Pod *p, const char *owner, Error *e);
/* Whether P has an owner, and is a leftover of an earlier boot of the host. */
bool pod_is_of_former_boot(const Pod *p);
/* Writes the data of the pod (APP is NULL), or of an app whose directory exists; nothing without data. */
int pod_owner_data_write(const Pod *p, const PodApp *app, const OwnerData *d, Error *e);
/* Replaces the data at once, also while the pod runs. The time of the file stays. */
int pod_owner_data_replace(const Pod *p, const PodApp *app, const OwnerData *d, Error *e);
/* -ENOENT: there are none. RET->data, to be freed, has a NUL behind it. */
int pod_owner_data_read(const Pod *p, const PodApp *app, OwnerData *ret, Error *e);
/* Checks a cgroup as in PodConfig.cgroup_parent: an absolute path without "." and "..". -EINVAL. */
int pod_cgroup_parent_check(const char *s, Error *e);

/* --- Origins of isolators, and privileges granted to images (pod-grants.c) ----------------------------- */

typedef enum GrantSource {
        GRANT_UNKNOWN, /* not recorded: a pod of an earlier version */
        GRANT_IMAGE,   /* the image's manifest */
        GRANT_COMMAND_LINE,
        GRANT_POD_MANIFEST,
        GRANT_CONFIGURATION, /* acnspawn.conf */
        _GRANT_SOURCE_MAX,
} GrantSource;

/* The decision about a privilege that an image requests (see stage1/privileges.c). */
typedef enum GrantDecision {
        GRANT_GRANTED,  /* the app has it */
        GRANT_REPLACED, /* another isolator replaces the image's */
        GRANT_WITHHELD, /* the app runs within the defaults */
        _GRANT_DECISION_MAX,
} GrantDecision;

const char *grant_source_to_string(GrantSource s);
const char *grant_decision_to_string(GrantDecision d);

typedef struct IsolatorOrigin {
        char *app; /* NULL: the pod's own */
        char *isolator;
        GrantSource source;
} IsolatorOrigin;

typedef struct Grant {
        char *app, *isolator; /* isolator: NULL if none requests it */
        char *name, *text;    /* as of a Privilege */
        GrantDecision decision;
        GrantSource by; /* source of the decision */
} Grant;

typedef struct PodGrants {
        IsolatorOrigin *origins;
        size_t n_origins, origins_allocated;
        Grant *grants;
        size_t n_grants, grants_allocated;
} PodGrants;

void pod_grants_done(PodGrants *g);
/* APP is NULL for an isolator of the pod as a whole. All strings are copied. */
int pod_grants_add_origin(PodGrants *g, const char *app, const char *isolator, GrantSource source);
int pod_grants_add(PodGrants *g, const Grant *grant);
GrantSource pod_grants_source(const PodGrants *g, const char *app, const char *isolator);
/* Writes the record into the pod directory, in one step; none if there is nothing to record. */
int pod_grants_write(const Pod *p, const PodGrants *g, Error *e);
/* The same of APP alone, which is added to a running pod: it is written beside the other files of the app. */
int pod_grants_write_app(const Pod *p, const PodApp *app, const PodGrants *g, Error *e);
/* The path and the content of that file after isolators of APP, which runs, were changed by SOURCE: those of TYPES, as bits. */
int pod_grants_format_app(const Pod *p, const PodApp *app, uint32_t types, GrantSource source,
                          char **ret_path, char **ret_text, Error *e);
/* Empty for a pod that has no record. */
int pod_grants_read(const Pod *p, PodGrants *ret, Error *e);

/* --- Reifying (reify*.c; spec: pods.md) ---------------------------------------------------------------- */

/* --- Credentials of apps (credentials.c) --------------------------------------------------------------- */

#define CREDENTIALS_MAX 256U                 /* of one app */
#define CREDENTIALS_SIZE_MAX (1024U * 1024U) /* of all of them */

typedef enum CredentialSource {
        CREDENTIAL_GIVEN, /* the secret itself was on the command line */
        CREDENTIAL_INPUT, /* standard input, or another file that can be read only once */
        CREDENTIAL_FILE,  /* a file or a socket, which can be read again */
        _CREDENTIAL_SOURCE_MAX,
} CredentialSource;

typedef struct Credential {
        char *name;
        void *data; /* cleared before it is freed; NULL if read from a definition */
        size_t size;
        CredentialSource source;
        char *path; /* absolute; of CREDENTIAL_FILE only */
} Credential;

typedef struct CredentialList {
        Credential *items;
        size_t n, allocated;
} CredentialList;

void credential_list_done(CredentialList *l);
/* Adds a copy of DATA, also to a credential that was read from a definition. The error is a part of a sentence: the name is
 * not valid or was given before, or a limit is exceeded. */
int credential_list_add(CredentialList *l, const char *name, const void *data, size_t size, Error *e);
/* The same of hexadecimal digits. */
int credential_list_add_hex(CredentialList *l, const char *name, const char *hex, Error *e);
/* The same with the content of the file PATH: "-" for standard input; a socket on which a process listens
 * that writes the secret and closes the connection. (credential-file.c) */
int credential_list_add_file(CredentialList *l, const char *name, const char *path, Error *e);
bool pod_app_has_credentials(const Pod *p, const PodApp *app);
/* The directory in which they are until they are taken into memory; it is empty then, and from the beginning if APP has
 * those of the app that it replaces. -ENOENT: it has none. */
int pod_app_open_credentials(const Pod *p, const PodApp *app);

/* Options of the command line for one app; NULL or empty members change nothing. */
typedef struct AppOverrides {
        char *reference; /* the image as given by the user */
        char *name;
        char **exec; /* replaces the image's program and its arguments */
        char **args; /* appended to EXEC if that is given, else to the image's command */
        char *user, *group, *working_directory;
        PairList environment; /* added; take precedence */
        PairList annotations, user_annotations, user_labels;
        /* Replace those of the same name; sets to remove replace sets to retain and vice versa. */
        IsolatorList isolators;
        Mount *mounts;
        size_t n_mounts, mounts_allocated;
        CredentialList credentials;
        bool read_only_rootfs;
        uint32_t *supplementary_gids; /* replace the image's */
        size_t n_supplementary_gids, supplementary_gids_allocated;
        OwnerData owner_data;
        bool separate; /* what the request has for all apps is not for this one */
        /* Of an app that is added to a running pod; not in definitions: */
        char *parent;           /* the app that it is nested under; or NULL */
        uint64_t nested_number; /* unique in the pod, as nested_name() has it */
} AppOverrides;

void app_overrides_done(AppOverrides *o);

/* A request for a pod. Either template or apps is given (or neither, if the exit policy allows a pod without
 * apps); the rest is added to both. A mount's path may be the name of a mount point of the app. */
typedef struct PodRequest {
        PodManifest *template; /* --pod-manifest, or NULL */
        AppOverrides *apps;
        size_t n_apps, apps_allocated;
        Volume *volumes;
        size_t n_volumes, volumes_allocated;
        Mount *mounts; /* for all apps */
        size_t n_mounts, mounts_allocated;
        PairList annotations, user_annotations, user_labels;
        PairList environment;       /* for all apps */
        CredentialList credentials; /* for all apps; an app's own of the same name take precedence */
        IsolatorList isolators;
        ExposedPort *ports;
        size_t n_ports, ports_allocated;
        const FetchOptions *fetch; /* how images are fetched; NULL: only local ones are used */
        bool verify;               /* refuse images that were altered in the store */
        /* IDs of images of the store, one per app, that are used instead of the references of the apps; or
         * NULL. Not owned. */
        const char *const *image_ids;
        bool again; /* of a pod that was prepared before, maybe by a version that refused less */
} PodRequest;

void pod_request_done(PodRequest *r);
/* R: of a check that there was not always, and without which at most apps do not start. What it has refused is a warning for a pod
 * that is made again. */
int pod_request_tolerate(const PodRequest *q, int r, char ***warnings, Error *e);
/* Moves the apps and volumes of Q's template to Q, which has none of its own, and removes the template.
 * -EINVAL: something in it is for pods as a whole, or cannot be said of an app in that form. */
int pod_request_take_template(PodRequest *q, Error *e);
/* Appends the names of the named volumes that Q is for, each once (request-volumes.c). -ENOMEM. */
int request_named_volumes(const PodRequest *q, char ***names);
/* The same of a pod that is being prepared and has no manifest yet. */
int pod_awaited_volumes(const Pod *p, char ***ret);

/* --- Definitions of pods (definition.c) ---------------------------------------------------------------- */

/* The image that an app of the pod has run from. */
typedef struct DefinedImage {
        char *app, *id, *name;
} DefinedImage;

/* The request that a pod was made from, fit to make the pod again: apps have their final names, paths are
 * absolute; credentials have sources but no content, and FETCH is NULL. Members of PodConfig are not in
 * it. */
typedef struct PodDefinition {
        PodRequest request;
        DefinedImage *images; /* of the apps, in the order of the request */
        size_t n_images, images_allocated;
} PodDefinition;

void pod_definition_done(PodDefinition *d);
/* Writes the file "definition" of P (state preparing, with its manifest). -E2BIG: it would be too large. */
int pod_definition_write(const Pod *p, const PodRequest *q, Error *e);
/* -ENOENT: P is of a version that wrote none. -EINVAL, -EBADMSG, -EFBIG: it is damaged. */
int pod_definition_read(const Pod *p, PodDefinition *ret, Error *e);
/* The same as the pod is by now, with the apps that it has: those that were added, limits and images that were changed while
 * it ran (definition-apps.c). */
int pod_definition_read_current(const Pod *p, PodDefinition *ret, Error *e);
/* The definition of APP, one of P's, alone: a request with one app, which has what the pod's definition has for all apps. */
int pod_app_definition_read(const Pod *p, const PodApp *app, PodDefinition *ret, Error *e);
/* Sets the image of D's one app to ID, and the user's reference of it to REFERENCE. */
int pod_definition_set_image(PodDefinition *d, const char *reference, const char *id);
/* The file, in the pod directory, with that of APP, and its content: Q has that app. It is beside other files of the app. */
int pod_app_definition_format(const Pod *p, const PodApp *app, const PodRequest *q, char **ret_path,
                              char **ret_text, Error *e);
/* Writes that, in one step. It is not synced. */
int pod_app_definition_write(const Pod *p, const PodApp *app, const PodRequest *q, Error *e);
/* Copies what Q has for all apps to each of its apps, and marks these as separate. */
int pod_request_separate(PodRequest *q);

/* definition-compare.c: the members of a definition in which two requests differ, sorted; of members that are lists of named
 * items each item, as "isolators/resource/memory". Those of apps are not among the former, which has volumes only if both
 * requests have the volume. The image of an app is not compared: a reference can mean another one by now. Both requests are
 * separate, and have no template. -ENOMEM. */
int pod_request_compare(const PodRequest *a, const PodRequest *b, char ***ret);
int app_overrides_compare(const AppOverrides *a, const AppOverrides *b, char ***ret);

/* Checks a template, as far as possible without its images, the host and the pod's exit policy, which decides
 * whether it may be without apps; the error is that of pod_reify(). */
int pod_template_check(const PodManifest *t, Error *e);

/* Fills in the pod P (state preparing): resolves every image, merges the request, satisfies mount points by
 * volumes (or by implicit empty volumes, each with a warning), checks host volumes, and writes apps/ and
 * volumes/ of the pod directory. The pod's uids must be allocated and config.private_users set before.
 * P->manifest is the reified manifest afterwards: its apps always have app, image_id and image_name, mounts
 * never have volumes of their own (app_volume; they become volumes of the pod). A mount point that is
 * read-only makes the mount on its path so. Images cannot be removed from now on until the pod is published
 * or freed. WARNINGS gets lines for the user. Errors name the app and the member. */
int pod_reify(Pod *p, const PodRequest *request, char ***warnings, Error *e);
/* Adds the one app of REQUEST to the running pod P in the same way: to P->manifest, and to the pod directory, where
 * nothing of another app is changed. Images have to be in the store, and cannot be removed until P->store_lock_fd is
 * closed. After a failure P->manifest is of no use any more: this is for a process that then ends.
 * OLD, which is not in P->manifest any more, is the app that it replaces, or NULL: then its files are made beside those of
 * OLD, its volumes stay, and so do its credentials unless REQUEST has the content of all. */
int pod_reify_app(Pod *p, const PodRequest *request, const PodApp *old, char ***warnings, Error *e);

/* --- Directories of apps (pod-app-path.c) -------------------------------------------------------------- */

/* The path, in the pod directory, of what APP has there, or (FILE is not NULL) of one of these: the manifest of its image,
 * its "lowers", "launch", "upper" and "work", and its "definition" and "grants" if it came or was changed while the pod ran. */
int pod_app_path(const Pod *p, const PodApp *app, const char *file, char **ret);
/* Adds a read-only mount point at the path of M, a mount of A, if M is read-only: so the manifest keeps that. */
int pod_app_keep_read_only(PodApp *a, const Mount *m, Error *e);
/* The name of the directory below "apps" of an app that replaces another one of its name. */
int pod_app_replacement(const PodApp *app, char **ret);

/* --- Images that failed (pod-failed-image.c) ------------------------------------------------------------ */

/* The image with which APP did not get ready when it was updated; *RET is NULL: none. */
int pod_failed_image_read(const Pod *p, const PodApp *app, char **ret);
int pod_failed_image_write(const Pod *p, const PodApp *app, const char *id, Error *e);

/* --- Apps of a running pod (pod-apps.c) ---------------------------------------------------------------- */

/* What was added to P->manifest after FIRST_APP apps and FIRST_VOLUME volumes, as a pod manifest. */
int pod_format_added(const Pod *p, size_t first_app, size_t first_volume, char **ret, Error *e);
/* Moves the app and the volumes of ADDED, the parsed text of pod_format_added(), to P->manifest. *RET_VOLUMES are the names
 * of the volumes. */
int pod_merge_added(Pod *p, PodManifest *added, PodApp **ret, char ***ret_volumes, Error *e);
/* Removes a volume from P->manifest, with its settings, if no app mounts it any more. */
void pod_drop_volume(Pod *p, const char *name);
/* Makes the files of these apps and volumes durable; those of what is removed stay as they are. Credentials are of no use after a
 * loss of power, as the pod runs. */
int pod_sync_added(const Pod *p, size_t first_app, size_t first_volume, Error *e);
/* Removes the files of apps and volumes that are neither in P->manifest nor in the manifest on disk. */
int pod_sweep(const Pod *p);
/* Writes a request for one app as JSON, without the content of credentials (definition.c). */
int app_request_format(const PodRequest *q, json_object **ret, Error *e);
/* Reads it into *RET, which is empty before. -EINVAL, with the member that is not valid. */
int app_request_parse(json_object *o, PodDefinition *ret, Error *e);
/* The same of a whole pod, with any number of apps, or a pod manifest instead. */
int pod_request_parse(json_object *o, PodDefinition *ret, Error *e);
