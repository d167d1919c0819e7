/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of the record of an image (see record.c). */

#include <sys/stat.h>

#include "prepare/unpack/unpack.h"

/* --- One line (record-line.c) -------------------------------------------------------------------------- */

#define RECORD_FILE "files"
#define RECORD_HEADER "files 1\n"
#define RECORD_LINE_MAX (32U * 1024U) /* two paths, each byte written with three, and the numbers */
#define HASH_HEX_SIZE (2U * CONTENT_HASH_SIZE)

typedef struct RecordEntry {
        const char *path;
        mode_t mode; /* with the type */
        uid_t uid;
        gid_t gid;
        uint64_t size;      /* of a regular file */
        dev_t device;       /* of a device */
        const char *link;   /* of a symbolic link: its target */
        const char *xattrs; /* hash of all attributes, in hex; NULL: it has none */
        /* Of a regular file one of these. */
        const char *hash; /* hash of the content, in hex */
        uint64_t first; /* or the offset of the line of its first name in the record; 0: this is the first */
        ino_t inode;    /* or, in entries of a tree, the inode */
        bool sparse;    /* the hash is that of a file with holes */
} RecordEntry;

/* Appends the entry as a line, with the newline. */
void record_line_format(Text *t, const RecordEntry *x);
/* Parses a line (without its newline) in place: the strings of RET point into it. -EBADMSG. */
int record_line_parse(char *line, RecordEntry *ret);
/* The order of lines: by path, so that the entries of a directory follow it immediately. */
int record_line_compare(const char *a, const char *b);

/* --- Sorting lines (record-sort.c) --------------------------------------------------------------------- */

typedef struct RecordSort RecordSort;

/* TMP_FD: a directory for unnamed temporary files, for lines that do not fit into memory. */
int record_sort_new(int tmp_fd, RecordSort **ret);
RecordSort *record_sort_free(RecordSort *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(RecordSort *, record_sort_free);
int record_sort_add(RecordSort *s, const char *line, size_t size); /* with its newline */
/* To be called after the last line was added. */
int record_sort_finish(RecordSort *s);
/* The next line in order, NUL instead of the newline, valid until the next call; it may be written to. 1, or
 * 0 at the end. */
int record_sort_next(RecordSort *s, char **ret);

/* A file without a name in TMP_FD. */
int temporary_file(int tmp_fd, int *ret_fd);

/* --- Trees (record-walk.c) ----------------------------------------------------------------------------- */

/* Lines for TOPS (relative to DIR_FD; missing ones are left out) and for everything below, sorted. Content
 * is not read: a file's entry has its inode instead. */
int record_walk(int dir_fd, int tmp_fd, const char *const *tops, const Operation *o, RecordSort **ret,
                Error *e);
/* As open_beneath(), without updating the access time. */
int open_quietly(int dir_fd, const char *path, int flags);
extern const char *const record_tops[]; /* "manifest", "rootfs", NULL */

/* --- Digests by inode (record.c) ----------------------------------------------------------------------- */

/* An item of the array Unpack.digests. */
typedef struct DigestRecord {
        uint64_t inode;
        uint32_t sparse;
        unsigned char hash[CONTENT_HASH_SIZE];
} DigestRecord;
