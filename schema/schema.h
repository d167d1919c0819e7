/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* schema/: parses, checks and writes documents: the manifests of App Container 0.8.11, isolators, settings of apps, OCI configs,
 * profiles of system calls.
 *
 * Pure functions, no I/O, no logging. Text is parsed to a structure, or to a list of findings with position
 * in the document (as a path such as apps[1].app.isolators[0].value.limit), error and reason. Structures are
 * written as text in one canonical form. Strings in the structures are NUL-terminated and were valid UTF-8
 * when they came from a document; those that came from a command line may contain any bytes and are written
 * with U+FFFD where they are not UTF-8.
 *
 * Memory: every …_free() accepts NULL and returns NULL. A structure owns everything that its pointers point
 * to.
 */

#include <json-c/json.h>

#include "basic/basic.h"

#define SCHEMA_VERSION "0.8.11"
#define IMAGE_ID_PREFIX "sha512-"
#define IMAGE_ID_LENGTH (7 + 128) /* "sha512-" and 128 hex digits */
#define MANIFEST_SIZE_MAX (4U * 1024U * 1024U)

/* --- Findings ------------------------------------------------------------------------------------------ */

typedef struct Finding {
        char *path; /* position in the document; "": the whole; "line 3, column 7": the text is not JSON */
        char *message;
} Finding;

/* WARNINGS are about valid parts without effect: a document that has only warnings is accepted. */
typedef struct Findings {
        Finding *items;
        size_t n, allocated;
        Finding *warnings;
        size_t n_warnings, warnings_allocated;
} Findings;

int findings_add_warning(Findings *f, const char *path, const char *message);
void findings_done(Findings *f);
#define _cleanup_findings_ _cleanup_(findings_done)

/* --- Simple types (spec: types.md): 0 if S is valid, else -EINVAL with the reason in the error object -- */

int ac_name_check(const char *s, Error *e);
int ac_identifier_check(const char *s, Error *e);
int ac_version_check(const char *s, Error *e);
int image_id_check(const char *s, Error *e);
int uuid_check(const char *s, Error *e); /* RFC 4122 text form, lower or upper case */
int environment_name_check(const char *s, Error *e);
int timestamp_check(const char *s, Error *e); /* RFC 3339 */

/* A quantity ("123Mi", "250m", "0.3", "1G") in units of 1/SCALE: SCALE 1 for bytes (fractions are rounded
 * up), 1000 for milli-cores. Never negative; -ERANGE beyond 2^63-1. */
int quantity_parse(const char *s, uint64_t scale, uint64_t *ret, Error *e);

/* --- Parts of manifests -------------------------------------------------------------------------------- */

/* Labels, annotations, environment, userAnnotations, userLabels: pairs in the order of the document, names
 * unique. */
typedef struct Pair {
        char *name, *value;
} Pair;

typedef struct PairList {
        Pair *items;
        size_t n, allocated;
} PairList;

void pair_list_done(PairList *l);
const char *pair_list_get(const PairList *l, const char *name);      /* NULL if absent */
int pair_list_set(PairList *l, const char *name, const char *value); /* replaces in place, or appends */
void pair_list_remove(PairList *l, const char *name);
int pair_list_copy(const PairList *l, PairList *ret);

typedef enum IsolatorType {
        ISOLATOR_UNKNOWN, /* kept unchanged; reported as ignored when isolators are applied */
        ISOLATOR_RESOURCE_BLOCK_BANDWIDTH,
        ISOLATOR_RESOURCE_BLOCK_IOPS,
        ISOLATOR_RESOURCE_CPU,
        ISOLATOR_RESOURCE_MEMORY,
        ISOLATOR_RESOURCE_NETWORK_BANDWIDTH,
        ISOLATOR_RESOURCE_TASKS, /* not of the specification: processes and threads */
        ISOLATOR_CAPABILITIES_RETAIN_SET,
        ISOLATOR_CAPABILITIES_REMOVE_SET,
        ISOLATOR_SECCOMP_RETAIN_SET,
        ISOLATOR_SECCOMP_REMOVE_SET,
        ISOLATOR_NO_NEW_PRIVILEGES,
        ISOLATOR_SELINUX_CONTEXT,
        ISOLATOR_APPARMOR_PROFILE,
        ISOLATOR_OOM_SCORE_ADJ,
        ISOLATOR_CPU_SHARES,
        ISOLATOR_SYSCTL,
        ISOLATOR_CGROUP, /* not of the specification: further attributes of the app's cgroup */
        _ISOLATOR_TYPE_MAX,
} IsolatorType;

