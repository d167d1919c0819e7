/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attributes of files in an archive are restored on disk: kinds, owners, modes, times, attributes, ACLs,
 * links, holes, names. */

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "prepare/unpack/unpack-internal.h"
#include "tests/unit/small-disk.h"
#include "tests/unit/store-fixture.h"

static struct stat status(const Image *i, const char *path)
{
        struct stat st;

        if (fstatat(i->dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                memset(&st, 0xff, sizeof(st));
        return st;
}

static int open_file(const Image *i, const char *path)
{
        return openat(i->dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

#define ASSERT_TIME(st, seconds, nanoseconds)                                                               \
        do {                                                                                                \
                struct stat st_ = (st);                                                                     \
                ASSERT_EQ(st_.st_mtim.tv_sec, (seconds));                                                   \
                ASSERT_EQ(st_.st_mtim.tv_nsec, (nanoseconds));                                              \
        } while (0)

TEST(modes_and_times)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        aci_manifest(&f.tar, ACI_MANIFEST("example.com/app", ""));
        ACI_PAX(&f.tar, "mtime=1000000000.123456789");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs", .type = '5', .mode = 0711});
        ACI_PAX(&f.tar, "mtime=1.5", "atime=77.000000007");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/dir", .type = '5', .mode = 01755});
        ACI_PAX(&f.tar, "mtime=2.000000001");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/dir/suid",
                                     .type = '0',
                                     .mode = 06755,
                                     .size = 2,
                                     .content = "ab"});
        ACI_PAX(&f.tar, "mtime=3.999999999");
        aci_symlink(&f.tar, "rootfs/dir/link", "/nowhere");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/dir/fifo", .type = '6', .mode = 0640, .mtime = 4});
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/dir/none", .type = '0', .mode = 0, .mtime = 5});
        aci_end(&f.tar);
        mode_t before = umask(077); /* must not matter */
        int r = aci_import(f.store, &f.tar, &i, &f.error);
        umask(before);
        ASSERT_WORKS(f, r);

        ASSERT_EQ(status(i, "rootfs").st_mode, S_IFDIR | 0711);
        ASSERT_EQ(status(i, "rootfs/dir").st_mode, S_IFDIR | 01755);
        ASSERT_EQ(status(i, "rootfs/dir/suid").st_mode, S_IFREG | 06755);
        ASSERT_EQ(status(i, "rootfs/dir/fifo").st_mode, S_IFIFO | 0640);
        ASSERT_EQ(status(i, "rootfs/dir/none").st_mode, S_IFREG);
        ASSERT_TIME(status(i, "rootfs"), 1000000000, 123456789);
        ASSERT_TIME(status(i, "rootfs/dir"), 1, 500000000);
        ASSERT_EQ(status(i, "rootfs/dir").st_atim.tv_sec, 77);
        ASSERT_TIME(status(i, "rootfs/dir/suid"), 2, 1);
        ASSERT_TIME(status(i, "rootfs/dir/link"), 3, 999999999);
        ASSERT_TIME(status(i, "rootfs/dir/fifo"), 4, 0);
        ASSERT_TIME(status(i, "rootfs/dir/none"), 5, 0);
        /* Set-user-ID programs in the store are not accessible to other users. */
        struct stat st;
        ASSERT_OK(fstat(store_fd(f.store), &st));
        ASSERT_EQ(st.st_mode & 07777, 0700);
}

TEST(implied_directories)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        aci_manifest(&f.tar, ACI_MANIFEST("example.com/app", ""));
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/a/b/c", .type = '0', .mode = 0600, .mtime = 9});
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/a", .type = '5', .mode = 01711, .mtime = 10});
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/a/d", .type = '5', .mode = 0711, .mtime = 11});
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_EQ(status(i, "rootfs").st_mode, S_IFDIR | 0755);
        ASSERT_EQ(status(i, "rootfs/a").st_mode, S_IFDIR | 01711);
        ASSERT_EQ(status(i, "rootfs/a/b").st_mode, S_IFDIR | 0755);
        ASSERT_EQ(status(i, "rootfs/a/d").st_mode, S_IFDIR | 0711);
        ASSERT_TIME(status(i, "rootfs"), 9, 0);
        ASSERT_TIME(status(i, "rootfs/a"), 10, 0);
        ASSERT_TIME(status(i, "rootfs/a/b"), 9, 0);
}

