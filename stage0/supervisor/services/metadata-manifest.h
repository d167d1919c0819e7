/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* metadata-manifest.c: writes the manifest of a pod that its apps see with --metadata=reduced. No I/O. */

#include "prepare/prepare.h"

/* The manifest TEXT of a pod as its apps see it with --metadata=reduced: without the environment of apps, paths of the host and
 * annotations for acnspawn. It stays valid. */
int metadata_manifest_reduce(const char *text, size_t size, char **ret, size_t *ret_size);
