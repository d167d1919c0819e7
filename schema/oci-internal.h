/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files schema/oci*.c share. */

#include "schema/oci.h"
#include "schema/schema-internal.h"

/* S as an AC Identifier: lower case, ":" becomes COLON, other characters of ASCII that identifiers do not
 * have become "-", bytes that are not ASCII go, and so do separators at both ends. -EINVAL: nothing, or
 * nothing that could be a name, is left. */
int oci_mangle_identifier(const char *s, char colon, char **ret);
