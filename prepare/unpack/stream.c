/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads from a file descriptor, decompressing if needed.
 *
 * The compression is detected by the first bytes, never by a name. gzip goes through zlib directly, as
 * libarchive does not verify its checksums; bzip2, whose library always does and needs little memory, goes
 * through libarchive's filter; zstd and xz, whose memory has to be limited, are in stream-zstd.c and
 * stream-xz.c. Everything that is read must belong to the compressed data: bytes after its end are an error,
 * as is a premature end. Only one layer of compression is removed.
 */

#include <poll.h>
#include <sys/stat.h>

#include "prepare/unpack/stream-internal.h"

#define INPUT_SIZE (256U * 1024U)
#define MAGIC_SIZE 262U            /* up to and including the magic of tar headers */
#define PROGRESS_STEP (1ULL << 20) /* bytes between two calls of the progress hook */

static int wait_for_input(Stream *s, Error *e)
{
        struct pollfd p[] = {
                        {.fd = s->fd, .events = POLLIN},
                        {.fd = s->wake_fd, .events = POLLIN},
                        {.fd = operation_fd(s->hooks.operation), .events = POLLIN},
        };

        /* Regular files never block, and files other than pipes and sockets may not support poll(). */
        if (!s->is_regular && (s->wake_fd >= 0 || s->hooks.operation)) {
                while (poll(p, ELEMENTSOF(p), -1) < 0)
                        if (errno != EINTR)
                                return error_set_errno(e, errno, "Cannot wait for the image");
                if (p[1].revents != 0)
                        return error_set(e, -ECANCELED, "Reading the image was cancelled");
        }
        return operation_check(s->hooks.operation, e);
}

static int call_hooks(Stream *s, const void *p, size_t n, Error *e)
{
        const StreamHooks *h = &s->hooks;

        if (h->size_max > 0 && s->total > h->size_max)
                return error_set(e, -EFBIG, "The image is longer than %" PRIu64 " bytes", h->size_max);
        if (h->progress && (n == 0 || s->total - s->reported >= PROGRESS_STEP)) {
                h->progress(s->total, h->userdata);
                s->reported = s->total;
        }
        return h->observe && n > 0 ? h->observe(p, n, h->userdata, e) : 0;
}

static ssize_t read_some(Stream *s, void *buffer, size_t size, Error *e)
{
        ssize_t n;

        if (s->hooks.length > 0)
                size = (size_t) MIN((uint64_t) size, s->hooks.length - s->total);
        do {
                int r = wait_for_input(s, e);
                if (r < 0)
                        return r;
                n = read(s->fd, buffer, size);
        } while (n < 0 && (errno == EINTR || (errno == EAGAIN && (s->wake_fd >= 0 || s->hooks.operation))));
        if (n < 0)
                return error_set_errno(e, errno, "Cannot read the image");
        s->total += (uint64_t) n;
        s->eof = n == 0;
        int r = call_hooks(s, buffer, (size_t) n, e);
        return r < 0 ? r : n;
}

ssize_t stream_fill(Stream *s, Error *e)
{
        if (s->eof)
                return 0;
        ssize_t n = read_some(s, s->input, INPUT_SIZE, e);
        if (n < 0)
                return n;
        s->input_used = 0;
        s->input_size = (size_t) n;
        return n;
}

int stream_fill_to(Stream *s, size_t size, Error *e)
{
        size_t n = s->input_size - s->input_used;

        if (n >= size || s->eof)
                return 0;
        memmove(s->input, s->input + s->input_used, n);
        s->input_used = 0;
        s->input_size = n;
        while (s->input_size < size && !s->eof) {
                ssize_t k = read_some(s, s->input + s->input_size, INPUT_SIZE - s->input_size, e);
                if (k < 0)
                        return (int) k;
                s->input_size += (size_t) k;
        }
        return 0;
}

/* --- Plain --------------------------------------------------------------------------------------------- */

static ssize_t plain_read(Stream *s, void *buffer, size_t size, Error *e)
{
        size_t done = MIN(size, s->input_size - s->input_used);

        memcpy(buffer, s->input + s->input_used, done);
        s->input_used += done;
        while (done < size && !s->eof) {
                ssize_t n = read_some(s, (char *) buffer + done, size - done, e);
                if (n < 0)
                        return n;
                done += (size_t) n;
        }
        return (ssize_t) done;
}

/* --- gzip ---------------------------------------------------------------------------------------------- */

