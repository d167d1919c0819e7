/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compressing: the output is readable by streams, and does not depend on the sizes of writes. */

#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "prepare/pack/pack.h"
#include "tests/unit/test.h"

typedef struct Content {
        unsigned char *data;
        size_t size;
} Content;

static void content_done(Content *c)
{
        free(c->data);
}

/* A few random bits in a long sequence of zeros, which every library compresses quickly. */
static Content make_content(size_t size)
{
        Content c = {.data = malloc(size), .size = size};
        uint32_t x = 1;

        for (size_t i = 0; c.data && i < size; i++) {
                x = x * 1664525U + 1013904223U;
                c.data[i] = (unsigned char) (i % 65536 < 4096 ? x >> 28 : 0);
        }
        return c;
}

/* Compresses CONTENT, written in pieces of this size, into a new file. */
static int compress_to(Compression k, const Content *content, size_t piece, int *ret_fd, Error *e)
{
        _cleanup_close_ int fd = memfd_create("compressed", MFD_CLOEXEC);
        _cleanup_(compressor_freep) Compressor *c = NULL;

        if (fd < 0)
                return -errno;
        int r = compressor_new(k, fd, "the test", NULL, &c, e);
        for (size_t n = 0; r >= 0 && n < content->size; n += piece)
                r = compressor_write(c, content->data + n, MIN(piece, content->size - n), e);
        if (r >= 0)
                r = compressor_finish(c, e);
        if (r < 0)
                return r;
        (void) lseek(fd, 0, SEEK_SET);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static bool same_files(int a, int b)
{
        struct stat x, y;
        bool same;

        if (fstat(a, &x) < 0 || fstat(b, &y) < 0 || x.st_size != y.st_size)
                return false;
        size_t n = (size_t) x.st_size;
        void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, a, 0),
             *q = mmap(NULL, n, PROT_READ, MAP_PRIVATE, b, 0);
        same = p != MAP_FAILED && q != MAP_FAILED && memcmp(p, q, n) == 0;
        (void) munmap(p, n);
        (void) munmap(q, n);
        return same;
}

TEST(comes_back)
{
        _cleanup_(content_done) Content content = make_content(3 << 20);
        _cleanup_free_ unsigned char *back = malloc(content.size + 1);
        _cleanup_error_ Error e = ERROR_NULL;

        for (Compression k = 0; k < _COMPRESSION_MAX; k++) {
                _cleanup_(stream_freep) Stream *s = NULL;
                _cleanup_close_ int fd = -EBADF;
                struct stat st;

                ASSERT_OK(compress_to(k, &content, 77777, &fd, &e));
                ASSERT_OK(fstat(fd, &st));
                ASSERT_TRUE(k == COMPRESSION_NONE ? st.st_size == (off_t) content.size
                                                  : st.st_size < (off_t) content.size / 2);
                ASSERT_OK(stream_new(fd, -EBADF, NULL, &s, &e));
                ASSERT_EQ(stream_read(s, back, content.size + 1, &e), (ssize_t) content.size);
                ASSERT_EQ(memcmp(back, content.data, content.size), 0);
        }
}

TEST(nothing)
{
        static const Compression kinds[] = {COMPRESSION_GZIP, COMPRESSION_ZSTD};
        _cleanup_error_ Error e = ERROR_NULL;
        const Content content = {};
        char c;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                _cleanup_(stream_freep) Stream *s = NULL;
                _cleanup_close_ int fd = -EBADF;

                ASSERT_OK(compress_to(kinds[i], &content, 1, &fd, &e));
                ASSERT_OK(stream_new(fd, -EBADF, NULL, &s, &e));
                ASSERT_EQ(stream_read(s, &c, 1, &e), 0);
        }
}

TEST(same_however_it_is_cut)
{
        _cleanup_(content_done) Content content = make_content(3 << 20);
        _cleanup_error_ Error e = ERROR_NULL;

        for (Compression k = 0; k < _COMPRESSION_MAX; k++) {
                _cleanup_close_ int a = -EBADF, b = -EBADF, c = -EBADF;

                ASSERT_OK(compress_to(k, &content, content.size, &a, &e));
                ASSERT_OK(compress_to(k, &content, 4095, &b, &e));
                ASSERT_OK(compress_to(k, &content, 1000003, &c, &e));
                ASSERT_TRUE(same_files(a, b));
                ASSERT_TRUE(same_files(a, c));
        }
}

/* Long enough for several jobs of zstd and two blocks of xz. */
TEST(same_on_one_processor)
{
        _cleanup_(content_done) Content content = make_content(26 << 20);
        _cleanup_error_ Error e = ERROR_NULL;
        cpu_set_t before, one;
        int first = 0;

        ASSERT_OK(sched_getaffinity(0, sizeof(before), &before));
        if (CPU_COUNT(&before) < 2)
                TEST_SKIP("there is just one processor");
        while (!CPU_ISSET(first, &before))
                first++;
        CPU_ZERO(&one);
        CPU_SET(first, &one);
        for (Compression k = COMPRESSION_XZ; k <= COMPRESSION_ZSTD; k++) {
                _cleanup_close_ int a = -EBADF, b = -EBADF;

                ASSERT_OK(compress_to(k, &content, 1 << 20, &a, &e));
                ASSERT_OK(sched_setaffinity(0, sizeof(one), &one));
                int r = compress_to(k, &content, 100001, &b, &e);
                ASSERT_OK(sched_setaffinity(0, sizeof(before), &before));
                ASSERT_OK(r);
                ASSERT_TRUE(same_files(a, b));
        }
}

/* gzip: a time of 0, no flags and so no name. */
TEST(header_says_nothing)
{
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_close_ int fd = -EBADF;
        unsigned char head[10];
        const Content content = {.data = (unsigned char *) "x", .size = 1};

        ASSERT_OK(compress_to(COMPRESSION_GZIP, &content, 1, &fd, &e));
        ASSERT_EQ(loop_read(fd, head, sizeof(head)), 10);
        for (size_t i = 3; i < 9; i++)
                ASSERT_EQ(head[i], 0);
}

TEST(full_disk)
{
        _cleanup_(content_done) Content content = make_content(1 << 20);

        for (Compression k = 0; k < _COMPRESSION_MAX; k++) {
                _cleanup_close_ int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
                _cleanup_(compressor_freep) Compressor *c = NULL;
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_OK(compressor_new(k, fd, "the image 'x'", NULL, &c, &e));
                int r = compressor_write(c, content.data, content.size, &e);
                if (r >= 0)
                        r = compressor_finish(c, &e);
                ASSERT_ERR(r, -ENOSPC);
                ASSERT_CONTAINS(e.message, "Cannot write the image 'x'");
        }
}

TEST(names)
{
        static const char *const names[_COMPRESSION_MAX] = {"none", "gzip", "bzip2", "xz", "zstd"};

        for (int k = 0; k < _COMPRESSION_MAX; k++)
                ASSERT_EQ(compression_from_string(names[k]), k);
        ASSERT_ERR(compression_from_string("lz4"), -EINVAL);
        ASSERT_ERR(compression_from_string(""), -EINVAL);
}

int main(void)
{
        RUN(comes_back);
        RUN(nothing);
        RUN(same_however_it_is_cut);
        RUN(same_on_one_processor);
        RUN(header_says_nothing);
        RUN(full_disk);
        RUN(names);
        return TEST_END();
}
