/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/unpack/: image archives as streams of bytes and as trees of files. Untrusted archives are read
 * here, within limits, and unpacked below one directory. */

#include "schema/schema.h"

/* --- Streams: a file, decompressed if need be (stream.c) ----------------------------------------------- */

typedef struct Stream Stream;

/* Observers of the data that is read, and limits. */
typedef struct StreamHooks {
        uint64_t size_max; /* bytes read from the descriptor; 0: no bound. More is -EFBIG */
        uint64_t length;   /* number of bytes to read; 0: up to the end */
        /* Called with every byte that is read, before decompression, in order. Failure ends the reading. May
         * be NULL, as may the next. */
        int (*observe)(const void *data, size_t size, void *userdata, Error *e);
        void (*progress)(uint64_t done, void *userdata); /* bytes read, periodically */
        void *userdata;
        const Operation *operation; /* reads fail when it ends; or NULL */
} StreamHooks;

/* Detects by content whether FD is compressed (gzip, bzip2, xz, zstd). FD must outlive the stream. WAKE_FD:
 * an eventfd that, once it is readable, makes reads fail with -ECANCELED; or -EBADF. HOOKS may be NULL; they
 * are called in the thread of the caller. */
int stream_new(int fd, int wake_fd, const StreamHooks *hooks, Stream **ret, Error *e);
Stream *stream_free(Stream *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Stream *, stream_free);
/* Fills BUFFER with SIZE decompressed bytes, fewer only at the end; 0 at the end. Damage, truncation and
 * bytes after the end of the compressed data are errors. */
ssize_t stream_read(Stream *s, void *buffer, size_t size, Error *e);
bool stream_is_plain(const Stream *s);            /* it is not compressed */
uint64_t stream_compressed_size(const Stream *s); /* bytes read from the descriptor so far */

/* --- Reading ahead (pipeline.c) ------------------------------------------------------------------------ */

/* A stream that is read and hashed by separate threads, a bounded distance ahead of the consumer of its
 * blocks. */
typedef struct Pipeline Pipeline;

typedef struct PipelineOptions {
        uint64_t size_max; /* bytes, decompressed */
        bool sha256;       /* compute the ID as sha256-…; else sha512-… */
        bool lenient;      /* see archive_reader_new() */
        StreamHooks hooks; /* called by the reading thread, in which all signals are blocked */
} PipelineOptions;

int pipeline_new(int fd, const PipelineOptions *o, Pipeline **ret, Error *e);
Pipeline *pipeline_free(Pipeline *p); /* stops and waits for the threads */
DEFINE_TRIVIAL_CLEANUP_FUNC(Pipeline *, pipeline_free);
/* Returns the next block; the previous one is released. All blocks but the last have a size that is a
 * multiple of
 * 512. 0 at the end. */
ssize_t pipeline_next(Pipeline *p, const void **ret, Error *e);

typedef struct PipelineResult {
        char *id;                 /* sha512-… (or sha256-…) over all bytes */
        uint64_t size;            /* their number */
        uint64_t compressed_size; /* number of bytes read */
        uint64_t data_size;       /* up to and including the last byte that is not zero */
} PipelineResult;

/* Number of bytes read from the descriptor so far, which may be ahead of pipeline_next(). */
uint64_t pipeline_compressed_size(Pipeline *p);
/* After pipeline_next() has returned 0. */
int pipeline_finish(Pipeline *p, PipelineResult *ret, Error *e);

/* --- Tar archives, entry by entry (archive-reader.c) --------------------------------------------------- */

typedef struct ArchiveReader ArchiveReader;
struct archive;
struct archive_entry;

/* Must be used by the thread that creates it, whose locale it sets until it is freed. LENIENT in the
 * options: an archive may lack its end mark and the padding before it, or be empty; for archives whose
 * digest is known, so that missing data is detected. */