static int gzip_start(Stream *s, Error *e)
{
        int r = library_load(&z_library, e);

        if (r < 0)
                return r;
        if (inflateInit2(&s->gzip, 15 + 16) != Z_OK)
                return error_oom(e);
        s->gzip_ready = true;
        return 0;
}

/* 1: go on; 0: the end of the last member; negative: error. */
static int gzip_input(Stream *s, Error *e)
{
        if (s->input_used == s->input_size) {
                ssize_t n = stream_fill(s, e);
                if (n < 0)
                        return (int) n;
                if (n == 0 && s->gzip_between)
                        return 0;
                if (n == 0)
                        return error_set(e, -EBADMSG,
                                         "The gzip data ends too early: the image is truncated");
        }
        if (s->gzip_between) {
                (void) inflateReset(&s->gzip); /* fails only for a stream that was never initialized */
                s->gzip_between = false;
                s->gzip_again = true;
        }
        s->gzip.next_in = s->input + s->input_used;
        s->gzip.avail_in = (uInt) (s->input_size - s->input_used);
        return 1;
}

static int gzip_step(Stream *s, Error *e)
{
        int r = gzip_input(s, e);
        if (r <= 0)
                return r;
        int z = inflate(&s->gzip, Z_NO_FLUSH);
        s->input_used = s->input_size - s->gzip.avail_in;
        if (z == Z_MEM_ERROR)
                return error_oom(e);
        if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR) {
                if (s->gzip_again && s->gzip.total_out == 0)
                        return error_set(e, -EBADMSG, "Data follows the end of the gzip data");
                return error_set(e, -EBADMSG, "The gzip data is damaged: %s",
                                 s->gzip.msg ?: "unknown error");
        }
        s->gzip_between = z == Z_STREAM_END;
        return 1;
}