/* A directory whose own entry has the mode of implied ones is still a duplicate if it occurs again. */
TEST(implied_then_twice)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/a/x", "");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/a", .type = '5', .mode = DIRECTORY_MODE_IMPLIED});
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/a", .type = '5', .mode = DIRECTORY_MODE_IMPLIED});
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "the archive has it twice");
}

/* As GNU tar writes them: the link itself gets another name, wherever it leads. */
TEST(hard_links_to_symlinks)
{
        _cleanup_(image_freep) Image *i = NULL;
        struct stat st;
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_symlink(&f.tar, "rootfs/a", "/etc/shadow");
        aci_hard_link(&f.tar, "rootfs/b", "rootfs/a");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/fifo", .type = '6', .mode = 0600});
        aci_hard_link(&f.tar, "rootfs/pipe", "rootfs/fifo");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        st = status(i, "rootfs/b");
        ASSERT_TRUE(S_ISLNK(st.st_mode));
        ASSERT_EQ(st.st_nlink, 2);
        ASSERT_EQ(st.st_ino, status(i, "rootfs/a").st_ino);
        ASSERT_TRUE(S_ISFIFO(status(i, "rootfs/pipe").st_mode));
}

TEST(hard_links)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/x", "content");
        aci_hard_link(&f.tar, "rootfs/dir/y", "./rootfs//x");
        /* Some archivers repeat the content. */
        ACI_PAX(&f.tar, "comment=none");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/z",
                                     .type = '1',
                                     .link = "rootfs/x",
                                     .size = 7,
                                     .content = "CONTENT"});
        aci_file(&f.tar, "rootfs/after", "");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_EQ(status(i, "rootfs/x").st_nlink, 3);
        ASSERT_EQ(status(i, "rootfs/x").st_ino, status(i, "rootfs/dir/y").st_ino);
        ASSERT_EQ(status(i, "rootfs/x").st_ino, status(i, "rootfs/z").st_ino);
        _cleanup_free_ char *content = NULL;
        ASSERT_OK(read_file_at(i->dir_fd, "rootfs/x", 100, &content, NULL));
        ASSERT_STREQ(content, "content");
}

TEST(sparse_files)
{
        /* 64 MiB with two bytes in the middle and a hole at the end. */
        static const char map[512] = "2\n33554432\n2\n67108864\n0\n";
        _cleanup_(image_freep) Image *i = NULL;
        char content[512 + 2], two[2];
        FIXTURE(f);

        memcpy(content, map, sizeof(map));
        memcpy(content + 512, "ab", 2);
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=rootfs/holes",
                "GNU.sparse.realsize=67108864");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/x",
                                     .type = '0',
                                     .mode = 0644,
                                     .size = sizeof(content),
                                     .content = content});
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        _cleanup_close_ int fd = open_file(i, "rootfs/holes");
        ASSERT_EQ(status(i, "rootfs/holes").st_size, 67108864);
        ASSERT_LT(status(i, "rootfs/holes").st_blocks, 1024);
        ASSERT_EQ(pread(fd, two, 2, 33554432), 2);
        ASSERT_MEMEQ(two, "ab", 2);
}

/* Some headers state a size without a map, and some maps have only holes. */
TEST(holes_without_a_map)
{
        static const char *const maps[] = {"", "0\n", "1\n67108864\n0\n"};

        for (size_t k = 0; k < ELEMENTSOF(maps); k++) {
                _cleanup_(image_freep) Image *i = NULL;
                _cleanup_free_ char *record = NULL, *expected = NULL;
                _cleanup_record_check_ RecordCheck c = {};
                char map[512] = {};
                FIXTURE(f);

                memcpy(map, maps[k], strlen(maps[k]));
                aci_begin(&f.tar);
                if (k == 0)
                        ACI_PAX(&f.tar, "GNU.sparse.size=67108864");
                else
                        ACI_PAX(&f.tar, "GNU.sparse.major=1", "GNU.sparse.minor=0",
                                "GNU.sparse.realsize=67108864");
                aci_entry(&f.tar, (AciEntry){.name = "rootfs/x",
                                             .type = '0',
                                             .mode = 0644,
                                             .size = k == 0 ? 5 : sizeof(map),
                                             .content = k == 0 ? "hello" : map});
                aci_end(&f.tar);
                ASSERT_IMPORTS(f, i);
                ASSERT_EQ(status(i, "rootfs/x").st_size, 67108864);
                ASSERT_OK(read_file_at(i->dir_fd, "files", 4096, &record, NULL));
                /* The hash of files with holes: hashing all zeros could take arbitrarily long. */
                ASSERT_OK(xasprintf(&expected, "rootfs/x f 644 %u %u 67108864 - ~", geteuid(), getegid()));
                ASSERT_CONTAINS(record, expected);
                ASSERT_WORKS(f, record_verify(i->dir_fd, i->dir_fd, &c, &f.error));
                ASSERT_EQ(c.n_found, 0);
        }
}

