/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libarchive that are used. */

#include "config.h"
#include "library/libarchive.h"

ArchiveFunctions archive_functions;

#define LIBRARY_TABLE archive_functions
static const LibraryFunction functions[] = {ARCHIVE_FUNCTIONS(LIBRARY_ENTRY)};

Library archive_library = {
                .file = ARCHIVE_FILE,
                .package = "libarchive13",
                .purpose = "archives",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
