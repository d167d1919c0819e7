/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libcrypto that are used. */

#include "config.h"
#include "library/libcrypto.h"

CryptoFunctions crypto_functions;

#define LIBRARY_TABLE crypto_functions
static const LibraryFunction functions[] = {CRYPTO_FUNCTIONS(LIBRARY_ENTRY)};

Library crypto_library = {
                .file = CRYPTO_FILE,
                .package = "libssl3",
                .purpose = "hashes",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
