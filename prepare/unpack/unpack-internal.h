/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/unpack/. */

#include "prepare/unpack/unpack.h"

/* --- Entries (unpack.c, unpack-path.c, unpack-layer.c) ------------------------------------------------- */

/* Charges an entry, and BYTES of disk for its content. -E2BIG, -ENOSPC. */
int unpack_charge(Unpack *u, uint64_t bytes, Error *e);

/* Charges bytes without an entry. -ENOSPC. */
int unpack_charge_bytes(Unpack *u, uint64_t bytes, Error *e);
/* Counts the device node PATH, which is left out. */
int unpack_leave_out_device(Unpack *u, const char *path, Error *e);
/* Whether a device node at PATH was left out that hides what the layers below have there. */
bool unpack_hides_by_device(const Unpack *u, const char *path);
/* Checks the target of a symlink. */
int unpack_check_symlink(const char *path, const char *target, Error *e);
/* The parent directory of PATH (owned by U) and the last component. Missing directories are created, with
 * the time MTIME. */
int unpack_open_parent(Unpack *u, const char *path, const struct timespec *mtime, int *ret_fd,
                       const char **ret_name, Error *e);
/* Removes earlier entries at PATH, NAME in PARENT_FD, except for a directory if DIRECTORY is set. 1: the
 * directory exists; 0: nothing exists. *RET_HIDES becomes true if a removed entry, other than a directory,
 * hid files of the layers below. */
int unpack_make_way(int parent_fd, const char *name, const char *path, bool directory, bool *ret_hides,
                    Error *e);
/* Makes the directory FD opaque: files of the layers below are hidden. */
int unpack_set_opaque(Unpack *u, int fd, const char *path, Error *e);

/* --- Hard links to files of lower layers (links-below.c) ----------------------------------------------- */

/* Creates a placeholder for TARGET, which is not in the layer, for the hard link PATH to it. Changes U's
 * parent directory. -EBADMSG: the layers below cannot have it, or must not be used. */
int links_below_add(Unpack *u, const char *target, const char *path, const struct timespec *mtime, Error *e);
/* Records that PATH is another name of the file ST, if that is a placeholder. L may be NULL. */
int links_below_note_name(LinksBelow *l, const struct stat *st, const char *path, Error *e);
/* Notes that the device PATH of the layer was left out. */
int links_below_note_device(Unpack *u, const char *path, Error *e);
/* Whether PATH, which is the file ST, is the placeholder of a target. */
bool links_below_is_target(const LinksBelow *l, const struct stat *st, const char *path);

/* --- Recipes (recipe.c) -------------------------------------------------------------------------------- */

/* For the archive reader: begins a block of the archive, which remains valid until its end was processed. */
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

/* The file that gets the metadata: a descriptor, or (FD negative) NAME in the directory PARENT_FD. */
typedef struct MetadataTarget {
        int fd, parent_fd;
        const char *name;
        bool is_symlink;
} MetadataTarget;

/* Until it gets its metadata, a directory created by an entry has mode 0700, and one that is only implied by
 * a deeper entry has this mode: this distinguishes a later entry from a duplicate. */
#define DIRECTORY_MODE_IMPLIED 0711U

int metadata_read(struct archive_entry *entry, const char *path, Metadata *ret, Error *e);
/* Owner, mode, extended attributes, ACLs and times, in this order, as setting one may reset others. */
int metadata_apply(Unpack *u, const MetadataTarget *t, const Metadata *m, struct archive_entry *entry,
                   const char *path, Error *e);
/* Remembers the metadata of a directory for unpack_finish(), and sets those attributes that do not affect
 * files created in it. ENTRY: NULL for an implied one. */
int metadata_defer(Unpack *u, int fd, const Metadata *m, struct archive_entry *entry, const char *path,
                   Error *e);

/* --- Extended attributes and ACLs (xattr.c) ------------------------------------------------------------ */

/* Refuses attributes that would affect an overlay, or are too large. *RET_TOTAL: bytes of all names and
 * values. */
int xattr_check_all(struct archive_entry *entry, const char *path, size_t *ret_total, Error *e);
/* All but ACLs. */
int xattr_set_all(const MetadataTarget *t, struct archive_entry *entry, const char *path, Error *e);
/* The ACL as the value of the attribute ACL_ACCESS or ACL_DEFAULT; *RET is NULL if there is none. */
int xattr_encode_acl(struct archive_entry *entry, const char *name, const char *path, void **ret,
                     size_t *ret_size, Error *e);
/* Removes all attributes except for those of overlayfs, of the security modules and the ACLs. */
int xattr_clear(int fd);
int xattr_set(const MetadataTarget *t, const char *name, const void *value, size_t size, const char *path,
              Error *e);
