/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libbz2 that are used. */

#include "config.h"
#include "library/libbz2.h"

Bz2Functions bz2_functions;

#define LIBRARY_TABLE bz2_functions
static const LibraryFunction functions[] = {BZ2_FUNCTIONS(LIBRARY_ENTRY)};

Library bz2_library = {
                .file = BZ2_FILE,
                .package = "libbz2-1.0",
                .purpose = "bzip2",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
