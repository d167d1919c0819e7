/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes a directory tree durable, in milliseconds whatever else goes on on the file system.
 *
 * syncfs() would be one call, but it waits for everything that anybody has written there: with some hundred
 * megabytes of somebody else's a pod took 170 ms instead of one. So every file gets an fsync(), and what
 * makes that cheap is to start writing all of them before waiting for the first: then the file system
 * commits once, and the others find it done.
 *
 * Directories that are empty are not synced: all there is to know of them is in the one above.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "prepare/internal.h"

/* What stage1 and we write is a few levels deep, and nothing of a stranger's is in it. */
#define SYNC_DEPTH_MAX 16U

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

/* The two passes: begin to write, then wait until it is written. */
static int sync_file(int dir_fd, const char *name, bool wait)
{
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        if (wait)
                return fsync(fd) < 0 ? -errno : 0;
        (void) sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only to be faster */
        return 0;
}

static int walk_leave(Walk *w, bool wait)
{
        Level *l = &w->levels[--w->n];
        int r = wait && l->has_entries && fsync(dirfd(l->dir)) < 0 ? -errno : 0;

        closedir(l->dir);
        return r;
}

static int walk_step(Walk *w, bool wait)
{
        Level *l = &w->levels[w->n - 1];
        struct stat st;

        errno = 0;
        struct dirent *de = readdir(l->dir);
        if (!de)
                return errno != 0 ? -errno : walk_leave(w, wait);
        if (streq(de->d_name, ".") || streq(de->d_name, ".."))
                return 0;
        l->has_entries = true;
        if (fstatat(dirfd(l->dir), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return walk_enter(w, dirfd(l->dir), de->d_name);
        return S_ISREG(st.st_mode) ? sync_file(dirfd(l->dir), de->d_name, wait) : 0;
}

int sync_tree(int dir_fd)
{
        for (unsigned pass = 0; pass < 2; pass++) {
                _cleanup_(walk_done) Walk w = {};

                int r = walk_enter(&w, dir_fd, ".");
                while (r >= 0 && w.n > 0)
                        r = walk_step(&w, pass == 1);
                if (r < 0)
                        return r;
        }
        return 0;
}
