/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Checks JSON values against descriptions in Varlink's interface language. varlink/ checks the parameters of calls with
 * it, and tests check requests and replies; this file does no I/O. */

#include "schema/schema.h"

#define IDL_NAME_MAX 64U /* bytes, with the NUL */

/* Finds the declaration of KIND ("type", "method" or "error") NAME; *RET is its "(" in TEXT. -ENOENT;
 * -EBADMSG: TEXT is not valid up to there. */
int idl_find(const char *text, const char *kind, const char *name, const char **ret);
/* Compares V with the type at P, which is within TEXT. -EINVAL: it does not match, and *WHERE is the name of
 * the first wrong member of V, truncated if it is long; -EBADMSG: TEXT is not valid. */
int idl_compare(const char *text, const char *p, json_object *v, char where[static IDL_NAME_MAX]);
