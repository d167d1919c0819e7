/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Headers of tar entries with invalid numbers: each is refused by name, instead of being parsed as another
 * value. And valid formats of numbers. */

#include <sys/stat.h>

#include "tests/unit/store-fixture.h"

#define MODE 100U
#define OWNER 108U
#define GROUP 116U
#define SIZE 124U
#define TIME 136U
#define CHECKSUM 148U
#define TYPE 156U
#define MAJOR 329U
#define MINOR 337U

/* Overwrites a part of the last header of T, which is of an entry without content. */
static void patch(Text *t, size_t offset, const void *p, size_t n)
{
        unsigned char *header = (unsigned char *) t->data + t->size - 512;

        memcpy(header + offset, p, n);
        if (offset != CHECKSUM)
                aci_checksum(header);
}

typedef struct Patch {
        size_t offset;
        const char *bytes; /* 8 or 12 of them, as the field is long */
        const char *why;
        char type;
} Patch;

static size_t field_size(size_t offset)
{
        return offset == SIZE || offset == TIME ? 12 : 8;
}

static void begin_patched(Text *t, const Patch *p)
{
        aci_begin(t);
        aci_entry(t, (AciEntry){.name = "rootfs/x", .type = p->type ?: '0', .mode = 0644});
        patch(t, p->offset, p->bytes, field_size(p->offset));
}

TEST(invalid_numbers)
{
        static const Patch patches[] = {
                        {SIZE, "none\0\0\0\0\0\0\0\0", "the size in its header is not a number ('none')"},
                        {SIZE, "12x40000000\0", "the size in its header is not a number ('12x40000000')"},
                        {SIZE, "00000000008\0", "the size in its header is not a number ('00000000008')"},
                        {SIZE, "\0\0\0\0\0\0\0\0\0\0\0\0", "the size in its header is not a number ('')"},
                        {SIZE, "            ", "the size in its header is not a number"},
                        {SIZE, "0\0x\0\0\0\0\0\0\0\0\0", "the size in its header is not a number ('0')"},
                        {SIZE,
                         "\0"
                         "0000000001",
                         "the size in its header is not a number"},
                        {MODE, "rw-r--r\0", "the mode in its header is not a number ('rw-r--r')"},
                        {OWNER, "0x10000\0", "the owner in its header is not a number ('0x10000')"},
                        {OWNER, "\377\377\377\377\377\377\377\376",
                         "the owner in its header is negative (-2)"},
                        {GROUP, "root\0\0\0\0", "the group in its header is not a number ('root')"},
                        {TIME, "yesterday\0\0\0", "the modification time in its header is not a number"},
                        {TIME, "\377\0\0\0\0\0\0\0\0\0\0\0",
                         "the modification time in its header is out of range"},
                        {MAJOR, "c      \0", "the device's major number in its header is not a number", '3'},
                        {MINOR, "0000009\0", "the device's minor number in its header is not a number", '4'},
                        {SIZE, "0000000000a\0", "the size in its header is not a number", '5'},
                        {SIZE, "0000000000a\0", "the size in its header is not a number", '2'},
        };

        for (size_t k = 0; k < ELEMENTSOF(patches); k++) {
                FIXTURE(f);
                begin_patched(&f.tar, &patches[k]);
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, "'rootfs/x': ");
                ASSERT_CONTAINS(f.error.message, patches[k].why);
        }
}

/* Those libarchive refuses itself. */
TEST(negative_sizes)
{
        static const char *const sizes[] = {"-0000000001",
                                            "\377\377\377\377\377\377\377\377\377\377\377\377"};

        for (size_t k = 0; k < ELEMENTSOF(sizes); k++) {
                const Patch p = {SIZE, sizes[k], NULL, 0};
                FIXTURE(f);
                begin_patched(&f.tar, &p);
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, "negative size");
        }
        FIXTURE(f);
        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "size=-1");
        aci_file(&f.tar, "rootfs/x", "");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "size attribute is negative");
}

/* What comes after it would be lost without a word. */
TEST(size_that_hides_what_follows)
{
        FIXTURE(f);

        aci_begin(&f.tar);
        aci_entry(&f.tar, (AciEntry){.name = "rootfs/x", .type = '0', .mode = 0644});
        patch(&f.tar, SIZE, "q0000000002", 12);
        static const char content[1024];
        text_add_bytes(&f.tar, content, sizeof(content));
        aci_file(&f.tar, "rootfs/lost", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "the size in its header is not a number ('q0000000002')");
}

