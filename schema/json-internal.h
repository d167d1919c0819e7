/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What json.c and json-tokens.c share. */

#include <locale.h>

#include "schema/schema-internal.h"

#define JSON_DEPTH_MAX 64U

typedef struct JsonFrame {
        json_object *container; /* owned by the tree */
        bool started;           /* has a member already */
} JsonFrame;

typedef struct JsonReader {
        const char *text, *p, *end;
        json_object *root;
        JsonFrame stack[JSON_DEPTH_MAX];
        size_t depth, depth_max, n_values, n_values_max, n_containers;
        Text string; /* that was read last */
        locale_t locale;
        const char *fault_at;
        char *fault;
} JsonReader;

/* --- json-tokens.c: what stands between brackets and commas -------------------------------------------- */

/* Says what is wrong, and that AT: -EBADMSG. */
int json_fault(JsonReader *r, const char *at, const char *format, ...) _printf_(3, 4);
/* The same of what is next. */
int json_unexpected(JsonReader *r, const char *expected);
/* What comes next that is no white space; 0: the end, or what is unexpected everywhere. */
char json_skip_space(JsonReader *r);
/* Reads a string, at whose opening quote we are, into r->string. */
int json_read_string(JsonReader *r);
/* Values without parts, that are not strings. Of null *RET is NULL. */
int json_read_number(JsonReader *r, json_object **ret);
int json_read_word(JsonReader *r, json_object **ret);
