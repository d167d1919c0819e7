/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams compressed with xz.
 *
 * The data is a sequence of streams, perhaps padded with zeros, as xz(1) reads it. As with zstd, the memory
 * needed is chosen by the author (the dictionary, up to 4 GiB), so it is limited. libarchive's filter has no
 * such limit, so liblzma is called directly; it verifies all checksums.
 */

#include "library/liblzma.h"
#include "prepare/unpack/stream-internal.h"

#define DICTIONARY_MAX (128ULL << 20)              /* bytes; the window that zstd may have */
#define MEMORY_MAX (DICTIONARY_MAX + (2ULL << 20)) /* of the dictionary, and of the decoder itself */

static int xz_start(Stream *s, Error *e)
{
        int r = library_load(&lzma_library, e);

        if (r < 0)
                return r;
        s->xz = (lzma_stream) LZMA_STREAM_INIT;
        s->xz_ready = true;
        if (lzma_stream_decoder(&s->xz, MEMORY_MAX, LZMA_CONCATENATED) != LZMA_OK)
                return error_oom(e);
        return 0;
}

static int explain(Stream *s, lzma_ret z, Error *e)
{
        static const struct {
                lzma_ret code;
                const char *text;
        } reasons[] = {
                        {LZMA_DATA_ERROR,
                         "its content does not match its checksums, or other data follows it"},
                        {LZMA_FORMAT_ERROR, "it is in another format"},
                        {LZMA_OPTIONS_ERROR, "it has options that liblzma does not support"},
                        {LZMA_BUF_ERROR, "it is truncated"},
        };
        const char *why = "unknown error";

        if (z == LZMA_MEM_ERROR)
                return error_oom(e);
        if (z == LZMA_MEMLIMIT_ERROR) {
                int r = error_set(e, -E2BIG,
                                  "The xz data takes %llu MiB of memory to decompress; %llu MiB are allowed",
                                  (unsigned long long) (lzma_memusage(&s->xz) >> 20), MEMORY_MAX >> 20);
                return error_hint(e, r,
                                  "Compress it with a dictionary of %llu MiB at most, as 'xz -9' does.",
                                  DICTIONARY_MAX >> 20);
        }
        for (size_t i = 0; i < ELEMENTSOF(reasons); i++)
                if (reasons[i].code == z)
                        why = reasons[i].text;
        return error_set(e, -EBADMSG, "The xz data is damaged or ends too early: %s", why);
}

/* 1: go on; 0: the end of the last stream; negative: error. */
static int xz_step(Stream *s, Error *e)
{
        if (s->input_used == s->input_size && !s->eof) {
                ssize_t n = stream_fill(s, e);
                if (n < 0)
                        return (int) n;
        }
        s->xz.next_in = s->input + s->input_used;
        s->xz.avail_in = s->input_size - s->input_used;
        lzma_ret z = lzma_code(&s->xz, s->eof ? LZMA_FINISH : LZMA_RUN);
        s->input_used = s->input_size - s->xz.avail_in;
        if (z == LZMA_STREAM_END)
                return 0;
        /* Without LZMA_FINISH it means only that more input is needed. */
        if (z != LZMA_OK && (z != LZMA_BUF_ERROR || s->eof))
                return explain(s, z, e);
        return 1;
}

static ssize_t xz_read(Stream *s, void *buffer, size_t size, Error *e)
{
        s->xz.next_out = buffer;
        s->xz.avail_out = size;
        while (s->xz.avail_out > 0 && !s->xz_ended) {
                int r = xz_step(s, e);
                if (r < 0)
                        return r;
                s->xz_ended = r == 0;
        }
        return (ssize_t) (size - s->xz.avail_out);
}

const StreamKind stream_kind_xz = {"xz", xz_start, xz_read};
