/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libcurl that are used. */

#include "config.h"
#include "library/libcurl.h"

CurlFunctions curl_functions;

#define LIBRARY_TABLE curl_functions
static const LibraryFunction functions[] = {CURL_FUNCTIONS(LIBRARY_ENTRY)};

Library curl_library = {
                .file = CURL_FILE,
                .package = "libcurl4",
                .purpose = "downloads",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
