/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Archives that try to exhaust time, memory or disk, or to confuse the reader: each is imported in a child
 * process, whose time and memory are measured. It is refused with one message, or imported correctly; no
 * other file appears, inside of the store or outside. The names are those of the attacks that the project
 * keeps a list of; test-archive.c has those that need no measuring. */

#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/unit/store-fixture.h"

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_MAX (3072L << 10) /* kilobytes; the sanitizer keeps what is freed */
#else
#define MEMORY_MAX (96L << 10)
#endif
#define SECONDS_MAX 30U

/* --- Measured imports ---------------------------------------------------------------------------------- */

typedef struct Outcome {
        int result;
        char message[8192];
        long memory; /* kilobytes */
} Outcome;

static void import_and_tell(Store *s, int fd, Outcome *shared)
{
        const struct rlimit cpu = {SECONDS_MAX, SECONDS_MAX};
        _cleanup_(image_freep) Image *i = NULL;
        Error e = ERROR_NULL;

        (void) setrlimit(RLIMIT_CPU, &cpu);
        (void) alarm(SECONDS_MAX * 4); /* others may keep the machine busy */
        shared->result = image_import(s, fd, "test.aci", &i, &e);
        snprintf(shared->message, sizeof(shared->message), "%s", e.message ?: "");
        _exit(0);
}

/* -ETIME: it took too long, or crashed. */
static int import_measured(Store *s, int fd, Outcome *ret)
{
        Outcome *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                               0);
        struct rusage usage;
        int status;

        if (shared == MAP_FAILED || lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0)
                import_and_tell(s, fd, shared);
        if (pid < 0 || wait4(pid, &status, 0, &usage) < 0)
                return -errno;
        *ret = *shared;
        ret->memory = usage.ru_maxrss;
        munmap(shared, sizeof(*shared));
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ETIME;
}

#define ASSERT_CONTAINED_FD(f, fd, code, why)                                                               \
        do {                                                                                                \
                Outcome o_;                                                                                 \
                ASSERT_OK(import_measured((f).store, (fd), &o_));                                           \
                if (o_.result != (code) || !strstr(o_.message, (why)))                                      \
                        TEST_FAIL("import returned %d: %s", o_.result, o_.message);                         \
                ASSERT_LT(strlen(o_.message), 600);                                                         \
                ASSERT_LT(o_.memory, MEMORY_MAX);                                                           \
                ASSERT_TRUE(store_is_empty((f).store));                                                     \
        } while (0)

#define ASSERT_CONTAINED(f, code, why)                                                                      \
        do {                                                                                                \
                _cleanup_close_ int fd_ = aci_fd((f).tar.data, (f).tar.size);                               \
                ASSERT_CONTAINED_FD(f, fd_, (code), (why));                                                 \
        } while (0)

/* --- Bombs --------------------------------------------------------------------------------------------- */

static const struct {
        int filter;
        const char *name;
} filters[] = {
                {ARCHIVE_FILTER_GZIP, "gzip"},
                {ARCHIVE_FILTER_BZIP2, "bzip2"},
                {ARCHIVE_FILTER_XZ, "xz"},
                {ARCHIVE_FILTER_ZSTD, "zstd"},
};

/* START followed by N zero bytes, compressed, in a memory file of at most a megabyte. */
static int make_bomb(const Text *start, uint64_t n, int filter)
{
        static const char zeros[1 << 20];
        int fd = memfd_create("bomb", MFD_CLOEXEC);
        struct archive *a = archive_write_new();
        struct archive_entry *entry = archive_entry_new();

        archive_write_add_filter(a, filter);
        archive_write_set_format_raw(a);
        archive_write_set_bytes_in_last_block(a, 1);
        archive_entry_set_pathname(entry, "x");
        archive_entry_set_filetype(entry, AE_IFREG);
        bool good = fd >= 0 && archive_write_open_fd(a, fd) == ARCHIVE_OK &&
                    archive_write_header(a, entry) == ARCHIVE_OK &&
                    archive_write_data(a, start->data, start->size) == (la_ssize_t) start->size;
        for (; good && n > 0; n -= MIN(n, (uint64_t) sizeof(zeros)))
                good = archive_write_data(a, zeros, MIN(n, (uint64_t) sizeof(zeros))) >= 0;
        good = archive_write_close(a) == ARCHIVE_OK && good;
        archive_write_free(a);
        archive_entry_free(entry);
        return good ? fd : safe_close(fd);
}

