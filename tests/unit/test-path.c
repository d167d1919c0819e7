/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* basic/path.c: untrusted paths must not lead out of the root, and removing must handle hostile trees. */

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "basic/basic.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

/* A scratch directory with secret (outside) and root/ (untrusted content): links that try to lead out. */
static int make_root(Scratch *s, int *ret_root)
{
        int r = scratch_new(s);

        if (r < 0 || (r = scratch_file(s, "secret", "outside")) < 0 || (r = scratch_dir(s, "root")) < 0 ||
            (r = scratch_dir(s, "root/etc")) < 0 || (r = scratch_file(s, "root/etc/x", "inside")) < 0 ||
            (r = scratch_symlink(s, "root/up", "..")) < 0 ||
            (r = scratch_symlink(s, "root/abs", "/etc")) < 0 ||
            (r = scratch_symlink(s, "root/far", "../../../../../../../..")) < 0 ||
            (r = scratch_symlink(s, "root/etc/chain", "../abs")) < 0 ||
            (r = scratch_symlink(s, "root/loop", "loop")) < 0 ||
            (r = scratch_symlink(s, "root/dangling", "nowhere")) < 0 ||
            (r = scratch_symlink(s, "root/magic", "/proc/self/root")) < 0 ||
            (r = scratch_file(s, "root/file", "f")) < 0)
                return r;
        *ret_root = openat(s->fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return *ret_root < 0 ? -errno : 0;
}

static bool is_inside(int root, const char *path)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_close_ int fd = open_in_root(root, path, O_RDONLY);

        return fd >= 0 && read_fd_bounded(fd, 100, &text, NULL) >= 0 && streq(text, "inside");
}

TEST(open_in_root_stays_inside)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_close_ int root = -EBADF;

        ASSERT_OK(make_root(&s, &root));
        ASSERT_TRUE(is_inside(root, "etc/x"));
        ASSERT_TRUE(is_inside(root, "/etc/x"));
        ASSERT_TRUE(is_inside(root, "../../etc/x"));
        ASSERT_TRUE(is_inside(root, "abs/x"));
        ASSERT_TRUE(is_inside(root, "up/etc/x"));
        ASSERT_TRUE(is_inside(root, "far/etc/x"));
        ASSERT_TRUE(is_inside(root, "etc/chain/x"));
        ASSERT_ERR(open_in_root(root, "../secret", O_RDONLY), -ENOENT);
        ASSERT_ERR(open_in_root(root, "up/secret", O_RDONLY), -ENOENT);
        ASSERT_ERR(open_in_root(root, "/etc/passwd", O_RDONLY), -ENOENT);
        ASSERT_ERR(open_in_root(root, "loop", O_RDONLY), -ELOOP);
        ASSERT_ERR(open_in_root(root, "magic/etc/passwd", O_RDONLY), -ENOENT);
}

/* With a real /proc inside the root, its links must not be followed to where they really lead. */
TEST(open_in_root_follows_no_magic_links)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *path = NULL;

        ASSERT_OK(xasprintf(&path, "/proc/self/fd/%d", file));
        ASSERT_ERR(open_in_root(root, path, O_RDONLY), -ELOOP);
        ASSERT_ERR(open_in_root(root, "/proc/self/root/etc", O_PATH), -ELOOP);
        ASSERT_ERR(open_in_root(root, "/proc/self/cwd", O_PATH), -ELOOP);
}

TEST(open_sets_cloexec)
{
        _cleanup_close_ int fd = open_in_root(AT_FDCWD, "/", O_PATH);
        _cleanup_close_ int again = fd_reopen(fd, O_RDONLY | O_DIRECTORY);

        ASSERT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        ASSERT_TRUE(fcntl(again, F_GETFD) & FD_CLOEXEC);
}

TEST(open_no_symlinks_anywhere)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_close_ int root = -EBADF, fd = -EBADF;

        ASSERT_OK(make_root(&s, &root));
        fd = open_no_symlinks(root, "etc/x", O_RDONLY);
        ASSERT_OK(fd);
        ASSERT_ERR(open_no_symlinks(root, "abs", O_PATH), -ELOOP);
        ASSERT_ERR(open_no_symlinks(root, "abs/x", O_RDONLY), -ELOOP);
        ASSERT_ERR(open_no_symlinks(root, "up/secret", O_RDONLY), -ELOOP);
        ASSERT_ERR(open_no_symlinks(root, "dangling", O_RDONLY), -ELOOP);
        ASSERT_ERR(open_no_symlinks(root, "missing", O_RDONLY), -ENOENT);
}

