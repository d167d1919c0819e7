/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of prepare/ share with each other and with their unit tests, and nobody else uses. */

#include "prepare/prepare.h"

/* --- Store (store.c) ----------------------------------------------------------------------------------- */

typedef enum StoreFlags {
        /* For unit tests, which run without root: owners that cannot be set stay ours, and any file system
           will do. */
        STORE_UNPRIVILEGED = 1 << 0,
} StoreFlags;

struct Store {
        unsigned n_ref;
        StoreFlags flags;
        char *path;
        int fd;
};

int store_open_with_flags(const char *dir, StoreFlags flags, Store **ret, Error *e);
Store *store_ref(Store *s);

/* The lock of the store's content (file "lock"). Shared: no image is removed while it is held; for whoever
 * looks an image up and records that a pod needs it. Exclusive: for whoever removes. Waits. Closing the
 * descriptor unlocks. Never take it twice in one thread: the second would wait for the first. */
int store_lock_shared(Store *s, int *ret_fd, Error *e);
int store_lock_exclusive(Store *s, int *ret_fd, Error *e);

/* A piece of work below tmp/: a directory with a random name that is ours as long as the descriptor, which
 * carries a flock, is open. Whoever can take that flock may remove the directory. */
typedef struct StoreTemporary {
        Store *store; /* not a reference of its own */
        char *name;   /* "tmp/…", relative to the store; NULL: nothing there (any more) */
        int dir_fd;
} StoreTemporary;

#define STORE_TEMPORARY_NULL ((StoreTemporary){.dir_fd = -EBADF})
int store_temporary_new(Store *s, StoreTemporary *ret, Error *e);
/* Makes everything in it durable, then renames it to PATH (relative to the store), whose parent is made
 * durable, too. Returns 1 if it is in place, 0 if somebody else was faster (ours is removed). */
int store_temporary_publish(StoreTemporary *t, const char *path, Error *e);
/* Moves the directory PATH of the store below tmp/: gone at once, and never half there.
 * store_temporary_done() then removes it. -ENOENT, -EBUSY: somebody has a flock on it. */
int store_detach_tree(Store *s, const char *path, StoreTemporary *ret, Error *e);
void store_temporary_done(StoreTemporary *t); /* removes it if it was not published */

/* --- Streams: a file, decompressed if need be (stream.c) ----------------------------------------------- */

typedef struct Stream Stream;

/* Detects by content whether what FD delivers is compressed (gzip, bzip2, xz). FD must outlive the stream.
 * WAKE_FD: an eventfd that, once it is readable, makes reads fail with -ECANCELED; or -EBADF. */
int stream_new(int fd, int wake_fd, Stream **ret, Error *e);
Stream *stream_free(Stream *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Stream *, stream_free);
/* Fills BUFFER with SIZE decompressed bytes, fewer only at the end; 0 at the end. Damage, truncation and
 * bytes after the end of the compressed data are errors. */
ssize_t stream_read(Stream *s, void *buffer, size_t size, Error *e);
uint64_t stream_compressed_size(const Stream *s); /* bytes read from the descriptor so far */

/* --- Reading ahead (pipeline.c) ------------------------------------------------------------------------ */

/* A stream read and hashed by threads of their own, a bounded distance ahead of whoever takes its blocks. */
typedef struct Pipeline Pipeline;

int pipeline_new(int fd, uint64_t size_max, Pipeline **ret, Error *e);
Pipeline *pipeline_free(Pipeline *p); /* stops and waits for the threads */
DEFINE_TRIVIAL_CLEANUP_FUNC(Pipeline *, pipeline_free);
/* The next block; the one before it is given back. All blocks but the last have a size that is a multiple of
 * 512. 0 at the end. */
ssize_t pipeline_next(Pipeline *p, const void **ret, Error *e);

typedef struct PipelineResult {
        char *id;                 /* sha512-… over all bytes */
        uint64_t size;            /* how many these are */
        uint64_t compressed_size; /* how many were read */
        uint64_t data_size;       /* up to and with the last byte that is not zero */
} PipelineResult;

