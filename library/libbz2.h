/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libbz2, loaded when one of these functions is called for the first time; see library.h. */

#include <bzlib.h>

#include "library/library.h"

#define BZ2_FUNCTIONS(F)                                                                                    \
        F(BZ2_bzCompress)                                                                                   \
        F(BZ2_bzCompressEnd)                                                                                \
        F(BZ2_bzCompressInit)

typedef struct Bz2Functions {
        BZ2_FUNCTIONS(LIBRARY_MEMBER)
} Bz2Functions;

extern Bz2Functions bz2_functions;
extern Library bz2_library;

#define BZ2_CALL(function, ...) LIBRARY_CALL(bz2_library, bz2_functions.function, __VA_ARGS__)

#define BZ2_bzCompress(...) BZ2_CALL(BZ2_bzCompress, __VA_ARGS__)
#define BZ2_bzCompressEnd(...) BZ2_CALL(BZ2_bzCompressEnd, __VA_ARGS__)
#define BZ2_bzCompressInit(...) BZ2_CALL(BZ2_bzCompressInit, __VA_ARGS__)
