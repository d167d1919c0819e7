/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libsystemd that are used. */

#include "config.h"
#include "library/libsystemd.h"

SystemdFunctions systemd_functions;

#define LIBRARY_TABLE systemd_functions
static const LibraryFunction functions[] = {SYSTEMD_FUNCTIONS(LIBRARY_ENTRY)};

Library systemd_library = {
                .file = SYSTEMD_FILE,
                .package = "libsystemd0",
                .purpose = "speaking to systemd",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
