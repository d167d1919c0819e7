/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libz, loaded when one of these functions is called for the first time; see library.h. */

#include <zlib.h>

#include "library/library.h"

#define Z_FUNCTIONS(F)                                                                                      \
        F(deflate)                                                                                          \
        F(deflateEnd)                                                                                       \
        F(deflateInit2_)                                                                                    \
        F(inflate)                                                                                          \
        F(inflateEnd)                                                                                       \
        F(inflateInit2_)                                                                                    \
        F(inflateReset)

typedef struct ZFunctions {
        Z_FUNCTIONS(LIBRARY_MEMBER)
} ZFunctions;

extern ZFunctions z_functions;
extern Library z_library;

#define Z_CALL(function, ...) LIBRARY_CALL(z_library, z_functions.function, __VA_ARGS__)

#define deflate(...) Z_CALL(deflate, __VA_ARGS__)
#define deflateEnd(...) Z_CALL(deflateEnd, __VA_ARGS__)
#define deflateInit2_(...) Z_CALL(deflateInit2_, __VA_ARGS__)
#define inflate(...) Z_CALL(inflate, __VA_ARGS__)
#define inflateEnd(...) Z_CALL(inflateEnd, __VA_ARGS__)
#define inflateInit2_(...) Z_CALL(inflateInit2_, __VA_ARGS__)
#define inflateReset(...) Z_CALL(inflateReset, __VA_ARGS__)
