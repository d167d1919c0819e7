/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libz that are used. */

#include "config.h"
#include "library/libz.h"

ZFunctions z_functions;

#define LIBRARY_TABLE z_functions
DEFINE_LIBRARY(z_library, Z_FUNCTIONS, LIBRARY_RECOMMENDED, Z_FILE, "zlib1g", "gzip");