static ssize_t gzip_read(Stream *s, void *buffer, size_t size, Error *e)
{
        s->gzip.next_out = buffer;
        s->gzip.avail_out = (uInt) size;
        while (s->gzip.avail_out > 0) {
                int r = gzip_step(s, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        break;
        }
        return (ssize_t) (size - s->gzip.avail_out);
}

/* --- bzip2 --------------------------------------------------------------------------------------------- */

static la_ssize_t filter_input(struct archive *a, void *userdata, const void **ret)
{
        Stream *s = userdata;

        if (s->input_used == s->input_size) {
                ssize_t n = stream_fill(s, &s->error);
                if (n <= 0)
                        return n;
        }
        *ret = s->input + s->input_used;
        size_t n = s->input_size - s->input_used;
        s->input_used = s->input_size;
        return (la_ssize_t) n;
}

static int filter_error(Stream *s, Error *e)
{
        if (s->error.code == 0)
                return error_set(e, -EBADMSG, "The %s data is damaged or ends too early: %s", s->kind->name,
                                 archive_error_string(s->archive) ?: "unknown error");
        int code = s->error.code;
        (void) error_move(e, &s->error);
        return code;
}

static int filter_start(Stream *s, Error *e)
{
        struct archive_entry *entry;

        int k = library_load(&archive_library, e);
        if (k < 0)
                return k;
        s->archive = archive_read_new();
        if (!s->archive || archive_read_support_filter_bzip2(s->archive) != ARCHIVE_OK ||
            archive_read_support_format_raw(s->archive) != ARCHIVE_OK)
                return error_oom(e);
        if (archive_read_open(s->archive, s, NULL, filter_input, NULL) != ARCHIVE_OK ||
            archive_read_next_header(s->archive, &entry) != ARCHIVE_OK)
                return filter_error(s, e);
        /* The filter and the source itself. */
        if (archive_filter_count(s->archive) != 2)
                return error_set(e, -EBADMSG, "The image is not compressed once with %s", s->kind->name);
        return 0;
}

static ssize_t filter_read(Stream *s, void *buffer, size_t size, Error *e)
{
        size_t done = 0;

        while (done < size && !s->archive_ended) {
                la_ssize_t n = archive_read_data(s->archive, (char *) buffer + done, size - done);
                if (n < 0)
                        return filter_error(s, e);
                s->archive_ended = n == 0;
                done += (size_t) n;
        }
        if (!s->archive_ended)
                return (ssize_t) done;
        /* The filter has stopped at the end of its data; the input must end there, too. */
        ssize_t more = s->eof ? 0 : stream_fill(s, e);
        if (more < 0)
                return more;
        if (more > 0 || (uint64_t) archive_filter_bytes(s->archive, -1) != s->total)
                return error_set(e, -EBADMSG, "Data follows the end of the %s data", s->kind->name);
        return (ssize_t) done;
}

/* --- All ----------------------------------------------------------------------------------------------- */

static const StreamKind kind_plain = {"uncompressed", NULL, plain_read};
static const StreamKind kind_gzip = {"gzip", gzip_start, gzip_read};
static const StreamKind kind_bzip2 = {"bzip2", filter_start, filter_read};

static const struct {
        const char *bytes;
        size_t n;
        const StreamKind *kind;
        const char *foreign; /* description if it is not an image */
} magics[] = {
                {"\x1f\x8b", 2, &kind_gzip},
                {"BZh", 3, &kind_bzip2},
                {"\xfd"
                 "7zXZ\0",
                 6, &stream_kind_xz},
                {"\x04\x22\x4d\x18", 4, NULL, "compressed with lz4"},
                {"\x02\x21\x4c\x18", 4, NULL, "compressed with lz4"},
                {"\x89LZO", 4, NULL, "compressed with lzop"},
                {"LRZI", 4, NULL, "compressed with lrzip"},
                {"\x1f\x9d", 2, NULL, "compressed with compress"},
                {"7z\xbc\xaf\x27\x1c", 6, NULL, "a 7-Zip archive"},
                {"LZIP", 4, NULL, "compressed with lzip"},
                {"PK\x03\x04", 4, NULL, "a zip archive"},
                {"\x7f"
                 "ELF",
                 4, NULL, "a program"},
                {"-----B", 6, NULL, "armored OpenPGP data, such as a signature"},
};

/* The first name of a tar archive can begin with any magic bytes. */
static bool has_tar_header(const Stream *s)
{
        return s->input_size >= MAGIC_SIZE && memcmp(s->input + MAGIC_SIZE - 5, "ustar", 5) == 0;
}

static int detect(Stream *s, Error *e)
{
        s->kind = s->input_size >= 4 && zstd_is_frame(s->input) ? &stream_kind_zstd : &kind_plain;
        for (size_t i = 0; i < ELEMENTSOF(magics); i++) {
                if (s->input_size < magics[i].n || memcmp(s->input, magics[i].bytes, magics[i].n) != 0)
                        continue;
                if (magics[i].kind) {
                        s->kind = magics[i].kind;
                        break;
                }
                if (has_tar_header(s))
                        break;
                int r = error_set(e, -EBADMSG, "The file is not an image: it is %s", magics[i].foreign);
                return error_hint(e, r,
                                  "Images are tar archives, plain or compressed with gzip, bzip2, xz or "
                                  "zstd.");
        }
        return s->kind->start ? s->kind->start(s, e) : 0;
}

static int read_magic(Stream *s, Error *e)
{
        int r = stream_fill_to(s, MAGIC_SIZE, e);

        if (r < 0)
                return r;
        return s->input_size == 0 ? error_set(e, -EBADMSG, "The input is not an archive: it is empty") : 0;
}

int stream_new(int fd, int wake_fd, const StreamHooks *hooks, Stream **ret, Error *e)
{
        _cleanup_(stream_freep) Stream *s = calloc(1, sizeof(Stream));
        struct stat st;

        if (!s)
                return error_oom(e);
        *s = (Stream){.fd = fd, .wake_fd = wake_fd, .input = malloc(INPUT_SIZE)};
        if (!s->input)
                return error_oom(e);
        if (hooks)
                s->hooks = *hooks;
        if (fstat(fd, &st) < 0)
                return error_set_errno(e, errno, "Cannot read the image");
        s->is_regular = S_ISREG(st.st_mode);
        int r = read_magic(s, e);
        if (r >= 0)
                r = detect(s, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

Stream *stream_free(Stream *s)
{
        if (!s)
                return NULL;
        if (s->gzip_ready)
                (void) inflateEnd(&s->gzip);
        if (s->archive)
                (void) archive_read_free(s->archive);
        if (s->zstd)
                (void) ZSTD_freeDCtx(s->zstd);
        if (s->xz_ready)
                lzma_end(&s->xz);
        error_done(&s->error);
        free(s->input);
        free(s);
        return NULL;
}

ssize_t stream_read(Stream *s, void *buffer, size_t size, Error *e)
{
        return s->kind->read(s, buffer, size, e);
}

bool stream_is_plain(const Stream *s)
{
        return s->kind == &kind_plain;
}

uint64_t stream_compressed_size(const Stream *s)
{
        return s->total;
}
