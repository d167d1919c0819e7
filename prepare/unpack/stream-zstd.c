/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams compressed with zstd.
 *
 * The data is a sequence of frames, as zstd(1) reads it: each is decompressed by itself; skippable frames
 * are skipped. The beginning of a frame is checked here before the library parses it, as the library also
 * accepts formats from before the first release of zstd, which images do not use. The memory needed for a
 * frame is chosen by its author (the window), so it is limited, with the limit of zstd(1).
 */

#include <endian.h>

#include "library/libzstd.h"
#include "prepare/unpack/stream-internal.h"

#define WINDOW_LOG_MAX 27

bool zstd_is_frame(const unsigned char *p)
{
        uint32_t magic;

        memcpy(&magic, p, sizeof(magic));
        magic = le32toh(magic);
        return magic == ZSTD_MAGICNUMBER ||
               (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

static int zstd_start(Stream *s, Error *e)
{
        int r = library_load(&zstd_library, e);

        if (r < 0)
                return r;
        s->zstd = ZSTD_createDCtx();
        if (!s->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
                return error_oom(e);
        return 0;
}

/* 1: there is another frame; 0: the end. */
static int begin_frame(Stream *s, Error *e)
{
        int r = stream_fill_to(s, sizeof(uint32_t), e);
        if (r < 0)
                return r;
        size_t n = s->input_size - s->input_used;
        if (n == 0)
                return 0;
        if (n < sizeof(uint32_t) || !zstd_is_frame(s->input + s->input_used))
                return error_set(e, -EBADMSG, "Data follows the end of the zstd data");
        s->zstd_inside = true;
        return 1;
}

static int explain(size_t z, Error *e)
{
        if (ZSTD_getErrorCode(z) == ZSTD_error_memory_allocation)
                return error_oom(e);
        if (ZSTD_getErrorCode(z) != ZSTD_error_frameParameter_windowTooLarge)
                return error_set(e, -EBADMSG, "The zstd data is damaged: %s", ZSTD_getErrorName(z));
        int r = error_set(e, -E2BIG,
                          "The zstd data was compressed with a window of more than %u MiB, which takes as "
                          "much memory to decompress",
                          (1U << WINDOW_LOG_MAX) >> 20);
        return error_hint(e, r, "Compress it with --long=%d at most.", WINDOW_LOG_MAX);
}

/* 1: go on; 0: the end of the last frame; negative: error. */
static int zstd_step(Stream *s, ZSTD_outBuffer *output, Error *e)
{
        if (!s->zstd_inside) {
                int r = begin_frame(s, e);
                if (r <= 0)
                        return r;
        }
        if (s->input_used == s->input_size) {
                ssize_t n = stream_fill(s, e);
                if (n < 0)
                        return (int) n;
                if (n == 0)
                        return error_set(e, -EBADMSG,
                                         "The zstd data ends too early: the image is truncated");
        }
        ZSTD_inBuffer input = {.src = s->input, .size = s->input_size, .pos = s->input_used};
        size_t z = ZSTD_decompressStream(s->zstd, output, &input);
        s->input_used = input.pos;
        if (ZSTD_isError(z))
                return explain(z, e);
        s->zstd_inside = z != 0;
        return 1;
}

static ssize_t zstd_read(Stream *s, void *buffer, size_t size, Error *e)
{
        ZSTD_outBuffer output = {.dst = buffer, .size = size};

        while (output.pos < output.size) {
                int r = zstd_step(s, &output, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        break;
        }
        return (ssize_t) output.pos;
}

const StreamKind stream_kind_zstd = {"zstd", zstd_start, zstd_read};
