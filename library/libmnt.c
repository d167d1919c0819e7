/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libmount that are used. */

#include "config.h"
#include "library/libmnt.h"

MountFunctions mount_functions;

#define LIBRARY_TABLE mount_functions
DEFINE_LIBRARY(mount_library, MOUNT_FUNCTIONS, LIBRARY_REQUIRED, MOUNT_FILE, "libmount1",
               "the table of mounts");
