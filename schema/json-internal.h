/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by json.c and json-tokens.c. */

#include <locale.h>

#include "schema/schema-internal.h"

#define JSON_DEPTH_MAX 64U

typedef struct JsonFrame {
        json_object *container; /* owned by the tree */
        bool started;           /* already has a member */
} JsonFrame;

typedef struct JsonReader {
        const char *text, *p, *end;
        json_object *root;
        JsonFrame stack[JSON_DEPTH_MAX];
        size_t depth, depth_max, n_values, n_values_max, n_containers;
        Text string; /* the last string that was read */
        bool nul_is_parsed;
        locale_t locale;
        const char *fault_at;
        char *fault;
} JsonReader;

/* --- json-tokens.c: scalar values ---------------------------------------------------------------------- */

/* Records an error at position AT: -EBADMSG. */
int json_fault(JsonReader *r, const char *at, const char *format, ...) _printf_(3, 4);
/* The same for the next character, which is unexpected. */
int json_unexpected(JsonReader *r, const char *expected);
/* The next character that is not white space; 0: the end, or a character that is not valid anywhere. */
char json_skip_space(JsonReader *r);
/* Reads a string into r->string; the position is at its opening quote. */
int json_read_string(JsonReader *r);
/* Scalar values other than strings. For null *RET is NULL. */
int json_read_number(JsonReader *r, json_object **ret);
int json_read_word(JsonReader *r, json_object **ret);
