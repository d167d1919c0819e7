/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/: everything before a pod runs, and what stays of it afterwards: reading image archives, the
 * content-addressed store, the pod directories and their life cycle, and turning a pod manifest template
 * into a reified one.
 *
 * The store, by default /var/lib/acnspawn (mode 0700, root's):
 *
 *     version                      "1\n": the layout below; another number is refused
 *     lock                         flock: shared while images are looked up for a pod, exclusive while they
 *                                  are removed
 *     tmp/                         images being unpacked; anything there that is not locked is rubbish
 *     images/sha512-<128 hex>/     one image: complete or absent (renamed into place)
 *         manifest  rootfs/  info  info: JSON with the time of import, size, where it came from
 *         used                     empty; its modification time is when the image was used last
 *     rendered/<key>/              what an image with a pathWhitelist and its dependencies come to: complete
 *                                  or absent
 *         rootfs/  layers          hard links to files of images; the layers it was made from, one a line
 *     pods/{embryo,preparing,prepared,running,exited,garbage}/<uuid>/
 *         pod                      the reified pod manifest
 *         config                   PodConfig as JSON
 *         apps/<app>/manifest      the image's manifest
 *             lowers               one overlay lower directory per line, uppermost first
 *             launch               the launch file (stage1/)
 *             upper/  work/        of the overlay
 *         volumes/<volume>/        empty volumes
 *         root/                    the root of the pod's own systemd (written by stage1/); in it, once it
 *                                  runs, acnspawn/status/<app> (how the apps ended) and
 *                                  var/log/journal/<id>/ (what they wrote)
 *         runtime control cgroups  while it runs: its processes, the socket of the one that runs it, its
 *         mounts/                  cgroups, and where that one has its mounts
 *         result                   how the pod ended (all of these written by stage0/)
 *         ended                    when it ended: microseconds since the epoch, in decimal
 *     names/<name>                 symlink to the UUID of the pod of that name
 *     uids/<base>                  symlink to the UUID of the pod that owns the 65536 uids from <base> on
 */

#include "schema/schema.h"

/* --- Store (store.c) ----------------------------------------------------------------------------------- */

typedef struct Store Store;

/* Opens the store at DIR, creating it if it is missing. Refused with a message: a directory that others can
 * write to, is not ours, is of another layout version, or lies on a file system that cannot carry pods. */
int store_open(const char *dir, Store **ret, Error *e);
Store *store_unref(Store *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Store *, store_unref);
const char *store_path(const Store *s); /* absolute, without symlinks */
int store_fd(const Store *s);           /* stays owned by the store */

/* --- Images (archive.c, image*.c, layers.c) ------------------------------------------------------------ */

typedef struct Image {
        char *id;            /* sha512-… */
        int dir_fd;          /* images/<id>, O_PATH or readable */
        char *manifest_text; /* byte for byte as in the archive */
        size_t manifest_size;
        ImageManifest *manifest;
        uint64_t import_time; /* microseconds since the epoch */
        uint64_t last_used;
        uint64_t size; /* bytes of the uncompressed archive */
} Image;

Image *image_free(Image *i);
DEFINE_TRIVIAL_CLEANUP_FUNC(Image *, image_free);

/* Imports an ACI (tar, plain or compressed with gzip, bzip2 or xz) from FD in one pass. ORIGIN is how
 * messages and the info file name it. The image appears in the store whole or not at all; importing what is
 * there already is success. */
int image_import(Store *s, int fd, const char *origin, Image **ret, Error *e);
/* Finds an image by what a user may write: an existing file (imported first; must contain '/' or end in
 * .aci), an ID, a unique prefix of an ID ("sha512-abcd" or at least four hex digits), or
 * name[:version][,label=value]…. Of several that match a name those for this host's os and arch win, then
 * the highest version, then the latest import. Messages list candidates and near misses. */
int image_find(Store *s, const char *reference, Image **ret, Error *e);
int image_open(Store *s, const char *id, Image **ret, Error *e); /* exact ID */
/* Sorted by name, then version. */
int image_list(Store *s, Image ***ret, size_t *ret_n, Error *e);
void image_list_free(Image **l, size_t n);
/* Refuses an image that a pod that is prepared or running needs (message lists the pods) or another image
 * depends on. */
int image_remove(Store *s, const char *reference, char **ret_id, Error *e);
/* The overlay lower directories that render the image, uppermost first, as absolute paths (spec: ace.md,
 * "Filesystem Setup"): its own rootfs, then its dependencies in reverse order of override. */
int image_layers(Store *s, const Image *i, char ***ret, Error *e);

/* --- Pods (pod*.c, uids.c) ----------------------------------------------------------------------------- */

typedef enum PodState {
        POD_EMBRYO,
        POD_PREPARING,
        POD_ABORTED_PREPARE, /* preparing, but nobody is at it any more */
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
        _EXIT_POLICY_MAX,
} ExitPolicy;

const char *exit_policy_to_string(ExitPolicy p);
int exit_policy_from_string(const char *s); /* -EINVAL */

typedef enum NetMode { NET_NONE, NET_HOST, _NET_MODE_MAX } NetMode;

const char *net_mode_to_string(NetMode m);
int net_mode_from_string(const char *s); /* -EINVAL */

#define UID_RANGE_SIZE 65536U

/* What acnspawn knows of a pod beyond the specification's manifest. */
typedef struct PodConfig {
        char *name;        /* or NULL */
        char *hostname;    /* or NULL: derived from the name or the UUID */
        uint32_t uid_base; /* the pod's range; there also when private_users is off */
        bool private_users;
        NetMode net;
        ExitPolicy exit_policy;
        uint64_t stop_timeout_usec; /* from SIGTERM to SIGKILL, and the bound of a post-stop handler */
        uint64_t created_usec;      /* since the epoch */
        char *stage1;               /* directory of a systemd tree to boot instead of the host's, or NULL */
} PodConfig;

void pod_config_done(PodConfig *c);

typedef struct Pod {
        Store *store;
        char *uuid;     /* lower case, with dashes */
        PodState state; /* as it was when the pod was looked at or last moved by us */
        PodState place; /* where the directory lies; not as STATE says if a process was killed (see pod.c) */
        int dir_fd;     /* the pod directory; carries the flock while LOCKED */
        bool locked;
        int store_lock_fd;     /* prepare's own: keeps the images until the pod is published */
        PodConfig config;      /* filled in by pod_load() */
        PodManifest *manifest; /* filled in by pod_load(); NULL: none there, or damaged */
} Pod;

Pod *pod_free(Pod *p); /* closes and so unlocks */
DEFINE_TRIVIAL_CLEANUP_FUNC(Pod *, pod_free);

/* A new pod directory with a fresh UUID, locked, in the state preparing. */
int pod_new(Store *s, Pod **ret, Error *e);
/* Gives the pod (state preparing) its range of uids; disjoint from every other pod's and from the host's
 * users. */
int pod_allocate_uids(Pod *p, Error *e);
/* Reserves the pod's name; -EEXIST with the pod that has it. */
int pod_reserve_name(Pod *p, const char *name, Error *e);
/* Writes config and manifest, syncs, and makes the pod prepared. On failure the pod is removed again. */
int pod_publish(Pod *p, Error *e);
/* Removes a pod that could not be prepared. */
void pod_abandon(Pod *p);

/* Finds a pod by UUID, unique prefix of it (at least one digit), or name; tells its state; loads config and
 * manifest where they are there. Messages list candidates. */
int pod_find(Store *s, const char *reference, Pod **ret, Error *e);
/* Reads config and manifest (again). pod_find() and pod_list() do so by themselves, but let a pod pass where
 * that fails, so that it can be shown and removed: this tells why. */
int pod_load(Pod *p, Error *e);
/* All pods, by time of creation. Those that vanish or are half made while we look are left out or shown with
 * their state. */
int pod_list(Store *s, Pod ***ret, size_t *ret_n, Error *e);
void pod_list_free(Pod **l, size_t n);
/* Absolute path of the pod directory in its present state. */
int pod_path(const Pod *p, char **ret);
/* When a pod that has run ended, in microseconds since the epoch. */
uint64_t pod_ended_usec(const Pod *p);

/* prepared -> running; we hold the lock from here on, and dir_fd may be inherited by whoever is to keep the
 * pod running. -EBUSY: somebody else was faster; -ESTALE: exited already (a pod runs once). */
int pod_begin_run(Pod *p, Error *e);
/* running -> exited. The lock is kept until the pod is freed. */
int pod_end_run(Pod *p, Error *e);
/* Removes a pod that is not running. -EBUSY: it is. */
int pod_remove(Pod *p, Error *e);

typedef struct GcOptions {
        uint64_t grace_usec;           /* exited pods younger than this stay */
        uint64_t expire_prepared_usec; /* prepared pods older than this go; UINT64_MAX: never */
        bool dry_run;
        /* Called before a pod directory goes, to take away what it left outside (cgroups, for one); if it
         * fails, the pod stays. May be NULL. */
        int (*release)(Pod *p, void *userdata, Error *e);
        /* Called for each pod or piece of rubbish that was removed (or would be). May be NULL. */
        void (*removed)(const char *what, void *userdata);
        void *userdata;
} GcOptions;

/* Removes what nobody needs any more: pods that ended, preparations that were aborted, unpacked halves of
 * images, names and uid ranges without a pod. Goes on after a failure and returns the first. */
int store_gc(Store *s, const GcOptions *o, Error *e);

/* --- Reifying (reify*.c; spec: pods.md) ---------------------------------------------------------------- */

/* What the command line asks of one app beyond its image; NULL or empty members change nothing. */
typedef struct AppOverrides {
        char *reference; /* what the user wrote for the image */
        char *name;
        char **exec; /* replaces what the image executes, the program and its arguments */
        char **args; /* appended to EXEC if that is given, else to what the image executes */
        char *user, *group, *working_directory;
        PairList environment; /* added, taking precedence */
        PairList annotations, user_annotations, user_labels;
        /* Replace those of the same name, and sets to remove those to retain and vice versa. */
        IsolatorList isolators;
        Mount *mounts;
        size_t n_mounts, mounts_allocated;
        bool read_only_rootfs;
        uint32_t *supplementary_gids; /* replace the image's */
        size_t n_supplementary_gids, supplementary_gids_allocated;
} AppOverrides;

void app_overrides_done(AppOverrides *o);

/* What the command line asks of a pod. Either template or apps is given; the rest adds to both. A mount's
 * path may be the name of a mount point of the app. */
typedef struct PodRequest {
        PodManifest *template; /* --pod-manifest, or NULL */
        AppOverrides *apps;
        size_t n_apps, apps_allocated;
        Volume *volumes;
        size_t n_volumes, volumes_allocated;
        Mount *mounts; /* for all apps */
        size_t n_mounts, mounts_allocated;
        PairList annotations, user_annotations, user_labels;
        PairList environment; /* for all apps */
        IsolatorList isolators;
        ExposedPort *ports;
        size_t n_ports, ports_allocated;
} PodRequest;

void pod_request_done(PodRequest *r);

/* Fills in the pod P (state preparing): resolves every image, merges what was asked, satisfies mount points
 * by volumes (or by implicit empty volumes, each with a warning), checks host volumes, and writes apps/ and
 * volumes/ of the pod directory. The pod's uids must be allocated and config.private_users set before.
 * P->manifest is the reified manifest afterwards: its apps always have app, image_id and image_name, mounts
 * never have volumes of their own (app_volume; they become volumes of the pod). A mount point that is
 * read-only makes the mount on its path so. Images cannot be removed from now on until the pod is published
 * or freed. WARNINGS gets lines for the user. Errors name the app and the place. */
int pod_reify(Pod *p, const PodRequest *request, char ***warnings, Error *e);
