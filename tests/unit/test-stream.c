/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compressed images: the same image by any compression; damage, truncation and additions are noticed. */

#include <endian.h>
#include <openssl/evp.h>
#include <zstd.h>

#include "tests/unit/store-fixture.h"

static const struct {
        const char *name;
        int filter;
} compressions[] = {
                {"gzip", ARCHIVE_FILTER_GZIP},
                {"bzip2", ARCHIVE_FILTER_BZIP2},
                {"xz", ARCHIVE_FILTER_XZ},
                {"zstd", ARCHIVE_FILTER_ZSTD},
};

/* Incompressible content, longer than the blocks that streams are read in. */
static void make_image(Text *t)
{
        _cleanup_free_ char *content = malloc(300000);
        uint32_t x = 1;

        for (size_t i = 0; i < 300000; i++) {
                x = x * 1664525U + 1013904223U;
                content[i] = (char) (x >> 24);
        }
        aci_begin(t);
        aci_entry(t, (AciEntry){.name = "rootfs/x",
                                .type = '0',
                                .mode = 0644,
                                .size = 300000,
                                .content = content});
        aci_end(t);
}

static char *hash(const Text *t)
{
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned n;
        char *id = NULL;
        _cleanup_free_ char *hex = NULL;

        if (EVP_Digest(t->data, t->size, digest, &n, EVP_sha512(), NULL) == 1)
                hex = hex_encode(digest, n);
        return hex && xasprintf(&id, "sha512-%s", hex) >= 0 ? id : NULL;
}

TEST(same_image_by_any_compression)
{
        _cleanup_text_ Text plain = {};
        _cleanup_(image_freep) Image *first = NULL;
        _cleanup_free_ char *id = NULL;
        FIXTURE(f);

        make_image(&plain);
        id = hash(&plain);
        for (size_t k = 0; k < ELEMENTSOF(compressions); k++) {
                _cleanup_(image_freep) Image *i = NULL;
                text_done(&f.tar);
                ASSERT_OK(aci_compress(&plain, compressions[k].filter, &f.tar));
                ASSERT_IMPORTS(f, i);
                ASSERT_STREQ(i->id, id);
                ASSERT_EQ(i->size, plain.size);
                if (k == 0)
                        ASSERT_EQ(i->info.archive_size, f.tar.size);
        }
        text_done(&f.tar);
        text_add_bytes(&f.tar, plain.data, plain.size);
        ASSERT_IMPORTS(f, first);
        ASSERT_STREQ(first->id, id);
        ASSERT_EQ(count_entries(f.store, "images"), 1);
}

TEST(truncated)
{
        _cleanup_text_ Text plain = {};

        make_image(&plain);
        for (size_t k = 0; k < ELEMENTSOF(compressions); k++) {
                FIXTURE(f);
                ASSERT_OK(aci_compress(&plain, compressions[k].filter, &f.tar));
                size_t whole = f.tar.size;
                for (unsigned cut = 1; cut <= whole; cut = cut * 3 + 1) {
                        f.tar.size = whole - cut;
                        ASSERT_REFUSED(f, -EBADMSG, "");
                }
                f.tar.size = 12;
                ASSERT_REFUSED(f, -EBADMSG, compressions[k].name);
        }
}

TEST(damaged)
{
        _cleanup_text_ Text plain = {};

        make_image(&plain);
        for (size_t k = 0; k < ELEMENTSOF(compressions); k++) {
                /* libarchive writes zstd without checksums; see zstd_checksum. */
                if (compressions[k].filter == ARCHIVE_FILTER_ZSTD)
                        continue;
                FIXTURE(f);
                ASSERT_OK(aci_compress(&plain, compressions[k].filter, &f.tar));
                /* In the middle, and in the checksum at the end. */
                f.tar.data[f.tar.size / 2] ^= 0x10;
                ASSERT_REFUSED(f, -EBADMSG, "");
                f.tar.data[f.tar.size / 2] ^= 0x10;
                f.tar.data[f.tar.size - 6] ^= 0x10;
                ASSERT_REFUSED(f, -EBADMSG, compressions[k].name);
        }
}