TEST(numbers_that_are_valid)
{
        static const Patch patches[] = {
                        {SIZE, "          0\0", NULL},
                        {SIZE, "0           ", NULL},
                        {SIZE, "000000000000", NULL},
                        {SIZE, "\200\0\0\0\0\0\0\0\0\0\0\0", NULL},
                        {SIZE, "\0\0\0\0\0\0\0\0\0\0\0\0", NULL, '5'},
                        {MODE, "   644 \0", NULL},
                        {MODE, "0000644 ", NULL},
                        {OWNER, "\0\0\0\0\0\0\0\0", NULL},
                        {OWNER, "\200\0\0\0\0\0\0\1", NULL},
                        {GROUP, "        ", NULL},
                        {TIME, "\377\377\377\377\377\377\377\377\377\377\377\376", NULL},
                        {TIME, "\200\0\0\0\0\0\0\2\100\100\100\100", NULL},
                        {MAJOR, "\0\0\0\0\0\0\0\0", NULL},
                        {MAJOR, "garbage", NULL}, /* of no meaning for a file */
        };

        for (size_t k = 0; k < ELEMENTSOF(patches); k++) {
                _cleanup_(image_freep) Image *i = NULL;
                FIXTURE(f);
                begin_patched(&f.tar, &patches[k]);
                aci_end(&f.tar);
                ASSERT_IMPORTS(f, i);
        }
}

TEST(times_before_the_epoch)
{
        _cleanup_(image_freep) Image *i = NULL;
        const Patch p = {TIME, "\377\377\377\377\377\377\377\377\377\377\377\376", NULL};
        struct stat st;
        FIXTURE(f);

        begin_patched(&f.tar, &p);
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_OK(fstatat(i->dir_fd, "rootfs/x", &st, 0));
        ASSERT_EQ(st.st_mtime, -2);
}

TEST(pax_records)
{
        static const struct {
                const char *record, *why;
        } cases[] = {
                        {"size=12x", "its PAX record size is not a number ('12x')"},
                        {"size=", "its PAX record size is not a number ('')"},
                        {"size=0x10", "its PAX record size is not a number ('0x10')"},
                        {"uid=99999999999999999999", "its PAX record uid is not a number"},
                        {"uid=root", "its PAX record uid is not a number ('root')"},
                        {"gid=1.5", "its PAX record gid is not a number ('1.5')"},
                        {"mtime=soon", "its PAX record mtime is not a number ('soon')"},
                        {"mtime=1.5.5", "its PAX record mtime is not a number ('1.5.5')"},
                        {"mtime=", "its PAX record mtime is not a number ('')"},
                        {"atime=--1", "its PAX record atime is not a number ('--1')"},
                        {"SCHILY.devmajor=x", "its PAX record SCHILY.devmajor is not a number ('x')"},
                        {"GNU.sparse.realsize=1k",
                         "its PAX record GNU.sparse.realsize is not a number ('1k')"},
                        /* Names are as untrusted as values, and are shown as such. */
                        {"GNU.sparse.\037\235p=\033[2J",
                         "its PAX record GNU.sparse.\\x1f\\x9dp is not a number ('\\x1b[2J')"},
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                FIXTURE(f);
                aci_begin(&f.tar);
                ACI_PAX(&f.tar, cases[k].record);
                aci_file(&f.tar, "rootfs/x", "");
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, cases[k].why);
        }
}

TEST(pax_records_that_are_valid)
{
        _cleanup_(image_freep) Image *i = NULL;
        struct stat st;
        FIXTURE(f);

        aci_begin(&f.tar);
        ACI_PAX(&f.tar, "mtime=-12.25", "atime=3", "ctime=1.123456789", "size=2", "comment=anything at all",
                "SCHILY.ino=x");
        aci_entry(&f.tar,
                  (AciEntry){.name = "rootfs/x", .type = '0', .mode = 0644, .content = "ab", .size = 2});
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
        ASSERT_OK(fstatat(i->dir_fd, "rootfs/x", &st, 0));
        ASSERT_EQ(st.st_size, 2);
        ASSERT_EQ(st.st_atim.tv_sec, 3);
}

static void add_global(Text *t, const char *record)
{
        size_t before = t->size;

        ACI_PAX(t, record);
        t->data[before + TYPE] = 'g';
        aci_checksum((unsigned char *) t->data + before);
}

