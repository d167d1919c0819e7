/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* call.c: members of calls and records, for the files that read them. */

#include "containers/containers.h"

/* WHERE is the object's place, KEY a member of it. */
int call_wrong(Error *e, const char *where, const char *key, const char *why);
/* Refuses all members but KEYS, which end with NULL. */
int call_check_keys(json_object *o, const char *where, const char *const *keys, Error *e);
/* *RET is NULL if there is none. */
int call_get(json_object *o, const char *where, const char *key, json_type type, bool needed,
             json_object **ret, Error *e);
int call_get_text(json_object *o, const char *where, const char *key, bool needed, const char **ret,
                  Error *e);

/* process-io.c: a TTYInfo. The size is left alone if it is not given. */
int call_read_window(json_object *tty_info, bool needed, unsigned short *ret_rows,
                     unsigned short *ret_columns, Error *e);
