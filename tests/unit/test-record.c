/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The record of an image's files: that it is right for everything an archive can hold, that every alteration
 * is found and named, and that it can be larger than memory. */

#include <sys/stat.h>
#include <sys/xattr.h>

#include "prepare/unpack/record.h"
#include "tests/unit/small-disk.h"
#include "tests/unit/store-fixture.h"

static void make_image(Fixture *f)
{
        static char large[300000];

        for (size_t i = 0; i < sizeof(large); i++)
                large[i] = (char) (i * 7 + i / 251);
        aci_begin(&f->tar);
        aci_file(&f->tar, "rootfs/bin/tool", "a program");
        aci_hard_link(&f->tar, "rootfs/bin/alias", "rootfs/bin/tool");
        aci_symlink(&f->tar, "rootfs/lib", "usr/lib");
        aci_file(&f->tar, "rootfs/empty", "");
        aci_file(&f->tar, "rootfs/a b%\n", "odd name");
        aci_file(&f->tar, "rootfs/implied/deep/file", "x");
        aci_file(&f->tar, "rootfs/implied-not", "sorts between");
        ACI_PAX(&f->tar, "SCHILY.xattr.user.colour=blue");
        aci_file(&f->tar, "rootfs/with-xattr", "y");
        aci_entry(&f->tar, (AciEntry){.name = "rootfs/fifo", .type = '6', .mode = 0600});
        aci_entry(&f->tar, (AciEntry){.name = "rootfs/large",
                                      .type = '0',
                                      .mode = 0644,
                                      .content = large,
                                      .size = sizeof(large)});
        aci_end(&f->tar);
}

static int check(Fixture *f, const Image *i, RecordCheck *c)
{
        _cleanup_close_ int tmp = openat(store_fd(f->store), "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        record_check_done(c);
        c->n_max = 100;
        error_done(&f->error);
        f->error = ERROR_NULL;
        return record_verify(i->dir_fd, tmp, c, &f->error);
}

TEST(untouched)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_record_check_ RecordCheck c = {};
        FIXTURE(f);

        make_image(&f);
        ASSERT_IMPORTS(f, i);
        ASSERT_WORKS(f, check(&f, i, &c));
        ASSERT_EQ(c.n_found, 0);
        ASSERT_EQ(c.n_entries, 15);
        ASSERT_EQ(count_entries(f.store, "tmp"), 0);
}

TEST(text)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_free_ char *text = NULL, *line = NULL;
        FIXTURE(f);

        make_image(&f);
        ASSERT_IMPORTS(f, i);
        ASSERT_OK(read_file_at(i->dir_fd, "files", 1 << 20, &text, NULL));
        ASSERT_OK(xasprintf(&line, "\nrootfs/bin/alias f 644 %u %u 9 - ",
                            geteuid() == 0 ? 0 : (unsigned) getuid(),
                            geteuid() == 0 ? 0 : (unsigned) getgid()));
        ASSERT_CONTAINS(text, "files 1\nmanifest f 644 ");
        ASSERT_CONTAINS(text, line);
        ASSERT_CONTAINS(text, "\nrootfs/a%20b%25%0a f 644 ");
        /* The first of two names in the order has the hash, as printed by sha256sum. */
        ASSERT_CONTAINS(text, "9 - d69ea8cda2433733c1ce02de65da8f48e6a3dbba6bb18876a2062908e54ef7cb");
}

static void append(int fd, const char *path)
{
        int x = openat(fd, path, O_WRONLY | O_APPEND | O_CLOEXEC);
        (void) !write(x, "!", 1);
        close(x);
}

static void overwrite(int fd, const char *path)
{
        int x = openat(fd, path, O_WRONLY | O_CLOEXEC);
        (void) !pwrite(x, "A", 1, 0);
        close(x);
}

static void remove_it(int fd, const char *path)
{
        (void) rm_rf_at(fd, path);
}

static void add_file(int fd, const char *path)
{
        (void) write_file_new_at(fd, path, "z", 1, 0644);
}