TEST(attributes_use_room)
{
        _cleanup_(unpack_done) Unpack u = UNPACK_NULL;
        struct archive_entry *entry = archive_entry_new();
        static const char value[30000];
        FIXTURE(f);

        ASSERT_WORKS(f, unpack_init(&u, store_fd(f.store), true, &f.error));
        u.budget = 4 * ENTRY_COST;
        archive_entry_set_filetype(entry, AE_IFDIR);
        archive_entry_xattr_add_entry(entry, "user.x", value, sizeof(value));
        ASSERT_FAILS(f, unpack_entry(&u, "rootfs", NULL, entry, &f.error), -ENOSPC, "needs more space");
        archive_entry_free(entry);
}

static void make_files(Text *t, unsigned n)
{
        text_done(t);
        aci_begin(t);
        for (unsigned i = 0; i < n; i++) {
                char name[32];

                snprintf(name, sizeof(name), "rootfs/%u", i);
                aci_file(t, name, "");
        }
        aci_end(t);
}

static void import_few_and_many_files(void)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        make_files(&f.tar, 1000);
        ASSERT_REFUSED(f, -ENOSPC,
                       "has more files than the file system of the store has inodes for (4096 are kept "
                       "free)");
        ASSERT_CONTAINS(f.error.hint, "image rm");
        make_files(&f.tar, 400);
        ASSERT_IMPORTS(f, i);
}

TEST(inodes_are_reserved)
{
        on_small_disk("size=100m,nr_inodes=5000", import_few_and_many_files);
}

/* Another process fills the disk after the size of a large file was charged. */
static void import_beside_another(void)
{
        static char block[1 << 20];
        _cleanup_(unpack_done) Unpack u = UNPACK_NULL;
        struct archive *a = archive_read_new();
        struct archive_entry *entry;
        FIXTURE(f);

        aci_entry(&f.tar, (AciEntry){.name = "rootfs/x",
                                     .type = '0',
                                     .mode = 0644,
                                     .size = 20 << 20,
                                     .no_content = true});
        for (unsigned k = 0; k < 20; k++)
                text_add_bytes(&f.tar, block, sizeof(block));
        aci_end(&f.tar);
        (void) archive_read_support_format_tar(a);
        ASSERT_EQ(archive_read_open_memory(a, f.tar.data, f.tar.size), ARCHIVE_OK);
        ASSERT_EQ(archive_read_next_header(a, &entry), ARCHIVE_OK);
        ASSERT_WORKS(f, unpack_init(&u, store_fd(f.store), true, &f.error));
        ASSERT_OK(write_file_new_at(f.scratch.fd, "other", f.tar.data, f.tar.size, 0600));
        ASSERT_FAILS(f, unpack_entry(&u, "rootfs/x", a, entry, &f.error), -ENOSPC, "64 MiB are kept free");
        (void) archive_read_free(a);
}

TEST(disk_that_others_fill)
{
        on_small_disk("size=90m", import_beside_another);
}

TEST(attributes)
{
        _cleanup_(image_freep) Image *i = NULL;
        char value[16] = {};
        FIXTURE(f);

        if (fsetxattr(store_fd(f.store), "user.test", "", 0, 0) < 0)
                TEST_SKIP("no user attributes on this file system");
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "SCHILY.xattr.user.note=on a file", "LIBARCHIVE.xattr.user.binary=AAEC");
        aci_file(&f.tar, "rootfs/x", "x");
        ACI_PAX(&f.tar, "SCHILY.xattr.user.note=on a dir");
        aci_dir(&f.tar, "rootfs/dir");
        aci_file(&f.tar, "rootfs/dir/y", "y");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        _cleanup_close_ int file = open_file(i, "rootfs/x"), dir = open_file(i, "rootfs/dir");
        ASSERT_EQ(fgetxattr(file, "user.note", value, sizeof(value)), 9);
        ASSERT_STREQ(value, "on a file");
        ASSERT_EQ(fgetxattr(file, "user.binary", value, sizeof(value)), 3);
        ASSERT_MEMEQ(value, "\0\1\2", 3);
        ASSERT_EQ(fgetxattr(dir, "user.note", value, sizeof(value)), 8);

        ASSERT_OK(image_remove(f.store, i->id, NULL, &f.error));
        text_done(&f.tar);
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "SCHILY.xattr.nonsense.x=1");
        aci_file(&f.tar, "rootfs/x", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EOPNOTSUPP, "cannot set its attribute nonsense.x");
}