int archive_reader_new(int fd, const PipelineOptions *o, ArchiveReader **ret, Error *e);
ArchiveReader *archive_reader_free(ArchiveReader *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(ArchiveReader *, archive_reader_free);
/* Processes one entry; content that it does not read is skipped. */
typedef int (*ArchiveEntryFunction)(struct archive *a, struct archive_entry *entry, void *userdata,
                                    Error *e);
/* Calls FUNCTION for all entries, and reads to the end of the stream. */
int archive_reader_run(ArchiveReader *r, ArchiveEntryFunction function, void *userdata, PipelineResult *ret,
                       Error *e);
/* Sets the recipe to record (or NULL), before the reader is run. */
typedef struct Recipe Recipe;
void archive_reader_set_recipe(ArchiveReader *r, Recipe *recipe);
/* For FUNCTION, when libarchive's functions have failed: the error of the pipeline if that failed, else
 * libarchive's own. */
int archive_reader_error(ArchiveReader *r, Error *e);

/* --- Headers of tar entries (tar-headers.c) ------------------------------------------------------------ */

/* Refuses headers with malformed numbers, which libarchive misreads: HEADERS are the N bytes that it
 * consumed for the entry PATH, up to the beginning of the entry's content. -EBADMSG. */
int tar_headers_check(const void *headers, size_t n, const char *path, Error *e);

/* --- Hashes of content (content-hash.c) ---------------------------------------------------------------- */

#define CONTENT_HASH_SIZE 32U

/* Hashes one file after the other; init may be called again after finish. */
typedef struct ContentHash {
        struct evp_md_ctx_st *context;
        bool sparse, failed;
        uint64_t end;          /* end of the data added */
        unsigned char *buffer; /* sparse: a block and its number */
        uint64_t block;
} ContentHash;

int content_hash_init(ContentHash *h, bool sparse);
void content_hash_done(ContentHash *h);
#define _cleanup_content_hash_ _cleanup_(content_hash_done)
/* Adds parts of the content, in order; gaps are zeros. Failure is reported by finish. */
void content_hash_add(ContentHash *h, uint64_t offset, const void *p, size_t n);
int content_hash_finish(ContentHash *h, uint64_t size, unsigned char ret[CONTENT_HASH_SIZE]);
/* The first SIZE bytes of a file. PROGRESS (or NULL) is called with the bytes read; its failure ends the
 * reading. -EBADMSG: the file is shorter. */
int content_hash_file(ContentHash *h, int fd, uint64_t size, bool sparse,
                      int (*progress)(uint64_t n, void *userdata), void *userdata,
                      unsigned char ret[CONTENT_HASH_SIZE]);

/* --- The record of files (record.c, record-verify.c) --------------------------------------------------- */

/* Writes DIR_FD/files: one line for "manifest" and "rootfs" in DIR_FD and for everything below. DIGESTS:
 * Unpack.digests, or NULL; files that are not in it are read. Ends with the operation O
 * (or NULL), like everything below that takes one. */
int record_write(int dir_fd, FILE *digests, const Operation *o, Error *e);

typedef enum DifferenceKind {
        DIFFERENCE_MISSING,
        DIFFERENCE_ADDED,
        DIFFERENCE_TYPE,
        DIFFERENCE_CONTENT,
        DIFFERENCE_SIZE,
        DIFFERENCE_OWNER,
        DIFFERENCE_MODE,
        DIFFERENCE_XATTRS,
        DIFFERENCE_LINK,   /* a symbolic link has another target */
        DIFFERENCE_DEVICE, /* a device has other numbers */
        DIFFERENCE_NAMES,  /* names that were hard links to one file are separate files now */
        DIFFERENCE_ERROR,  /* it cannot be read */
        _DIFFERENCE_KIND_MAX
} DifferenceKind;

const char *difference_kind_to_string(DifferenceKind k); /* "missing", "content" */

typedef struct Difference {
        char *path; /* "rootfs/…" or "manifest" */
        DifferenceKind kind;
        char *expected, *found; /* as text, or NULL */
} Difference;

typedef struct RecordCheck {
        const char *prefix;         /* put before the paths of differences, or NULL; owned by the caller */
        size_t n_max;               /* number of differences to keep; all are counted */
        bool skip_content;          /* compare everything but the content of files */
        const Operation *operation; /* the check ends with it; or NULL */
        /* Called by several threads, one at a time; DONE of TOTAL bytes of content, TOTAL growing. A
         * negative result ends the check. Signals are delivered to the caller's thread only. */
        int (*progress)(uint64_t done, uint64_t total, void *userdata);
        void *userdata;
        Difference *differences; /* results: sorted by path */
        size_t n_kept, n_found, allocated;
        uint64_t n_entries, n_bytes;
} RecordCheck;

void record_check_done(RecordCheck *c);
/* Counts a difference, and keeps it unless N_MAX is reached. */
int record_check_add(RecordCheck *c, const char *path, DifferenceKind kind, const char *expected,
                     const char *found);
#define _cleanup_record_check_ _cleanup_(record_check_done)
/* Compares DIR_FD with the record in it; the content of files is read by one thread per processor. TMP_FD: a
 * directory for temporary files. 0, also if there are differences; -ENOENT: there is no record; -EBADMSG: it
 * is damaged. */
int record_verify(int dir_fd, int tmp_fd, RecordCheck *c, Error *e);

/* --- Unpacking (unpack.c, unpack-path.c, unpack-metadata.c) -------------------------------------------- */

struct stat;

/* Limits of archives. Exceeding one is an error that names the limit, long before memory or disk are
 * exhausted. */
#define ENTRIES_MAX (4U << 20)        /* directories that are only implied count, too */
#define PATH_DEPTH_MAX 512U           /* components */
#define PATH_SIZE_MAX 4095U           /* bytes; the kernel's limit without the final NUL */
#define LINK_SIZE_MAX 4095U           /* bytes of a symlink's target */
#define ENTRY_HEADERS_MAX (16U << 20) /* bytes of one entry's headers: names, attributes, sparse maps */
#define XATTRS_SIZE_MAX (1U << 20)    /* bytes of all names and values of one entry */
#define ENTRY_COST 4096U              /* bytes of disk charged for an entry besides its content */
#define STREAM_SLACK (4ULL << 30)     /* bytes that the archive may be longer than the free space */
#define IMPLIED_SIZE_MAX (64U << 20)  /* bytes of names of directories that a layer has no entry for */
#define LEFT_OUT_SIZE_MAX (64U << 20) /* bytes of memory for the names of device nodes */
#define LEFT_OUT_COST 80U /* of a name, beside its characters: its end, its node, and what malloc adds */
#define PADDING_MAX (64ULL << 20) /* zero bytes after the end of the archive */
#define SKIPPED_MAX                                                                                         \
        (256ULL << 20)      /* bytes of headers beyond ENTRY_COST, and of content that is skipped; and */
#define SKIPPED_PER_BYTE 4U /* so many more for each byte of the compressed archive */

/* A file of a lower layer that is the target of hard links of a layer. Until it is copied, an empty file is
 * its placeholder: DIR_FD/below/NUMBER, and all names below "rootfs" that no later entry has replaced. */
typedef struct LinkBelow {
        ino_t inode;  /* of the placeholder */
        char *target; /* "rootfs/…", in the layers below; the first of its names */
        char **names; /* of the links, likewise */
} LinkBelow;

typedef struct LinksBelow {
        LinkBelow *links;
        size_t n, allocated;
        size_t names_size;
        char **devices; /* paths of device nodes that were left out: what the layers below have there has to be hidden */
        size_t n_devices, allocated_devices;
} LinksBelow;

#define LINKS_BELOW "below"

LinksBelow *links_below_free(LinksBelow *l);
DEFINE_TRIVIAL_CLEANUP_FUNC(LinksBelow *, links_below_free);

typedef struct Unpack {
        int dir_fd;         /* parent of "rootfs" */
        bool unprivileged;  /* owners that cannot be set are ignored */
        bool layer;         /* a layer of an OCI image, see unpack_layer_init() */
        bool link_below;    /* hard links of the layer may have targets in the layers below */
        bool lowest;        /* there is no layer below */
        bool has_whiteouts; /* the layer hides files of the layers below */
        LinksBelow *links_below; /* such links, and devices; or NULL: the caller has to add content and whiteouts */
        Text implied; /* after unpack_finish(): its directories that have no entry of their own, each
                               ended by a NUL; a merged directory takes their metadata from below */
        uint64_t n_entries;
        uint64_t budget;      /* bytes of disk that may still be used */
        uint64_t inodes;      /* the same for inodes, when the free space was last read */
        uint64_t unchecked;   /* bytes charged since then, and */
        unsigned n_unchecked; /* entries */
        SpaceMeter written;   /* content of files */
        int parent_fd;        /* parent directory of the last entry, and its path */
        char *parent;
        FILE *directories; /* metadata of directories, applied at the end; see unpack-metadata.c */
        FILE *digests;     /* hashes of the files' content, by inode; for record_write() */
        ContentHash hash;
        bool has_rootfs;
        void *left_out; /* paths of all device nodes: a tree of tsearch() */
        size_t left_out_size;
        unsigned n_devices; /* left out, other than those that every app has in its /dev */
        char *device;       /* the first of them */
        unsigned n_times;   /* files whose modification time the file system cannot store */
        char *first_time;   /* the path of the first of them */
} Unpack;

#define UNPACK_NULL ((Unpack){.dir_fd = -EBADF, .parent_fd = -EBADF})
/* DIR_FD remains owned by the caller. */
int unpack_init(Unpack *u, int dir_fd, bool unprivileged, Error *e);
void unpack_done(Unpack *u);
/* Creates ENTRY at PATH, which is a result of unpack_normalize_path() and is "rootfs" or below it. Device nodes are left out: pods have
 * their own /dev, and a node of an image would lead to a device of the host. */
int unpack_entry(Unpack *u, const char *path, struct archive *a, struct archive_entry *entry, Error *e);
/* For layers of OCI images (image-spec, "Image Layer Filesystem Changeset"; unpack-layer.c): creates
 * "rootfs", which becomes a lower directory of overlays. In it an entry replaces an earlier one of the same
 * path. */
int unpack_layer_init(Unpack *u, int dir_fd, bool unprivileged, Error *e);
/* Processes an entry of a layer: whiteouts and opaque markers are converted to those of overlayfs, device
 * nodes are left out, and noted if there may be something below. */
int unpack_layer_entry(Unpack *u, struct archive *a, struct archive_entry *entry, Error *e);
/* Gives the directories their modes, owners, attributes and times. */
int unpack_finish(Unpack *u, Error *e);
/* Warns of skipped device nodes, and of times that the file system cannot store. */
void unpack_report(const Unpack *u, Operation *o);
/* Times that all file systems can store: ext4 has 34 bits. */
#define USUAL_TIME_MIN INT64_C(-0x80000000)
#define USUAL_TIME_MAX INT64_C(0x37fffffff)
bool time_is_usual(time_t seconds);

/* --- Recipes: reproducing the archive (recipe.c, recipe-replay.c) -------------------------------------- */

#define RECIPE_FILE "tar.zst"
#define RECIPE_HEADER "acnspawn archive 1\n"

/* Writes the file in the directory of U, and charges its budget. */
int recipe_new(Unpack *u, Recipe **ret, Error *e);
Recipe *recipe_free(Recipe *r);
DEFINE_TRIVIAL_CLEANUP_FUNC(Recipe *, recipe_free);
/* The SIZE bytes of the archive that follow START (where the reader is now) are the content of the file that
 * is unpacked to PATH. To be called before they are read; content that does not match is kept. */
int recipe_content(Recipe *r, uint64_t start, uint64_t size, const char *path, Error *e);
/* After the end of the archive. */
int recipe_finish(Recipe *r, Error *e);

typedef int (*RecipeSink)(const void *p, size_t n, void *userdata, Error *e);
/* Passes the archive that was unpacked to DIR_FD to SINK. -ENOENT: there is no recipe; -EBADMSG: it is
 * damaged, or a file is missing. SINK has to verify the content. */
int recipe_replay(int dir_fd, const Operation *o, RecipeSink sink, void *userdata, Error *e);

/* Archive names as paths below the top: "./rootfs//a/" becomes "rootfs/a", "./" becomes "". Absolute names,
 * "..", and names that are too long or too deep are refused. */
int unpack_normalize_path(const char *name, char **ret, Error *e);
bool unpack_is_whiteout(const struct stat *st);
/* Looks up PATH ("rootfs/…") in the directory of a layer. 1: it exists, in *RET_PARENT_FD, and is *RET; 0:
 * look in the layers below; -ENOENT: it does not exist, whatever these have; -ELOOP: a component is a
 * symbolic link. */
int layer_look_up(int dir_fd, const char *path, int *ret_parent_fd, struct stat *ret);
/* Whether the directory FD of a layer is opaque. */
bool unpack_is_opaque(int fd);
/* An error about one entry: "Cannot unpack PATH: …". */
int unpack_error(Error *e, int code, const char *path, const char *format, ...) _printf_(4, 5);
int unpack_error_errno(Error *e, int code, const char *path, const char *what);

/* --- Extended attributes and ACLs (xattr.c) ------------------------------------------------------------ */

/* Attributes that are ACLs. */
#define ACL_ACCESS "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"
/* Copies all attributes of one descriptor to another, except for those of overlayfs. */
int xattr_copy_all(int from_fd, int to_fd);

/* --- Checking without unpacking (check.c) -------------------------------------------------------------- */

/* Accepts and refuses the same entries as unpack_entry(), with the same messages, in memory. */
typedef struct UnpackCheck UnpackCheck;

int unpack_check_new(const Operation *o, UnpackCheck **ret, Error *e);
UnpackCheck *unpack_check_free(UnpackCheck *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(UnpackCheck *, unpack_check_free);
int unpack_check_entry(UnpackCheck *c, const char *path, struct archive *a, struct archive_entry *entry,
                       Error *e);
bool unpack_check_has_rootfs(const UnpackCheck *c);
/* The path of the first entry whose modification time some file systems cannot store; NULL: none. */
const char *unpack_check_odd_time(const UnpackCheck *c);
