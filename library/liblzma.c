/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of liblzma that are used. */

#include "config.h"
#include "library/liblzma.h"

LzmaFunctions lzma_functions;

#define LIBRARY_TABLE lzma_functions
DEFINE_LIBRARY(lzma_library, LZMA_FUNCTIONS, LIBRARY_RECOMMENDED, LZMA_FILE, "liblzma5", "xz");
