/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libzstd, loaded when one of these functions is called for the first time; see library.h. */

#include <zstd.h>
#include <zstd_errors.h>

#include "library/library.h"

#define ZSTD_FUNCTIONS(F)                                                                                   \
        F(ZSTD_CCtx_setParameter)                                                                           \
        F(ZSTD_CStreamOutSize)                                                                              \
        F(ZSTD_DCtx_setParameter)                                                                           \
        F(ZSTD_compressStream2)                                                                             \
        F(ZSTD_createCCtx)                                                                                  \
        F(ZSTD_createDCtx)                                                                                  \
        F(ZSTD_decompressStream)                                                                            \
        F(ZSTD_freeCCtx)                                                                                    \
        F(ZSTD_freeDCtx)                                                                                    \
        F(ZSTD_getErrorCode)                                                                                \
        F(ZSTD_getErrorName)                                                                                \
        F(ZSTD_isError)

typedef struct ZstdFunctions {
        ZSTD_FUNCTIONS(LIBRARY_MEMBER)
} ZstdFunctions;

extern ZstdFunctions zstd_functions;
extern Library zstd_library;

#define ZSTD_CALL(function, ...) LIBRARY_CALL(zstd_library, zstd_functions.function, __VA_ARGS__)

#define ZSTD_CCtx_setParameter(...) ZSTD_CALL(ZSTD_CCtx_setParameter, __VA_ARGS__)
#define ZSTD_CStreamOutSize(...) ZSTD_CALL(ZSTD_CStreamOutSize, __VA_ARGS__)
#define ZSTD_DCtx_setParameter(...) ZSTD_CALL(ZSTD_DCtx_setParameter, __VA_ARGS__)
#define ZSTD_compressStream2(...) ZSTD_CALL(ZSTD_compressStream2, __VA_ARGS__)
#define ZSTD_createCCtx(...) ZSTD_CALL(ZSTD_createCCtx, __VA_ARGS__)
#define ZSTD_createDCtx(...) ZSTD_CALL(ZSTD_createDCtx, __VA_ARGS__)
#define ZSTD_decompressStream(...) ZSTD_CALL(ZSTD_decompressStream, __VA_ARGS__)
#define ZSTD_freeCCtx(...) ZSTD_CALL(ZSTD_freeCCtx, __VA_ARGS__)
#define ZSTD_freeDCtx(...) ZSTD_CALL(ZSTD_freeDCtx, __VA_ARGS__)
#define ZSTD_getErrorCode(...) ZSTD_CALL(ZSTD_getErrorCode, __VA_ARGS__)
#define ZSTD_getErrorName(...) ZSTD_CALL(ZSTD_getErrorName, __VA_ARGS__)
#define ZSTD_isError(...) ZSTD_CALL(ZSTD_isError, __VA_ARGS__)
