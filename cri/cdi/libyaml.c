/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libyaml that are used. */

#include "config.h"
#include "cri/cdi/libyaml.h"

YamlFunctions yaml_functions;

#define LIBRARY_TABLE yaml_functions
DEFINE_LIBRARY(yaml_library, YAML_FUNCTIONS, LIBRARY_RECOMMENDED, YAML_FILE, "libyaml-0-2",
               "descriptions of devices in YAML");