static void bombs(const Text *start, Fixture *f, int code, const char *why)
{
        for (size_t k = 0; k < ELEMENTSOF(filters); k++) {
                _cleanup_close_ int fd = make_bomb(start, 80U << 20, filters[k].filter);
                ASSERT_OK(fd);
                ASSERT_CONTAINED_FD(*f, fd, code, why);
        }
}

TEST(a9_bombs_behind_the_archive)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_end(&f.tar);
        bombs(&f.tar, &f, -EBADMSG, "padded with more than 67108864 bytes");
}

TEST(a9_bombs_of_content)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "size=9000000000000000000");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/x", .type = '0', .mode = 0644});
        bombs(&f.tar, &f, -ENOSPC, "more space than the store has");
}

TEST(a9_bombs_of_manifests)
{
        FIXTURE(f);

        aci_entry(&f.tar, (AciEntry){.name = "manifest", .type = '0', .size = 1U << 30, .no_content = true});
        bombs(&f.tar, &f, -EFBIG, "longer than 4194304 bytes");
}

/* Attributes of one entry, or of all: the tar reader keeps them in memory. */
TEST(a9_bombs_of_headers)
{
        static const char types[] = {'x', 'g', 'L', 'K', 'A', 'V', 'N'};

        for (size_t k = 0; k < sizeof(types); k++) {
                FIXTURE(f);
                aci_begin(&f.tar);
                aci_entry(&f.tar, (AciEntry){.name = "PaxHeader",
                                             .type = types[k],
                                             .size = (size_t) 7 << 30,
                                             .no_content = true});
                _cleanup_close_ int fd = make_bomb(&f.tar, 80U << 20, ARCHIVE_FILTER_GZIP);
                Outcome o;
                ASSERT_OK(import_measured(f.store, fd, &o));
                ASSERT_LT(o.result, 0);
                ASSERT_LT(o.memory, MEMORY_MAX);
                ASSERT_TRUE(store_is_empty(f.store));
        }
}

/* --- Very many, very deep ------------------------------------------------------------------------------ */

TEST(a9_many_links)
{
        FIXTURE(f);

        /* More than any file system allows for one file; each counts towards the limit, although none has
         * content. */
        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/x", "x");
        for (unsigned k = 0; k < 20000; k++) {
                char name[32];
                snprintf(name, sizeof(name), "rootfs/%u", k);
                aci_hard_link(&f.tar, name, "rootfs/x");
        }
        aci_file(&f.tar, "rootfs/0", "");
        aci_end(&f.tar);
        ASSERT_CONTAINED(f, -EBADMSG, "'rootfs/0': the archive has it twice");
}

TEST(a9_ten_thousand_levels)
{
        _cleanup_text_ Text name = {};
        FIXTURE(f);

        text_add(&name, "rootfs");
        for (unsigned k = 0; k < 10000; k++)
                text_add(&name, "/d");
        aci_begin(&f.tar);
        aci_entry(&f.tar, (AciEntry){.name = "././@LongLink",
                                     .type = 'L',
                                     .content = name.data,
                                     .size = name.size + 1});
        aci_dir(&f.tar, "x");
        aci_end(&f.tar);
        ASSERT_CONTAINED(f, -ENAMETOOLONG, "longer than 4095 bytes");
}

