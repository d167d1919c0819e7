/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Registers the ranges of uids of all pods of this host, in any store.
 *
 * A store only knows its own pods. So that pods of two stores never share a range, each range is also a
 * symlink in one directory of the host, named by its base, whose target is the UUID of the pod and the path
 * of its store: "UUID:/var/lib/acnspawn". The directory is persistent, as prepared pods are, and only root
 * has access. If /var is not writable it is in /run.
 *
 * A link is stale if its pod is not in its store any more. Where the store itself is missing, its file
 * system may be mounted elsewhere or later: the range is given away only if no process has one of its uids,
 * and a pod takes its range anew when it is started, which finds out if another pod has it by then. That is
 * also how pods get registered that were prepared before there was such a directory.
 *
 * Links are made and removed under an exclusive flock on .lock, since each is a look at the present one
 * first.
 *
 * The first 65536 uids are those of the host, of which a pod may have some by the choice of its owner. As processes of the host always
 * have some, a link for them whose store is missing is stale.
 */

#include <dirent.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "config.h"
#include "prepare/pods/pods-internal.h"

#define UUID_LENGTH 36U
#define FALLBACK_DIRECTORY "/run/acnspawn/uids"

static const char *directory_override;

typedef struct Holder {
        char uuid[UUID_LENGTH + 1];
        char store[PATH_MAX];
} Holder;

void host_uids_set_directory(const char *path)
{
        directory_override = path;
}

/* --- The directory ------------------------------------------------------------------------------------- */

static int open_checked(const char *path, int *ret)
{
        struct stat st;
        int r = mkdir_p(path, 0700);

        if (r < 0)
                return r;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
                return -EPERM;
        *ret = TAKE_FD(fd);
        return 0;
}

/* 0 and -EBADF: stores of unit tests, which are not registered. */
static int open_directory(const Store *s, int *ret, const char **ret_path, Error *e)
{
        const char *path = directory_override ?: ACNSPAWN_HOST_UIDS_DIR;

        if (!directory_override && s->flags & STORE_UNPRIVILEGED)
                return 0;
        int r = open_checked(path, ret);
        if (r == -EROFS && !directory_override)
                r = open_checked(path = FALLBACK_DIRECTORY, ret);
        *ret_path = path;
        if (r == -EPERM) {
                r = error_set(e, r, "%s, the registry of uids of pods, must be accessible only by root",
                              path);
                return error_hint(e, r, "Correct it with 'chown root: %s; chmod 0700 %s'.", path, path);
        }
        return r < 0 ? error_set_errno(e, r, "Cannot open %s, the registry of uids of pods", path) : 0;
}

static int lock_directory(int dir_fd, const char *path, int *ret, Error *e)
{
        int fd = lock_file_at(dir_fd, ".lock", LOCK_EX, NULL, NULL);

        if (fd < 0)
                return error_set_errno(e, fd, "Cannot lock %s", path);
        *ret = fd;
        return 0;
}

/* --- Holders ------------------------------------------------------------------------------------------- */