static void add_tree(int fd, const char *path)
{
        (void) mkdirat(fd, path, 0755);
        int x = openat(fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        add_file(x, "1");
        add_file(x, "2");
        close(x);
}

static void change_mode(int fd, const char *path)
{
        (void) !fchmodat(fd, path, 0600, 0);
}

static void change_xattr(int fd, const char *path)
{
        int x = openat(fd, path, O_RDONLY | O_CLOEXEC);
        (void) fsetxattr(x, "user.colour", "red", 3, 0);
        close(x);
}

static void change_link(int fd, const char *path)
{
        (void) unlinkat(fd, path, 0);
        (void) !symlinkat("elsewhere", fd, path);
}

static void become_directory(int fd, const char *path)
{
        (void) unlinkat(fd, path, 0);
        (void) mkdirat(fd, path, 0755);
}

static void become_symlink(int fd, const char *path)
{
        (void) rm_rf_at(fd, path);
        (void) !symlinkat("bin", fd, path);
}

static void break_link(int fd, const char *path)
{
        (void) unlinkat(fd, path, 0);
        (void) write_file_new_at(fd, path, "a program", 9, 0644);
}

static const struct {
        void (*alter)(int fd, const char *path);
        const char *path;
        DifferenceKind kind;
        const char *expected, *found;
} alterations[] = {
                {append, "rootfs/bin/tool", DIFFERENCE_SIZE, "9", "10"},
                {overwrite, "rootfs/large", DIFFERENCE_CONTENT, NULL, NULL},
                {overwrite, "manifest", DIFFERENCE_CONTENT, NULL, NULL},
                {overwrite, "rootfs/a b%\n", DIFFERENCE_CONTENT, NULL, NULL},
                {append, "rootfs/empty", DIFFERENCE_SIZE, "0", "1"},
                {remove_it, "rootfs/empty", DIFFERENCE_MISSING, NULL, NULL},
                {remove_it, "rootfs/implied", DIFFERENCE_MISSING, NULL, NULL},
                {remove_it, "rootfs/fifo", DIFFERENCE_MISSING, NULL, NULL},
                {add_file, "rootfs/zzz", DIFFERENCE_ADDED, NULL, NULL},
                {add_file, "rootfs/.hidden", DIFFERENCE_ADDED, NULL, NULL},
                {add_tree, "rootfs/implied/new", DIFFERENCE_ADDED, NULL, NULL},
                {change_mode, "rootfs/large", DIFFERENCE_MODE, "0644", "0600"},
                {change_mode, "rootfs", DIFFERENCE_MODE, "0755", "0600"},
                {change_xattr, "rootfs/with-xattr", DIFFERENCE_XATTRS, NULL, NULL},
                {change_xattr, "rootfs/empty", DIFFERENCE_XATTRS, "none", NULL},
                {change_link, "rootfs/lib", DIFFERENCE_LINK, "usr/lib", "elsewhere"},
                {become_directory, "rootfs/empty", DIFFERENCE_TYPE, "regular file", "directory"},
                {become_symlink, "rootfs/implied", DIFFERENCE_TYPE, "directory", "symbolic link"},
                {break_link, "rootfs/bin/tool", DIFFERENCE_NAMES, "rootfs/bin/alias", NULL},
};

/* Every one is found under the name of its path, and nothing else is. */
TEST(alterations)
{
        for (size_t k = 0; k < ELEMENTSOF(alterations); k++) {
                _cleanup_(image_freep) Image *i = NULL;
                _cleanup_record_check_ RecordCheck c = {};
                FIXTURE(f);

                make_image(&f);
                ASSERT_IMPORTS(f, i);
                alterations[k].alter(i->dir_fd, alterations[k].path);
                if (check(&f, i, &c) < 0 && geteuid() != 0)
                        continue; /* a root that cannot be searched any more */
                if (c.n_found < 1 || c.n_kept < 1)
                        TEST_FAIL("case %zu (%s): nothing found", k, alterations[k].path);
                size_t at = 0;
                while (at < c.n_kept && !streq(c.differences[at].path, alterations[k].path))
                        at++;
                if (at == c.n_kept)
                        TEST_FAIL("case %zu: %s instead of %s", k, c.differences[0].path,
                                  alterations[k].path);
                ASSERT_STREQ(difference_kind_to_string(c.differences[at].kind),
                             difference_kind_to_string(alterations[k].kind));
                ASSERT_TRUE(streq_ptr(c.differences[at].expected, alterations[k].expected));
                ASSERT_TRUE(streq_ptr(c.differences[at].found, alterations[k].found));
        }
}

TEST(many_differences_are_counted)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_record_check_ RecordCheck c = {};
        FIXTURE(f);

        make_image(&f);
        ASSERT_IMPORTS(f, i);
        for (unsigned k = 0; k < 300; k++) {
                char name[32];
                snprintf(name, sizeof(name), "rootfs/new-%03u", k);
                add_file(i->dir_fd, name);
        }
        ASSERT_WORKS(f, check(&f, i, &c));
        ASSERT_EQ(c.n_found, 300);
        ASSERT_EQ(c.n_kept, 100);
}