/* At the maximum depth, repeatedly: the implied directories count towards the limit each time. */
TEST(a9_many_deep_paths)
{
        _cleanup_text_ Text deep = {};
        FIXTURE(f);

        for (unsigned k = 0; k < 505; k++)
                text_add(&deep, "/d");
        aci_begin(&f.tar);
        for (unsigned k = 0; k < 40; k++) {
                _cleanup_text_ Text record = {};
                text_addf(&record, "path=rootfs/%u%s", k, deep.data);
                ACI_PAX(&f.tar, record.data);
                aci_dir(&f.tar, "x");
        }
        aci_file(&f.tar, "rootfs/../x", "");
        aci_end(&f.tar);
        ASSERT_CONTAINED(f, -EBADMSG, "has a '..' component");
}

TEST(a9_flood_of_attributes)
{
        _cleanup_text_ Text value = {};
        FIXTURE(f);

        while (value.size < 60000)
                text_add(&value, "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy");
        _cleanup_strv_free_ char **records = NULL;
        for (unsigned k = 0; k < 20; k++)
                ASSERT_OK(strv_extendf(&records, "SCHILY.xattr.user.%u=%s", k, value.data));
        aci_begin(&f.tar);
        aci_pax(&f.tar, (const char *const *) records);
        aci_file(&f.tar, "rootfs/x", "x");
        aci_end(&f.tar);
        ASSERT_CONTAINED(f, -EBADMSG, "Special header too large");

        records = strv_free(records);
        text_done(&f.tar);
        records = calloc(100001, sizeof(char *)); /* strv_extendf() would look for its end each time */
        ASSERT_TRUE(records);
        for (unsigned k = 0; k < 100000; k++)
                ASSERT_OK(xasprintf(&records[k], "SCHILY.xattr.user.%06u=", k));
        aci_begin(&f.tar);
        aci_pax(&f.tar, (const char *const *) records);
        aci_file(&f.tar, "rootfs/x", "x");
        aci_end(&f.tar);
        ASSERT_CONTAINED(f, -EBADMSG, "Special header too large");
}

/* --- Cut and spoiled ----------------------------------------------------------------------------------- */

TEST(a10_cut_anywhere_when_compressed)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/x", "hello");
        aci_end(&f.tar);
        for (size_t k = 0; k < ELEMENTSOF(filters); k++) {
                _cleanup_text_ Text packed = {};
                ASSERT_OK(aci_compress(&f.tar, filters[k].filter, &packed));
                for (size_t n = 0; n < packed.size; n++) {
                        _cleanup_(image_freep) Image *i = NULL;
                        const Text cut = {.data = packed.data, .size = n};
                        int r = aci_import(f.store, &cut, &i, &f.error);
                        if (r != -EBADMSG)
                                TEST_FAIL("%zu of %zu bytes of %s: %d %s", n, packed.size, filters[k].name,
                                          r, f.error.message ?: "");
                        ASSERT_TRUE(store_is_empty(f.store));
                }
                text_add(&packed, "x");
                _cleanup_(image_freep) Image *i = NULL;
                ASSERT_ERR(aci_import(f.store, &packed, &i, &f.error), -EBADMSG);
                ASSERT_TRUE(store_is_empty(f.store));
        }
}

/* Flips a bit of each byte of a compressed image, one after the other: no crash, and no leftovers. With a
 * checksum, only the same image is accepted; the zstd data here have none. */
TEST(a10_spoiled_anywhere_when_compressed)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_end(&f.tar);
        for (size_t k = 0; k < ELEMENTSOF(filters); k++) {
                _cleanup_text_ Text packed = {};
                ASSERT_OK(aci_compress(&f.tar, filters[k].filter, &packed));
                for (size_t n = 0; n < packed.size; n++) {
                        _cleanup_(image_freep) Image *i = NULL;
                        packed.data[n] ^= (char) (1 << n % 8);
                        int r = aci_import(f.store, &packed, &i, &f.error);
                        packed.data[n] ^= (char) (1 << n % 8);
                        if (r >= 0) {
                                if (filters[k].filter != ARCHIVE_FILTER_ZSTD)
                                        ASSERT_EQ(i->size, f.tar.size);
                                ASSERT_WORKS(f, image_remove(f.store, i->id, NULL, &f.error));
                        }
                        ASSERT_TRUE(store_is_empty(f.store));
                }
        }
}

