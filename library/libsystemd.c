/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libsystemd that are used. */

#include "config.h"
#include "library/libsystemd.h"

SystemdFunctions systemd_functions;

#define LIBRARY_TABLE systemd_functions
DEFINE_LIBRARY(systemd_library, SYSTEMD_FUNCTIONS, LIBRARY_REQUIRED, SYSTEMD_FILE, "libsystemd0",
               "speaking to systemd");