TEST(open_beneath_no_way_out)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_close_ int root = -EBADF, fd = -EBADF;

        ASSERT_OK(make_root(&s, &root));
        fd = open_beneath(root, "etc/x", O_RDONLY);
        ASSERT_OK(fd);
        ASSERT_ERR(open_beneath(root, "/etc/x", O_RDONLY), -EXDEV);
        ASSERT_ERR(open_beneath(root, "../secret", O_RDONLY), -EXDEV);
        ASSERT_ERR(open_beneath(root, "etc/../../secret", O_RDONLY), -EXDEV);
        ASSERT_ERR(open_beneath(root, "abs/x", O_RDONLY), -ELOOP);
        ASSERT_ERR(open_beneath(root, "up/secret", O_RDONLY), -ELOOP);
}

TEST(reopen_by_descriptor)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *text = NULL;
        _cleanup_close_ int root = -EBADF, path_fd = -EBADF, fd = -EBADF;

        ASSERT_OK(make_root(&s, &root));
        path_fd = open_in_root(root, "etc/x", O_PATH);
        ASSERT_OK(path_fd);
        fd = fd_reopen(path_fd, O_RDONLY);
        ASSERT_OK(fd);
        ASSERT_OK(read_fd_bounded(fd, 100, &text, NULL));
        ASSERT_STREQ(text, "inside");
        ASSERT_LT(fd_reopen(-1, O_RDONLY), 0);
        ASSERT_ERR(fd_reopen(path_fd, O_RDONLY | O_DIRECTORY), -ENOTDIR);
}

TEST(mkdir_in_root_creates_missing_parents)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_close_ int root = -EBADF, fd = -EBADF;
        struct stat st, other;

        ASSERT_OK(make_root(&s, &root));
        ASSERT_OK(mkdir_p_in_root(root, "/a/./b//c/", 0700, &fd));
        ASSERT_TRUE(scratch_has(&s, "root/a/b/c"));
        ASSERT_OK(fstat(fd, &st));
        ASSERT_OK(fstatat(s.fd, "root/a/b/c", &other, 0));
        ASSERT_EQ(st.st_ino, other.st_ino);
        ASSERT_EQ(st.st_mode & 07777, 0700);
        ASSERT_OK(mkdir_p_in_root(root, "a/b", 0755, NULL));
        ASSERT_OK(mkdir_p_in_root(root, "/", 0755, NULL));
        ASSERT_OK(mkdir_p_in_root(root, "", 0755, NULL));
}

TEST(mkdir_in_root_through_links_lands_inside)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_close_ int root = -EBADF;

        ASSERT_OK(make_root(&s, &root));
        ASSERT_OK(mkdir_p_in_root(root, "/abs/new1", 0755, NULL)); /* abs -> /etc */
        ASSERT_TRUE(scratch_has(&s, "root/etc/new1"));
        ASSERT_OK(mkdir_p_in_root(root, "up/new2/deep", 0755, NULL)); /* up -> .. */
        ASSERT_TRUE(scratch_has(&s, "root/new2/deep"));
        ASSERT_FALSE(scratch_has(&s, "new2"));
        ASSERT_OK(mkdir_p_in_root(root, "far/new3", 0755, NULL));
        ASSERT_TRUE(scratch_has(&s, "root/new3"));
        ASSERT_OK(mkdir_p_in_root(root, "etc/chain/new4", 0755, NULL));
        ASSERT_TRUE(scratch_has(&s, "root/etc/new4"));
        ASSERT_ERR(access("/etc/new1", F_OK) < 0 ? -errno : 0, -ENOENT);
}

