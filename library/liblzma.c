/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of liblzma that are used. */

#include "config.h"
#include "library/liblzma.h"

LzmaFunctions lzma_functions;

#define LIBRARY_TABLE lzma_functions
static const LibraryFunction functions[] = {LZMA_FUNCTIONS(LIBRARY_ENTRY)};

Library lzma_library = {
                .file = LZMA_FILE,
                .package = "liblzma5",
                .purpose = "xz",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