/* They would apply to all entries that follow, and libarchive ignores them. */
TEST(global_pax_records)
{
        static const char *const refused[] = {"size=1", "path=rootfs/other",     "linkpath=x",
                                              "uid=1",  "SCHILY.xattr.user.x=y", "GNU.sparse.major=1"};
        _cleanup_(image_freep) Image *i = NULL;

        for (size_t k = 0; k < ELEMENTSOF(refused); k++) {
                FIXTURE(f);
                aci_begin(&f.tar);
                add_global(&f.tar, refused[k]);
                aci_file(&f.tar, "rootfs/x", "");
                aci_end(&f.tar);
                ASSERT_REFUSED(f, -EBADMSG, "the archive has a global PAX record ");
        }
        FIXTURE(f);
        aci_begin(&f.tar);
        add_global(&f.tar, "comment=0123456789abcdef");
        add_global(&f.tar, "mtime=1000000000");
        aci_file(&f.tar, "rootfs/x", "");
        aci_end(&f.tar);
        ASSERT_IMPORTS(f, i);
}

static void add_sparse(Text *t, const char *numbers, const char *real_size)
{
        unsigned char *header;

        aci_entry(t, (AciEntry){.name = "rootfs/x",
                                .type = 'S',
                                .mode = 0644,
                                .size = 512,
                                .no_content = true});
        header = (unsigned char *) t->data + t->size - 512;
        memcpy(header + 257, "ustar  ", 8);
        memset(header + 329, 0, 512 - 329);
        memcpy(header + 386, numbers, 24);
        memcpy(header + 386 + 24,
               "00000002000\0"
               "00000000000\0",
               24);
        memcpy(header + 483, real_size, 12);
        aci_checksum(header);
        static const char content[512] = "x";
        text_add_bytes(t, content, sizeof(content));
        aci_end(t);
}

TEST(maps_of_holes)
{
        static const struct {
                const char *numbers, *real_size, *why;
        } cases[] = {
                        {"x0000000000\0"
                         "00000001000\0",
                         "00000002000", "the sparse map in its header"},
                        {"00000000000\0"
                         "0000000100q\0",
                         "00000002000", "the sparse map in its header"},
                        {"00000000000\0"
                         "00000001000\0",
                         "2k\0\0\0\0\0\0\0\0\0", "the whole size in its header is not a number ('2k')"},
        };
        _cleanup_(image_freep) Image *i = NULL;
        struct stat st;

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                FIXTURE(f);
                aci_begin(&f.tar);
                add_sparse(&f.tar, cases[k].numbers, cases[k].real_size);
                ASSERT_REFUSED(f, -EBADMSG, cases[k].why);
        }
        FIXTURE(f);
        aci_begin(&f.tar);
        add_sparse(&f.tar,
                   "00000000000\0"
                   "00000001000\0",
                   "00000002000");
        ASSERT_IMPORTS(f, i);
        ASSERT_OK(fstatat(i->dir_fd, "rootfs/x", &st, 0));
        ASSERT_EQ(st.st_size, 1024);
}

/* Headers that cross the end of a block of the pipeline, of 256 KiB, at every offset. */
TEST(headers_across_blocks)
{
        _cleanup_free_ char *name = malloc(3001), *filler = calloc(1, 256U << 10);

        ASSERT_TRUE(name && filler);
        memcpy(name, "rootfs/", 7);
        for (size_t k = 7; k < 3000; k++)
                name[k] = k % 100 == 0 ? '/' : 'n';
        name[3000] = 0;
        for (size_t size = (256U << 10) - 16 * 512; size <= (256U << 10); size += 512) {
                _cleanup_(image_freep) Image *i = NULL;
                struct stat st;
                FIXTURE(f);
                aci_begin(&f.tar);
                aci_entry(&f.tar, (AciEntry){.name = "rootfs/filler",
                                             .type = '0',
                                             .mode = 0644,
                                             .content = filler,
                                             .size = size - f.tar.size - 512});
                aci_entry(&f.tar,
                          (AciEntry){.name = "././@LongLink", .type = 'L', .content = name, .size = 3001});
                ACI_PAX(&f.tar, "mtime=12");
                aci_file(&f.tar, "x", "content");
                aci_end(&f.tar);
                ASSERT_IMPORTS(f, i);
                ASSERT_OK(fstatat(i->dir_fd, name, &st, 0));
                ASSERT_EQ(st.st_mtime, 12);
        }
}

int main(void)
{
        RUN(invalid_numbers);
        RUN(negative_sizes);
        RUN(size_that_hides_what_follows);
        RUN(numbers_that_are_valid);
        RUN(times_before_the_epoch);
        RUN(pax_records);
        RUN(pax_records_that_are_valid);
        RUN(global_pax_records);
        RUN(maps_of_holes);
        RUN(headers_across_blocks);
        return TEST_END();
}
