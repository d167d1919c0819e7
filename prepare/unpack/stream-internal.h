/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of streams share: the input, and the kinds of compression. */

#include "library/libarchive.h"
#include "library/libz.h"
#include "library/libzstd.h"
#include "prepare/unpack/unpack.h"

typedef struct StreamKind StreamKind;

struct Stream {
        const StreamKind *kind;
        int fd, wake_fd;
        bool is_regular, eof;
        unsigned char *input;
        size_t input_size, input_used; /* bytes in INPUT, of which so many have been taken */
        uint64_t total, reported;      /* bytes read; those of which progress was told */
        StreamHooks hooks;
        z_stream gzip;
        bool gzip_ready, gzip_between; /* initialized; between two members */
        bool gzip_again;               /* in a member after the first */
        ZSTD_DCtx *zstd;
        bool zstd_inside; /* a frame */
        struct archive *archive;
        bool archive_ended;
        Error error; /* of reading, from inside libarchive's callback */
};

struct StreamKind {
        const char *name;
        int (*start)(Stream *s, Error *e);
        ssize_t (*read)(Stream *s, void *buffer, size_t size, Error *e);
};

extern const StreamKind stream_kind_zstd;

/* Whether P, which has at least four bytes, begins a frame of zstd's, be it one to be skipped. */
bool zstd_is_frame(const unsigned char *p);

/* Replaces the input, all of which has been taken, by the next. Returns how much there is, 0 at the end. */
ssize_t stream_fill(Stream *s, Error *e);
/* Reads on behind what has not been taken yet, until that is SIZE bytes (few) or the end. */
int stream_fill_to(Stream *s, size_t size, Error *e);
