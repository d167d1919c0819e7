/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* basic/io.c: bounded reads, atomic and exclusive writes, descriptors over a socket. */

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "basic/basic.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

static void *wait_for_end(void *userdata)
{
        char byte;

        (void) !read(*(int *) userdata, &byte, 1);
        return NULL;
}

/* In a child process, which keeps the working directory of this one. */
static int enter_beside_a_thread(void)
{
        _cleanup_close_ int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        pthread_t thread;
        int fds[2];

        if (ns < 0 || pipe(fds) < 0 || thread_start(&thread, wait_for_end, &fds[0]) < 0)
                return EIO;
        int r = setns(ns, CLONE_NEWNS) < 0 ? -errno : -EEXIST;
        if (r == -EINVAL)
                r = mount_namespace_enter(ns);
        safe_close(fds[1]);
        threads_join(&thread, 1);
        safe_close(fds[0]);
        return -r;
}

/* While threads share their working directory, setns() into a mount namespace fails. */
TEST(a_mount_namespace_is_entered_beside_threads)
{
        int status = 0;

        pid_t pid = fork();
        if (pid == 0)
                _exit(enter_beside_a_thread());
        ASSERT_TRUE(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        if (WEXITSTATUS(status) == EPERM)
                TEST_SKIP("only root may enter mount namespaces");
        ASSERT_EQ(WEXITSTATUS(status), 0);
}

TEST(read_whole_file)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "f", "hello"));
        ASSERT_OK(read_file_at(s.fd, "f", 5, &text, &n));
        ASSERT_EQ(n, 5);
        ASSERT_STREQ(text, "hello");
        ASSERT_ERR(read_file_at(s.fd, "missing", 5, &text, &n), -ENOENT);
        ASSERT_STREQ(text, "hello");
}

TEST(read_empty_file)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;
        size_t n = 9;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "f", ""));
        ASSERT_OK(read_file_at(s.fd, "f", 0, &text, &n));
        ASSERT_EQ(n, 0);
        ASSERT_STREQ(text, "");
}

TEST(read_refuses_longer_files)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "f", "hello"));
        ASSERT_ERR(read_file_at(s.fd, "f", 4, &text, NULL), -EFBIG);
        ASSERT_NULL(text);
}

TEST(read_refuses_a_huge_sparse_file_at_once)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "f", ""));
        _cleanup_close_ int fd = openat(s.fd, "f", O_RDWR | O_CLOEXEC);
        ASSERT_OK(ftruncate(fd, (off_t) 1 << 40));
        ASSERT_ERR(read_fd_bounded(fd, 1 << 20, &text, NULL), -EFBIG);
}

TEST(read_of_kernel_files_that_say_they_are_empty)
{
        _cleanup_free_ char *text = NULL, *maps = NULL;
        size_t n = 0;

        ASSERT_OK(read_file_at(AT_FDCWD, "/proc/self/stat", 4096, &text, &n));
        ASSERT_GT(n, 0);
        ASSERT_CONTAINS(text, "(test-io)");
        ASSERT_ERR(read_file_at(AT_FDCWD, "/proc/self/maps", 10, &maps, NULL), -EFBIG);
}

/* A FIFO with no writer would block for ever if it were opened plainly; a directory is no file either. */
TEST(read_refuses_fifo_directory_and_device)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(mkfifoat(s.fd, "fifo", 0600));
        ASSERT_OK(scratch_dir(&s, "dir"));
        ASSERT_ERR(read_file_at(s.fd, "fifo", 100, &text, NULL), -EBADMSG);
        ASSERT_ERR(read_file_at(s.fd, "dir", 100, &text, NULL), -EBADMSG);
        ASSERT_ERR(read_file_at(AT_FDCWD, "/dev/zero", 100, &text, NULL), -EBADMSG);
}

TEST(read_from_the_start_whatever_the_offset)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "f", "hello"));
        _cleanup_close_ int fd = openat(s.fd, "f", O_RDONLY | O_CLOEXEC);
        ASSERT_EQ(lseek(fd, 3, SEEK_SET), 3);
        ASSERT_OK(read_fd_bounded(fd, 100, &text, NULL));
        ASSERT_STREQ(text, "hello");
}

TEST(write_new_never_replaces)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(write_file_new_at(s.fd, "f", "one", 3, 0600));
        ASSERT_ERR(write_file_new_at(s.fd, "f", "two", 3, 0600), -EEXIST);
        ASSERT_OK(read_file_at(s.fd, "f", 100, &text, NULL));
        ASSERT_STREQ(text, "one");
        ASSERT_OK(scratch_symlink(&s, "link", "elsewhere"));
        ASSERT_ERR(write_file_new_at(s.fd, "link", "x", 1, 0600), -EEXIST);
        ASSERT_FALSE(scratch_has(&s, "elsewhere"));
}

