/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Disk space of a tree, as reported by collections and "image show". The allocated blocks are counted, not
 * the sizes of files, and a file with several hard links counts as a fraction for each: images and the trees
 * rendered from them share files.
 *
 * The trees of pods are written by apps and untrusted. So the walk uses descriptors, follows no symbolic
 * link and no mount, keeps only one open directory for each level, and stops at a depth that no image needs.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "basic/basic.h"
#include "prepare/store/store.h"

#define DEPTH_MAX 128U

typedef struct Walk {
        DIR *levels[DEPTH_MAX];
        size_t n;
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

/* Directories that cannot be opened, or are too deep, are skipped. */
static void enter(Walk *w, int dir_fd, const char *name)
{
        _cleanup_close_ int fd = -EBADF;

        if (w->n >= DEPTH_MAX)
                return;
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
        if (!d)
                return;
        TAKE_FD(fd);
        w->levels[w->n++] = d;
}

static void step(Walk *w)
{
        DIR *d = w->levels[w->n - 1];
        const struct dirent *de = operation_check(w->operation, NULL) < 0 ? NULL : readdir(d);
        struct stat st;

        if (!de) {
                closedir(d);
                w->n--;
                return;
        }
        if (streq(de->d_name, ".") || streq(de->d_name, ".."))
                return;
        if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
            st.st_dev != w->device)
                return;
        count_entry(w, &st);
        if (S_ISDIR(st.st_mode))
                enter(w, dirfd(d), de->d_name);
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
        *ret_bytes = w.bytes;
        *ret_inodes = w.inodes;
}

uint64_t disk_usage_at(int dir_fd, const char *name, const Operation *o)
{
        uint64_t bytes, inodes;

        disk_usage_count_at(dir_fd, name, o, &bytes, &inodes);
        return bytes;
}
