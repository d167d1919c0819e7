/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading and writing whole files with a limit of their size, replacing files atomically, passing
 * descriptors. */

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "basic/basic.h"

#define RESERVED_READS_MAX 1000U /* of one record that changes all the time */

#ifdef BASIC_STRICT
void (*close_check)(int fd);
#endif

int safe_close(int fd)
{
        if (fd >= 0) {
                int saved_errno = errno;
#ifdef BASIC_STRICT
                if (close_check)
                        close_check(fd);
#endif
                (void) close(fd);
                errno = saved_errno;
        }
        return -EBADF;
}

int fd_set_blocking(int fd)
{
        int flags = fcntl(fd, F_GETFL);

        return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : 0;
}

int loop_write(int fd, const void *p, size_t n)
{
        const char *b = p;

        while (n > 0) {
                ssize_t k = write(fd, b, n);
                if (k < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                b += k;
                n -= (size_t) k;
        }
        return 0;
}

ssize_t loop_read(int fd, void *p, size_t n)
{
        size_t done = 0;

        while (done < n) {
                ssize_t k = read(fd, (char *) p + done, n - done);
                if (k < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (k == 0)
                        break;
                done += (size_t) k;
        }
        return (ssize_t) done;
}

/* Only once: the first reader reads all of it, and a second one would get nothing. -EALREADY. */
static int standard_input_open(void)
{
        static bool was_opened = false;

        if (__atomic_exchange_n(&was_opened, true, __ATOMIC_RELAXED))
                return -EALREADY;
        int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? -errno : fd;
}

int input_open(const char *path, int flags)
{
        if (streq(path, "-"))
                return standard_input_open();
        int fd = open(path, flags | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? -errno : fd;
}

const char *input_problem(int r)
{
        return r == -EALREADY ? "standard input has been read already" : strerror(-r);
}

int read_fd_bounded(int fd, size_t max, char **ret, size_t *ret_size)
{
        _cleanup_free_ char *data = NULL;
        struct stat st;
        ssize_t n;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADMSG;
        if (st.st_size > 0 && (uint64_t) st.st_size > max)
                return -EFBIG;

        /* Files in /proc have size 0; a file may grow while it is read. */
        size_t room = st.st_size > 0 ? (size_t) st.st_size : MIN(max, (size_t) 65536);
        for (;;) {
                char *p = realloc(data, room + 2);
                if (!p)
                        return -ENOMEM;
                data = p;
                if (lseek(fd, 0, SEEK_SET) < 0)
                        return -errno;
                n = loop_read(fd, data, room + 1);
                if (n < 0)
                        return (int) n;
                if ((size_t) n <= room)
                        break;
                if (room >= max)
                        return -EFBIG;
                room = MIN(max, room * 2);
        }
        data[n] = 0;
        *ret = TAKE_PTR(data);
        if (ret_size)
                *ret_size = (size_t) n;
        return 0;
}

int read_file_at(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size)
{
        /* O_NONBLOCK: a FIFO in place of a file must not block this process. */
        _cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        if (fd < 0)
                return -errno;
        return read_fd_bounded(fd, max, ret, ret_size);
}

/* -EAGAIN: the file was replaced or written to meanwhile. */
static int read_while_unchanged(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size)
{
        _cleanup_close_ int fd = open_beneath(dir_fd, path, O_RDONLY | O_NONBLOCK);
        _cleanup_free_ char *data = NULL;
        struct stat before, after;

        if (fd < 0)
                return fd;
        if (fstat(fd, &before) < 0)
                return -errno;
        int r = read_fd_bounded(fd, max, &data, ret_size);
        if (r < 0)
                return r;
        if (fstatat(dir_fd, path, &after, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? -EAGAIN : -errno;
        if (before.st_dev != after.st_dev || before.st_ino != after.st_ino ||
            before.st_mtim.tv_sec != after.st_mtim.tv_sec || before.st_mtim.tv_nsec != after.st_mtim.tv_nsec)
                return -EAGAIN;
        *ret = TAKE_PTR(data);
        return 0;
}

int read_file_reserved_at(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size)
{
        int r = -EAGAIN;

        for (unsigned i = 0; r == -EAGAIN && i < RESERVED_READS_MAX; i++)
                r = read_while_unchanged(dir_fd, path, max, ret, ret_size);
        return r;
}

int read_boot_id(char **ret)
{
        int r = read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", UUID_TEXT_SIZE, ret, NULL);

        if (r >= 0)
                (*ret)[strcspn(*ret, "\n")] = 0;
        return r;
}

int write_file_new_at(int dir_fd, const char *path, const void *p, size_t n, mode_t mode)
{
        _cleanup_close_ int fd = openat(
                        dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, mode);

        if (fd < 0 || fchmod(fd, mode) < 0)
                return -errno;
        return loop_write(fd, p, n);
}

static int write_and_sync(int fd, const void *p, size_t n, mode_t mode, bool sync)
{
        int r = loop_write(fd, p, n);

        if (r < 0)
                return r;
        if (fchmod(fd, mode) < 0 || (sync && fsync(fd) < 0))
                return -errno;
        return 0;
}

/* Syncs the directory that contains PATH. */
static int fsync_parent(int dir_fd, const char *path)
{
        _cleanup_free_ char *parent = NULL;
        const char *slash = strrchr(path, '/');

        if (!slash)
                return fsync_dir(dir_fd);
        parent = strndup(path, (size_t) (slash - path + 1));
        if (!parent)
                return -ENOMEM;
        _cleanup_close_ int fd = openat(dir_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int write_file_atomic_at(int dir_fd, const char *path, const void *p, size_t n, mode_t mode, bool sync)
{
        static unsigned counter;
        _cleanup_free_ char *temporary = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = xasprintf(&temporary, "%s.%d-%u.tmp", path, (int) getpid(), ++counter);
        if (r < 0)
                return r;
        fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
                    0600);
        if (fd < 0)
                return -errno;
        r = write_and_sync(fd, p, n, mode, sync);
        if (r >= 0 && renameat(dir_fd, temporary, dir_fd, path) < 0)
                r = -errno;
        if (r < 0) {
                (void) unlinkat(dir_fd, temporary, 0);
                return r;
        }
        return sync ? fsync_parent(dir_fd, path) : 0;
}

/* On btrfs an empty file can be excepted from "copy on write": what is written to it later goes to the same place. */
static void set_no_copy_on_write(int fd)
{
        unsigned flags = 0;

        if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
                return;
        flags |= FS_NOCOW_FL;
        (void) ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

int file_reserve_at(int dir_fd, const char *name)
{
        _cleanup_close_ int fd = openat(
                        dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
        char blank[RESERVED_SIZE];

        if (fd < 0)
                return errno == EEXIST ? 0 : -errno;
        set_no_copy_on_write(fd);
        memset(blank, '\n', sizeof(blank));
        int r = write_and_sync(fd, blank, sizeof(blank), 0600, false);
        if (r < 0)
                (void) unlinkat(dir_fd, name, 0);
        return r;
}

/* In place, as that needs no space (but see set_no_copy_on_write()). Until the next content of the file is on disk, a loss of power must not
 * show this one under another name. */
static void blank(int dir_fd, const char *name)
{
        _cleanup_close_ int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
        char lines[RESERVED_SIZE];
        struct stat st;

        memset(lines, '\n', sizeof(lines));
        if (fd >= 0 && fstat(fd, &st) >= 0)
                (void) loop_write(fd, lines, MIN((size_t) st.st_size, sizeof(lines)));
}

/* The same. The time of each content is its own, as those that the kernel sets may be equal: so a reader sees that the file that it has
 * open was the reserve meanwhile. */
static int use_reserve(int dir_fd, const char *path, const char *reserve, const void *p, size_t n)
{
        _cleanup_close_ int fd = openat(dir_fd, reserve, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
        struct timespec times[2];

        int r = fd < 0 ? -errno : loop_write(fd, p, n);
        if (r < 0)
                return r;
        if (ftruncate(fd, (off_t) n) < 0 || clock_gettime(CLOCK_REALTIME, &times[0]) < 0)
                return -errno;
        times[1] = times[0];
        if (futimens(fd, times) < 0)
                return -errno;
        if (renameat2(dir_fd, reserve, dir_fd, path, RENAME_EXCHANGE) >= 0) {
                blank(dir_fd, reserve);
                return 0;
        }
        return errno != ENOENT || renameat(dir_fd, reserve, dir_fd, path) < 0 ? -errno : 0;
}

int write_file_reserved_at(int dir_fd, const char *path, const char *reserve, const void *p, size_t n)
{
        int r = write_file_atomic_at(dir_fd, path, p, n, 0600, false);

        return (r == -ENOSPC || r == -EDQUOT) && use_reserve(dir_fd, path, reserve, p, n) >= 0 ? 0 : r;
}

int fsync_file_at(int dir_fd, const char *path)
{
        _cleanup_close_ int fd =
                        openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);

        return fd < 0 || fsync(fd) < 0 ? -errno : fsync_parent(dir_fd, path);
}

int write_attribute_at(int dir_fd, const char *path, const char *value)
{
        _cleanup_close_ int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return -errno;
        return loop_write(fd, value, strlen(value));
}

int fsync_dir(int dir_fd)
{
        _cleanup_close_ int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || fsync(fd) < 0)
                return -errno;
        return 0;
}

#define FDS_MAX 253 /* SCM_MAX_FD */

static ssize_t send_fds_with(int sock, const void *data, size_t n, const int *fds, size_t n_fds, int flags)
{
        union {
                struct cmsghdr align;
                char buffer[CMSG_SPACE(sizeof(int) * FDS_MAX)];
        } control = {};
        struct iovec iov = {.iov_base = (void *) data, .iov_len = n};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

        if (n_fds > FDS_MAX)
                return -E2BIG;
        if (n_fds > 0) {
                m.msg_control = control.buffer;
                m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                struct cmsghdr *c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
        }
        ssize_t k;
        do
                k = sendmsg(sock, &m, MSG_NOSIGNAL | flags);
        while (k < 0 && errno == EINTR);
        return k < 0 ? -errno : k;
}

static int check_sent(ssize_t k, size_t n)
{
        return k < 0 ? (int) k : (size_t) k == n ? 0 : -EMSGSIZE;
}

int send_fds(int sock, const void *data, size_t n, const int *fds, size_t n_fds)
{
        return check_sent(send_fds_with(sock, data, n, fds, n_fds, 0), n);
}

int send_fds_now(int sock, const void *data, size_t n, const int *fds, size_t n_fds)
{
        return check_sent(send_fds_some(sock, data, n, fds, n_fds), n);
}

ssize_t send_fds_some(int sock, const void *data, size_t n, const int *fds, size_t n_fds)
{
        return send_fds_with(sock, data, n, fds, n_fds, MSG_DONTWAIT);
}

ssize_t recv_fds(int sock, void *data, size_t n, int *fds, size_t max_fds, size_t *ret_n_fds)
{
        union {
                struct cmsghdr align;
                char buffer[CMSG_SPACE(sizeof(int) * FDS_MAX)];
        } control;
        struct iovec iov = {.iov_base = data, .iov_len = n};
        struct msghdr m = {
                        .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control.buffer,
                        .msg_controllen = sizeof(control.buffer),
        };
        size_t got = 0;
        ssize_t k;

        do
                k = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
        while (k < 0 && errno == EINTR);
        if (k < 0)
                return -errno;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                size_t n_here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n_here; i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (got < max_fds)
                                fds[got++] = fd;
                        else
                                safe_close(fd);
                }
        }
        *ret_n_fds = got;
        return k;
}

void fd_list_done(FdList *f)
{
        for (size_t i = 0; i < f->n; i++)
                safe_close(f->fds[i]);
        f->n = 0;
}

int fd_list_push(FdList *f, int fd)
{
        if (fd < 0)
                return -EBADF;
        if (f->n == FD_LIST_MAX) {
                safe_close(fd);
                return -E2BIG;
        }
        f->fds[f->n++] = fd;
        return 0;
}

int fd_list_take(FdList *f, size_t i)
{
        return i >= f->n || f->fds[i] < 0 ? -ENXIO : TAKE_FD(f->fds[i]);
}
