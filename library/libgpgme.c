/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libgpgme that are used. */

#include "config.h"
#include "library/libgpgme.h"

GpgmeFunctions gpgme_functions;

#define LIBRARY_TABLE gpgme_functions
static const LibraryFunction functions[] = {GPGME_FUNCTIONS(LIBRARY_ENTRY)};

Library gpgme_library = {
                .file = GPGME_FILE,
                .package = "libgpgme11",
                .purpose = "signatures and encryption",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