TEST(write_atomic_replaces_with_mode)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;
        struct stat st;
        mode_t mask = umask(077);

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "f", "old"));
        int r = write_file_atomic_at(s.fd, "f", "new", 3, 0644, true);
        umask(mask);
        ASSERT_OK(r);
        ASSERT_OK(read_file_at(s.fd, "f", 100, &text, NULL));
        ASSERT_STREQ(text, "new");
        ASSERT_OK(fstatat(s.fd, "f", &st, 0));
        ASSERT_EQ(st.st_mode & 07777, 0644);
}

/* What has the old file open keeps reading the old content. */
TEST(write_atomic_leaves_open_readers_alone)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "f", "old"));
        _cleanup_close_ int fd = openat(s.fd, "f", O_RDONLY | O_CLOEXEC);
        ASSERT_OK(write_file_atomic_at(s.fd, "f", "newer", 5, 0644, false));
        ASSERT_OK(read_fd_bounded(fd, 100, &text, NULL));
        ASSERT_STREQ(text, "old");
}

TEST(write_atomic_replaces_a_symlink_not_its_target)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "target", "precious"));
        ASSERT_OK(scratch_symlink(&s, "f", "target"));
        ASSERT_OK(write_file_atomic_at(s.fd, "f", "x", 1, 0600, false));
        ASSERT_OK(read_file_at(s.fd, "target", 100, &text, NULL));
        ASSERT_STREQ(text, "precious");
}

TEST(write_atomic_below_a_directory)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "d"));
        ASSERT_OK(write_file_atomic_at(s.fd, "d/f", "x", 1, 0600, true));
        ASSERT_OK(read_file_at(s.fd, "d/f", 100, &text, NULL));
        ASSERT_STREQ(text, "x");
}

static unsigned count_entries(const Scratch *s)
{
        struct dirent **list = NULL;
        unsigned n = 0;

        int k = scandir(s->path, &list, NULL, NULL);
        for (int i = 0; i < k; i++) {
                n += list[i]->d_name[0] != '.';
                free(list[i]);
        }
        free(list);
        return n;
}

TEST(write_atomic_leaves_nothing_behind_when_it_fails)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "d"));
        ASSERT_ERR(write_file_atomic_at(s.fd, "d", "x", 1, 0600, true), -EISDIR);
        ASSERT_ERR(write_file_atomic_at(s.fd, "missing/f", "x", 1, 0600, true), -ENOENT);
        ASSERT_EQ(count_entries(&s), 1);
}

TEST(write_attribute_keeps_the_file)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_ERR(write_attribute_at(s.fd, "f", "1"), -ENOENT);
        ASSERT_FALSE(scratch_has(&s, "f"));
        ASSERT_OK(scratch_file(&s, "f", "abc"));
        ASSERT_OK(write_attribute_at(s.fd, "f", "1"));
        ASSERT_OK(read_file_at(s.fd, "f", 100, &text, NULL));
        ASSERT_STREQ(text, "1bc");
}

TEST(fsync_of_directories)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(fsync_dir(s.fd));
        _cleanup_close_ int path_fd = open(s.path, O_PATH | O_CLOEXEC);
        ASSERT_OK(fsync_dir(path_fd));
        _cleanup_close_ int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ASSERT_ERR(fsync_dir(null_fd), -ENOTDIR);
}

TEST(fsync_of_files)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(mkdirat(s.fd, "d", 0700));
        ASSERT_OK(scratch_file(&s, "d/f", "abc"));
        ASSERT_OK(symlinkat("f", s.fd, "d/link"));
        ASSERT_OK(fsync_file_at(s.fd, "d/f"));
        ASSERT_ERR(fsync_file_at(s.fd, "d/none"), -ENOENT);
        ASSERT_ERR(fsync_file_at(s.fd, "d/link"), -ELOOP);
}

static void *write_slowly(void *p)
{
        int fd = *(int *) p;

        for (unsigned i = 0; i < 5; i++)
                if (loop_write(fd, "0123456789", 10) < 0)
                        break;
        close(fd);
        return NULL;
}