/* -ENOENT: there is no link; -EINVAL: it was not written by acnspawn. */
static int read_holder(int dir_fd, const char *key, Holder *ret)
{
        char target[UUID_LENGTH + 1 + PATH_MAX];
        ssize_t n = readlinkat(dir_fd, key, target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = 0;
        if ((size_t) n <= UUID_LENGTH + 1 || target[UUID_LENGTH] != ':' || target[UUID_LENGTH + 1] != '/')
                return -EINVAL;
        target[UUID_LENGTH] = 0;
        if (uuid_check(target, NULL) < 0)
                return -EINVAL;
        memcpy(ret->uuid, target, UUID_LENGTH + 1);
        snprintf(ret->store, sizeof(ret->store), "%s", target + UUID_LENGTH + 1);
        return 0;
}

/* Whether a process of the host runs with one of the uids, which says nothing about the host's own. */
static bool range_is_in_use(uint32_t base)
{
        if (base == 0)
                return false;
        DIR *proc = opendir("/proc");
        bool used = !proc;

        for (struct dirent *d; !used && (d = readdir(proc));) {
                struct stat st;

                if (!is_digit(d->d_name[0]) || fstatat(dirfd(proc), d->d_name, &st, 0) < 0)
                        continue;
                used = st.st_uid >= base && st.st_uid - base < UID_RANGE_SIZE;
        }
        if (proc)
                (void) closedir(proc);
        return used;
}

/* If the pod cannot be checked, it is assumed to exist. */
static bool holder_lives(const Holder *h, uint32_t base)
{
        _cleanup_close_ int fd = open(h->store, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return (errno != ENOENT && errno != ENOTDIR) || range_is_in_use(base);
        for (size_t i = 0; i < N_POD_PLACES; i++) {
                _cleanup_free_ char *path = NULL;

                if (pod_place_path(h->uuid, pod_places[i], &path) < 0 ||
                    faccessat(fd, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0 || errno != ENOENT)
                        return true;
        }
        return false;
}

static bool is_holder(const Holder *h, const Pod *p)
{
        return streq(h->uuid, p->uuid) && streq(h->store, store_path(p->store));
}

/* The store may have been opened by another path. */
static bool is_same_directory(const Holder *h, const Pod *p)
{
        _cleanup_close_ int fd = open(h->store, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *path = NULL;
        struct stat a, b;

        return fd >= 0 && pod_place_path(p->uuid, p->place, &path) >= 0 &&
               fstatat(fd, path, &a, AT_SYMLINK_NOFOLLOW) >= 0 && fstat(p->dir_fd, &b) >= 0 &&
               a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* --- Operations ---------------------------------------------------------------------------------------- */

/* 1: P has it already; 0: it is free, although a stale link may exist; -EEXIST: another pod has it. */
static int look(const Pod *p, int dir_fd, const char *key, uint32_t base, Holder *h)
{
        int r = read_holder(dir_fd, key, h);

        if (r == -ENOENT || r == -EINVAL)
                return 0;
        if (r < 0)
                return r;
        if (is_holder(h, p) || (streq(h->uuid, p->uuid) && is_same_directory(h, p)))
                return 1;
        return holder_lives(h, base) ? -EEXIST : 0;
}

static int replace_link(const Pod *p, int dir_fd, const char *key)
{
        _cleanup_free_ char *target = NULL;

        int r = xasprintf(&target, "%s:%s", p->uuid, store_path(p->store));
        if (r < 0)
                return r;
        if (unlinkat(dir_fd, key, 0) < 0 && errno != ENOENT)
                return -errno;
        return symlinkat(target, dir_fd, key) < 0 ? -errno : 0;
}

/* *HOLDER: the owner, if that is another pod. */
static int take(const Pod *p, uint32_t base, Holder *holder, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        const char *path;
        char key[16];

        int r = open_directory(p->store, &dir_fd, &path, e);
        if (r < 0 || dir_fd < 0)
                return r;
        snprintf(key, sizeof(key), "%u", base);
        r = look(p, dir_fd, key, base, holder);
        if (r == 0) {
                r = lock_directory(dir_fd, path, &lock_fd, e);
                if (r < 0)
                        return r;
                r = look(p, dir_fd, key, base, holder);
                if (r == 0)
                        r = replace_link(p, dir_fd, key);
        }
        if (r < 0 && r != -EEXIST)
                return error_set_errno(e, r, "Cannot create %s/%s", path, key);
        return MIN(r, 0);
}

int host_uids_find(const Pod *p, uint32_t base, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF;
        const char *path;
        Holder holder;
        char key[16];

        int r = open_directory(p->store, &dir_fd, &path, e);
        if (r < 0 || dir_fd < 0)
                return r;
        snprintf(key, sizeof(key), "%u", base);
        r = look(p, dir_fd, key, base, &holder);
        return r < 0 && r != -EEXIST ? error_set_errno(e, r, "Cannot read %s/%s", path, key) : MIN(r, 0);
}

int host_uids_take(const Pod *p, uint32_t base, Error *e)
{
        Holder holder;

        return take(p, base, &holder, e);
}

int host_uids_claim(const Pod *p, Error *e)
{
        Holder holder;

        if (p->config.uid_base == 0 || !p->config.private_users)
                return 0;
        int r = 0;
        for (uint32_t i = 0; r >= 0 && i < pod_n_blocks(&p->config); i++)
                r = take(p, pod_first_block(&p->config) + i * UID_RANGE_SIZE, &holder, e);
        if (r != -EEXIST)
                return r;
        r = error_set(e, -EUSERS,
                      "Pod %s cannot be started: its users %u to %u are now those of pod %s in the store %s",
                      pod_display_name(p), p->config.uid_base,
                      p->config.uid_base + pod_n_uids(&p->config) - 1, holder.uuid, holder.store);
        return error_hint(e, r, "Prepare another pod, which gets a range of its own, and remove this one.");
}

void host_uids_drop(const Pod *p, uint32_t base)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        const char *path;
        Holder holder;
        char key[16];

        snprintf(key, sizeof(key), "%u", base);
        if (open_directory(p->store, &dir_fd, &path, NULL) < 0 || dir_fd < 0 ||
            lock_directory(dir_fd, path, &lock_fd, NULL) < 0)
                return;
        if (read_holder(dir_fd, key, &holder) >= 0 && is_holder(&holder, p))
                (void) unlinkat(dir_fd, key, 0);
}

int host_uids_add_to_sync(const Store *s, SyncSet *set, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF;
        const char *path;

        int r = open_directory(s, &dir_fd, &path, e);
        if (r < 0 || dir_fd < 0)
                return r;
        r = sync_add(set, dir_fd);
        return r < 0 ? error_set_errno(e, r, "Cannot sync %s", path) : 0;
}

int host_uids_collect(const Store *s, bool dry_run, char ***removed, Error *e)
{
        _cleanup_close_ int dir_fd = -EBADF, lock_fd = -EBADF;
        _cleanup_strv_free_ char **keys = NULL;
        const char *path;

        int r = open_directory(s, &dir_fd, &path, e);
        if (r < 0 || dir_fd < 0)
                return r;
        r = list_names(dir_fd, &keys);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read %s", path);
        STRV_FOREACH (key, keys) {
                uint32_t base;
                Holder h;

                if (parse_u32(*key, &base) < 0 || read_holder(dir_fd, *key, &h) < 0 ||
                    holder_lives(&h, base))
                        continue;
                if (!dry_run) {
                        if (lock_fd < 0 && (r = lock_directory(dir_fd, path, &lock_fd, e)) < 0)
                                return r;
                        if (read_holder(dir_fd, *key, &h) < 0 || holder_lives(&h, base) ||
                            unlinkat(dir_fd, *key, 0) < 0)
                                continue;
                }
                /* Links of S are reported by registry_collect() already. */
                if (!streq(h.store, store_path(s)) && strv_extend(removed, *key) < 0)
                        return error_oom(e);
        }
        return 0;
}