TEST(bytes_after_end)
{
        _cleanup_text_ Text plain = {};

        make_image(&plain);
        for (size_t k = 0; k < ELEMENTSOF(compressions); k++) {
                FIXTURE(f);
                ASSERT_OK(aci_compress(&plain, compressions[k].filter, &f.tar));
                text_add(&f.tar, "some more bytes");
                ASSERT_REFUSED(f, -EBADMSG, compressions[k].name);
                for (unsigned n = 0; n < 300000; n++)
                        text_add(&f.tar, "x");
                ASSERT_REFUSED(f, -EBADMSG, compressions[k].name);
        }
}

/* Output of parallel compressors: several streams, one after the other. */
TEST(pieces)
{
        _cleanup_text_ Text plain = {};
        _cleanup_free_ char *id = NULL;

        make_image(&plain);
        id = hash(&plain);
        for (size_t k = 0; k < ELEMENTSOF(compressions); k++) {
                _cleanup_(image_freep) Image *i = NULL;
                FIXTURE(f);
                for (size_t n = 0; n < plain.size; n += 100000) {
                        const Text piece = {.data = plain.data + n,
                                            .size = MIN((size_t) 100000, plain.size - n)};
                        ASSERT_OK(aci_compress(&piece, compressions[k].filter, &f.tar));
                }
                ASSERT_IMPORTS(f, i);
                ASSERT_STREQ(i->id, id);
        }
}

TEST(compressed_twice)
{
        _cleanup_text_ Text plain = {};

        aci_begin(&plain);
        aci_end(&plain);
        for (size_t k = 0; k < ELEMENTSOF(compressions); k++)
                for (size_t j = 0; j < ELEMENTSOF(compressions); j++) {
                        _cleanup_text_ Text once = {};
                        FIXTURE(f);
                        ASSERT_OK(aci_compress(&plain, compressions[k].filter, &once));
                        ASSERT_OK(aci_compress(&once, compressions[j].filter, &f.tar));
                        ASSERT_REFUSED(f, -EBADMSG, "");
                }
}

/* A ratio of a thousand to one; also in the padding after the archive. */
TEST(a9_bomb)
{
        static char zeros[1 << 20];
        _cleanup_text_ Text plain = {};
        FIXTURE(f);

        aci_begin(&plain);
        aci_end(&plain);
        for (unsigned k = 0; k < 66; k++)
                text_add_bytes(&plain, zeros, sizeof(zeros));
        ASSERT_OK(aci_compress(&plain, ARCHIVE_FILTER_GZIP, &f.tar));
        ASSERT_LT(f.tar.size, 100000);
        ASSERT_REFUSED(f, -EBADMSG, "padded with more than");
}

TEST(a9_longer_than_the_store)
{
        _cleanup_(pipeline_freep) Pipeline *p = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        const PipelineOptions o = {.size_max = 600000};
        static char zeros[1 << 20];
        const void *block;
        ssize_t n;

        _cleanup_close_ int fd = aci_fd(zeros, sizeof(zeros));
        ASSERT_OK(pipeline_new(fd, &o, &p, &e));
        while ((n = pipeline_next(p, &block, &e)) > 0)
                ;
        ASSERT_ERR(n, -ENOSPC);
        ASSERT_CONTAINS(e.message, "does not fit into the free space of the store (600000 bytes)");
}

/* --- zstd: what the others have not -------------------------------------------------------------------- */

static void add_skippable(Text *t, const char *content)
{
        uint32_t head[] = {htole32(ZSTD_MAGIC_SKIPPABLE_START + 3), htole32((uint32_t) strlen(content))};

        text_add_bytes(t, head, sizeof(head));
        text_add(t, content);
}

