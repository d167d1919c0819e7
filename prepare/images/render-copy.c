/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Adds a file of a layer to a rendered tree: as a hard link, which takes no space. The number of links of a
 * file is limited (65000 on ext4), and a popular base image can have as many rendered trees; then the file
 * is copied, sharing blocks if the file system supports it, otherwise preserving holes, the size of which
 * the image's author controls.
 */

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "prepare/images/images-internal.h"
#include "prepare/unpack/unpack.h"

#define COPY_CHUNK (64U << 20)

/* Falls back to sendfile() between different types of file systems; some return 0 if they do not support the
 * call. */
static ssize_t copy_some(int from, int to, off_t *at, size_t size)
{
        off_t out = *at;
        ssize_t n = copy_file_range(from, at, to, &out, size, 0);

        if (n > 0 ||
            (n < 0 && errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && !is_refusal(-errno)))
                return n;
        return lseek(to, *at, SEEK_SET) < 0 ? -1 : sendfile(to, from, at, size);
}

static int copy_range(int from, int to, off_t start, off_t end, const Operation *o)
{
        while (start < end) {
                ssize_t n = copy_some(from, to, &start, (size_t) MIN(end - start, (off_t) COPY_CHUNK));
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n == 0)
                        return -EIO; /* shorter than expected: not the stored file */
                int r = operation_check(o, NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

int file_copy_content(int from, int to, off_t size, const Operation *o)
{
        off_t start = 0, end = 0;

        if (ioctl(to, FICLONE, from) >= 0)
                return 0;
        if (ftruncate(to, size) < 0)
                return -errno;
        while (end < size) {
                start = lseek(from, end, SEEK_DATA);
                if (start < 0 && errno == ENXIO)
                        return 0;
                end = start < 0 ? -1 : lseek(from, start, SEEK_HOLE);
                if (start < 0 || end < 0)
                        return -errno;
                int r = copy_range(from, to, start, MIN(end, size), o);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Owner before mode and attributes, which chown() may clear. */
static int copy_metadata(const Store *s, int from, int to, const struct stat *st)
{
        const struct timespec times[2] = {st->st_atim, st->st_mtim};

        if (fchown(to, st->st_uid, st->st_gid) < 0 && !(errno == EPERM && s->flags & STORE_UNPRIVILEGED))
                return -errno;
        if (fchmod(to, st->st_mode & 07777U) < 0)
                return -errno;
        int r = xattr_copy_all(from, to);
        if (r < 0)
                return r;
        return futimens(to, times) < 0 ? -errno : 0;
}

static int copy_file(const Store *s, int from_fd, int to_fd, const char *name)
{
        _cleanup_close_ int from = open_beneath(from_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
                            to = -EBADF;
        struct stat st;

        if (from < 0)
                return from;
        if (fstat(from, &st) < 0)
                return -errno;
        to = openat(to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (to < 0)
                return -errno;
        int r = file_copy_content(from, to, st.st_size, s->operation);
        return r < 0 ? r : copy_metadata(s, from, to, &st);
}

static int copy_symlink(const Store *s, int from_fd, int to_fd, const char *name, const struct stat *st)
{
        const struct timespec times[2] = {st->st_atim, st->st_mtim};
        char target[LINK_SIZE_MAX + 1];

        ssize_t n = readlinkat(from_fd, name, target, sizeof(target));
        if (n < 0)
                return -errno;
        if ((size_t) n == sizeof(target))
                return -ENAMETOOLONG;
        target[n] = 0;
        if (symlinkat(target, to_fd, name) < 0)
                return -errno;
        if (fchownat(to_fd, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
            !(errno == EPERM && s->flags & STORE_UNPRIVILEGED))
                return -errno;
        return utimensat(to_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int render_place_file(const Store *s, int from_fd, int to_fd, const char *name, const struct stat *st)
{
        if (linkat(from_fd, name, to_fd, name, 0) >= 0)
                return 0;
        if (errno != EMLINK)
                return -errno;
        if (S_ISREG(st->st_mode))
                return copy_file(s, from_fd, to_fd, name);
        return S_ISLNK(st->st_mode) ? copy_symlink(s, from_fd, to_fd, name, st) : -EMLINK;
}

int directory_copy_metadata(const Store *s, int from, int to, struct stat *ret)
{
        struct stat st;

        if (fstat(from, &st) < 0)
                return -errno;
        if (fchown(to, st.st_uid, st.st_gid) < 0 && !(errno == EPERM && s->flags & STORE_UNPRIVILEGED))
                return -errno;
        if (fchmod(to, st.st_mode & 07777U) < 0)
                return -errno;
        int r = xattr_copy_all(from, to);
        if (r >= 0)
                *ret = st;
        return r;
}
