/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Trees packed to images: the same bytes from the same files, all attributes of files, and files that an
 * image cannot contain. The packed images are read by libarchive, and imported. */

#include <linux/filter.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "prepare/build/build.h"
#include "prepare/pack/pack.h"
#include "tests/unit/store-fixture.h"

static const char manifest[] = ACI_MANIFEST("example.com/packed", "");

static int pack(int tree_fd, const TreeOptions *o, int *ret_fd, char **ret_id, Error *e)
{
        const PackOptions options = {.compression = COMPRESSION_NONE, .tree = *o};
        _cleanup_close_ int fd = memfd_create("packed", MFD_CLOEXEC);

        int r = pack_image(tree_fd, manifest, strlen(manifest), &options, fd, "the test", ret_id, e);
        if (r < 0)
                return r;
        (void) lseek(fd, 0, SEEK_SET);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* The archive as text, one entry per line, with the attributes that must be reproducible. */
static int list_archive(int fd, Text *t)
{
        struct archive *a = archive_read_new();
        struct archive_entry *x;
        int r;

        archive_read_support_format_tar(a);
        r = archive_read_open_fd(a, fd, 65536);
        while (r == ARCHIVE_OK && (r = archive_read_next_header(a, &x)) == ARCHIVE_OK) {
                text_addf(t, "%s %o %lld", archive_entry_pathname(x), archive_entry_mode(x),
                          (long long) archive_entry_mtime(x));
                if (archive_entry_hardlink(x))
                        text_addf(t, " = %s", archive_entry_hardlink(x));
                if (archive_entry_symlink(x))
                        text_addf(t, " -> %s", archive_entry_symlink(x));
                if (archive_entry_size(x) > 0)
                        text_addf(t, " [%lld]", (long long) archive_entry_size(x));
                text_add(t, "\n");
        }
        archive_read_free(a);
        return r == ARCHIVE_EOF ? 0 : -EBADMSG;
}

static int set_time(int dir_fd, const char *name, time_t seconds, long nanoseconds)
{
        const struct timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};

        return utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int make_tree(int fd)
{
        static const char *const names[] = {"b/x",  "b/link", "b",       "b.c", "a-first",
                                            "hole", "old",    "symlink", "."};

        (void) mkdirat(fd, "b", 0750);
        (void) write_file_new_at(fd, "b/x", "content", 7, 0640);
        (void) write_file_new_at(fd, "b.c", "", 0, 04755);
        (void) write_file_new_at(fd, "hole", "", 0, 0644);
        (void) write_file_new_at(fd, "old", "o", 1, 0600);
        if (symlinkat("../nowhere", fd, "symlink") < 0 || linkat(fd, "b/x", fd, "b/link", 0) < 0 ||
            linkat(fd, "b/x", fd, "a-first", 0) < 0)
                return -errno;
        _cleanup_close_ int hole = openat(fd, "hole", O_WRONLY | O_CLOEXEC);
        if (hole < 0 || ftruncate(hole, 600000) < 0 || fchmodat(fd, ".", 0755, 0) < 0 ||
            fchmodat(fd, "b", 0750, 0) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                int r = set_time(fd, names[i], streq(names[i], "old") ? -5 : 1000000 + (time_t) i, 999);
                if (r < 0)
                        return r;
        }
        return 0;
}

TEST(everything_in_order)
{
        _cleanup_free_ char *id = NULL;
        _cleanup_close_ int out = -EBADF;
        _cleanup_text_ Text t = {};
        const TreeOptions o = {};
        FIXTURE(f);

        ASSERT_OK(mkdirat(f.scratch.fd, "tree", 0755));
        _cleanup_close_ int tree = openat(f.scratch.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(make_tree(tree));
        ASSERT_WORKS(f, pack(tree, &o, &out, &id, &f.error));
        ASSERT_OK(list_archive(out, &t));
        ASSERT_STREQ(t.data, "manifest 100644 0 [75]\n"
                             "rootfs/ 40755 1000008\n"
                             "rootfs/a-first 100640 1000004 [7]\n"
                             "rootfs/b/ 40750 1000002\n"
                             "rootfs/b/link 640 1000004 = rootfs/a-first\n"
                             "rootfs/b/x 640 1000004 = rootfs/a-first\n"
                             "rootfs/b.c 104755 1000003\n"
                             "rootfs/hole 100644 1000005 [600000]\n"
                             "rootfs/old 100600 -5 [1]\n"
                             "rootfs/symlink 120777 1000007 -> ../nowhere\n");
        struct stat st;
        ASSERT_OK(fstat(out, &st));
        ASSERT_EQ(st.st_size % 512, 0);
}

TEST(imported_with_the_same_id)
{
        _cleanup_free_ char *id = NULL, *content = NULL;
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_close_ int out = -EBADF;
        const TreeOptions o = {};
        struct stat st, link;
        FIXTURE(f);

        ASSERT_OK(mkdirat(f.scratch.fd, "tree", 0755));
        _cleanup_close_ int tree = openat(f.scratch.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(make_tree(tree));
        ASSERT_WORKS(f, pack(tree, &o, &out, &id, &f.error));
        ASSERT_WORKS(f, image_import(f.store, out, "packed", &image, &f.error));
        ASSERT_STREQ(image->id, id);
        ASSERT_OK(fstatat(image->dir_fd, "rootfs/b/x", &st, 0));
        ASSERT_OK(fstatat(image->dir_fd, "rootfs/a-first", &link, 0));
        ASSERT_EQ(st.st_ino, link.st_ino);
        ASSERT_EQ(st.st_mode, S_IFREG | 0640);
        ASSERT_OK(fstatat(image->dir_fd, "rootfs/old", &st, 0));
        ASSERT_EQ(st.st_mtim.tv_sec, -5);
        ASSERT_OK(read_file_at(image->dir_fd, "rootfs/a-first", 100, &content, NULL));
        ASSERT_STREQ(content, "content");
}

/* A copy in another place, made in another order, with other access times and times below a second. */
TEST(same_tree_same_id)
{
        _cleanup_free_ char *first = NULL, *second = NULL, *clamped = NULL;
        _cleanup_close_ int a = -EBADF, b = -EBADF, c = -EBADF;
        TreeOptions o = {};
        FIXTURE(f);

        ASSERT_OK(mkdirat(f.scratch.fd, "one", 0755));
        ASSERT_OK(mkdirat(f.scratch.fd, "two", 0700));
        _cleanup_close_ int one = openat(f.scratch.fd, "one", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int two = openat(f.scratch.fd, "two", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(make_tree(one));
        ASSERT_OK(write_file_new_at(two, "old", "o", 1, 0600));
        (void) write_file_new_at(two, "zz", "", 0, 0600);
        ASSERT_OK(unlinkat(two, "zz", 0));
        ASSERT_OK(make_tree(two));
        ASSERT_OK(set_time(two, "b", 1000002, 1));
        ASSERT_WORKS(f, pack(one, &o, &a, &first, &f.error));
        ASSERT_WORKS(f, pack(two, &o, &b, &second, &f.error));
        ASSERT_STREQ(first, second);

        o = (TreeOptions){.has_mtime_max = true, .mtime_max = 1000};
        ASSERT_WORKS(f, pack(two, &o, &c, &clamped, &f.error));
        _cleanup_text_ Text t = {};
        ASSERT_OK(list_archive(c, &t));
        ASSERT_CONTAINS(t.data, "rootfs/b/ 40750 1000\n");
        ASSERT_CONTAINS(t.data, "rootfs/old 100600 -5 [1]\n");
}

/* Names around the maximum sizes of fields, and bytes that are not valid characters. */
TEST(long_names)
{
        static const size_t sizes[] = {80, 92, 93, 94, 99, 100, 101, 154, 155, 156, 200, 254, 255};
        _cleanup_free_ char *id = NULL;
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_close_ int out = -EBADF;
        const TreeOptions o = {.owner_root = true};
        char name[600], target[600];
        struct stat st;
        FIXTURE(f);

        ASSERT_OK(mkdirat(f.scratch.fd, "tree", 0755));
        _cleanup_close_ int tree = openat(f.scratch.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                memset(name, i % 2 ? 'n' : 0xe9, sizes[i]);
                name[sizes[i]] = 0;
                ASSERT_OK(mkdirat(tree, name, 0755));
                for (size_t k = 0; k < ELEMENTSOF(sizes); k += 3) {
                        snprintf(name + sizes[i], sizeof(name) - sizes[i], "/%0*d", (int) sizes[k], 1);
                        snprintf(target, sizeof(target), "%0*d", (int) sizes[k] * 2, 1);
                        ASSERT_OK(symlinkat(target, tree, name));
                        strcat(name, "x");
                        name[sizes[i] + 255] = 0;
                        ASSERT_OK(write_file_new_at(tree, name, "1", 1, 0644));
                }
        }
        ASSERT_WORKS(f, pack(tree, &o, &out, &id, &f.error));
        ASSERT_WORKS(f, image_import(f.store, out, "packed", &image, &f.error));
        ASSERT_STREQ(image->id, id);
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                snprintf(name, sizeof(name), "rootfs/");
                memset(name + 7, i % 2 ? 'n' : 0xe9, sizes[i]);
                for (size_t k = 0; k < ELEMENTSOF(sizes); k += 3) {
                        snprintf(name + 7 + sizes[i], sizeof(name) - 7 - sizes[i], "/%0*d", (int) sizes[k],
                                 1);
                        ASSERT_EQ(readlinkat(image->dir_fd, name, target, sizeof(target)),
                                  (ssize_t) sizes[k] * 2);
                        strcat(name, "x");
                        name[7 + sizes[i] + 255] = 0;
                        ASSERT_OK(fstatat(image->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW));
                        ASSERT_EQ(st.st_size, 1);
                }
        }
}

TEST(deep)
{
        _cleanup_free_ char *id = NULL;
        _cleanup_close_ int out = -EBADF;
        const TreeOptions o = {};
        FIXTURE(f);

        ASSERT_OK(mkdirat(f.scratch.fd, "tree", 0755));
        _cleanup_close_ int tree = openat(f.scratch.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (unsigned i = 0; i < 511; i++) {
                ASSERT_OK(mkdirat(fd, "d", 0755));
                int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                safe_close(fd);
                fd = next;
        }
        ASSERT_WORKS(f, pack(tree, &o, &out, &id, &f.error));
        {
                _cleanup_(image_freep) Image *image = NULL;
                ASSERT_WORKS(f, image_import(f.store, out, "packed", &image, &f.error));
        }
        ASSERT_OK(mkdirat(fd, "d", 0755));
        free(TAKE_PTR(id));
        ASSERT_FAILS(f, pack(tree, &o, &out, &id, &f.error), -E2BIG, "deeper than 512 directories");
}

TEST(attributes)
{
        _cleanup_free_ char *id = NULL;
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_close_ int out = -EBADF;
        const TreeOptions o = {.owner_root = true};
        const struct {
                struct posix_acl_xattr_header head;
                struct posix_acl_xattr_entry entries[5];
        } acl = {{htole32(POSIX_ACL_XATTR_VERSION)},
                 {{htole16(ACL_USER_OBJ), htole16(6), htole32((uint32_t) ACL_UNDEFINED_ID)},
                  {htole16(ACL_USER), htole16(5), htole32(4000000)},
                  {htole16(ACL_GROUP_OBJ), htole16(4), htole32((uint32_t) ACL_UNDEFINED_ID)},
                  {htole16(ACL_MASK), htole16(5), htole32((uint32_t) ACL_UNDEFINED_ID)},
                  {htole16(ACL_OTHER), htole16(0), htole32((uint32_t) ACL_UNDEFINED_ID)}}};
        char value[200];
        FIXTURE(f);

        ASSERT_OK(mkdirat(f.scratch.fd, "tree", 0755));
        _cleanup_close_ int tree = openat(f.scratch.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(write_file_new_at(tree, "x", "x", 1, 0644));
        _cleanup_close_ int x = openat(tree, "x", O_RDONLY | O_CLOEXEC);
        if (fsetxattr(x, "user.binary", "a\0b\n=\xff", 6, 0) < 0 && errno == EOPNOTSUPP)
                TEST_SKIP("this file system has no user attributes");
        ASSERT_OK(fsetxattr(x, "user.empty", "", 0, 0));
        bool has_acl = fsetxattr(x, ACL_ACCESS, &acl, sizeof(acl), 0) >= 0;
        if (has_acl)
                ASSERT_OK(fsetxattr(tree, ACL_DEFAULT, &acl, sizeof(acl), 0));
        ASSERT_WORKS(f, pack(tree, &o, &out, &id, &f.error));
        ASSERT_WORKS(f, image_import(f.store, out, "packed", &image, &f.error));
        _cleanup_close_ int y = openat(image->dir_fd, "rootfs/x", O_RDONLY | O_CLOEXEC);
        ASSERT_EQ(fgetxattr(y, "user.binary", value, sizeof(value)), 6);
        ASSERT_EQ(memcmp(value, "a\0b\n=\xff", 6), 0);
        ASSERT_EQ(fgetxattr(y, "user.empty", value, sizeof(value)), 0);
        if (!has_acl)
                TEST_SKIP("this file system has no ACLs");
        ASSERT_EQ(fgetxattr(y, ACL_ACCESS, value, sizeof(value)), (ssize_t) sizeof(acl));
        ASSERT_EQ(memcmp(value, &acl, sizeof(acl)), 0);
        _cleanup_close_ int rootfs = openat(image->dir_fd, "rootfs", O_RDONLY | O_CLOEXEC);
        ASSERT_EQ(fgetxattr(rootfs, ACL_DEFAULT, value, sizeof(value)), (ssize_t) sizeof(acl));

        free(TAKE_PTR(id));
        ASSERT_OK(fsetxattr(x, "user.a=b", "1", 1, 0));
        ASSERT_FAILS(f, pack(tree, &o, &out, &id, &f.error), -ENOTSUP,
                     "Cannot pack 'rootfs/x': the name of its attribute user.a=b cannot be written");
        ASSERT_OK(fremovexattr(x, "user.a=b"));
        ASSERT_OK(fsetxattr(x, "user.overlay.opaque", "y", 1, 0));
        ASSERT_FAILS(f, pack(tree, &o, &out, &id, &f.error), -ENOTSUP, "controls overlayfs");
}

TEST(refused)
{
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        _cleanup_free_ char *id = NULL;
        _cleanup_close_ int out = -EBADF;
        const TreeOptions o = {};
        FIXTURE(f);

        ASSERT_OK(mkdirat(f.scratch.fd, "tree", 0755));
        _cleanup_close_ int tree = openat(f.scratch.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/socket", tree);
        ASSERT_OK(bind(s, (struct sockaddr *) &a, sizeof(a)));
        ASSERT_FAILS(f, pack(tree, &o, &out, &id, &f.error), -ENOTSUP,
                     "Cannot pack 'rootfs/socket': it is a socket");
        ASSERT_CONTAINS(f.error.hint, "Remove it");
        ASSERT_OK(unlinkat(tree, "socket", 0));
        ASSERT_OK(mkfifoat(tree, "fifo", 0600)); /* has no reader */
        ASSERT_WORKS(f, pack(tree, &o, &out, &id, &f.error));
        free(TAKE_PTR(id));
        if (geteuid() == 0 && mknodat(tree, "whiteout", S_IFCHR | 0600, 0) >= 0)
                ASSERT_FAILS(f, pack(tree, &o, &out, &id, &f.error), -ENOTSUP, "is a whiteout");
}

/* A file that is longer than its stated size: files of /proc, whose size is 0. */
TEST(changed_while_read)
{
        _cleanup_free_ char *id = NULL;
        _cleanup_close_ int out = -EBADF;
        const TreeOptions o = {};
        FIXTURE(f);

        _cleanup_close_ int proc = open("/proc/self/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (proc < 0)
                TEST_SKIP("no /proc here");
        ASSERT_FAILS(f, pack(proc, &o, &out, &id, &f.error), -EAGAIN, "its size changed while it was read");
}

/* From now on there are no files without a name, as on some file systems, and a file keeps the mode with which
 * it was created. */
static int be_without_unnamed_files(void)
{
        struct sock_filter filter[] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchmod, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
                        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog program = {ELEMENTSOF(filter), filter};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                return -errno;
        return 0;
}

/* The status of the child: 0, or the number of what is wrong. */
static int make_scratch(int dir_fd)
{
        struct stat st;
        int fd = -EBADF;

        (void) umask(0);
        if (be_without_unnamed_files() < 0)
                return 1;
        if (openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) >= 0 || errno != EOPNOTSUPP)
                return 2;
        if (output_scratch(dir_fd, &fd, NULL) < 0)
                return 3;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 0)
                return 4;
        return (st.st_mode & 07777) == 0600 ? 0 : 5;
}

/* The plain text of an image that is to be encrypted. */
TEST(plain_text_is_never_readable_by_others)
{
        FIXTURE(f);
        int status;

        pid_t pid = fork();
        if (pid == 0)
                _exit(make_scratch(f.scratch.fd));
        ASSERT_TRUE(pid > 0);
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_EQ(status, 0);
}

int main(void)
{
        RUN(everything_in_order);
        RUN(imported_with_the_same_id);
        RUN(same_tree_same_id);
        RUN(long_names);
        RUN(deep);
        RUN(attributes);
        RUN(refused);
        RUN(changed_while_read);
        RUN(plain_text_is_never_readable_by_others);
        return TEST_END();
}
