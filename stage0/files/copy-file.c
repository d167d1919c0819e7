/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies one file, which appears under its name when it is complete.
 *
 * If the file system supports it, the file has no name until then (O_TMPFILE). Otherwise it has a temporary
 * name, in a directory that an app may modify: it is only used through its descriptor, and a file that the
 * app puts in its place belongs to the app anyway.
 */

#include <linux/fs.h>
#include <linux/limits.h>
#include <sys/ioctl.h>

#include "stage0/files/files-internal.h"

#define BUFFER_SIZE (256U * 1024U)
#define STEP ((off_t) 64 << 20) /* bytes between checks for an interrupt */
#define TEMPORARY_SIZE 48U

/* --- Names --------------------------------------------------------------------------------------------- */

static int make_name(char name[static TEMPORARY_SIZE])
{
        char hex[RANDOM_HEX_SIZE];
        int r = random_hex(hex);

        if (r >= 0)
                snprintf(name, TEMPORARY_SIZE, ".acnspawn-cp.%s", hex);
        return r;
}

/* Whether a file is mounted there, such as a volume. For mounts in an app's namespace the kernel does not
 * refuse the rename: it would detach the mount from the app. */
static bool is_mount(int dir_fd, const char *name)
{
        struct statx st;

        return statx(dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &st) >= 0 &&
               !S_ISDIR(st.stx_mode) && st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* Renames TEMPORARY to its final name, or removes it. */
static int rename_into_place(int dir_fd, const char *temporary, const char *name)
{
        int r = is_mount(dir_fd, name) ? -EBUSY : 0;

        if (r >= 0 && renameat(dir_fd, temporary, dir_fd, name) < 0)
                r = -errno;
        if (r < 0)
                (void) unlinkat(dir_fd, temporary, 0);
        return r;
}

typedef struct Unfinished {
        int fd;
        char temporary[TEMPORARY_SIZE]; /* empty: it has no name */
} Unfinished;

static int unfinished_open(int dir_fd, Unfinished *u)
{
        u->temporary[0] = 0;
        u->fd = openat(dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        if (u->fd >= 0)
                return 0;
        if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
                return -errno;
        int r = make_name(u->temporary);
        if (r < 0)
                return r;
        u->fd = openat(dir_fd, u->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return u->fd < 0 ? -errno : 0;
}

static int unfinished_publish(Unfinished *u, int dir_fd, const char *name)
{
        char link[32];

        if (!u->temporary[0]) {
                snprintf(link, sizeof(link), "/proc/self/fd/%d", u->fd);
                if (linkat(AT_FDCWD, link, dir_fd, name, AT_SYMLINK_FOLLOW) >= 0)
                        return 0;
                if (errno != EEXIST)
                        return -errno;
                int r = make_name(u->temporary);
                if (r < 0)
                        return r;
                if (linkat(AT_FDCWD, link, dir_fd, u->temporary, AT_SYMLINK_FOLLOW) < 0)
                        return -errno;
        }
        return rename_into_place(dir_fd, u->temporary, name);
}

static void unfinished_done(Unfinished *u, int dir_fd)
{
        safe_close(u->fd);
        if (u->temporary[0])
                (void) unlinkat(dir_fd, u->temporary, 0); /* does not exist any more if it was published */
}

/* --- Content ------------------------------------------------------------------------------------------- */

typedef struct Content {
        int from, to;
        const Operation *operation;
        unsigned char *buffer;
        bool by_hand; /* the kernel does not copy between these two */
} Content;

static ssize_t copy_by_hand(Content *c, off_t at, size_t n)
{
        if (!c->buffer && !(c->buffer = malloc(BUFFER_SIZE)))
                return -ENOMEM;
        ssize_t k = pread(c->from, c->buffer, MIN(n, BUFFER_SIZE), at);
        for (ssize_t done = 0; done < k;) {
                ssize_t m = pwrite(c->to, c->buffer + done, (size_t) (k - done), at + done);
                if (m < 0 && errno != EINTR)
                        return -errno;
                done += MAX(m, 0);
        }
        return k < 0 ? -errno : k;
}

static ssize_t copy_some(Content *c, off_t at, size_t n)
{
        off_t in = at, out = at;

        if (!c->by_hand) {
                ssize_t k = copy_file_range(c->from, &in, c->to, &out, n, 0);
                if (k > 0)
                        return k;
                /* Some file systems return 0 if they do not support it. */
                if (k == 0 || errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || is_refusal(-errno))
                        c->by_hand = true;
                else
                        return -errno;
        }
        return copy_by_hand(c, at, n);
}

/* A truncated file ends there. */
static int copy_range(Content *c, off_t at, off_t end, Error *e)
{
        while (at < end) {
                int r = operation_check(c->operation, e);
                if (r < 0)
                        return r;
                ssize_t n = copy_some(c, at, (size_t) MIN(end - at, STEP));
                if (n == -EINTR)
                        continue;
                if (n <= 0)
                        return (int) n;
                at += n;
        }
        return 0;
}

/* Holes are preserved. */
static int copy_content(Content *c, off_t size, Error *e)
{
        off_t start = 0, end = 0;

        if (size > 0 && ioctl(c->to, FICLONE, c->from) >= 0)
                return 0;
        if (ftruncate(c->to, size) < 0)
                return -errno;
        while (end < size) {
                start = lseek(c->from, end, SEEK_DATA);
                if (start < 0 && errno == ENXIO)
                        return 0;
                end = start < 0 ? -1 : lseek(c->from, start, SEEK_HOLE);
                if (start < 0 || end < 0)
                        return copy_range(c, 0, size, e); /* the file system does not support holes */
                int r = copy_range(c, start, MIN(end, size), e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool changed(int fd, const struct stat *st)
{
        struct stat now;

        return fstat(fd, &now) < 0 || now.st_size != st->st_size ||
               now.st_mtim.tv_sec != st->st_mtim.tv_sec || now.st_mtim.tv_nsec != st->st_mtim.tv_nsec;
}

static int fill(const Attributes *a, int from_fd, const struct stat *st, Unfinished *u, const Operation *o,
                const char **ret_why, Error *e)
{
        /* Opening has no side effects on a regular file, and this is one: it was checked through the same
         * descriptor. */
        _cleanup_close_ int from = fd_reopen(from_fd, O_RDONLY | O_NONBLOCK);
        Content c = {.from = from, .to = u->fd, .operation = o};

        if (from < 0)
                return from;
        int r = copy_content(&c, st->st_size, e);
        free(c.buffer);
        if (r < 0)
                return r;
        if (changed(from, st))
                *ret_why = "it changed while it was copied";
        return attributes_copy(a, from_fd, st, u->fd, ret_why);
}

int file_copy(const Attributes *a, int from_fd, const struct stat *st, int dir_fd, const char *name,
              const Operation *o, const char **ret_why, Error *e)
{
        Unfinished u = {.fd = -EBADF};

        int r = unfinished_open(dir_fd, &u);
        if (r >= 0)
                r = fill(a, from_fd, st, &u, o, ret_why, e);
        if (r >= 0)
                r = unfinished_publish(&u, dir_fd, name);
        unfinished_done(&u, dir_fd);
        return r;
}

/* --- Other kinds --------------------------------------------------------------------------------------- */

/* By a descriptor, as other processes that can write to the directory can replace it. The owner shows that
 * it was created here. */
static int own_symlink(const Attributes *a, const struct stat *st, int dir_fd, const char *name)
{
        _cleanup_close_ int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat own;

        if (fd < 0 || fstat(fd, &own) < 0)
                return -errno;
        if (!S_ISLNK(own.st_mode) || own.st_uid != attributes_maker(a))
                return -ESTALE;
        return attributes_copy_symlink(a, st, fd);
}

int symlink_copy(const Attributes *a, int from_fd, const struct stat *st, int dir_fd, const char *name)
{
        char target[PATH_MAX], temporary[TEMPORARY_SIZE];
        ssize_t n = readlinkat(from_fd, "", target, sizeof(target));

        if (n < 0 || (size_t) n >= sizeof(target))
                return n < 0 ? -errno : -ENAMETOOLONG;
        target[n] = 0;
        int r = make_name(temporary);
        if (r < 0)
                return r;
        if (symlinkat(target, dir_fd, temporary) < 0)
                return -errno;
        r = own_symlink(a, st, dir_fd, temporary);
        if (r >= 0)
                return rename_into_place(dir_fd, temporary, name);
        (void) unlinkat(dir_fd, temporary, 0);
        return r;
}

static bool is_same(int a_fd, const char *a, int b_fd, const char *b)
{
        struct stat x, y;

        return fstatat(a_fd, a, &x, AT_SYMLINK_NOFOLLOW) >= 0 &&
               fstatat(b_fd, b, &y, AT_SYMLINK_NOFOLLOW) >= 0 && x.st_dev == y.st_dev &&
               x.st_ino == y.st_ino;
}

int hard_link_copy(int from_dir_fd, const char *from_name, int dir_fd, const char *name)
{
        char temporary[TEMPORARY_SIZE];

        /* Renaming one name of a file over another does nothing, and leaves both. */
        if (is_same(from_dir_fd, from_name, dir_fd, name))
                return 0;
        int r = make_name(temporary);
        if (r < 0)
                return r;
        if (linkat(from_dir_fd, from_name, dir_fd, temporary, 0) < 0)
                return -errno;
        return rename_into_place(dir_fd, temporary, name);
}