/* After pipeline_next() has returned 0. */
int pipeline_finish(Pipeline *p, PipelineResult *ret, Error *e);

/* --- Unpacking (unpack.c, unpack-path.c, unpack-metadata.c) -------------------------------------------- */

struct archive;
struct archive_entry;

/* What an archive may ask for. Each of these is an error that names itself, long before memory or disk are
 * used up. */
#define ENTRIES_MAX (4U << 20)        /* directories that are only implied count, too */
#define PATH_DEPTH_MAX 512U           /* components */
#define PATH_SIZE_MAX 4095U           /* bytes; what the kernel takes without the final NUL */
#define LINK_SIZE_MAX 4095U           /* bytes of a symlink's target */
#define ENTRY_HEADERS_MAX (16U << 20) /* bytes of one entry's headers: names, attributes, sparse maps */
#define XATTRS_SIZE_MAX (1U << 20)    /* bytes of all names and values of one entry */
#define ENTRY_COST 4096U              /* bytes of disk that an entry is taken to use besides its content */
#define DISK_RESERVE (64ULL << 20)    /* bytes that an import leaves free */
#define STREAM_SLACK (4ULL << 30)     /* bytes that the archive may be longer than the free space */
#define PADDING_MAX (64ULL << 20)     /* zero bytes after the end of the archive */

typedef struct Unpack {
        int dir_fd;        /* where "rootfs" goes */
        bool unprivileged; /* owners that cannot be set stay ours */
        uint64_t n_entries;
        uint64_t budget;    /* bytes of disk that may still be used */
        uint64_t unchecked; /* bytes charged since the free space was last looked at */
        int parent_fd;      /* the directory that the last entry went to, and its path */
        char *parent;
        FILE *directories; /* metadata of directories, applied at the end; see unpack-metadata.c */
        bool has_rootfs;
} Unpack;

#define UNPACK_NULL ((Unpack){.dir_fd = -EBADF, .parent_fd = -EBADF})
/* DIR_FD is only borrowed. */
int unpack_init(Unpack *u, int dir_fd, bool unprivileged, Error *e);
void unpack_done(Unpack *u);
/* Creates what ENTRY describes at PATH, which comes from unpack_normalize_path() and is "rootfs" or below
 * it. */
int unpack_entry(Unpack *u, const char *path, struct archive *a, struct archive_entry *entry, Error *e);
/* Gives the directories their modes, owners, attributes and times. */
int unpack_finish(Unpack *u, Error *e);
/* Counts an entry that will use BYTES of disk beside itself. -E2BIG, -ENOSPC. */
int unpack_charge(Unpack *u, uint64_t bytes, Error *e);

/* Archive names as paths below the top: "./rootfs//a/" becomes "rootfs/a", "./" becomes "". Absolute names
 * and ".." are refused, and so is what is too long or too deep. */
int unpack_normalize_path(const char *name, char **ret, Error *e);
/* The directory that PATH goes to (stays owned by U) and the last component. Missing directories are made;
 * MTIME is the time they get. */
int unpack_open_parent(Unpack *u, const char *path, const struct timespec *mtime, int *ret_fd,
                       const char **ret_name, Error *e);
/* An error about one entry: "Cannot unpack PATH: …". */
int unpack_error(Error *e, int code, const char *path, const char *format, ...) _printf_(4, 5);
int unpack_error_errno(Error *e, int code, const char *path, const char *what);

/* Owner, mode and times of an entry. */
typedef struct Metadata {
        uid_t uid;
        gid_t gid;
        mode_t mode; /* permission bits only */
        struct timespec times[2];
} Metadata;

/* The thing the metadata goes to: a descriptor, or (FD negative) NAME in the directory PARENT_FD. */
typedef struct MetadataTarget {
        int fd, parent_fd;
        const char *name;
        bool is_symlink;
} MetadataTarget;

/* Until it gets its metadata, a directory that an entry made has mode 0700, and one that is only implied by
 * a deeper entry has this mode: that is how an entry that comes later is told from a duplicate. */
