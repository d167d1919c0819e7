/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libzstd that are used. */

#include "config.h"
#include "library/libzstd.h"

ZstdFunctions zstd_functions;

#define LIBRARY_TABLE zstd_functions
static const LibraryFunction functions[] = {ZSTD_FUNCTIONS(LIBRARY_ENTRY)};

Library zstd_library = {
                .file = ZSTD_FILE,
                .package = "libzstd1",
                .purpose = "zstd",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
