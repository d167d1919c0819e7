/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libcap-ng that are used. */

#include "config.h"
#include "library/libcapng.h"

CapngFunctions capng_functions;

#define LIBRARY_TABLE capng_functions
DEFINE_LIBRARY(capng_library, CAPNG_FUNCTIONS, LIBRARY_REQUIRED, CAPNG_FILE, "libcap-ng0",
               "the names of capabilities");
