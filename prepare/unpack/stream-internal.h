/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of streams: the input, and the kinds of compression. */

#include "library/libarchive.h"
#include "library/liblzma.h"
#include "library/libz.h"
#include "library/libzstd.h"
#include "prepare/unpack/unpack.h"

typedef struct StreamKind StreamKind;

struct Stream {
        const StreamKind *kind;
        int fd, wake_fd;
        bool is_regular, eof;
        unsigned char *input;
        size_t input_size, input_used; /* bytes in INPUT, and bytes of it consumed */
        uint64_t total, reported;      /* bytes read; bytes of which progress was reported */
        StreamHooks hooks;
        z_stream gzip;
        bool gzip_ready, gzip_between; /* initialized; between two members */
        bool gzip_again;               /* in a member after the first */
        ZSTD_DCtx *zstd;
        bool zstd_inside; /* a frame */
        lzma_stream xz;
        bool xz_ready, xz_ended; /* initialized; after the last stream */
        struct archive *archive;
        bool archive_ended;
        Error error; /* of reading, from inside libarchive's callback */
};

struct StreamKind {
        const char *name;
        int (*start)(Stream *s, Error *e);
        ssize_t (*read)(Stream *s, void *buffer, size_t size, Error *e);
};

extern const StreamKind stream_kind_zstd, stream_kind_xz;

/* Whether P, which has at least four bytes, begins a zstd frame, including skippable frames. */
bool zstd_is_frame(const unsigned char *p);

/* Replaces the input, all of which was consumed, by the next. Returns its size, 0 at the end. */
ssize_t stream_fill(Stream *s, Error *e);
/* Reads more input until SIZE bytes (few) are unconsumed or the end is reached. */
int stream_fill_to(Stream *s, size_t size, Error *e);
