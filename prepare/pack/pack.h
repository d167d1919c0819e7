/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/pack/: the way back, from files to image archives: compressing, and writing tar so that the same
 * input always gives the same bytes and with them the same image ID. */

#include "prepare/unpack/unpack.h"

/* --- Compressing (compress.c) -------------------------------------------------------------------------- */

typedef enum Compression {
        COMPRESSION_NONE,
        COMPRESSION_GZIP,
        COMPRESSION_BZIP2,
        COMPRESSION_XZ,
        COMPRESSION_ZSTD,
        _COMPRESSION_MAX,
} Compression;

#define COMPRESSION_NAMES "none, gzip, bzip2, xz, zstd"
const char *compression_to_string(Compression c);
int compression_from_string(const char *s); /* or -EINVAL */

/* What is written to it goes to a descriptor, compressed. The result holds neither names nor times, and does
 * not depend on how many processors there are or on how the input was cut into pieces: the same bytes give
 * the same file, as long as the compression library is the same. */
typedef struct Compressor Compressor;

/* FD must outlive it. WHAT is how messages call what is written: "the image 'x.aci'"; it is copied. */
int compressor_new(Compression c, int fd, const char *what, Compressor **ret, Error *e);
/* Without compressor_finish() what was written stays incomplete. */
Compressor *compressor_free(Compressor *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(Compressor *, compressor_free);
/* Fails with -EINTR if the program was asked to end. */
int compressor_write(Compressor *c, const void *p, size_t size, Error *e);
int compressor_finish(Compressor *c, Error *e);
uint64_t compressor_written(const Compressor *c); /* bytes that went to the descriptor so far */