#define DIRECTORY_MODE_IMPLIED 0711U

int metadata_read(struct archive_entry *entry, const char *path, Metadata *ret, Error *e);
/* Owner, mode, extended attributes, ACLs and times, in this order: each could spoil those before it. */
int metadata_apply(Unpack *u, const MetadataTarget *t, const Metadata *m, struct archive_entry *entry,
                   const char *path, Error *e);
/* Remembers the metadata of a directory for unpack_finish(), and sets those attributes that do not act on
 * what is created in it. ENTRY: NULL for an implied one. */
int metadata_defer(Unpack *u, int fd, const Metadata *m, struct archive_entry *entry, const char *path,
                   Error *e);

/* --- Extended attributes and ACLs (xattr.c) ------------------------------------------------------------ */

/* Refuses attributes that would act on an overlay, or are too large. */
int xattr_check_all(struct archive_entry *entry, const char *path, Error *e);
/* All but ACLs. */
int xattr_set_all(const MetadataTarget *t, struct archive_entry *entry, const char *path, Error *e);
/* The ACL as the value of the attribute ACL_ACCESS or ACL_DEFAULT; *RET is NULL if there is none. */
#define ACL_ACCESS "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"
int xattr_encode_acl(struct archive_entry *entry, const char *name, const char *path, void **ret,
                     size_t *ret_size, Error *e);
int xattr_set(const MetadataTarget *t, const char *name, const void *value, size_t size, const char *path,
              Error *e);
/* All attributes of one descriptor to another. */
int xattr_copy_all(int from_fd, int to_fd);

/* --- Names (image-name.c) ------------------------------------------------------------------------------ */

typedef struct ImageName {
        char *name;
        PairList labels; /* "version" is one of them */
} ImageName;

void image_name_done(ImageName *n);
/* name[:version][,label=value]… */
int image_name_parse(const char *s, ImageName *ret, Error *e);
/* The image has that name and all those labels. */
bool image_name_matches(const char *name, const PairList *labels, const ImageManifest *m);
/* "example.com/app:1.0,arch=amd64" */
int image_name_format(const char *name, const PairList *labels, char **ret);
/* Less than, equal to or greater than zero. NULL: no version, which is older than any. */
int image_version_compare(const char *a, const char *b);

/* --- Images (image.c, image-find.c, image-remove.c) ---------------------------------------------------- */

typedef struct ImageInfo {
        uint64_t import_time;  /* microseconds since the epoch */
        uint64_t size;         /* bytes, uncompressed */
        uint64_t archive_size; /* bytes, as it came */
} ImageInfo;

int image_info_read(int image_fd, ImageInfo *ret, Error *e);
int image_info_write(int image_fd, const ImageInfo *i, const char *origin, Error *e);
/* Like image_list(), but images that cannot be read are left out and counted. */
int image_list_readable(Store *s, Image ***ret, size_t *ret_n, size_t *ret_n_damaged, Error *e);
/* Of those in LIST that have the name and the labels, the one to prefer; NULL: none. */
Image *image_list_best(Image **list, size_t n, const char *name, const PairList *labels);
/* Says that an image was used now. Failure does not matter. */
void image_touch(const Image *i);
/* The ID of the image in the store that REFERENCE means; files are not imported. The image may be
 * damaged. */
int image_find_id(Store *s, const char *reference, char **ret, Error *e);

/* --- Rendering (render.c) ------------------------------------------------------------------------------ */

/* Renders those of PATHS (absolute) that are in the overlay of LAYERS (relative to the store, uppermost
 * first) as a tree of its own, and returns its path relative to the store, "rendered/<key>/rootfs". Done
 * once; later calls find it. */
int render_whitelist(Store *s, char *const *layers, char *const *paths, char **ret, Error *e);
/* The layers a rendered tree was made from: a text with one path per line, relative to the store, of all
 * depths. KEY_FD is "rendered/<key>". */
