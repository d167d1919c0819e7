/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the verbs have in common that write images. */

#include "stage0/verb.h"

/* Compression (prepare/pack/pack.h) */
int option_compression(const Option *o, const char *value, void *target, Error *e);
/* -ENOTSUP, with a message, if standard output is a terminal. COMMAND is what to redirect. -EINVAL: nor can
 * the archive go there beside JSON. */
int context_check_archive_output(Context *c, const char *command);
/* In JSON: that the image ID was written to PATH, which KEY says the kind of ("file"). */
int context_show_written(Context *c, const char *id, const char *key, const char *path);
