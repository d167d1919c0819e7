/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Inside of the reader of TOML: what its three files share. */

#include "prepare/registry/registry-internal.h"

typedef struct TomlReader {
        const char *p, *end, *what;
        unsigned line;
        json_object *root, *table; /* the table that keys go to now; part of ROOT */
        Error *e;
} TomlReader;

/* What we are at; 0: the end. */
static inline char toml_peek(const TomlReader *r)
{
        return r->p < r->end ? *r->p : 0;
}

/* What was said of a table or array, kept in the tree itself. */
typedef enum TomlMark {
        TOML_OPENED = 1, /* by a header: not again */
        TOML_SEALED = 2, /* written as a value: nothing is added any more */
} TomlMark;

static inline void toml_mark(json_object *o, TomlMark mark)
{
        json_object_set_userdata(o, (void *) (uintptr_t) mark, NULL);
}

static inline TomlMark toml_get_mark(json_object *o)
{
        return (TomlMark) (uintptr_t) json_object_get_userdata(o);
}

/* --- toml-text.c --------------------------------------------------------------------------------------- */

/* -EBADMSG with the place. */
int toml_fault(TomlReader *r, const char *format, ...) _printf_(2, 3);
void toml_skip_blanks(TomlReader *r);
int toml_skip_space(TomlReader *r); /* blanks, comments and ends of lines */
int toml_expect_line_end(TomlReader *r);
int toml_expect(TomlReader *r, char c, const char *where);
/* A string in the quotes at which we are. */
int toml_read_string(TomlReader *r, char **ret);
int toml_read_key(TomlReader *r, char **ret);

/* --- toml-value.c -------------------------------------------------------------------------------------- */

/* KEY = VALUE into TABLE. */
int toml_read_pair(TomlReader *r, json_object *table, unsigned depth);
