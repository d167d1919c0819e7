/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Disk space of a tree, as reported by collections and "image show". The allocated blocks are counted, not
 * the sizes of files, and a file with several hard links counts as a fraction for each: images and the trees
 * rendered from them share files.
 *
 * The trees of pods are written by apps and untrusted. So the walk uses descriptors, and follows no symbolic
 * link and no mount. Some levels are open, the HALF uppermost and the HALF lowest: of those between, the position is kept, and
 * they are opened again from below, if they are the same still. So an app that moves directories meanwhile can only hide what is
 * below the uppermost.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "basic/basic.h"
#include "prepare/store/store.h"

#define HALF 32U

typedef struct Level {
        DIR *dir; /* NULL: closed meanwhile */
        ino_t inode;
        long position; /* where it goes on */
        bool ended;
} Level;

typedef struct Walk {
        Level *levels;
        size_t n, allocated;
        const Operation *operation;
        dev_t device;
        uint64_t bytes, inodes;
} Walk;

static void count_entry(Walk *w, const struct stat *st)
{
        uint64_t bytes = (uint64_t) st->st_blocks * 512U;

        w->inodes++;
        w->bytes += S_ISREG(st->st_mode) ? bytes / MAX(st->st_nlink, 1U) : bytes;
}

/* A position that is the same as the one before, as names with equal hashes may have, would come again and again. */
static void close_level(Level *l)
{
        long position = telldir(l->dir);

        l->ended = position < 0 || position == l->position;
        l->position = position;
        closedir(l->dir);
        l->dir = NULL;
}

/* Directories that cannot be opened are skipped. */
static void enter(Walk *w, int dir_fd, const char *name)
{
        struct stat st;

        if (GREEDY_REALLOC(w->levels, w->allocated, w->n + 1) < 0)
                return;
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *d = fd >= 0 && fstat(fd, &st) >= 0 && st.st_dev == w->device ? fdopendir(fd) : NULL;
        if (!d)
                return;
        TAKE_FD(fd);
        if (w->n >= 2 * HALF && w->levels[w->n - HALF].dir)
                close_level(&w->levels[w->n - HALF]);
        w->levels[w->n++] = (Level){.dir = d, .inode = st.st_ino, .position = -1};
}

/* Opens a level again, from the one below it. */
static void reopen(const Walk *w, Level *l, int below_fd)
{
        _cleanup_close_ int fd = openat(below_fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != w->device || st.st_ino != l->inode)
                return;
        l->dir = fdopendir(fd);
        if (!l->dir)
                return;
        TAKE_FD(fd);
        if (!l->ended)
                seekdir(l->dir, l->position);
}

static void leave(Walk *w)
{
        Level *l = &w->levels[w->n - 1];

        if (l->dir && w->n > 1 && !l[-1].dir)
                reopen(w, &l[-1], dirfd(l->dir));
        if (l->dir)
                closedir(l->dir);
        w->n--;
}

static void step(Walk *w)
{
        const Level *l = &w->levels[w->n - 1];
        const struct dirent *de = !l->dir || l->ended || operation_check(w->operation, NULL) < 0
                                                  ? NULL
                                                  : readdir(l->dir);
        struct stat st;

        if (!de) {
                leave(w);
                return;
        }
        if (streq(de->d_name, ".") || streq(de->d_name, ".."))
                return;
        int fd = dirfd(l->dir);
        if (fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
            st.st_dev != w->device)
                return;
        count_entry(w, &st);
        if (S_ISDIR(st.st_mode))
                enter(w, fd, de->d_name);
}

void disk_usage_count_at(int dir_fd, const char *name, const Operation *o, uint64_t *ret_bytes,
                         uint64_t *ret_inodes)
{
        Walk w = {.operation = o};
        struct stat st;

        *ret_bytes = *ret_inodes = 0;
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
                return;
        w.device = st.st_dev;
        count_entry(&w, &st);
        if (S_ISDIR(st.st_mode))
                enter(&w, dir_fd, name);
        while (w.n > 0)
                step(&w);
        free(w.levels);
        *ret_bytes = w.bytes;
        *ret_inodes = w.inodes;
}

uint64_t disk_usage_at(int dir_fd, const char *name, const Operation *o)
{
        uint64_t bytes, inodes;

        disk_usage_count_at(dir_fd, name, o, &bytes, &inodes);
        return bytes;
}
