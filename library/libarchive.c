/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libarchive that are used. */

#include "config.h"
#include "library/libarchive.h"

ArchiveFunctions archive_functions;

#define LIBRARY_TABLE archive_functions
DEFINE_LIBRARY(archive_library, ARCHIVE_FUNCTIONS, LIBRARY_REQUIRED, ARCHIVE_FILE, "libarchive13",
               "archives");
