/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/store/: the directory that holds images and pods: opening it, its lock, temporary directories that
 * are published by a rename or removed, and making files durable. prepare/prepare.h describes its layout. */

#include "basic/basic.h"

/* --- Store (store.c) ----------------------------------------------------------------------------------- */

/* A handle of the store's directory that belongs to one operation: functions that take a Store, or an object that refers
 * to one, work for that operation. */
typedef struct Store Store;

/* Opens the store at DIR, creating it if it is missing, for the operation O, which must outlive it and may be
 * NULL. Refused with a message: a directory that others can write to, that belongs to another user, that has
 * another layout version, or that is on an unsuitable file system. */
int store_open(const char *dir, Operation *o, Store **ret, Error *e);
/* The same store, opened before, for another operation. */
int store_open_again(const Store *s, Operation *o, Store **ret, Error *e);
Store *store_unref(Store *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Store *, store_unref);
const char *store_path(const Store *s); /* absolute, without symlinks */
int store_fd(const Store *s);           /* stays owned by the store */
/* The directory with the files of the named volume NAME, which is a valid name, opened with FLAGS; or a negative errno, without a message. */
int store_open_volume(const Store *s, const char *name, int flags);
Operation *store_operation(const Store *s); /* or NULL */

/* --- Store (store.c) ----------------------------------------------------------------------------------- */

typedef enum StoreFlags {
        /* For unit tests, which run without root: ignores owners that cannot be set, and accepts any file system. */
        STORE_UNPRIVILEGED = 1 << 0,
} StoreFlags;

struct Store {
        unsigned n_ref;
        StoreFlags flags;
        char *path;
        int fd;
        Operation *operation;
};

int store_open_with_flags(const char *dir, StoreFlags flags, Operation *o, Store **ret, Error *e);
Store *store_ref(Store *s);

/* Takes the lock of the store's content (file "lock"), and waits for it until the operation ends. Shared: while an image
 * is looked up and a pod records that it needs it; no image is removed meanwhile. Exclusive: for removing. Closing the
 * descriptor unlocks. Never take it twice in one thread: the second call would wait for the first. */
int store_lock_shared(Store *s, int *ret_fd, Error *e);
int store_lock_exclusive(Store *s, int *ret_fd, Error *e);

/* A temporary directory below tmp/, with a random name, owned as long as the descriptor, which has a flock,
 * is open. A process that gets that flock may remove the directory. */
typedef struct StoreTemporary {
        Store *store; /* not owned */
        char *name;   /* "tmp/…", relative to the store; NULL: none (any more) */
        int dir_fd;
} StoreTemporary;

#define STORE_TEMPORARY_NULL ((StoreTemporary){.dir_fd = -EBADF})
int store_temporary_new(Store *s, StoreTemporary *ret, Error *e);
/* Makes everything in it durable, then renames it to PATH (relative to the store), whose parent is made
 * durable as well. Returns 1 if it is in place, 0 if another process was faster (this one is removed). */
int store_temporary_publish(StoreTemporary *t, const char *path, Error *e);
/* Moves the directory PATH of the store below tmp/, so that it is removed atomically. store_temporary_done()
 * then deletes its content. -ENOENT, -EBUSY: another process has a flock on it. */
int store_detach_tree(Store *s, const char *path, StoreTemporary *ret, Error *e);
void store_temporary_done(StoreTemporary *t); /* removes it if it was not published */

/* --- File systems (file-system.c) ---------------------------------------------------------------------- */

/* The type of FD's file system, as "ext4"; NULL if it cannot be found out. */
char *file_system_type(int fd);
/* Whether this boot of the host is recorded to have made an id-mapped mount of the store's file system. */
bool store_is_id_mapped(const Store *s);
/* Writes that record. Failure does not matter: it is tried again. */
void store_note_id_mapped(const Store *s);

/* --- Disk usage (usage.c) ------------------------------------------------------------------------------ */

/* Disk space of the file or tree NAME, in bytes. A file with several hard links counts as a fraction for
 * each; unreadable parts, and mounts below the tree, are not counted. Counting stops when the operation O (or
 * NULL) ends. */
uint64_t disk_usage_at(int dir_fd, const char *name, const Operation *o);
/* The same, with the number of files and directories in it. */
void disk_usage_count_at(int dir_fd, const char *name, const Operation *o, uint64_t *ret_bytes,
                         uint64_t *ret_inodes);

/* --- Durability (sync.c) ------------------------------------------------------------------------------- */

/* A set of files to be made durable together. sync_add() keeps a copy of the descriptor; sync_add_file() opens the file;
 * sync_add_tree() adds the directory and all files and directories below. Everything is on disk when sync_finish() returns,
 * which reports the last failure. */
#define SYNC_BATCH 64U
typedef struct SyncSet {
        int fds[SYNC_BATCH];
        size_t n, next;
        int error;
} SyncSet;

int sync_add(SyncSet *s, int fd);
int sync_add_file(SyncSet *s, int dir_fd, const char *name);
int sync_add_tree(SyncSet *s, int dir_fd);
int sync_finish(SyncSet *s);
void sync_done(SyncSet *s);
#define _cleanup_sync_ _cleanup_(sync_done)
