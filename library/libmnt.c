/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libmount that are used. */

#include "config.h"
#include "library/libmnt.h"

MountFunctions mount_functions;

#define LIBRARY_TABLE mount_functions
static const LibraryFunction functions[] = {MOUNT_FUNCTIONS(LIBRARY_ENTRY)};

Library mount_library = {
                .file = MOUNT_FILE,
                .package = "libmount1",
                .purpose = "the table of mounts",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};
