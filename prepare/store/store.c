/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The store: one directory with images and pods, and the rules by which processes share it.
 *
 * There is no daemon and no database. Everything in the store is complete, because it is made below tmp/ and
 * renamed into place, and flocks, which end with their owner, determine what may be removed. Opening a store
 * checks that no other user could have prepared it: it has to be owned by this user and inaccessible to
 * others, as the set-user-ID programs of images in it must not be within the reach of the host's users.
 */

#include <dirent.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "prepare/store/store-internal.h"

#define STORE_VERSION "1\n"

/* The directories of pods are in the order of a pod's life cycle. Entries made in a "nursery" directory are
 * unrelated to each other. */
static const struct {
        const char *name;
        bool nursery;
} store_directories[] = {
                {"tmp", .nursery = true},
                {"images"},
                {"rendered"},
                {"pods"},
                {"pods/embryo", .nursery = true},
                {"pods/preparing"},
                {"pods/prepared"},
                {"pods/running"},
                {"pods/exited"},
                {"pods/garbage"},
                {"names"},
                {"uids"},
                {"downloads"},
                {"layers"},
                {"volumes"},
};

static int check_access(int fd, const char *path, bool is_new, Error *e)
{
        struct stat st;
        int r;

        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot examine the store %s", path);
        if (st.st_uid != geteuid()) {
                r = error_set(e, -EPERM, "The store %s belongs to user %u, but is opened by user %u", path,
                              (unsigned) st.st_uid, (unsigned) geteuid());
                return error_hint(e, r,
                                  "Choose another directory with --dir=, or give it to its user by chown.");
        }
        if (st.st_mode & 0022) {
                r = error_set(e, -EPERM, "The store %s can be written to by others (mode %04o)", path,
                              st.st_mode & 07777U);
                return error_hint(e, r, "Check whether another user has changed it, then run: chmod 0700 %s",
                                  path);
        }
        if (!(st.st_mode & 0055))
                return 0;
        if (is_new) /* an empty directory becomes a new store */
                return fchmod(fd, 0700) < 0 ? error_set_errno(e, errno,
                                                              "Cannot close the store %s to others", path)
                                            : 0;
        r = error_set(e, -EPERM,
                      "The store %s is open to others (mode %04o): set-user-ID programs of images could be "
                      "run by them",
                      path, st.st_mode & 07777U);
        return error_hint(e, r, "Run: chmod 0700 %s", path);
}

/* Whether the directory is empty, except for the remains of an interrupted creation. */
static int directory_is_fresh(int fd)
{
        _cleanup_close_ int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct dirent *de;
        bool fresh = true;

        if (copy < 0)
                return -errno;
        DIR *d = fdopendir(copy);
        if (!d)
                return -errno;
        (void) TAKE_FD(copy);
        while (fresh && (de = readdir(d)))
                fresh = de->d_name[0] == '.' || streq(de->d_name, "lost+found") ||
                        startswith(de->d_name, "version.");
        closedir(d);
        return fresh;
}

/* 1: a store of this version; 0: there is no version file. */
static int check_version(int fd, const char *path, Error *e)
{
        _cleanup_free_ char *version = NULL, *shown = NULL;

        int r = read_file_at(fd, "version", 64, &version, NULL);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the layout version of the store %s", path);
        if (streq(version, STORE_VERSION))
                return 1;
        version[strcspn(version, "\n")] = 0;
        shown = text_escape_for_terminal(version);
        r = error_set(e, -EPROTONOSUPPORT,
                      "The store %s has layout version '%s', but this program supports version 1", path,
                      shown ?: "?");
        return error_hint(e, r,
                          "It was made by another version of acnspawn: use that one, or another directory "
                          "with --dir=.");
}

static int initialize(int fd, const char *path, StoreFlags flags, Error *e)
{
        /* One process creates the store, others wait here. */
        if (flock(fd, LOCK_EX) < 0)
                return error_set_errno(e, errno, "Cannot lock the directory %s", path);
        int r = check_version(fd, path, e);
        if (r != 0)
                return r;
        r = directory_is_fresh(fd);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the directory %s", path);
        if (r == 0) {
                r = error_set(e, -ENOTEMPTY, "%s is neither a store nor an empty directory", path);
                return error_hint(
                                e, r,
                                "Choose another directory with --dir=; it is created if it does not exist.");
        }
        r = check_access(fd, path, true, e);
        if (r >= 0 && !(flags & STORE_UNPRIVILEGED))
                r = file_system_check(fd, path, true, e);
        if (r < 0)
                return r;
        r = write_file_atomic_at(fd, "version", STORE_VERSION, strlen(STORE_VERSION), 0644, true);
        if (r < 0)
                return error_set_errno(e, r, "Cannot write to the store %s", path);
        if (!(flags & STORE_UNPRIVILEGED))
                file_system_note(fd);
        return 0;
}

/* Hints to the file system that entries of the directory NAME are unrelated. ext4 then puts each pod and
 * each image into a region of its own. Otherwise they share one, and as ext4 does not use an inode again for
 * minutes after it was freed, but looks at it each time, a pod took five times as long to prepare where a
 * hundred had just been removed. Other file systems need no such hint. */
