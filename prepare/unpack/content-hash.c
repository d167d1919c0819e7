/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hash of a file's content, computed while the content is written.
 *
 * For most files it is the SHA-256 of all bytes, as sha256sum shows it. A file with holes may be far larger
 * than the data written to it, so hashing its zeros could take hours; its hash covers those blocks of 64 KiB
 * that are not all zeros, each preceded by its number, and finally the size. Both depend on the content
 * only, not on the placement of holes by the file system.
 */

#include <endian.h>

#include "library/libcrypto.h"
#include "prepare/unpack/record.h"

#define SPARSE_BLOCK (64U * 1024U)

static const unsigned char zeros[SPARSE_BLOCK];

int content_hash_init(ContentHash *h, bool sparse)
{
        h->sparse = sparse;
        h->end = h->block = 0;
        h->failed = false;
        if (!h->context)
                h->context = EVP_MD_CTX_new();
        if (sparse && !h->buffer)
                h->buffer = malloc(SPARSE_BLOCK);
        if (!h->context || (sparse && !h->buffer))
                return -ENOMEM;
        if (sparse)
                memset(h->buffer, 0, SPARSE_BLOCK);
        return EVP_DigestInit_ex(h->context, EVP_sha256(), NULL) == 1 ? 0 : -EIO;
}

void content_hash_done(ContentHash *h)
{
        if (h->context)
                EVP_MD_CTX_free(h->context);
        free(h->buffer);
        *h = (ContentHash){};
}

static void update(ContentHash *h, const void *p, size_t n)
{
        h->failed = h->failed || EVP_DigestUpdate(h->context, p, n) != 1;
}

static void update_number(ContentHash *h, uint64_t n)
{
        uint64_t le = htole64(n);

        update(h, &le, sizeof(le));
}

static void finish_block(ContentHash *h)
{
        if (memcmp(h->buffer, zeros, SPARSE_BLOCK) == 0)
                return;
        update_number(h, h->block);
        update(h, h->buffer, SPARSE_BLOCK);
        memset(h->buffer, 0, SPARSE_BLOCK);
}

static void add_sparse(ContentHash *h, uint64_t offset, const unsigned char *p, size_t n)
{
        while (n > 0) {
                size_t at = offset % SPARSE_BLOCK, part = MIN(n, SPARSE_BLOCK - at);

                if (offset / SPARSE_BLOCK != h->block) {
                        finish_block(h);
                        h->block = offset / SPARSE_BLOCK;
                }
                memcpy(h->buffer + at, p, part);
                offset += part;
                p += part;
                n -= part;
        }
}

/* The gaps between the parts that were added are zeros. */
static void fill_up(ContentHash *h, uint64_t offset)
{
        while (h->end < offset) {
                size_t n = (size_t) MIN(offset - h->end, (uint64_t) SPARSE_BLOCK);
                update(h, zeros, n);
                h->end += n;
        }
}

void content_hash_add(ContentHash *h, uint64_t offset, const void *p, size_t n)
{
        if (h->sparse) {
                add_sparse(h, offset, p, n);
                return;
        }
        fill_up(h, offset);
        update(h, p, n);
        h->end = offset + n;
}

int content_hash_finish(ContentHash *h, uint64_t size, unsigned char ret[CONTENT_HASH_SIZE])
{
        unsigned n;

        if (h->sparse) {
                finish_block(h);
                update_number(h, size);
        } else
                fill_up(h, size);
        return !h->failed && EVP_DigestFinal_ex(h->context, ret, &n) == 1 && n == CONTENT_HASH_SIZE ? 0
                                                                                                    : -EIO;
}

/* --- Files --------------------------------------------------------------------------------------------- */

/* Finds the next data; without support of the file system, all of the rest is data. */
static int next_data(int fd, uint64_t from, uint64_t size, uint64_t *ret_start, uint64_t *ret_end)
{
        off_t start = lseek(fd, (off_t) from, SEEK_DATA);

        if (start < 0 && errno == ENXIO) {
                *ret_start = *ret_end = size;
                return 0;
        }
        off_t end = start < 0 ? -1 : lseek(fd, start, SEEK_HOLE);
        if (start < 0 || end < 0) {
                if (errno != EINVAL)
                        return -errno;
                start = (off_t) from;
                end = (off_t) size;
        }
        *ret_start = (uint64_t) start;
        *ret_end = MIN((uint64_t) end, size);
        return 0;
}

static int read_range(ContentHash *h, int fd, uint64_t offset, uint64_t end, void *buffer, size_t size,
                      int (*progress)(uint64_t n, void *userdata), void *userdata)
{
        while (offset < end) {
                ssize_t n = pread(fd, buffer, (size_t) MIN(end - offset, (uint64_t) size), (off_t) offset);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EBADMSG; /* the file was truncated */
                content_hash_add(h, offset, buffer, (size_t) n);
                offset += (uint64_t) n;
                int r = progress ? progress((uint64_t) n, userdata) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

int content_hash_file(ContentHash *h, int fd, uint64_t size, bool sparse,
                      int (*progress)(uint64_t n, void *userdata), void *userdata,
                      unsigned char ret[CONTENT_HASH_SIZE])
{
        static const size_t buffer_size = 256U * 1024U;
        _cleanup_free_ void *buffer = malloc(buffer_size);

        int r = buffer ? content_hash_init(h, sparse) : -ENOMEM;
        for (uint64_t start = 0, end = 0; r >= 0 && end < size;) {
                if (sparse)
                        r = next_data(fd, end, size, &start, &end);
                else
                        end = size;
                if (r >= 0)
                        r = read_range(h, fd, start, end, buffer, buffer_size, progress, userdata);
        }
        return r < 0 ? r : content_hash_finish(h, size, ret);
}
