/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libcurl that are used. */

#include "config.h"
#include "library/libcurl.h"

CurlFunctions curl_functions;

#define LIBRARY_TABLE curl_functions
DEFINE_LIBRARY(curl_library, CURL_FUNCTIONS, LIBRARY_RECOMMENDED, CURL_FILE, "libcurl4", "downloads");
