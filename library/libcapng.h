/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libcap-ng, loaded when one of these functions is called for the first time; see library.h. */

#include <cap-ng.h>

#include "library/library.h"

#define CAPNG_FUNCTIONS(F)                                                                                  \
        F(capng_capability_to_name)                                                                         \
        F(capng_name_to_capability)

typedef struct CapngFunctions {
        CAPNG_FUNCTIONS(LIBRARY_MEMBER)
} CapngFunctions;

extern CapngFunctions capng_functions;
extern Library capng_library;

#define CAPNG_CALL(function, ...) LIBRARY_CALL(capng_library, capng_functions.function, __VA_ARGS__)

#define capng_capability_to_name(...) CAPNG_CALL(capng_capability_to_name, __VA_ARGS__)
#define capng_name_to_capability(...) CAPNG_CALL(capng_name_to_capability, __VA_ARGS__)