static void spread(int fd, const char *name)
{
        _cleanup_close_ int dir_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int flags;

        if (dir_fd < 0 || ioctl(dir_fd, FS_IOC_GETFLAGS, &flags) < 0)
                return;
        flags |= FS_TOPDIR_FL;
        (void) ioctl(dir_fd, FS_IOC_SETFLAGS, &flags);
}

/* Each time, not only for a new store: the creating process may have been killed in between. Only what is missing is made: while a file
 * system is frozen, mkdir() waits even for a directory that exists, and most commands only look. */
static int make_directories(int fd, const char *path, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(store_directories); i++) {
                const char *name = store_directories[i].name;
                if (faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
                        continue;
                if (mkdirat(fd, name, 0700) >= 0) {
                        if (store_directories[i].nursery)
                                spread(fd, name);
                } else if (errno != EEXIST)
                        return error_set_errno(e, errno, "Cannot create the directory %s/%s", path, name);
        }
        return 0;
}

static int open_directory(const char *dir, char **ret_path, int *ret_fd, Error *e)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;

        if (access(dir, F_OK) < 0 && mkdir(dir, 0700) < 0 && errno != EEXIST) {
                _cleanup_free_ char *parent = strdup(dir);
                if (!parent)
                        return error_oom(e);
                char *slash = strrchr(parent, '/');
                int r = -errno;
                if (r == -ENOENT && slash && slash != parent) {
                        *slash = 0;
                        r = mkdir_p(parent, 0755);
                        if (r >= 0)
                                r = mkdir(dir, 0700) < 0 && errno != EEXIST ? -errno : 0;
                }
                if (r < 0)
                        return error_set_errno(e, r, "Cannot create the store %s", dir);
        }
        path = realpath(dir, NULL);
        if (!path)
                return error_set_errno(e, errno, "Cannot open the store %s", dir);
        fd = open_no_symlinks(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
        if (fd < 0) {
                int r = error_set_errno(e, fd, "Cannot open the store %s", path);
                return fd == -ENOTDIR ? error_hint(e, r, "Name a directory with --dir=.") : r;
        }
        *ret_path = TAKE_PTR(path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int store_open_with_flags(const char *dir, StoreFlags flags, Operation *o, Store **ret, Error *e)
{
        _cleanup_(store_unrefp) Store *s = calloc(1, sizeof(Store));

        if (!s)
                return error_oom(e);
        *s = (Store){.n_ref = 1, .flags = flags, .fd = -EBADF, .operation = o};
        if (isempty(dir))
                return error_hint(e, error_set(e, -EINVAL, "The store is named by an empty path"),
                                  "Name a directory with --dir=, or leave it out.");

        int r = open_directory(dir, &s->path, &s->fd, e);
        if (r < 0)
                return r;
        r = check_version(s->fd, s->path, e);
        if (r < 0)
                return r;
        bool is_new = r == 0;
        if (!(flags & STORE_UNPRIVILEGED)) {
                r = file_system_check_name(s->fd, s->path, e);
                if (r < 0)
                        return r;
        }
        if (is_new) {
                r = initialize(s->fd, s->path, flags, e);
                (void) flock(s->fd, LOCK_UN);
                if (r < 0)
                        return r;
        }
        r = check_access(s->fd, s->path, false, e);
        if (r < 0)
                return r;
        r = make_directories(s->fd, s->path, e);
        if (r >= 0 && !(flags & STORE_UNPRIVILEGED))
                r = file_system_check(s->fd, s->path, false, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

int store_open(const char *dir, Operation *o, Store **ret, Error *e)
{
        return store_open_with_flags(dir, 0, o, ret, e);
}

int store_open_again(const Store *s, Operation *o, Store **ret, Error *e)
{
        _cleanup_(store_unrefp) Store *copy = calloc(1, sizeof(Store));

        if (!copy)
                return error_oom(e);
        *copy = (Store){.n_ref = 1, .flags = s->flags, .operation = o};
        copy->fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
        copy->path = strdup(s->path);
        if (copy->fd < 0 || !copy->path)
                return error_set_errno(e, copy->path ? -errno : -ENOMEM, "Cannot open the store %s",
                                       s->path);
        *ret = TAKE_PTR(copy);
        return 0;
}

Store *store_ref(Store *s)
{
        if (s)
                s->n_ref++;
        return s;
}

Store *store_unref(Store *s)
{
        if (!s || --s->n_ref > 0)
                return NULL;
        safe_close(s->fd);
        free(s->path);
        free(s);
        return NULL;
}

const char *store_path(const Store *s)
{
        return s->path;
}

int store_fd(const Store *s)
{
        return s->fd;
}

int store_open_volume(const Store *s, const char *name, int flags)
{
        _cleanup_free_ char *path = NULL;

        int r = xasprintf(&path, "%s/volumes/%s/data", s->path, name);
        return r < 0 ? r : open_no_symlinks(AT_FDCWD, path, flags | O_DIRECTORY);
}

Operation *store_operation(const Store *s)
{
        return s->operation;
}

static int store_lock(Store *s, int mode, int *ret_fd, Error *e)
{
        int fd = lock_file_at(s->fd, "lock", mode, s->operation, e);

        if (fd < 0)
                return operation_ended(fd) ? fd
                                           : error_set_errno(e, fd, "Cannot lock the store %s", s->path);
        *ret_fd = fd;
        return 0;
}

int store_lock_shared(Store *s, int *ret_fd, Error *e)
{
        return store_lock(s, LOCK_SH, ret_fd, e);
}

int store_lock_exclusive(Store *s, int *ret_fd, Error *e)
{
        return store_lock(s, LOCK_EX, ret_fd, e);
}

/* --- Work below tmp/ ----------------------------------------------------------------------------------- */

static int random_name(char **ret)
{
        char hex[RANDOM_HEX_SIZE];
        int r = random_hex(hex);

        return r < 0 ? r : xasprintf(ret, "tmp/%s", hex);
}

/* Locks the directory at PATH and makes sure that it still exists then. -EBUSY: another process has the
 * lock. */
static int open_and_lock(Store *s, const char *path, int *ret_fd)
{
        _cleanup_close_ int fd = open_beneath(s->fd, path, O_RDONLY | O_DIRECTORY);
        struct stat ours, there;

        if (fd < 0)
                return fd;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EBUSY : -errno;
        if (fstat(fd, &ours) < 0)
                return -errno;
        if (fstatat(s->fd, path, &there, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino)
                return -ENOENT;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int store_temporary_new(Store *s, StoreTemporary *ret, Error *e)
{
        int r = -EBUSY;

        /* Between mkdir() and flock() a collector may remove the directory: then try again with another
         * name. */
        for (unsigned tries = 0; tries < 16; tries++) {
                _cleanup_free_ char *name = NULL;
                int fd;

                r = random_name(&name);
                if (r >= 0 && mkdirat(s->fd, name, 0700) < 0)
                        r = -errno;
                if (r == -EEXIST)
                        continue;
                if (r < 0)
                        break;
                r = open_and_lock(s, name, &fd);
                if (r >= 0) {
                        *ret = (StoreTemporary){.store = s, .name = TAKE_PTR(name), .dir_fd = fd};
                        return 0;
                }
                (void) unlinkat(s->fd, name, AT_REMOVEDIR);
                if (r != -EBUSY && r != -ENOENT)
                        break;
        }
        return error_set_errno(e, r, "Cannot create a temporary directory in the store %s", s->path);
}

void store_temporary_done(StoreTemporary *t)
{
        if (t->name)
                (void) rm_rf_at(t->store->fd, t->name);
        free(t->name);
        safe_close(t->dir_fd);
        *t = STORE_TEMPORARY_NULL;
}

static int sync_parent(Store *s, const char *path)
{
        _cleanup_free_ char *parent = strndup(path, strcspn(path, "/"));

        if (!parent)
                return -ENOMEM;
        int fd = openat(s->fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        int r = fsync(fd) < 0 ? -errno : 0;
        safe_close(fd);
        return r;
}

int store_temporary_publish(StoreTemporary *t, const char *path, Error *e)
{
        Store *s = t->store;

        /* An existing entry was synced before it was renamed there. */
        int r = faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0 ? -EEXIST : 0;
        /* One syncfs() instead of an fsync() per file. It also reports errors of earlier writes. */
        if (r >= 0 && syncfs(t->dir_fd) < 0)
                return error_set_errno(e, errno, "Cannot write %s/%s to disk", s->path, path);
        if (r >= 0 && renameat2(s->fd, t->name, s->fd, path, RENAME_NOREPLACE) < 0)
                r = -errno;
        bool ours = r >= 0;
        if (ours) {
                free(t->name);
                t->name = NULL;
        } else if (r == -EEXIST)
                store_temporary_done(t);
        else
                return error_set_errno(e, r, "Cannot put %s/%s in place", s->path, path);
        /* Also for an entry of another process, which may not have synced it yet, since this reports it as
         * existing. */
        r = sync_parent(s, path);
        return r < 0 ? error_set_errno(e, r, "Cannot write the entry %s/%s to disk", s->path, path) : ours;
}

int store_detach_tree(Store *s, const char *path, StoreTemporary *ret, Error *e)
{
        _cleanup_free_ char *name = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = open_and_lock(s, path, &fd);
        if (r == -ENOENT)
                return error_set(e, r, "%s/%s does not exist", s->path, path);
        if (r >= 0)
                r = random_name(&name);
        if (r >= 0 && renameat2(s->fd, path, s->fd, name, RENAME_NOREPLACE) < 0)
                r = -errno;
        if (r < 0)
                return error_set_errno(e, r, "Cannot remove %s/%s", s->path, path);
        *ret = (StoreTemporary){.store = s, .name = TAKE_PTR(name), .dir_fd = TAKE_FD(fd)};
        return 0;
}