/* --- Odd headers --------------------------------------------------------------------------------------- */

/* Attributes as text that is no list of them. */
TEST(a10_broken_pax)
{
        static const struct {
                const char *text;
                size_t size;
        } cases[] = {
#define CASE(s) {s, sizeof(s) - 1}
                        CASE("99999999999999999999 path=rootfs/y\n"),
                        CASE("1000 path=rootfs/y\n"),
                        CASE("0 path=rootfs/y\n"),
                        CASE("-17 path=rootfs/y\n"),
                        CASE("17\n"),
                        CASE("path=rootfs/y\n"),
                        CASE("18 path=rootfs/yy"),
                        CASE("17 path rootfs/y\n"),
                        CASE("22 size=-10000000000\n"),
#undef CASE
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                FIXTURE(f);
                aci_begin(&f.tar);
                aci_entry(&f.tar, (AciEntry){.name = "PaxHeader",
                                             .type = 'x',
                                             .content = cases[k].text,
                                             .size = cases[k].size});
                aci_file(&f.tar, "rootfs/x", "x");
                aci_end(&f.tar);
                Outcome o;
                _cleanup_close_ int fd = aci_fd(f.tar.data, f.tar.size);
                ASSERT_OK(import_measured(f.store, fd, &o));
                if (o.result != -EBADMSG || !strstr(o.message, "Cannot import test.aci: "))
                        TEST_FAIL("case %zu: %d %s", k, o.result, o.message);
                ASSERT_TRUE(store_is_empty(f.store));
        }
}

/* A NUL ends a name in every parser: neither a part of the name nor the bytes after it may be interpreted
 * otherwise. */
TEST(a3_nul_in_names)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_entry(&f.tar, (AciEntry){.name = "PaxHeader",
                                     .type = 'x',
                                     .content = "27 path=rootfs/a\0/../../x\n",
                                     .size = 27});
        aci_file(&f.tar, "rootfs/x", "x");
        aci_end(&f.tar);
        _cleanup_(image_freep) Image *i = NULL;
        int r = aci_import(f.store, &f.tar, &i, &f.error);
        ASSERT_FALSE(scratch_has(&f.scratch, "x"));
        if (r < 0)
                ASSERT_TRUE(store_is_empty(f.store));
        else
                ASSERT_OK(faccessat(i->dir_fd, "rootfs/a", F_OK, AT_SYMLINK_NOFOLLOW));
}

/* Controls in a name that is refused reach the message as text. */
TEST(a3_controls_in_names)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_file(&f.tar, "rootfs/\x1b]0;title\a\r\n/../x", "x");
        aci_end(&f.tar);
        ASSERT_CONTAINED(f, -EBADMSG, "'rootfs/\\x1b]0;title\\x07\\x0d\\x0a/../x'");
}

TEST(times_before_the_epoch)
{
        _cleanup_(image_freep) Image *i = NULL;
        struct stat st;
        FIXTURE(f);

        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "mtime=-5.25");
        aci_file(&f.tar, "rootfs/x", "x");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_OK(fstatat(i->dir_fd, "rootfs/x", &st, 0));
        ASSERT_LE(st.st_mtim.tv_sec, -5);
        ASSERT_GE(st.st_mtim.tv_sec, -6);
}

/* --- Links --------------------------------------------------------------------------------------------- */

TEST(a4_hard_link_to_itself)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_hard_link(&f.tar, "rootfs/x", "rootfs/x");
        aci_end(&f.tar);
        ASSERT_CONTAINED(f, -EBADMSG, "is no earlier entry");
}