/* "resource/memory", …; NULL for ISOLATOR_UNKNOWN. */
const char *isolator_type_to_string(IsolatorType t);
IsolatorType isolator_type_from_string(const char *s);

typedef struct Isolator {
        char *name;
        IsolatorType type;
        json_object *value; /* as in the document; owned */
        bool of_conf;       /* in a request: a value of acnspawn.conf */

        /* Which of these are set depends on the type. */
        bool has_request, has_limit;
        uint64_t request, limit; /* resource: bytes, bytes/s, operations/s; cpu: milli-cores */
        char **set;       /* capabilities: names in upper case with CAP_; seccomp: names and @wildcards */
        char *errno_name; /* seccomp: "EPERM", or NULL */
        bool enabled;     /* no-new-privileges */
        int64_t number;   /* oom-score-adj, cpu-shares */
        char *text;       /* apparmor profile; selinux "user:role:type:level" */
        PairList sysctl;
        PairList cgroup; /* "memory.high" -> "1048576"; names and values are those of the kernel */
} Isolator;

typedef struct IsolatorList {
        Isolator *items;
        size_t n, allocated;
} IsolatorList;

void isolator_list_done(IsolatorList *l);
/* The effective isolator of TYPE: the last one in L; NULL: none. */
Isolator *isolator_list_find(const IsolatorList *l, IsolatorType type);
#define CGROUP_SWAP_MAX "memory.swap.max"
/* Removes an attribute of the isolator os/linux/cgroup, if it has that. */
int isolator_list_drop_attribute(IsolatorList *l, const char *attribute);
/* Parses one isolator given as name and JSON text of its value (command line). */
int isolator_parse(const char *name, const char *value_json, Isolator *ret, Error *e);
void isolator_done(Isolator *i);

typedef struct MountPoint {
        char *name, *path;
        bool read_only;
} MountPoint;

typedef struct Port {
        char *name, *protocol;
        uint32_t port, count;
        bool socket_activated;
} Port;

typedef struct App {
        char **exec;                   /* may be NULL */
        char **pre_start, **post_stop; /* event handlers; NULL: none */
        char *user, *group;
        uint32_t *supplementary_gids;
        size_t n_supplementary_gids;
        char *working_directory; /* NULL: not given, that is "/" */
        PairList environment;
        IsolatorList isolators;
        MountPoint *mount_points;
        size_t n_mount_points;
        Port *ports;
        size_t n_ports;
        PairList user_annotations, user_labels;
} App;

App *app_free(App *a);
DEFINE_TRIVIAL_CLEANUP_FUNC(App *, app_free);
int app_copy(const App *a, App **ret);

typedef struct Dependency {
        char *image_name;
        char *image_id; /* or NULL */
        PairList labels;
        bool has_size;
        uint64_t size; /* bytes */
} Dependency;

/* --- Image manifest (spec: aci.md) --------------------------------------------------------------------- */

typedef struct ImageManifest {
        char *ac_version, *name;
        PairList labels;
        App *app; /* or NULL */
        Dependency *dependencies;
        size_t n_dependencies;
        char **path_whitelist;
        PairList annotations;
} ImageManifest;