TEST(mkdir_in_root_refuses)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_close_ int root = -EBADF;
        int untouched = -123;

        ASSERT_OK(make_root(&s, &root));
        ASSERT_ERR(mkdir_p_in_root(root, "../x", 0755, &untouched), -EINVAL);
        ASSERT_ERR(mkdir_p_in_root(root, "a/../../x", 0755, &untouched), -EINVAL);
        ASSERT_ERR(mkdir_p_in_root(root, "dangling/x", 0755, &untouched), -ELOOP);
        ASSERT_ERR(mkdir_p_in_root(root, "dangling", 0755, &untouched), -ELOOP);
        ASSERT_ERR(mkdir_p_in_root(root, "loop/x", 0755, &untouched), -ELOOP);
        ASSERT_ERR(mkdir_p_in_root(root, "file/x", 0755, &untouched), -ENOTDIR);
        ASSERT_ERR(mkdir_p_in_root(root, "file", 0755, &untouched), -ENOTDIR);
        ASSERT_FALSE(scratch_has(&s, "root/nowhere"));
        ASSERT_FALSE(scratch_has(&s, "x"));
        ASSERT_EQ(untouched, -123);
}

TEST(mkdir_p_plain)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *path = NULL, *file = NULL, *below = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(xasprintf(&path, "%s/a//b/c/", s.path));
        ASSERT_OK(mkdir_p(path, 0755));
        ASSERT_TRUE(scratch_has(&s, "a/b/c"));
        ASSERT_OK(mkdir_p(path, 0755));
        ASSERT_OK(mkdir_p("/", 0755));
        ASSERT_OK(scratch_file(&s, "f", ""));
        ASSERT_OK(xasprintf(&file, "%s/f", s.path));
        ASSERT_OK(xasprintf(&below, "%s/f/x", s.path));
        ASSERT_ERR(mkdir_p(below, 0755), -ENOTDIR);
        ASSERT_ERR(mkdir_p(file, 0755), -ENOTDIR);
}

/* --- Removing ------------------------------------------------------------------------------------------ */

TEST(rm_of_simple_things)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(rm_rf_at(s.fd, "missing"));
        ASSERT_OK(scratch_file(&s, "f", "x"));
        ASSERT_OK(rm_rf_at(s.fd, "f"));
        ASSERT_OK(scratch_dir(&s, "d"));
        ASSERT_OK(rm_rf_at(s.fd, "d"));
        ASSERT_OK(mkfifoat(s.fd, "fifo", 0600));
        ASSERT_OK(rm_rf_at(s.fd, "fifo"));
        ASSERT_FALSE(scratch_has(&s, "f"));
        ASSERT_FALSE(scratch_has(&s, "d"));
        ASSERT_FALSE(scratch_has(&s, "fifo"));
}

TEST(rm_of_a_tree_leaves_the_neighbours)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "t"));
        ASSERT_OK(scratch_file(&s, "keep", "x"));
        for (unsigned i = 0; i < 50; i++) {
                _cleanup_free_ char *d = NULL, *f = NULL;
                ASSERT_OK(xasprintf(&d, "t/%u", i));
                ASSERT_OK(scratch_dir(&s, d));
                ASSERT_OK(xasprintf(&f, "%s/.hidden", d));
                ASSERT_OK(scratch_file(&s, f, "x"));
        }
        ASSERT_OK(rm_rf_at(s.fd, "t"));
        ASSERT_FALSE(scratch_has(&s, "t"));
        ASSERT_TRUE(scratch_has(&s, "keep"));
}

TEST(rm_never_follows_symlinks)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "precious"));
        ASSERT_OK(scratch_file(&s, "precious/f", "x"));
        ASSERT_OK(scratch_dir(&s, "t"));
        ASSERT_OK(scratch_symlink(&s, "t/link", "../precious"));
        ASSERT_OK(scratch_symlink(&s, "link", "precious"));
        ASSERT_OK(rm_rf_at(s.fd, "t"));
        ASSERT_OK(rm_rf_at(s.fd, "link"));
        ASSERT_FALSE(scratch_has(&s, "t"));
        ASSERT_FALSE(scratch_has(&s, "link"));
        ASSERT_TRUE(scratch_has(&s, "precious/f"));
}

/* In a child with a separate mount namespace: 0, or a number that identifies the error; 77: the namespace
 * cannot be created. */
