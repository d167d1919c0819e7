/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records the parts of an archive other than the content of files, so that the archive can be reproduced.
 *
 * Two archives of the same files are rarely the same bytes: the order, the kind of headers, padding and the
 * zeros at the end depend on the packing tool, and the image's ID is the hash of just these bytes. So while
 * an archive is unpacked, all of it is copied to "tar.zst" except for the content of regular files, for
 * which the path and the size are recorded; recipe_replay() combines both again. A file whose content is not
 * stored literally in the archive (a sparse file, for instance) is kept like the rest. Leaving out content
 * only reduces the size: the replayed bytes are the same in any case.
 *
 * The tar reader does not report the offset of content, but has consumed exactly the headers when it returns
 * an entry, so the offset is the number of bytes consumed. It is used only if the header right before it
 * states the same size.
 *
 * The file, compressed with zstd, has a line with the version, and then: 'R', the size and the bytes; 'F',
 * the size of a file's content, the size of its path, the path; 'E' at the end. Numbers are 64 bits, little
 * endian.
 */

#include <endian.h>

#include "library/libzstd.h"
#include "prepare/unpack/record.h"
#include "prepare/unpack/unpack-internal.h"

#define HEADER_SIZE 512U
#define LEVEL 3

struct Recipe {
        int fd;
        Unpack *unpack; /* whose budget is charged for the file */
        ZSTD_CCtx *zstd;
        void *output;
        size_t output_size;
        const unsigned char *block; /* of the stream, and its offset there */
        size_t block_size;
        uint64_t offset;
        uint64_t done;                     /* the stream is processed up to here */
        unsigned char header[HEADER_SIZE]; /* the end of the previous block */
};

static int write_output(Recipe *r, size_t n, Error *e)
{
        int k = unpack_charge_bytes(r->unpack, n, e);

        if (k >= 0 && (k = loop_write(r->fd, r->output, n)) < 0)
                return error_set_errno(e, k, "Cannot record the structure of the archive");
        return k;
}

/* END: of all. */
static int write_bytes(Recipe *r, const void *p, size_t n, bool end, Error *e)
{
        ZSTD_inBuffer in = {p, n, 0};
        size_t left;

        do {
                ZSTD_outBuffer out = {r->output, r->output_size, 0};
                left = ZSTD_compressStream2(r->zstd, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
                if (ZSTD_isError(left))
                        return error_set(e, -EIO, "Cannot compress the structure of the archive: %s",
                                         ZSTD_getErrorName(left));
                int k = write_output(r, out.pos, e);
                if (k < 0)
                        return k;
        } while (in.pos < in.size || (end && left > 0));
        return 0;
}

int recipe_new(Unpack *u, Recipe **ret, Error *e)
{
        _cleanup_(recipe_freep) Recipe *r = calloc(1, sizeof(Recipe));

        if (!r)
                return error_oom(e);
        r->unpack = u;
        r->fd = openat(u->dir_fd, RECIPE_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (r->fd < 0)
                return error_set_errno(e, errno, "Cannot create a file in the store");
        int k = library_load(&zstd_library, e);
        if (k < 0)
                return k;
        r->zstd = ZSTD_createCCtx();
        r->output_size = ZSTD_CStreamOutSize();
        r->output = malloc(r->output_size);
        if (!r->zstd || !r->output ||
            ZSTD_isError(ZSTD_CCtx_setParameter(r->zstd, ZSTD_c_compressionLevel, LEVEL)) ||
            ZSTD_isError(ZSTD_CCtx_setParameter(r->zstd, ZSTD_c_checksumFlag, 1)))
                return error_oom(e);
        k = write_bytes(r, RECIPE_HEADER, strlen(RECIPE_HEADER), false, e);
        if (k < 0)
                return k;
        *ret = TAKE_PTR(r);
        return 0;
}

Recipe *recipe_free(Recipe *r)
{
        if (!r)
                return NULL;
        safe_close(r->fd);
        if (r->zstd)
                (void) ZSTD_freeCCtx(r->zstd);
        free(r->output);
        free(r);
        return NULL;
}

static int write_number(Recipe *r, uint64_t n, Error *e)
{
        uint64_t le = htole64(n);

        return write_bytes(r, &le, sizeof(le), false, e);
}

/* Keeps the stream up to END, which is in the block. */
static int keep(Recipe *r, uint64_t end, Error *e)
{
        if (r->done >= end)
                return 0;
        int k = write_bytes(r, "R", 1, false, e);
        if (k >= 0)
                k = write_number(r, end - r->done, e);
        if (k >= 0)
                k = write_bytes(r, r->block + (r->done - r->offset), (size_t) (end - r->done), false, e);
        r->done = end;
        return k;
}

int recipe_end_block(Recipe *r, Error *e)
{
        int k = keep(r, r->offset + r->block_size, e);

        if (k >= 0 && r->block_size >= HEADER_SIZE)
                memcpy(r->header, r->block + r->block_size - HEADER_SIZE, HEADER_SIZE);
        r->offset += r->block_size;
        r->block = NULL;
        r->block_size = 0;
        return k;
}

void recipe_begin_block(Recipe *r, const void *p, size_t n)
{
        r->block = p;
        r->block_size = n;
}

/* --- Content ------------------------------------------------------------------------------------------- */

/* A number of a header: octal digits, or binary with the first bit set. */
static uint64_t read_header_number(const unsigned char *p, size_t n)
{
        uint64_t x = 0;

        if (p[0] & 0x80) {
                for (size_t i = 1; i < n; i++)
                        x = x << 8 | p[i];
                return x;
        }
        while (n > 0 && *p == ' ')
                p++, n--;
        for (; n > 0 && *p >= '0' && *p <= '7'; p++, n--)
                x = x << 3 | (uint64_t) (*p - '0');
        return x;
}

/* Whether the header that ends at START is that of a regular file of that size. */
static bool header_agrees(const Recipe *r, uint64_t start, uint64_t size)
{
        const unsigned char *h = r->header;

        if (start < r->offset || start > r->offset + r->block_size)
                return false;
        if (start - r->offset >= HEADER_SIZE)
                h = r->block + (start - r->offset) - HEADER_SIZE;
        else if (start > r->offset || start == 0)
                return false;
        unsigned char type = h[156];
        return (type == '0' || type == 0 || type == '7') && read_header_number(h + 124, 12) == size;
}

int recipe_content(Recipe *r, uint64_t start, uint64_t size, const char *path, Error *e)
{
        if (size == 0 || r->done > start || !header_agrees(r, start, size))
                return 0;
        int k = keep(r, start, e);
        if (k >= 0)
                k = write_bytes(r, "F", 1, false, e);
        if (k >= 0)
                k = write_number(r, size, e);
        if (k >= 0)
                k = write_number(r, strlen(path), e);
        if (k >= 0)
                k = write_bytes(r, path, strlen(path), false, e);
        r->done = start + size;
        return k;
}

int recipe_finish(Recipe *r, Error *e)
{
        int k = recipe_end_block(r, e);

        return k < 0 ? k : write_bytes(r, "E", 1, true, e);
}
