/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* liblzma, loaded when one of these functions is called for the first time; see library.h. */

#include <lzma.h>

#include "library/library.h"

#define LZMA_FUNCTIONS(F)                                                                                   \
        F(lzma_code)                                                                                        \
        F(lzma_end)                                                                                         \
        F(lzma_memusage)                                                                                    \
        F(lzma_physmem)                                                                                     \
        F(lzma_stream_decoder)                                                                              \
        F(lzma_stream_encoder_mt)                                                                           \
        F(lzma_stream_encoder_mt_memusage)

typedef struct LzmaFunctions {
        LZMA_FUNCTIONS(LIBRARY_MEMBER)
} LzmaFunctions;

extern LzmaFunctions lzma_functions;
extern Library lzma_library;

#define LZMA_CALL(function, ...) LIBRARY_CALL(lzma_library, lzma_functions.function, __VA_ARGS__)

#define lzma_code(...) LZMA_CALL(lzma_code, __VA_ARGS__)
#define lzma_end(...) LZMA_CALL(lzma_end, __VA_ARGS__)
#define lzma_memusage(...) LZMA_CALL(lzma_memusage, __VA_ARGS__)
#define lzma_physmem(...) LZMA_CALL(lzma_physmem, __VA_ARGS__)
#define lzma_stream_decoder(...) LZMA_CALL(lzma_stream_decoder, __VA_ARGS__)
#define lzma_stream_encoder_mt(...) LZMA_CALL(lzma_stream_encoder_mt, __VA_ARGS__)
#define lzma_stream_encoder_mt_memusage(...) LZMA_CALL(lzma_stream_encoder_mt_memusage, __VA_ARGS__)
