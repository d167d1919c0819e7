/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libbz2 that are used. */

#include "config.h"
#include "library/libbz2.h"

Bz2Functions bz2_functions;

#define LIBRARY_TABLE bz2_functions
DEFINE_LIBRARY(bz2_library, BZ2_FUNCTIONS, LIBRARY_RECOMMENDED, BZ2_FILE, "libbz2-1.0", "bzip2");
