/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Declares the options of verbs that write images, and shows what they wrote. */

#include "stage0/verbs/verb.h"

/* Compression (prepare/pack/pack.h) */
int option_compression(const Option *o, const char *value, void *target, Error *e);
/* -ENOTSUP, with a message, if standard output is a terminal. COMMAND: the command to redirect. -EINVAL:
 * both the archive and JSON would be written there. */
int context_check_archive_output(Context *c, const char *command);
/* In JSON, shows that the image ID was written to PATH, of the kind KEY ("file"). */
int context_show_written(Context *c, const char *id, const char *key, const char *path);