TEST(damaged_record)
{
        static const char *const texts[] = {
                        "",
                        "files 1\n",
                        "files 2\nend 0 x\n",
                        "files 1\nrootfs d 755 0 0 - -\n",
                        "files 1\nend 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
                        "files 1\nrootfs z 755 0 0 - -\nend 1 00\n"};
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        make_image(&f);
        ASSERT_IMPORTS(f, i);
        for (size_t k = 0; k < ELEMENTSOF(texts); k++) {
                _cleanup_record_check_ RecordCheck c = {};
                ASSERT_OK(write_file_atomic_at(i->dir_fd, "files", texts[k], strlen(texts[k]), 0644, false));
                ASSERT_FAILS(f, check(&f, i, &c), -EBADMSG, "The record of its files is damaged");
        }
        _cleanup_record_check_ RecordCheck c = {};
        ASSERT_OK(unlinkat(i->dir_fd, "files", 0));
        ASSERT_FAILS(f, check(&f, i, &c), -ENOENT, "Cannot open the record of its files");
}

/* One byte anywhere. */
TEST(record_with_one_byte_changed)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;
        FIXTURE(f);

        make_image(&f);
        ASSERT_IMPORTS(f, i);
        ASSERT_OK(read_file_at(i->dir_fd, "files", 1 << 20, &text, &size));
        for (size_t at = 0; at < size; at += 13) {
                _cleanup_record_check_ RecordCheck c = {};
                text[at] ^= 1;
                ASSERT_OK(write_file_atomic_at(i->dir_fd, "files", text, size, 0644, false));
                text[at] ^= 1;
                ASSERT_ERR(check(&f, i, &c), -EBADMSG);
        }
}

/* --- Hashes -------------------------------------------------------------------------------------------- */

static int hash(const char *const *parts, const uint64_t *offsets, size_t n, uint64_t size, bool sparse,
                char **ret)
{
        _cleanup_content_hash_ ContentHash h = {};
        unsigned char hash[CONTENT_HASH_SIZE];

        int r = content_hash_init(&h, sparse);
        for (size_t i = 0; i < n; i++)
                content_hash_add(&h, offsets[i], parts[i], strlen(parts[i]));
        if (r >= 0)
                r = content_hash_finish(&h, size, hash);
        *ret = hex_encode(hash, sizeof(hash));
        return r;
}