ImageManifest *image_manifest_free(ImageManifest *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(ImageManifest *, image_manifest_free);

/* --- Pod manifest (spec: pods.md) ---------------------------------------------------------------------- */

typedef enum VolumeKind { VOLUME_EMPTY, VOLUME_HOST } VolumeKind;

typedef struct Volume {
        char *name;
        VolumeKind kind;
        char *source; /* host: absolute path */
        bool has_read_only, read_only;
        bool has_recursive, recursive; /* host; absent means recursive */
        uint32_t mode, uid, gid;       /* empty; defaults 0755, 0, 0 */
        /* As in settings.h, or NULL. Not a member of manifests: there it is an annotation of the pod. */
        char *settings;
} Volume;

typedef struct Mount {
        char *volume;
        char *path;         /* absolute; or the name of a mount point, see pod_app_resolve_mounts() */
        Volume *app_volume; /* or NULL */
        bool read_only;     /* not a member of manifests, where it follows from the mount point of that
                             * path */
} Mount;

typedef struct PodApp {
        char *name;
        char *image_id;   /* NULL only in templates, that is before reifying */
        char *image_name; /* or NULL */
        PairList image_labels;
        App *app; /* or NULL: the image's */
        bool read_only_rootfs;
        Mount *mounts;
        size_t n_mounts, mounts_allocated;
        PairList annotations;
        bool tentative; /* not a part of the pod yet, only in memory: left out when the manifest is updated */
        struct PodApp *instead; /* lent: what the updated manifest has in its place, which it is to replace; or NULL */
} PodApp;

typedef struct ExposedPort {
        char *name;
        uint32_t host_port;
        char *host_ip;  /* or NULL */
        Port *pod_port; /* or NULL */
} ExposedPort;

typedef struct PodManifest {
        char *ac_version;
        PodApp **apps; /* on the heap: an app stays where it is while others are added and removed */
        size_t n_apps, apps_allocated;
        Volume *volumes;
        size_t n_volumes, volumes_allocated;
        IsolatorList isolators;
        PairList annotations;
        ExposedPort *ports;
        size_t n_ports, ports_allocated;
        PairList user_annotations, user_labels;
} PodManifest;

PodManifest *pod_manifest_free(PodManifest *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodManifest *, pod_manifest_free);
PodApp *pod_app_free(PodApp *a);
DEFINE_TRIVIAL_CLEANUP_FUNC(PodApp *, pod_app_free);
void volume_done(Volume *v);
void mount_done(Mount *m);
Volume *volume_free(Volume *v);
/* NULL if absent. NAME may be the path of a nested app. */
PodApp *pod_manifest_find_app(const PodManifest *m, const char *name);
/* The name of the app for users: of a nested one its path. */
const char *pod_app_path_name(const PodApp *a);
/* The index of A in M->apps. */
size_t pod_manifest_index_of(const PodManifest *m, const PodApp *a);
Volume *pod_manifest_find_volume(const PodManifest *m, const char *name);
/* Mounts of the 0.5.2 form, which name a mount point instead of a path, have that name as path while the
 * mount points are not known, that is if the pod manifest has no app object. This sets their paths from the
 * mount points of APP, the image's app. -ENOENT: there is no mount point of that name. */
int pod_app_resolve_mounts(PodApp *a, const App *app, Error *e);
/* Checks the requirements for running a pod manifest, beyond what parsing has checked: image IDs, a volume
 * and a path for every mount, a mount for every mount point of app objects. -EINVAL, with the position of
 * the first finding and the number of others. */
int pod_manifest_check_reified(const PodManifest *m, Error *e);
/* Append a zeroed item, to be filled in by the caller. NULL: out of memory. */
PodApp *pod_manifest_add_app(PodManifest *m);
/* Removes the app of that name from the manifest; it is the caller's then. NULL: there is none. */
PodApp *pod_manifest_take_app(PodManifest *m, const char *name);
/* Inserts A at index I, into the slot that pod_manifest_take_app() has freed. */
void pod_manifest_insert_app(PodManifest *m, size_t i, PodApp *a);
Volume *pod_manifest_add_volume(PodManifest *m);
Mount *pod_app_add_mount(PodApp *a);
/* True if A has a read-only mount point at PATH. A mount there is read-only whatever the volume says (spec: aci.md,
 * "mountPoints"). */
bool app_has_read_only(const App *a, const char *path);
PodManifest *pod_manifest_new(void); /* empty, of SCHEMA_VERSION */

/* --- Text to structure and back ------------------------------------------------------------------------ */

/* Parse and validate. On failure -EBADMSG (not JSON) or -EINVAL (JSON, but not valid); FINDINGS, if given,
 * has all findings; the error object has the first finding and the number of others. A reified pod manifest,
 * which is what pods run from, needs an image ID for every app; templates may leave it out if they give a
 * name. SIZE is bounded by MANIFEST_SIZE_MAX (-EFBIG). */
int image_manifest_parse(const char *text, size_t size, ImageManifest **ret, Findings *findings, Error *e);
int pod_manifest_parse(const char *text, size_t size, PodManifest **ret, Findings *findings, Error *e);

/* Strict JSON: duplicate keys, NaN, invalid UTF-8, \u0000, nesting beyond 64, 64-bit overflow, garbage after
 * the end are refused, with line and column. Also used for acnspawn's own files. */
int json_parse_strict(const char *text, size_t size, json_object **ret, Findings *findings, Error *e);
/* The same with tighter bounds of depth and of the number of values: for messages. */
int json_parse_bounded(const char *text, size_t size, size_t depth_max, size_t n_values_max,
                       json_object **ret, Findings *findings, Error *e);
/* Members of documents that no table describes. *RET is lent; it is NULL if there is no such member, or null. OF is the document in
 * messages: "" or " of the profile". -EINVAL: it is of another type, or a list has more than MAX entries. */
int json_member_read(json_object *o, const char *key, json_type type, const char *of, json_object **ret,
                     Error *e);
/* *RET contains no NUL, because parsers of documents refuse such text. */
int json_member_read_text(json_object *o, const char *key, const char *of, const char **ret, Error *e);
int json_member_read_list(json_object *o, const char *key, const char *of, size_t max, json_object **ret,
                          size_t *ret_n, Error *e);
static inline void json_object_putp(json_object **o)
{
        if (*o)
                json_object_put(*o);
}
#define _cleanup_json_ _cleanup_(json_object_putp)
/* A JSON string; bytes that are not UTF-8 become U+FFFD. NULL: out of memory. */
json_object *json_new_string_lossy(const char *s);
/* A list of such strings. */
json_object *json_new_string_list(char *const *l);
/* Appends ITEM to LIST, and takes ownership of it, also on failure. NULL means that it could not be
 * allocated: -ENOMEM. */
int json_list_append(json_object *list, json_object *item);
/* The same for adding a member to O. */
int json_member_add(json_object *o, const char *key, json_object *value);
/* The same, but NULL is JSON's null. */
int json_member_add_nullable(json_object *o, const char *key, json_object *value);
/* A text as json_new_string_lossy() makes it; null if S is NULL. */
int json_member_add_text(json_object *o, const char *key, const char *s);
/* An object with one member, as json_member_add_text() adds it. NULL: out of memory. */
json_object *json_new_text_member(const char *key, const char *s);
/* O as text, in one line; or with two spaces of indentation, and without a newline at the end. O holds it until it is
 * printed again, changed, or freed. NULL: out of memory (which json-c's own functions do not tell). (format.c) */
const char *json_print(json_object *o);
const char *json_print_pretty(json_object *o);

/* Canonical text: keys in the order of the specification, two spaces of indentation, newline at the end.
 * -EFBIG: it would be longer than parsing accepts, e.g. for a pod with many large apps. */
int image_manifest_format(const ImageManifest *m, char **ret);
int pod_manifest_format(const PodManifest *m, char **ret);
/* Annotations as the metadata service serves them: a JSON array of name and value objects. */
int annotations_format(const PairList *l, char **ret);

/* --- Semantics
 * ------------------------------------------------------------------------------------------- */

/* The annotations of an app as the specification merges them: the image's, with the pod manifest's taking
 * precedence. */
int app_annotations_merge(const PairList *image, const PairList *app, PairList *ret);
/* The last component of an image name, turned into a valid AC Name: the default name of an app. */
int app_name_from_image_name(const char *image_name, char **ret);
/* The same for any text; the result has at most MAX characters. */
int ac_name_from(const char *s, size_t max, char **ret);
/* os and arch of this machine as in the label table ("linux", "amd64"). */
const char *host_os_label(void);
const char *host_arch_label(void);