TEST(attributes_too_large)
{
        _cleanup_text_ Text record = {};
        FIXTURE(f);

        text_add(&record, "SCHILY.xattr.user.large=");
        for (unsigned k = 0; k < 65537; k++)
                text_add(&record, "x");
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, record.data);
        aci_file(&f.tar, "rootfs/x", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -E2BIG, "its attribute user.large is longer than 65536 bytes");
}

static int read_acl(int fd, const char *name, struct posix_acl_xattr_entry *ret, size_t max)
{
        char value[1024];

        ssize_t n = fgetxattr(fd, name, value, sizeof(value));
        if (n < 0)
                return -errno;
        n = (n - (ssize_t) sizeof(struct posix_acl_xattr_header)) / (ssize_t) sizeof(*ret);
        memcpy(ret, value + sizeof(struct posix_acl_xattr_header), MIN((size_t) n, max) * sizeof(*ret));
        return (int) n;
}

TEST(acls)
{
        struct posix_acl_xattr_entry acl[8];
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        if (fgetxattr(store_fd(f.store), ACL_ACCESS, NULL, 0) < 0 && errno == EOPNOTSUPP)
                TEST_SKIP("no ACLs on this file system");
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "SCHILY.acl.access=user::rw-,group::r--,mask::rwx,user:joe:r-x:1001,user:ann:rw-:"
                        "1000,other::---");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/x", .type = '0', .mode = 0670});
        ACI_PAX(&f.tar, "SCHILY.acl.default=user::rwx,group::r-x,other::---,group:1234:rwx,mask::rwx");
        aci_dir(&f.tar, "rootfs/dir");
        aci_file(&f.tar, "rootfs/dir/y", "y");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        _cleanup_close_ int x = open_file(i, "rootfs/x"), dir = open_file(i, "rootfs/dir"),
                            y = open_file(i, "rootfs/dir/y");
        ASSERT_EQ(read_acl(x, ACL_ACCESS, acl, ELEMENTSOF(acl)), 6);
        ASSERT_EQ(acl[1].e_tag, ACL_USER);
        ASSERT_EQ(acl[1].e_id, 1000);
        ASSERT_EQ(acl[1].e_perm, 6);
        ASSERT_EQ(acl[2].e_id, 1001);
        ASSERT_EQ(acl[3].e_perm, 4); /* the group's own, not the mask */
        ASSERT_EQ(status(i, "rootfs/x").st_mode & 07777, 0670);
        ASSERT_EQ(read_acl(dir, ACL_DEFAULT, acl, ELEMENTSOF(acl)), 5);
        ASSERT_EQ(acl[2].e_id, 1234);
        /* Not inherited by what came into the directory. */
        ASSERT_ERR(read_acl(y, ACL_ACCESS, acl, ELEMENTSOF(acl)), -ENODATA);
        ASSERT_EQ(status(i, "rootfs/dir/y").st_mode & 07777, 0644);
}

TEST(acl_without_number)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "SCHILY.acl.access=user::rw-,group::r--,mask::rwx,user:joe:r-x,other::---");
        aci_file(&f.tar, "rootfs/x", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "its ACL names 'joe' without a number");
}

/* Byte for byte, in any locale: invalid UTF-8, UTF-8 that is not in normal form, control characters. */
TEST(names)
{
        static const char *const names[] = {"rootfs/\xff\xfe", "rootfs/e\xcc\x81", "rootfs/\xc3\xa9",
                                            "rootfs/a\nb", "rootfs/-"};
        FIXTURE(f);

        (void) setlocale(LC_ALL, "C.UTF-8");
        for (unsigned pax = 0; pax < 2; pax++) {
                _cleanup_(image_freep) Image *i = NULL;
                text_done(&f.tar);
                aci_begin(&f.tar);
                for (size_t k = 0; k < ELEMENTSOF(names); k++) {
                        _cleanup_free_ char *record = NULL;
                        ASSERT_OK(xasprintf(&record, "path=%s", names[k]));
                        if (pax)
                                ACI_PAX(&f.tar, record);
                        aci_symlink(&f.tar, pax ? "x" : names[k], names[k]);
                }
                aci_end(&f.tar);
                ASSERT_IMPORTS(f, i);
                for (size_t k = 0; k < ELEMENTSOF(names); k++) {
                        char target[64] = {};
                        ASSERT_GT(readlinkat(i->dir_fd, names[k], target, sizeof(target) - 1), 0);
                        ASSERT_STREQ(target, names[k]);
                }
        }
        (void) setlocale(LC_ALL, "C");
}

