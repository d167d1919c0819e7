/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Parts of images in JSON and in tables, common to all verbs. */

#include <json-c/json.h>

#include "prepare/images/images.h"
#include "stage0/cli/table.h"

/* An object. NULL: out of memory. */
json_object *pairs_to_json(const PairList *l);
/* A cell: "a=b, c=d" as text, without the pair EXCEPT, which may be NULL. -ENOMEM. */
int table_add_pairs(Table *t, const PairList *l, const char *except);
/* 0, and an object with the key, its owner, and the times of signing and expiry, or NULL without a
 * signature; -ENOMEM. */
int signer_to_json(const ImageInfo *i, json_object **ret);
