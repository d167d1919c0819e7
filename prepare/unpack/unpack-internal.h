/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of prepare/unpack/ share. */

#include "prepare/unpack/unpack.h"

/* --- Entries (unpack.c, unpack-path.c, unpack-layer.c) ------------------------------------------------- */

/* Counts an entry that will use BYTES of disk beside itself. -E2BIG, -ENOSPC. */
int unpack_charge(Unpack *u, uint64_t bytes, Error *e);

/* Counts bytes without an entry. -ENOSPC. */
int unpack_charge_bytes(Unpack *u, uint64_t bytes, Error *e);
/* What a symlink may lead to, as far as that is for the archive to say. */
int unpack_check_symlink(const char *path, const char *target, Error *e);
/* The directory that PATH goes to (stays owned by U) and the last component. Missing directories are made;
 * MTIME is the time they get. */
int unpack_open_parent(Unpack *u, const char *path, const struct timespec *mtime, int *ret_fd,
                       const char **ret_name, Error *e);
/* Makes room for what the entry PATH, NAME in PARENT_FD, is to be: earlier entries of that path go, but for
 * a directory if DIRECTORY is to come. 1: that is there; 0: nothing is. *RET_HIDES becomes true if what was
 * there, no directory, hid what layers below have. */
int unpack_make_way(int parent_fd, const char *name, const char *path, bool directory, bool *ret_hides,
                    Error *e);
/* Hides what layers below have in the directory FD. */
int unpack_set_opaque(Unpack *u, int fd, const char *path, Error *e);

/* --- Hard links to files of lower layers (links-below.c) ----------------------------------------------- */

/* Keeps the place of TARGET, which is not in the layer, for the hard link PATH to it. U's parent directory
 * is another one then. -EBADMSG: the layers below cannot have it, or are not to be asked. */
int links_below_add(Unpack *u, const char *target, const char *path, const struct timespec *mtime, Error *e);
/* Takes note that PATH is another name of the file ST, if that keeps a place. L may be NULL. */
int links_below_note_name(LinksBelow *l, const struct stat *st, const char *path, Error *e);
/* Whether PATH, which is the file ST, only keeps the place of a target. */
bool links_below_is_target(const LinksBelow *l, const struct stat *st, const char *path);

/* --- Recipes (recipe.c) -------------------------------------------------------------------------------- */

/* For the archive reader: a block of the archive, until the end of which it stays where it is. */
void recipe_begin_block(Recipe *r, const void *p, size_t n);
int recipe_end_block(Recipe *r, Error *e);

/* --- Metadata (unpack-metadata.c) ---------------------------------------------------------------------- */

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

/* Refuses attributes that would act on an overlay, or are too large. *RET_TOTAL: bytes of all names and
 * values. */
int xattr_check_all(struct archive_entry *entry, const char *path, size_t *ret_total, Error *e);
/* All but ACLs. */
int xattr_set_all(const MetadataTarget *t, struct archive_entry *entry, const char *path, Error *e);
/* The ACL as the value of the attribute ACL_ACCESS or ACL_DEFAULT; *RET is NULL if there is none. */
int xattr_encode_acl(struct archive_entry *entry, const char *name, const char *path, void **ret,
                     size_t *ret_size, Error *e);
/* Takes all attributes away but those of overlayfs, of the security modules and the ACLs. */
int xattr_clear(int fd);
int xattr_set(const MetadataTarget *t, const char *name, const void *value, size_t size, const char *path,
              Error *e);
