/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libssl that are used. It is in the package of libcrypto, which is required. */

#include "config.h"
#include "library/libssl.h"

SslFunctions ssl_functions;

#define LIBRARY_TABLE ssl_functions
DEFINE_LIBRARY(ssl_library, SSL_FUNCTIONS, LIBRARY_REQUIRED, SSL_FILE, "libssl3", "streams by TLS");