/* The mode, the owner and the ACL of a directory are set at the end; it must not have been replaced by then. */
TEST(a3_metadata_of_replaced_files)
{
        struct stat st;
        char target[PATH_MAX + 16];
        FIXTURE(f);

        ASSERT_OK(scratch_dir(&f.scratch, "outside"));
        snprintf(target, sizeof(target), "%.80s/outside", f.scratch.path);
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "SCHILY.acl.default=user::rwx,group::rwx,other::rwx", "mtime=77");
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/d", .type = '5', .mode = 0777, .uid = 7, .gid = 7});
        aci_symlink(&f.tar, "rootfs/d", target);
        aci_end(&f.tar);
        ASSERT_CONTAINED(f, -EBADMSG, "the archive has it twice");
        ASSERT_OK(fstatat(f.scratch.fd, "outside", &st, 0));
        ASSERT_EQ(st.st_mode & 07777, 0755);
        ASSERT_EQ(st.st_uid, geteuid());
        ASSERT_NE(st.st_mtim.tv_sec, 77);
}

/* --- Maps of holes ------------------------------------------------------------------------------------- */

/* In the format of GNU tar 1.26 ("0.1"): offset and length of each piece, as text. */
TEST(a9_maps_of_holes)
{
        static const struct {
                const char *map, *blocks, *size;
        } cases[] = {
                        {"4096,2,0,2", "2", "8192"},                 /* backwards */
                        {"0,512,256,512", "2", "8192"},              /* over each other */
                        {"8191,4", "1", "8192"},                     /* beyond the end */
                        {"-5,2", "1", "8192"},                       /* before the start */
                        {"9223372036854775807,2", "1", "8192"},      /* sums that overflow */
                        {"0,9223372036854775807", "1", "8192"},      /* more than there is */
                        {"0,2,99999999999999999999,2", "2", "8192"}, /* no number of 64 bits */
                        {"0,2", "99999999", "8192"},                 /* fewer than it says */
                        {"0,2,4096,0", "2", "9223372036854775807"},  /* a file of 8 EiB */
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                _cleanup_free_ char *map = NULL, *blocks = NULL, *size = NULL;
                FIXTURE(f);
                ASSERT_OK(xasprintf(&map, "GNU.sparse.map=%s", cases[k].map));
                ASSERT_OK(xasprintf(&blocks, "GNU.sparse.numblocks=%s", cases[k].blocks));
                ASSERT_OK(xasprintf(&size, "GNU.sparse.size=%s", cases[k].size));
                aci_begin(&f.tar);
                ACI_PAX(&f.tar, "GNU.sparse.name=rootfs/holes", size, blocks, map);
                aci_file(&f.tar, "rootfs/x", "ab");
                aci_end(&f.tar);
                Outcome o;
                _cleanup_close_ int fd = aci_fd(f.tar.data, f.tar.size);
                ASSERT_OK(import_measured(f.store, fd, &o));
                ASSERT_LT(o.memory, MEMORY_MAX);
                /* If the reader accepts it, the file has exactly the stated size. */
                if (o.result >= 0) {
                        ASSERT_EQ(count_entries(f.store, "images"), 1);
                        continue;
                }
                ASSERT_CONTAINS(o.message, "Cannot import test.aci: ");
                ASSERT_TRUE(store_is_empty(f.store));
        }
}

int main(void)
{
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(a9_bombs_behind_the_archive);
        RUN(a9_bombs_of_content);
        RUN(a9_bombs_of_manifests);
        RUN(a9_bombs_of_headers);
        RUN(a9_many_links);
        RUN(a9_ten_thousand_levels);
        RUN(a9_many_deep_paths);
        RUN(a9_flood_of_attributes);
        RUN(a10_cut_anywhere_when_compressed);
        RUN(a10_spoiled_anywhere_when_compressed);
        RUN(a10_broken_pax);
        RUN(a3_nul_in_names);
        RUN(a3_controls_in_names);
        RUN(times_before_the_epoch);
        RUN(a4_hard_link_to_itself);
        RUN(a3_metadata_of_replaced_files);
        RUN(a9_maps_of_holes);
        return TEST_END();
}