static int remove_around_mounts(const char *path)
{
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            chdir(path) < 0 || mount("precious", "t/d/here", NULL, MS_BIND, NULL) < 0 ||
            mount("precious/f", "u/file", NULL, MS_BIND, NULL) < 0)
                return 77;
        if (rm_rf_at(AT_FDCWD, "t") != -EXDEV || rm_rf_at(AT_FDCWD, "t/d/here") != -EXDEV)
                return 1;
        if (rm_rf_at(AT_FDCWD, "u") != -EBUSY || access("precious/f", F_OK) < 0)
                return 2;
        if (umount("t/d/here") < 0 || umount("u/file") < 0)
                return 77;
        return rm_rf_at(AT_FDCWD, "t") < 0 || rm_rf_at(AT_FDCWD, "u") < 0 || access("t", F_OK) >= 0 ? 3 : 0;
}

TEST(rm_never_empties_mounts)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        int status;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "precious"));
        ASSERT_OK(scratch_file(&s, "precious/f", "x"));
        ASSERT_OK(scratch_dir(&s, "t"));
        ASSERT_OK(scratch_dir(&s, "t/d"));
        ASSERT_OK(scratch_dir(&s, "t/d/here"));
        ASSERT_OK(scratch_dir(&s, "u"));
        ASSERT_OK(scratch_file(&s, "u/file", ""));
        pid_t pid = fork();
        if (pid == 0)
                _exit(remove_around_mounts(s.path));
        ASSERT_TRUE(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                TEST_SKIP("no mount namespace to be had");
        ASSERT_EQ(WEXITSTATUS(status), 0);
        ASSERT_TRUE(scratch_has(&s, "precious/f"));
}

/* A chain of DEPTH directories, built by descriptor as no path could name its end. */
static int make_deep(const Scratch *s, const char *name, unsigned depth)
{
        int fd = -1, next;

        if (mkdirat(s->fd, name, 0755) < 0 || (fd = openat(s->fd, name, O_PATH | O_CLOEXEC)) < 0)
                return -errno;
        for (unsigned i = 0; i < depth; i++) {
                if (mkdirat(fd, "d", 0755) < 0)
                        break;
                next = openat(fd, "d", O_PATH | O_CLOEXEC);
                close(fd);
                if (next < 0)
                        return -errno;
                fd = next;
        }
        int r = mknodat(fd, "leaf", S_IFREG | 0600, 0) < 0 ? -errno : 0;
        close(fd);
        return r;
}

/* Deeper than the limits of paths, of the stack and of the table of descriptors. */
TEST(rm_of_20000_levels)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(make_deep(&s, "deep", 20000));
        ASSERT_OK(rm_rf_at(s.fd, "deep"));
        ASSERT_FALSE(scratch_has(&s, "deep"));
}

/* An attacker may have guessed the names that directories get when they are moved up. Many chains, because
 * those that are read after the existing names have been removed do not conflict. */
TEST(rm_of_deep_trees_with_names_taken)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "t"));
        for (unsigned i = 0; i < 24; i++) {
                _cleanup_free_ char *d = NULL, *taken = NULL, *f = NULL;
                ASSERT_OK(xasprintf(&d, "t/%u", i));
                ASSERT_OK(make_deep(&s, d, 200));
                ASSERT_OK(xasprintf(&taken, "t/.acnspawn-removing-%d-%u", (int) getpid(), i));
                ASSERT_OK(i % 2 == 0 ? scratch_dir(&s, taken) : scratch_file(&s, taken, "x"));
                ASSERT_OK(xasprintf(&f, "%s/x", taken));
                ASSERT_OK(i % 2 == 0 ? scratch_file(&s, f, "x") : 0);
        }
        ASSERT_OK(rm_rf_at(s.fd, "t"));
        ASSERT_FALSE(scratch_has(&s, "t"));
}

static unsigned count_descriptors(void)
{
        unsigned n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

TEST(rm_closes_its_descriptors_also_on_failure)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        if (geteuid() == 0)
                TEST_SKIP("root is never refused");
        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "t"));
        ASSERT_OK(scratch_dir(&s, "t/d"));
        ASSERT_OK(scratch_file(&s, "t/d/f", "x"));
        ASSERT_OK(fchmodat(s.fd, "t/d", 0500, 0));
        unsigned before = count_descriptors();
        ASSERT_ERR(rm_rf_at(s.fd, "t"), -EACCES);
        ASSERT_EQ(count_descriptors(), before);
        ASSERT_OK(fchmodat(s.fd, "t/d", 0700, 0));
}

/* --- Text of paths ------------------------------------------------------------------------------------- */