int render_read_layers(int key_fd, char **ret);

/* --- Pods (pod.c, pod-life.c) -------------------------------------------------------------------------- */

#define POD_CONFIG_SIZE_MAX (64U * 1024U)

/* The states that are directories, in the order of a pod's life. */
#define N_POD_PLACES 6U
extern const PodState pod_places[N_POD_PLACES];
const char *pod_state_to_place(PodState s);                       /* "pods/running" */
int pod_place_path(const char *uuid, PodState place, char **ret); /* relative to the store */

int pod_alloc(Store *s, const char *uuid, Pod **ret);
/* The pod of exactly that UUID, without what is written in it. -ENOENT. */
int pod_look(Store *s, const char *uuid, Pod **ret, Error *e);
/* The same with config and manifest, if these can be read. */
int pod_open(Store *s, const char *uuid, Pod **ret, Error *e);
/* Whether the directory that DIR_FD stands for is the pod at that place. */
bool pod_is_at(Store *s, int dir_fd, const char *uuid, PodState place);
/* 1: there is a pod of that UUID which is at most that far in its life; 0: there is none. */
int pod_exists(Store *s, const char *uuid, PodState last);
/* Locks the pod, and corrects its state if it moved on before the lock was ours. WAIT: for those who only
 * look whether it is locked. -EBUSY: somebody else has it; -ENOENT: it is gone. */
int pod_lock(Pod *p, bool wait, Error *e);
/* What a pod runs from has more than a template must have, and the app objects of the images. */
int check_reified(const PodManifest *m, Error *e);
/* Every pod there is, whatever its state; sorted. */
int pod_list_uuids(Store *s, char ***ret, Error *e);

int pod_config_format(const PodConfig *c, char **ret, Error *e);
int pod_config_parse(const char *text, size_t size, PodConfig *ret, Error *e);
int pod_name_check(const char *s, Error *e);
int hostname_check(const char *s, Error *e);

/* What is to be made durable together. sync_add() keeps a copy of the descriptor; sync_add_tree() adds the
 * directory and all files and directories below. Everything is on disk when sync_finish() returns, which
 * tells the last failure. */
#define SYNC_BATCH 64U
typedef struct SyncSet {
        int fds[SYNC_BATCH];
        size_t n, next;
        int error;
} SyncSet;

int sync_add(SyncSet *s, int fd);
int sync_add_tree(SyncSet *s, int dir_fd);
int sync_finish(SyncSet *s);
void sync_done(SyncSet *s);
#define _cleanup_sync_ _cleanup_(sync_done)
/* The entries of a directory. */
int list_names(int dir_fd, char ***ret);

/* --- What only one pod may have (pod-links.c, uids.c) -------------------------------------------------- */

typedef enum Registry { REGISTRY_NAMES, REGISTRY_UIDS, _REGISTRY_MAX } Registry;

const char *registry_directory(Registry g); /* "names" */
/* The pod that has KEY. -ENOENT (without a message): nobody has. RET_UUID may be NULL. */
int registry_find(Store *s, Registry g, const char *key, char **ret_uuid, Error *e);
/* Gives KEY to the pod. -EEXIST (without a message): *RET_HOLDER, which may be NULL, has it. */
int registry_take(Store *s, Registry g, const char *key, const char *uuid, char **ret_holder, Error *e);
/* Takes KEY away from the pod, if that has it. */
void registry_drop(Store *s, Registry g, const char *key, const char *uuid);
int registry_add_to_sync(Store *s, Registry g, SyncSet *set, Error *e);
/* Removes the links whose pods are no more; appends their keys to the list. */
int registry_collect(Store *s, Registry g, bool dry_run, char ***removed, Error *e);

bool uid_base_is_valid(uint32_t base);
/* The N-th base that a pod of that UUID tries. */
uint32_t uid_base_nth(const char *uuid, uint32_t n);
/* Whether the ranges in TEXT (of /etc/subuid) overlap that of BASE. TEXT may be NULL. */
bool subids_overlap(const char *text, uint32_t base);
