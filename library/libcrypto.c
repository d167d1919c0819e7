/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libcrypto that are used. */

#include "config.h"
#include "library/libcrypto.h"

CryptoFunctions crypto_functions;

#define LIBRARY_TABLE crypto_functions
DEFINE_LIBRARY(crypto_library, CRYPTO_FUNCTIONS, LIBRARY_REQUIRED, CRYPTO_FILE, "libssl3", "hashes");
