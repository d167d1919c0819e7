/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libcap-ng that are used. */

#include "config.h"
#include "library/libcapng.h"

CapngFunctions capng_functions;

#define LIBRARY_TABLE capng_functions
static const LibraryFunction functions[] = {CAPNG_FUNCTIONS(LIBRARY_ENTRY)};

Library capng_library = {
                .file = CAPNG_FILE,
                .package = "libcap-ng0",
                .purpose = "the names of capabilities",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
