/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How the verbs show parts of images in JSON: the same everywhere. */

#include <json-c/json.h>

#include "prepare/images/images.h"

/* An object. NULL: out of memory. */
json_object *pairs_to_json(const PairList *l);
/* 0, and an object with the key, its owner, and when it was signed and till when that is good, or NULL if
 * nobody has signed it; -ENOMEM. */
int signer_to_json(const ImageInfo *i, json_object **ret);
