/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by schema/oci*.c. */

#include "schema/oci.h"
#include "schema/schema-internal.h"

/* S as an AC Identifier: lower case, ":" becomes COLON, other ASCII characters that are not valid in
 * identifiers become "-", bytes that are not ASCII are removed, and so are separators at both ends. -EINVAL:
 * the result is empty or not a valid name. */
int oci_mangle_identifier(const char *s, char colon, char **ret);
