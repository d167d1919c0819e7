/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Tables that are shown as aligned text or as JSON, both from the same rows. */

#include <json-c/json.h>

#include "stage0/cli/display.h"
#include "stage0/cli/options.h"

typedef struct TableColumn {
        const char *header; /* "UUID" */
        const char *key;    /* the member's name in JSON: "uuid" */
        bool right;         /* aligned to the right: numbers */
        size_t shrink_to;   /* it may be cut to this width on a narrow terminal; 0: never */
        bool middle;        /* cut in the middle: the end distinguishes the rows */
} TableColumn;

typedef struct Table Table;

/* The columns remain owned by the caller. NULL: out of memory. */
Table *table_new(const TableColumn *columns, size_t n_columns);
Table *table_free(Table *t);
DEFINE_TRIVIAL_CLEANUP_FUNC(Table *, table_free);

/* Each adds the next cell, row by row. Lack of memory is remembered and reported when the table is
 * formatted. Text is shown with control characters escaped, and is unchanged in JSON. */
void table_add_none(Table *t); /* "-" and null */
void table_add_text(Table *t, const char *s);
/* S in JSON (NULL: null), SHOWN as text. */
void table_add_text_as(Table *t, const char *s, const char *shown);
/* "a, b" and an array. */
void table_add_list(Table *t, char *const *l);
/* O, which is taken, in JSON; SHOWN as text. */
void table_add_json(Table *t, json_object *o, const char *shown);
void table_add_number(Table *t, int64_t n);
/* N in JSON, SHOWN as text. */
void table_add_number_as(Table *t, int64_t n, const char *shown);
/* "1.5M" and a number. */
void table_add_size(Table *t, uint64_t bytes);
/* "2min ago" and microseconds since the epoch; 0: none. */
void table_add_time(Table *t, uint64_t usec);
/* For the cell added last. */
void table_set_color(Table *t, Color c);

size_t table_n_rows(const Table *t);
/* The rows are objects that the first column identifies. */
bool table_lists_objects(const Table *t);

/* Aligned text. */
int table_format(const Table *t, const Display *d, bool legend, char **ret);
/* An array of objects, one per row. NULL: out of memory. */
json_object *table_to_json(const Table *t);

/* Keeps only these columns, by number, none twice, in this order. -ENOMEM: nothing was changed. */
int table_select(Table *t, const size_t *columns, size_t n);
/* The value of a cell for programs: that of JSON as text. Control characters are escaped, a list is separated by
 * commas, an unknown value is empty. NULL: out of memory. */
char *table_value(const Table *t, size_t row, size_t column);

/* --- --format (table-format.c) ------------------------------------------------------------------------- */

typedef struct TableFormat {
        const TableColumn *fields; /* set by the verb: the columns of its table; at most 64 */
        size_t n_fields;
        char **columns;   /* those that were selected; or NULL */
        const char *text; /* with fields in braces, in argv; or NULL */
} TableFormat;

int option_table_format(const Option *o, const char *value, void *target, Error *e); /* TableFormat */
void table_format_done(TableFormat *f);
#define _cleanup_table_format_ _cleanup_(table_format_done)
/* Whether one was given, and whether it has the field. */
bool table_format_given(const TableFormat *f);
bool table_format_has(const TableFormat *f, const char *field);
/* Keeps the columns that were selected, or else the USUAL ones, NULL at the end. -ENOMEM. */
int table_select_format(Table *t, const TableFormat *f, const char *const *usual);
/* The text of F for each row of the table, which has all columns; each ends with a newline. */
int table_fill_text(const Table *t, const TableFormat *f, char **ret);

/* Formats a JSON document as text with a final newline. */
int json_to_text(json_object *o, bool pretty, char **ret);
