/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A scratch directory for a test that needs files, removed when the test function returns:
 *
 *     _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
 *     ASSERT_OK(scratch_new(&s));
 */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "basic/basic.h"

typedef struct Scratch {
        char path[PATH_MAX];
        int fd; /* readable */
} Scratch;

#define SCRATCH_NULL ((Scratch){.fd = -1})

static inline int scratch_new(Scratch *s)
{
        const char *base = getenv("TMPDIR");

        char hex[RANDOM_HEX_SIZE];
        int r = random_hex(hex);

        if (r < 0)
                return r;
        snprintf(s->path, sizeof(s->path), "%s/acnspawn-test-%s", base && base[0] ? base : "/tmp", hex);
        if (mkdir(s->path, 0700) < 0)
                return -errno;
        s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return s->fd < 0 ? -errno : 0;
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void) st, (void) type, (void) ftw;
        return remove(path);
}

static inline void scratch_done(Scratch *s)
{
        if (s->fd < 0)
                return;
        close(s->fd);
        nftw(s->path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Plain ways to make things; they return negative errno. */
static inline int scratch_file(const Scratch *s, const char *name, const char *content)
{
        int fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        size_t n = strlen(content);

        if (fd < 0)
                return -errno;
        int r = write(fd, content, n) == (ssize_t) n ? 0 : -EIO;
        close(fd);
        return r;
}

static inline int scratch_dir(const Scratch *s, const char *name)
{
        return mkdirat(s->fd, name, 0755) < 0 ? -errno : 0;
}

static inline int scratch_symlink(const Scratch *s, const char *name, const char *target)
{
        return symlinkat(target, s->fd, name) < 0 ? -errno : 0;
}

/* Whether NAME is there (symlinks are not followed). */
static inline bool scratch_has(const Scratch *s, const char *name)
{
        struct stat st;

        return fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) >= 0;
}
