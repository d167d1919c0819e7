/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/pack/: writes image archives from files: compressing, and writing tar so that the same input
 * always gives the same bytes and thus the same image ID. */

#include "prepare/unpack/unpack.h"

/* --- Compressing (compress.c) -------------------------------------------------------------------------- */

typedef enum Compression {
        COMPRESSION_NONE,
        COMPRESSION_GZIP,
        COMPRESSION_BZIP2,
        COMPRESSION_XZ,
        COMPRESSION_ZSTD,
        _COMPRESSION_MAX,
} Compression;

#define COMPRESSION_NAMES "none, gzip, bzip2, xz, zstd"
int compression_from_string(const char *s); /* or -EINVAL */

/* Writes its input compressed to a descriptor. The result contains neither names nor times, and does not
 * depend on the number of processors or on how the input was split: the same bytes give the same file, as
 * long as the compression library is the same. */
typedef struct Compressor Compressor;

/* FD must outlive it. WHAT is the name of the output in messages: "the image 'x.aci'"; it is copied. Writing,
 * and whatever writes to it, fails when the operation O (or NULL) ends. */
int compressor_new(Compression c, int fd, const char *what, const Operation *o, Compressor **ret, Error *e);
/* Without compressor_finish() the output is incomplete. */
Compressor *compressor_free(Compressor *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(Compressor *, compressor_free);
int compressor_write(Compressor *c, const void *p, size_t size, Error *e);
int compressor_finish(Compressor *c, Error *e);

/* --- Tar archives (tar.c) ------------------------------------------------------------------------------ */

typedef struct PackXattr {
        char *name;
        void *value;
        size_t size;
} PackXattr;

/* One entry. Members that do not apply to its type are ignored. */
typedef struct TarEntry {
        const char *path; /* relative, without a slash at the end */
        mode_t mode;      /* with the type */
        uid_t uid;
        gid_t gid;
        int64_t mtime;    /* whole seconds since the epoch, also before it */
        uint64_t size;    /* of a regular file */
        dev_t device;     /* of a device */
        const char *link; /* of a symlink: its target; else: an earlier entry this is a hard link to */
        const PackXattr *xattrs;
        size_t n_xattrs;
        const char *acl_access, *acl_default; /* in text, by number; or NULL */
} TarEntry;

/* Writes POSIX tar (ustar), with extended headers only for values that do not fit, and hashes the output.
 * The same calls give the same bytes, on any machine and with any version of any library. */
typedef struct TarWriter TarWriter;

/* The compressor stays owned by the caller. */
int tar_writer_new(Compressor *c, TarWriter **ret, Error *e);
TarWriter *tar_writer_free(TarWriter *w);
DEFINE_TRIVIAL_CLEANUP_FUNC(TarWriter *, tar_writer_free);
/* A regular file must be followed by exactly SIZE bytes of content. */
int tar_writer_add(TarWriter *w, const TarEntry *entry, Error *e);
int tar_writer_add_content(TarWriter *w, const void *p, size_t size, Error *e);
/* A regular file of mode 0644 and of user, group and time 0: how an image's manifest is written. */
int tar_writer_add_text(TarWriter *w, const char *path, const char *text, size_t size, Error *e);
/* The end of the archive, and of the compressed data. The image ID of what was written, and its size before
 * compression; either may be NULL. */
int tar_writer_finish(TarWriter *w, char **ret_id, uint64_t *ret_size, Error *e);

/* --- Trees of files (tree.c, tree-xattr.c) ------------------------------------------------------------- */

typedef struct TreeOptions {
        bool owner_root;      /* everything gets the owner 0:0 */
        bool one_file_system; /* mount points are archived as empty directories */
        bool has_mtime_max;
        int64_t mtime_max;          /* later times are clamped to this one */
        const PackXattr *top_xattr; /* one more attribute of the first entry; or NULL */
        /* Whether the file of FD (O_PATH) is to be left out, with everything below it; or NULL. */
        bool (*leave_out)(int fd, const struct stat *st, const char *path, void *userdata);
        void *userdata;
} TreeOptions;

/* Adds the directory DIR_FD, as NAME ("rootfs"), and everything below it: a directory before what is in it,
 * names in the order of their bytes; owners, modes, times in whole seconds, devices, FIFOs, hard links (the
 * first name of a file is the file), extended attributes except those of this host's security modules, ACLs.
 * No symlink is followed. -ENOTSUP, with its name: a file that images cannot contain (sockets, whiteouts,
 * attributes of overlayfs); -EAGAIN: a file changed while it was read. */
int tar_writer_add_tree(TarWriter *w, int dir_fd, const char *name, const TreeOptions *o, Error *e);

/* The same for FD (O_PATH), which may be a file of any kind. */
int tar_writer_add_file(TarWriter *w, int fd, const char *name, const TreeOptions *o, Error *e);

typedef struct PackOptions {
        const Operation *operation; /* or NULL */
        Compression compression;
        TreeOptions tree;
} PackOptions;

/* A whole image: the manifest first, as these bytes, then the directory as "rootfs". WHAT: see
 * compressor_new(). The result depends on manifest, tree and options alone. */
int pack_image(int rootfs_fd, const char *manifest, size_t manifest_size, const PackOptions *o, int out_fd,
               const char *what, char **ret_id, Error *e);
