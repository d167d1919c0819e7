/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the verbs have in common that write image archives. */

#include "stage0/verb.h"

/* Compression (prepare/pack/pack.h) */
int option_compression(const Option *o, const char *value, void *target, Error *e);
/* -ENOTSUP, with a message, if standard output is a terminal. COMMAND is what to redirect. */
int context_check_archive_output(Context *c, const char *command);
