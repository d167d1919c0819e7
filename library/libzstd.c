/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libzstd that are used. */

#include "config.h"
#include "library/libzstd.h"

ZstdFunctions zstd_functions;

#define LIBRARY_TABLE zstd_functions
DEFINE_LIBRARY(zstd_library, ZSTD_FUNCTIONS, LIBRARY_RECOMMENDED, ZSTD_FILE, "libzstd1", "zstd");
