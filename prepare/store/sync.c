/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes files and directories durable, within milliseconds even if the disk is busy.
 *
 * syncfs() would be one call, but it waits for all data written to the file system by any process: with some
 * hundred megabytes of others, a pod took 170 ms instead of one. An fsync() per file does not, but each of
 * them makes the disk flush its cache and waits for that, which takes long if other processes do the same:
 * 25 files took 80 ms on a busy disk. So the fsync() calls are made in parallel by several threads. The
 * kernel then completes many of them with one commit and one flush, and all take about as long as one call.
 *
 * Empty directories are not synced: their entry is in the parent directory.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "prepare/store/store.h"

#define THREADS_MAX 12U
/* The trees written by acnspawn are a few levels deep, and contain nothing untrusted. */
#define SYNC_DEPTH_MAX 16U

/* --- Sets of descriptors ------------------------------------------------------------------------------- */

static void *sync_some(void *userdata)
{
        SyncSet *s = userdata;
        size_t i;

        while ((i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < s->n)
                if (fsync(s->fds[i]) < 0)
                        __atomic_store_n(&s->error, -errno, __ATOMIC_RELAXED);
        return NULL;
}

/* Syncs and closes the descriptors of the set. */
static void sync_batch(SyncSet *s)
{
        pthread_t threads[THREADS_MAX];

        s->next = 0;
        size_t wanted = s->n > 1 ? MIN(s->n - 1, (size_t) THREADS_MAX) : 0;
        size_t n = threads_start(threads, wanted, sync_some, s, NULL);
        (void) sync_some(s); /* everything, if no threads could be started */
        threads_join(threads, n);
        while (s->n > 0)
                safe_close(s->fds[--s->n]);
}

int sync_add(SyncSet *s, int fd)
{
        if (s->n == SYNC_BATCH)
                sync_batch(s);
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (copy < 0)
                return -errno;
        s->fds[s->n++] = copy;
        return 0;
}

int sync_finish(SyncSet *s)
{
        sync_batch(s);
        return s->error;
}

void sync_done(SyncSet *s)
{
        while (s->n > 0)
                safe_close(s->fds[--s->n]);
}

/* --- Trees --------------------------------------------------------------------------------------------- */

typedef struct Level {
        DIR *dir;
        bool has_entries;
} Level;

typedef struct Walk {
        Level levels[SYNC_DEPTH_MAX];
        size_t n;
} Walk;

static void walk_done(Walk *w)
{
        while (w->n > 0)
                closedir(w->levels[--w->n].dir);
}

static int walk_enter(Walk *w, int dir_fd, const char *name)
{
        if (w->n >= SYNC_DEPTH_MAX)
                return -ELOOP;
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        DIR *d = fdopendir(fd);
        if (!d) {
                int r = -errno;
                safe_close(fd);
                return r;
        }
        w->levels[w->n++] = (Level){.dir = d};
        return 0;
}

int sync_add_file(SyncSet *s, int dir_fd, const char *name)
{
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        (void) sync_file_range(fd, 0, 0,
                               SYNC_FILE_RANGE_WRITE); /* starts writing of all files before waiting for
                                                        * any */
        return sync_add(s, fd);
}

static int walk_leave(Walk *w, SyncSet *s)
{
        Level *l = &w->levels[--w->n];
        int r = l->has_entries ? sync_add(s, dirfd(l->dir)) : 0;

        closedir(l->dir);
        return r;
}

static int walk_step(Walk *w, SyncSet *s)
{
        Level *l = &w->levels[w->n - 1];
        struct stat st;

        errno = 0;
        struct dirent *de = readdir(l->dir);
        if (!de)
                return errno != 0 ? -errno : walk_leave(w, s);
        if (streq(de->d_name, ".") || streq(de->d_name, ".."))
                return 0;
        l->has_entries = true;
        if (fstatat(dirfd(l->dir), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return walk_enter(w, dirfd(l->dir), de->d_name);
        return S_ISREG(st.st_mode) ? sync_add_file(s, dirfd(l->dir), de->d_name) : 0;
}

int sync_add_tree(SyncSet *s, int dir_fd)
{
        _cleanup_(walk_done) Walk w = {};

        int r = walk_enter(&w, dir_fd, ".");
        while (r >= 0 && w.n > 0)
                r = walk_step(&w, s);
        return r;
}