static void add_zstd(Text *t, const void *p, size_t n, int window_log)
{
        size_t room = ZSTD_compressBound(n);
        _cleanup_free_ void *buffer = malloc(room);
        ZSTD_CCtx *c = ZSTD_createCCtx();

        ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
        ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window_log);
        /* If the size is known the window is never larger. */
        ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0);
        ZSTD_inBuffer in = {.src = p, .size = n};
        ZSTD_outBuffer out = {.dst = buffer, .size = room};
        (void) ZSTD_compressStream2(c, &out, &in, ZSTD_e_continue);
        (void) ZSTD_compressStream2(c, &out, &in, ZSTD_e_end);
        text_add_bytes(t, buffer, out.pos);
        ZSTD_freeCCtx(c);
}

TEST(zstd_skippable_frames)
{
        _cleanup_(image_freep) Image *i = NULL;
        _cleanup_text_ Text plain = {};
        _cleanup_free_ char *id = NULL;
        FIXTURE(f);

        make_image(&plain);
        id = hash(&plain);
        add_skippable(&f.tar, "one of those that parallel compressors put in front");
        add_zstd(&f.tar, plain.data, 1000, 0);
        add_skippable(&f.tar, "");
        add_zstd(&f.tar, "", 0, 0);
        add_zstd(&f.tar, plain.data + 1000, plain.size - 1000, 0);
        add_skippable(&f.tar, "and behind");
        f.tar.size -= 3;
        ASSERT_REFUSED(f, -EBADMSG, "The zstd data ends too early");
        f.tar.size += 3;
        ASSERT_IMPORTS(f, i);
        ASSERT_STREQ(i->id, id);
}

TEST(zstd_checksum)
{
        _cleanup_text_ Text plain = {};
        FIXTURE(f);

        make_image(&plain);
        add_zstd(&f.tar, plain.data, plain.size, 0);
        f.tar.data[f.tar.size - 2] ^= 1;
        ASSERT_REFUSED(f, -EBADMSG, "The zstd data is damaged");
        f.tar.data[f.tar.size / 2] ^= 1;
        ASSERT_REFUSED(f, -EBADMSG, "");
        f.tar.data[f.tar.size / 2] ^= 1;
        f.tar.data[f.tar.size - 2] ^= 1;
        text_add(&f.tar, "\x27\xb5\x2f\xfd a frame of before the first release");
        ASSERT_REFUSED(f, -EBADMSG, "Data follows the end of the zstd data");
}

TEST(zstd_window)
{
        _cleanup_text_ Text plain = {};
        FIXTURE(f);

        make_image(&plain);
        add_zstd(&f.tar, plain.data, plain.size, 28);
        ASSERT_REFUSED(f, -E2BIG, "a window of more than 128 MiB");
        ASSERT_CONTAINS(f.error.hint, "--long=27");
}

TEST(a9_zstd_bomb)
{
        static char zeros[1 << 20];
        _cleanup_text_ Text plain = {};
        FIXTURE(f);

        aci_begin(&plain);
        aci_end(&plain);
        for (unsigned k = 0; k < 66; k++)
                text_add_bytes(&plain, zeros, sizeof(zeros));
        add_zstd(&f.tar, plain.data, plain.size, 0);
        ASSERT_LT(f.tar.size, 10000);
        ASSERT_REFUSED(f, -EBADMSG, "padded with more than");
}

/* N MiB of C, as frames of a few bytes. */
static void add_filler(Text *t, char c, unsigned n)
{
        static char block[1 << 20];
        _cleanup_text_ Text frame = {};

        memset(block, c, sizeof(block));
        add_zstd(&frame, block, sizeof(block), 0);
        while (n-- > 0)
                text_add_bytes(t, frame.data, frame.size);
}

/* A hard link with N MiB of content, which is skipped. */
static void make_skipping(Text *t, unsigned n)
{
        _cleanup_text_ Text head = {}, end = {};

        text_done(t);
        aci_begin(&head);
        aci_file(&head, "rootfs/a", "a");
        ACI_PAX(&head, "comment=so that the content of links counts");
        aci_entry(&head, (AciEntry){.name = "rootfs/b",
                                    .type = '1',
                                    .mode = 0644,
                                    .link = "rootfs/a",
                                    .size = (size_t) n << 20,
                                    .no_content = true});
        add_zstd(t, head.data, head.size, 0);
        add_filler(t, 0, n);
        aci_end(&end);
        add_zstd(t, end.data, end.size, 0);
}

