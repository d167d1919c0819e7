/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Parts of images in JSON, common to all verbs. */

#include <json-c/json.h>

#include "prepare/images/images.h"

/* An object. NULL: out of memory. */
json_object *pairs_to_json(const PairList *l);
/* 0, and an object with the key, its owner, and the times of signing and expiry, or NULL without a
 * signature; -ENOMEM. */
int signer_to_json(const ImageInfo *i, json_object **ret);
