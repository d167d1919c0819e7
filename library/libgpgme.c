/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libgpgme that are used. */

#include "config.h"
#include "library/libgpgme.h"

GpgmeFunctions gpgme_functions;

#define LIBRARY_TABLE gpgme_functions
DEFINE_LIBRARY(gpgme_library, GPGME_FUNCTIONS, LIBRARY_RECOMMENDED, GPGME_FILE, "libgpgme11",
               "signatures and encryption");