/* N entries, each with a header of 900 KiB. */
static void make_headers(Text *t, unsigned n)
{
        _cleanup_text_ Text begin = {}, end = {};

        text_done(t);
        aci_begin(&begin);
        add_zstd(t, begin.data, begin.size, 0);
        for (unsigned i = 0; i < n; i++) {
                _cleanup_text_ Text head = {}, tail = {};
                char name[32], record[32];
                size_t size = 900 << 10;

                snprintf(name, sizeof(name), "rootfs/%u", i);
                snprintf(record, sizeof(record), "%zu comment=", size);
                aci_entry(&head, (AciEntry){.name = "pax",
                                            .type = 'x',
                                            .mode = 0644,
                                            .size = size,
                                            .no_content = true});
                text_add(&head, record);
                while (head.size < 1024)
                        text_add(&head, "y");
                add_zstd(t, head.data, head.size, 0);
                for (size_t k = 512; k < size - 1; k++)
                        text_add(&tail, "y");
                text_add(&tail, "\n");
                aci_dir(&tail, name);
                add_zstd(t, tail.data, tail.size, 0);
        }
        aci_end(&end);
        add_zstd(t, end.data, end.size, 0);
}

/* Bytes that end up in no file, and so use no disk. */
TEST(a9_bytes_of_no_file)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        make_skipping(&f.tar, 300);
        ASSERT_LT(f.tar.size, 100000);
        ASSERT_REFUSED(f, -E2BIG, "The archive has more than 256 MiB that belong to no file");
        make_headers(&f.tar, 320);
        ASSERT_LT(f.tar.size, 200000);
        ASSERT_ERR(aci_import(f.store, &f.tar, &i, &f.error), -E2BIG);
        ASSERT_CONTAINS(f.error.message, "The archive has more than 256 MiB that belong to no file");
        make_skipping(&f.tar, 20);
        ASSERT_IMPORTS(f, i);
}

/* --- xz ------------------------------------------------------------------------------------------------ */

/* States the dictionary size SIZE ("LZMA2" in the description of the format) in the header of the only block. */
static void set_xz_dictionary(Text *t, unsigned char size)
{
        unsigned char *header = (unsigned char *) t->data + 12;
        uint32_t crc = UINT32_MAX;

        ASSERT_EQ(header[0], 2); /* (2 + 1) * 4 bytes */
        ASSERT_EQ(header[2], 0x21);
        header[4] = size;
        for (unsigned i = 0; i < 8; i++) {
                crc ^= header[i];
                for (unsigned k = 0; k < 8; k++)
                        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
        }
        crc = htole32(~crc);
        memcpy(header + 8, &crc, sizeof(crc));
}

TEST(a9_xz_dictionary)
{
        static const struct {
                unsigned char size;
                const char *needed; /* or NULL: it is allowed */
        } cases[] = {
                        {22, NULL}, {30, NULL}, {31, "192 MiB"}, {36, "1024 MiB"}, {40, "4096 MiB"},
        };
        _cleanup_text_ Text plain = {};

        make_image(&plain);
        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                _cleanup_(image_freep) Image *i = NULL;
                FIXTURE(f);
                ASSERT_OK(aci_compress(&plain, ARCHIVE_FILTER_XZ, &f.tar));
                set_xz_dictionary(&f.tar, cases[k].size);
                if (!cases[k].needed) {
                        ASSERT_IMPORTS(f, i);
                        continue;
                }
                ASSERT_REFUSED(f, -E2BIG, "The xz data takes");
                ASSERT_CONTAINS(f.error.message, cases[k].needed);
                ASSERT_CONTAINS(f.error.message, "130 MiB are allowed");
                ASSERT_CONTAINS(f.error.hint, "a dictionary of 128 MiB at most");
        }
}

