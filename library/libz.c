/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libz that are used. */

#include "config.h"
#include "library/libz.h"

ZFunctions z_functions;

#define LIBRARY_TABLE z_functions
static const LibraryFunction functions[] = {Z_FUNCTIONS(LIBRARY_ENTRY)};

Library z_library = {
                .file = Z_FILE,
                .package = "zlib1g",
                .purpose = "gzip",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