TEST(hash_of_content)
{
        _cleanup_free_ char *whole = NULL, *parts = NULL, *empty = NULL, *gap = NULL, *zeros = NULL;

        ASSERT_OK(hash((const char *const[]){"abc"}, (const uint64_t[]){0}, 1, 3, false, &whole));
        ASSERT_STREQ(whole, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        ASSERT_OK(hash((const char *const[]){"a", "bc"}, (const uint64_t[]){0, 1}, 2, 3, false, &parts));
        ASSERT_STREQ(whole, parts);
        ASSERT_OK(hash(NULL, NULL, 0, 0, false, &empty));
        ASSERT_STREQ(empty, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        ASSERT_OK(hash((const char *const[]){"a"}, (const uint64_t[]){200000}, 1, 300000, false, &gap));
        ASSERT_OK(hash(NULL, NULL, 0, 300000, false, &zeros));
        ASSERT_TRUE(!streq(gap, zeros));
}

/* Of a file with holes: the same from the parts of an archive and from the file, whatever the holes; quick,
 * whatever the size. */
TEST(hash_of_holes)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_content_hash_ ContentHash h = {};
        _cleanup_free_ char *a = NULL, *b = NULL, *c = NULL, *other = NULL;
        unsigned char hash_[CONTENT_HASH_SIZE];
        const uint64_t size = 1ULL << 40;
        static char zeros[200000];

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(hash((const char *const[]){"begin", "middle", "more"},
                       (const uint64_t[]){0, 65533, 1ULL << 39}, 3, size, true, &a));
        _cleanup_close_ int fd = openat(s.fd, "x", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_TRUE(pwrite(fd, zeros, sizeof(zeros), 0) == sizeof(zeros));
        ASSERT_TRUE(pwrite(fd, "begin", 5, 0) == 5 && pwrite(fd, "middle", 6, 65533) == 6);
        ASSERT_TRUE(pwrite(fd, "more", 4, 1LL << 39) == 4);
        ASSERT_OK(ftruncate(fd, (off_t) size));
        ASSERT_OK(content_hash_file(&h, fd, size, true, NULL, NULL, hash_));
        b = hex_encode(hash_, sizeof(hash_));
        ASSERT_STREQ(a, b);
        ASSERT_TRUE(pwrite(fd, "X", 1, (off_t) size - 1) == 1);
        ASSERT_OK(content_hash_file(&h, fd, size, true, NULL, NULL, hash_));
        c = hex_encode(hash_, sizeof(hash_));
        ASSERT_TRUE(!streq(a, c));
        ASSERT_OK(hash((const char *const[]){"begin"}, (const uint64_t[]){0}, 1, size + 1, true, &other));
        ASSERT_TRUE(!streq(a, other));
}

/* --- Sorting ------------------------------------------------------------------------------------------- */

/* More lines than are kept in memory: 300000 of 120 bytes, in runs. */
TEST(more_lines_than_memory)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(record_sort_freep) RecordSort *sort = NULL;
        const unsigned n = 300000;
        char line[256], *got, last[256] = "";
        unsigned count = 0;
        int r;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(record_sort_new(s.fd, &sort));
        for (unsigned i = 0; i < n; i++) {
                unsigned x = (unsigned) ((uint64_t) i * 7919 % n);
                int k = snprintf(line, sizeof(line), "rootfs/%06u/%0100u f\n", x % 1000, x);
                ASSERT_OK(record_sort_add(sort, line, (size_t) k));
        }
        ASSERT_OK(record_sort_finish(sort));
        while ((r = record_sort_next(sort, &got)) > 0) {
                ASSERT_TRUE(count == 0 || record_line_compare(last, got) < 0);
                snprintf(last, sizeof(last), "%s", got);
                count++;
        }
        ASSERT_OK(r);
        ASSERT_EQ(count, n);
}

TEST(order_is_that_of_a_tree)
{
        static const char *const paths[] = {"a",  "a/b", "a/b/c", "a/c", "a%20b",
                                            "a+", "a-b", "a.b",   "aa",  "b"};

        for (size_t i = 0; i < ELEMENTSOF(paths); i++)
                for (size_t k = 0; k < ELEMENTSOF(paths); k++) {
                        int r = record_line_compare(paths[i], paths[k]);
                        ASSERT_EQ(r < 0, i < k);
                        ASSERT_EQ(r == 0, i == k);
                }
}

/* Lines of long paths take more than was charged for their entries. */
static void sort_on_small_disk(void)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_(record_sort_freep) RecordSort *sort = NULL;
        _cleanup_free_ char *line = NULL;
        int r = 0;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(record_sort_new(s.fd, &sort));
        for (unsigned i = 0; i < 10000 && r >= 0; i++) {
                free(line);
                line = NULL;
                ASSERT_OK(xasprintf(&line, "%04000u\n", i));
                r = record_sort_add(sort, line, strlen(line));
        }
        ASSERT_ERR(r, -ENOSPC);
}

TEST(records_leave_the_reserve)
{
        on_small_disk("size=90m", sort_on_small_disk);
}

int main(void)
{
        RUN(untouched);
        RUN(text);
        RUN(alterations);
        RUN(many_differences_are_counted);
        RUN(damaged_record);
        RUN(record_with_one_byte_changed);
        RUN(hash_of_content);
        RUN(hash_of_holes);
        RUN(more_lines_than_memory);
        RUN(order_is_that_of_a_tree);
        RUN(records_leave_the_reserve);
        return TEST_END();
}