TEST(owners_out_of_range)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "uid=4294967295");
        aci_file(&f.tar, "rootfs/x", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "its owner 4294967295:0 is out of range");
}

TEST(owners)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        if (geteuid() != 0)
                TEST_SKIP("only root can give files away");
        aci_begin(&f.tar);
        aci_entry(&f.tar,
                  (AciEntry){.name = "rootfs/x", .type = '0', .mode = 06755, .uid = 1000, .gid = 1001});
        aci_entry(&f.tar,
                  (AciEntry){.name = "rootfs/dir", .type = '5', .mode = 02755, .uid = 1002, .gid = 1003});
        aci_entry(&f.tar,
                  (AciEntry){.name = "rootfs/dir/l", .type = '2', .link = "x", .uid = 1004, .gid = 1005});
        ACI_PAX(&f.tar, "uid=4000000000", "gid=4294967294");
        aci_file(&f.tar, "rootfs/dir/big", "x");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_EQ(status(i, "rootfs/x").st_uid, 1000);
        ASSERT_EQ(status(i, "rootfs/x").st_gid, 1001);
        ASSERT_EQ(status(i, "rootfs/x").st_mode & 07777, 06755);
        ASSERT_EQ(status(i, "rootfs/dir").st_gid, 1003);
        ASSERT_EQ(status(i, "rootfs/dir").st_mode & 07777, 02755);
        ASSERT_EQ(status(i, "rootfs/dir/l").st_uid, 1004);
        ASSERT_EQ(status(i, "rootfs/dir/big").st_uid, 4000000000U);
        ASSERT_EQ(status(i, "rootfs/dir/big").st_gid, 4294967294U);
}

TEST(a6_nodes)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/null",
                                     .type = '3',
                                     .mode = 0666,
                                     .major = 1,
                                     .minor = 3,
                                     .mtime = 5});
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/disk",
                                     .type = '4',
                                     .mode = 0660,
                                     .major = 8,
                                     .minor = 0,
                                     .gid = 6});
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/dir/fifo", .type = '6', .mode = 0620, .mtime = 5});
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_EQ(faccessat(i->dir_fd, "rootfs/null", F_OK, AT_SYMLINK_NOFOLLOW), -1);
        ASSERT_EQ(faccessat(i->dir_fd, "rootfs/disk", F_OK, AT_SYMLINK_NOFOLLOW), -1);
        ASSERT_EQ(status(i, "rootfs/dir/fifo").st_mode, S_IFIFO | 0620);
        ASSERT_TIME(status(i, "rootfs/dir/fifo"), 5, 0);
}

TEST(a7_capabilities)
{
        _cleanup_(image_freep) Image *i = NULL;
        char value[20];
        FIXTURE(f);

        if (geteuid() != 0)
                TEST_SKIP("only root can set file capabilities");
        aci_begin(&f.tar);
        /* cap_net_raw=ep; the owner is not root, and setting it must not take the capability away. */
        ACI_PAX(&f.tar, "LIBARCHIVE.xattr.security.capability=AQAAAgAgAAAAAAAAAAAAAAAAAAA=");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/ping",
                                     .type = '0',
                                     .mode = 0755,
                                     .uid = 5,
                                     .size = 1,
                                     .content = "x"});
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        _cleanup_close_ int fd = open_file(i, "rootfs/ping");
        ASSERT_EQ(fgetxattr(fd, "security.capability", value, sizeof(value)), 20);
        ASSERT_MEMEQ(value, "\1\0\0\2\0\x20\0\0", 8);
        ASSERT_EQ(status(i, "rootfs/ping").st_uid, 5);
}

int main(void)
{
        RUN(modes_and_times);
        RUN(implied_directories);
        RUN(implied_then_twice);
        RUN(hard_links);
        RUN(hard_links_to_symlinks);
        RUN(sparse_files);
        RUN(holes_without_a_map);
        RUN(attributes_use_room);
        RUN(inodes_are_reserved);
        RUN(disk_that_others_fill);
        RUN(attributes);
        RUN(attributes_too_large);
        RUN(acls);
        RUN(acl_without_number);
        RUN(names);
        RUN(owners_out_of_range);
        RUN(owners);
        RUN(a6_nodes);
        RUN(a7_capabilities);
        return TEST_END();
}