TEST(loop_read_and_write_over_a_pipe)
{
        int fds[2];
        char buffer[100];
        pthread_t thread;

        ASSERT_OK(pipe2(fds, O_CLOEXEC));
        ASSERT_EQ(pthread_create(&thread, NULL, write_slowly, &fds[1]), 0);
        ASSERT_EQ(loop_read(fds[0], buffer, 25), 25);
        ASSERT_EQ(loop_read(fds[0], buffer, sizeof(buffer)), 25);
        ASSERT_EQ(loop_read(fds[0], buffer, sizeof(buffer)), 0);
        pthread_join(thread, NULL);
        close(fds[0]);
        ASSERT_ERR(loop_read(fds[0], buffer, 1), -EBADF);
        ASSERT_ERR(loop_write(-1, buffer, 1), -EBADF);
        ASSERT_OK(loop_write(-1, buffer, 0));
}

static bool is_cloexec(int fd)
{
        return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

TEST(descriptors_over_a_socket)
{
        _cleanup_close_ int a = -EBADF, b = -EBADF, got0 = -EBADF, got1 = -EBADF;
        int pair[2], fds[4] = {-1, -1, -1, -1};
        char data[16] = "";
        size_t n = 99;

        ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
        a = pair[0], b = pair[1];
        ASSERT_OK(send_fds(a, "hi", 2, (int[]){STDOUT_FILENO, STDIN_FILENO}, 2));
        ASSERT_EQ(recv_fds(b, data, sizeof(data), fds, ELEMENTSOF(fds), &n), 2);
        got0 = fds[0], got1 = fds[1];
        ASSERT_EQ(n, 2);
        ASSERT_STREQ(data, "hi");
        ASSERT_TRUE(is_cloexec(got0));
        ASSERT_TRUE(is_cloexec(got1));

        ASSERT_OK(send_fds(a, "x", 1, NULL, 0));
        ASSERT_EQ(recv_fds(b, data, sizeof(data), fds, ELEMENTSOF(fds), &n), 1);
        ASSERT_EQ(n, 0);
}

static unsigned count_descriptors(void)
{
        unsigned n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* A peer that sends more descriptors than requested must not fill the descriptor table. */
TEST(descriptors_beyond_the_bound_are_closed)
{
        int pair[2], many[50], fds[3], received = -1;
        char c;
        size_t n = 0;

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
        for (size_t i = 0; i < ELEMENTSOF(many); i++)
                many[i] = STDIN_FILENO;
        unsigned before = count_descriptors();
        ASSERT_OK(send_fds(pair[0], "x", 1, many, ELEMENTSOF(many)));
        received = (int) recv_fds(pair[1], &c, 1, fds, ELEMENTSOF(fds), &n);
        ASSERT_EQ(received, 1);
        ASSERT_EQ(n, 3);
        ASSERT_EQ(count_descriptors(), before + 3);
        for (size_t i = 0; i < n; i++)
                close(fds[i]);
        close(pair[0]);
        ASSERT_EQ(recv_fds(pair[1], &c, 1, fds, ELEMENTSOF(fds), &n), 0);
        ASSERT_EQ(n, 0);
        close(pair[1]);
}

TEST(descriptors_without_a_receiver)
{
        int pair[2], many[300] = {};

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
        ASSERT_ERR(send_fds(pair[0], "x", 1, many, ELEMENTSOF(many)), -E2BIG);
        close(pair[1]);
        ASSERT_ERR(send_fds(pair[0], "x", 1, NULL, 0), -EPIPE); /* and no SIGPIPE */
        close(pair[0]);
}

int main(void)
{
        RUN(a_mount_namespace_is_entered_beside_threads);
        RUN(read_whole_file);
        RUN(read_empty_file);
        RUN(read_refuses_longer_files);
        RUN(read_refuses_a_huge_sparse_file_at_once);
        RUN(read_of_kernel_files_that_say_they_are_empty);
        RUN(read_refuses_fifo_directory_and_device);
        RUN(read_from_the_start_whatever_the_offset);
        RUN(write_new_never_replaces);
        RUN(write_atomic_replaces_with_mode);
        RUN(write_atomic_leaves_open_readers_alone);
        RUN(write_atomic_replaces_a_symlink_not_its_target);
        RUN(write_atomic_below_a_directory);
        RUN(write_atomic_leaves_nothing_behind_when_it_fails);
        RUN(write_attribute_keeps_the_file);
        RUN(fsync_of_directories);
        RUN(fsync_of_files);
        RUN(loop_read_and_write_over_a_pipe);
        RUN(descriptors_over_a_socket);
        RUN(descriptors_beyond_the_bound_are_closed);
        RUN(descriptors_without_a_receiver);
        return TEST_END();
}
