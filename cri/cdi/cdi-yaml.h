/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* cdi-yaml.c: documents in YAML that could be written in JSON. */

#include "schema/schema.h"

/* Of the types that JSON has. -EINVAL: it is not valid, not of such types, or nested deeper than DEPTH_MAX, or has more than N_VALUES_MAX
 * values; -ELIBACC: there is no libyaml. */
int yaml_parse(const char *text, size_t size, size_t depth_max, size_t n_values_max, json_object **ret,
               Error *e);
