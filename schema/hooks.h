/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* hooks.c: programs of the host for the start of an app, as the runtime specification of OCI has them (createContainer). */

#include <json-c/json.h>

#include "basic/basic.h"

#define HOOKS_MAX 256U
#define HOOK_TIMEOUT_SEC_DEFAULT 30U
#define HOOK_TIMEOUT_SEC_MAX 600U

typedef struct Hook {
        char *path;  /* on the host; absolute */
        char **args; /* argv, of which the first one may be something else; NULL: PATH alone */
        char **env;  /* NAME=VALUE */
        unsigned timeout_sec;
} Hook;

typedef struct HookList {
        Hook *items;
        size_t n, allocated;
} HookList;

void hook_list_done(HookList *l);
#define _cleanup_hook_list_ _cleanup_(hook_list_done)
/* Appends the hook that O describes; other members than those of a Hook are ignored. -EINVAL. */
int hook_list_read(HookList *l, json_object *o, Error *e);
/* A list of them, as the setting acnspawn/hooks has it. -EINVAL; -EBADMSG: it is not JSON. */
int hook_list_parse(const char *text, HookList *ret, Error *e);
/* Appends copies of FROM. */
int hook_list_extend(HookList *l, const HookList *from);
/* Writes L as hook_list_parse() reads it. */
int hook_list_format(const HookList *l, char **ret);