TEST(normalize_paths)
{
        static const char *const cases[][2] = {
                        {"/", "/"},       {"//", "/"},           {"/.", "/"},          {"/a", "/a"},
                        {"/a/", "/a"},    {"//a///b//", "/a/b"}, {"/a/./b/.", "/a/b"}, {"/...", "/..."},
                        {"/..a", "/..a"}, {"/a b", "/a b"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *p = NULL;
                ASSERT_OK(path_normalize(cases[i][0], &p));
                ASSERT_STREQ(p, cases[i][1]);
        }
}

TEST(normalize_refuses)
{
        static const char *const wrong[] = {"", "a", "./a", "/..", "/a/..", "/a/../b", "../a"};
        char *p = (char *) "untouched";

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                ASSERT_ERR(path_normalize(wrong[i], &p), -EINVAL);
        ASSERT_ERR(path_normalize(NULL, &p), -EINVAL);
        ASSERT_STREQ(p, "untouched");
}

TEST(normalized)
{
        static const char *const right[] = {"/", "/a", "/a/b", "/a/...", "/.a/..b"},
                                 *const wrong[] = {"",   "a",    "//",  "/a/",     "/a//b",
                                                   "/.", "/a/.", "/..", "/a/../b", "/a/./b"};

        for (size_t i = 0; i < ELEMENTSOF(right); i++)
                if (!path_is_normalized(right[i]))
                        TEST_FAIL("%s", right[i]);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                if (path_is_normalized(wrong[i]))
                        TEST_FAIL("%s", wrong[i]);
}

TEST(path_predicates)
{
        ASSERT_TRUE(path_is_absolute("/"));
        ASSERT_FALSE(path_is_absolute("a/b"));
        ASSERT_FALSE(path_is_absolute(""));
        ASSERT_FALSE(path_is_absolute(NULL));
        ASSERT_TRUE(path_has_prefix("/a/b", "/a"));
        ASSERT_TRUE(path_has_prefix("/a", "/a"));
        ASSERT_TRUE(path_has_prefix("/a", "/"));
        ASSERT_TRUE(path_has_prefix("/", "/"));
        ASSERT_FALSE(path_has_prefix("/ab", "/a"));
        ASSERT_FALSE(path_has_prefix("/a", "/a/b"));
        ASSERT_FALSE(path_has_prefix("/", "/a"));
}

/* The number may be chosen by an attacker: twice as many take twice as long, not four times. */
TEST(names_of_a_large_directory)
{
        enum { N = 100000 };
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_strv_free_ char **names = NULL, **none = NULL;
        _cleanup_close_ int fd = -EBADF, empty = -EBADF;
        struct timespec before, after;
        char name[16];

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_dir(&s, "many"));
        ASSERT_OK(scratch_dir(&s, "none"));
        fd = openat(s.fd, "many", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        empty = openat(s.fd, "none", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (unsigned i = 0; i < N; i++) {
                snprintf(name, sizeof(name), "%u", i);
                ASSERT_OK(mknodat(fd, name, S_IFREG | 0600, 0));
        }
        ASSERT_OK(list_names(empty, &none));
        ASSERT_NULL(none);
        ASSERT_OK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before));
        ASSERT_OK(list_names(fd, &names));
        ASSERT_OK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after));
        ASSERT_EQ(strv_length(names), N);
        ASSERT_LT((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000, 700);
}

int main(void)
{
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(open_in_root_stays_inside);
        RUN(open_in_root_follows_no_magic_links);
        RUN(open_sets_cloexec);
        RUN(open_no_symlinks_anywhere);
        RUN(open_beneath_no_way_out);
        RUN(reopen_by_descriptor);
        RUN(mkdir_in_root_creates_missing_parents);
        RUN(mkdir_in_root_through_links_lands_inside);
        RUN(mkdir_in_root_refuses);
        RUN(mkdir_p_plain);
        RUN(rm_of_simple_things);
        RUN(rm_of_a_tree_leaves_the_neighbours);
        RUN(rm_never_follows_symlinks);
        RUN(rm_never_empties_mounts);
        RUN(rm_of_20000_levels);
        RUN(rm_of_deep_trees_with_names_taken);
        RUN(rm_closes_its_descriptors_also_on_failure);
        RUN(normalize_paths);
        RUN(normalized);
        RUN(normalize_refuses);
        RUN(path_predicates);
        RUN(names_of_a_large_directory);
        return TEST_END();
}
