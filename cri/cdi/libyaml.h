/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libyaml, loaded when one of these functions is called for the first time; see library/library.h. It is here, as acnspawn-cri alone
 * uses it. */

#include <yaml.h>

#include "library/library.h"

#define YAML_FUNCTIONS(F)                                                                                   \
        F(yaml_event_delete)                                                                                \
        F(yaml_parser_delete)                                                                               \
        F(yaml_parser_initialize)                                                                           \
        F(yaml_parser_parse)                                                                                \
        F(yaml_parser_set_input_string)

typedef struct YamlFunctions {
        YAML_FUNCTIONS(LIBRARY_MEMBER)
} YamlFunctions;

extern YamlFunctions yaml_functions;
extern Library yaml_library;

#define YAML_CALL(function, ...) LIBRARY_CALL(yaml_library, yaml_functions.function, __VA_ARGS__)

#define yaml_event_delete(...) YAML_CALL(yaml_event_delete, __VA_ARGS__)
#define yaml_parser_delete(...) YAML_CALL(yaml_parser_delete, __VA_ARGS__)
#define yaml_parser_initialize(...) YAML_CALL(yaml_parser_initialize, __VA_ARGS__)
#define yaml_parser_parse(...) YAML_CALL(yaml_parser_parse, __VA_ARGS__)
#define yaml_parser_set_input_string(...) YAML_CALL(yaml_parser_set_input_string, __VA_ARGS__)