/* In a later stream it counts, too. */
TEST(a9_xz_dictionary_of_second_stream)
{
        _cleanup_text_ Text plain = {}, second = {};
        FIXTURE(f);

        make_image(&plain);
        const Text first = {.data = plain.data, .size = 100000};
        const Text rest = {.data = plain.data + 100000, .size = plain.size - 100000};
        ASSERT_OK(aci_compress(&first, ARCHIVE_FILTER_XZ, &f.tar));
        ASSERT_OK(aci_compress(&rest, ARCHIVE_FILTER_XZ, &second));
        set_xz_dictionary(&second, 32);
        text_add_bytes(&f.tar, second.data, second.size);
        ASSERT_REFUSED(f, -E2BIG, "takes 256 MiB of memory to decompress");
}

/* Padding of a multiple of four bytes is part of the format. */
TEST(xz_padding)
{
        _cleanup_text_ Text plain = {};

        make_image(&plain);
        for (unsigned n = 1; n <= 8; n++) {
                _cleanup_(image_freep) Image *i = NULL;
                FIXTURE(f);
                ASSERT_OK(aci_compress(&plain, ARCHIVE_FILTER_XZ, &f.tar));
                text_add_bytes(&f.tar, "\0\0\0\0\0\0\0", n);
                if (n % 4 == 0)
                        ASSERT_IMPORTS(f, i);
                else
                        ASSERT_REFUSED(f, -EBADMSG, "The xz data is damaged or ends too early");
        }
}

/* Its first name is what lzip files begin with. */
TEST(tar_that_looks_compressed)
{
        FIXTURE(f);

        aci_file(&f.tar, "LZIP", "x");
        aci_end(&f.tar);
        ASSERT_REFUSED(f, -EBADMSG, "neither the manifest nor below rootfs");
}

TEST(no_image)
{
        static const struct {
                const char *content, *why;
        } cases[] = {
                        {"", "The input is not an archive: it is empty"},
                        {"\x7f"
                         "ELF\2\1\1",
                         "it is a program"},
                        {"PK\3\4 and so on", "it is a zip archive"},
                        {"\x28\xb5\x2f\xfd and so on", "The zstd data"},
                        {"\x04\x22\x4d\x18 and so on", "compressed with lz4"},
                        {"LZIP\1 and so on", "compressed with lzip"},
                        {"\x89LZO and so on", "compressed with lzop"},
                        {"LRZI and so on", "compressed with lrzip"},
                        {"\x1f\x9d and so on", "compressed with compress"},
                        {"7z\xbc\xaf\x27\x1c and so on", "a 7-Zip archive"},
                        {"-----BEGIN PGP SIGNATURE-----", "armored OpenPGP data"},
                        {"BZhello", "bzip2"},
                        {"x", "not a tar archive"},
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                FIXTURE(f);
                text_add(&f.tar, cases[k].content);
                ASSERT_REFUSED(f, -EBADMSG, cases[k].why);
        }
}

TEST(unreadable)
{
        _cleanup_(image_freep) Image *i = NULL;
        FIXTURE(f);

        ASSERT_FAILS(f, image_import(f.store, f.scratch.fd, "dir", &i, &f.error), -EISDIR,
                     "Cannot import dir: Cannot read");
        ASSERT_TRUE(store_is_empty(f.store));
}

int main(void)
{
        RUN(same_image_by_any_compression);
        RUN(truncated);
        RUN(damaged);
        RUN(bytes_after_end);
        RUN(pieces);
        RUN(compressed_twice);
        RUN(a9_bomb);
        RUN(a9_longer_than_the_store);
        RUN(zstd_skippable_frames);
        RUN(zstd_checksum);
        RUN(zstd_window);
        RUN(a9_zstd_bomb);
        RUN(a9_bytes_of_no_file);
        RUN(a9_xz_dictionary);
        RUN(a9_xz_dictionary_of_second_stream);
        RUN(xz_padding);
        RUN(tar_that_looks_compressed);
        RUN(no_image);
        RUN(unreadable);
        return TEST_END();
}
