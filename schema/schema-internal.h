/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Internal header of schema/: tables that describe documents.
 *
 * Every object of the specification is a table of fields (name in the document, type, offset in the C
 * structure), in the order in which the specification lists them. The same table is used to parse, to
 * format, to copy and to free, so that these always handle the same fields. The tables are interpreted by
 * table.c; types that need code of their own have it as functions.
 */

#include <inttypes.h>

#include "schema/schema.h"

/* The state of parsing a document: the current path, and the findings. */
typedef struct Parser {
        Findings *findings;
        bool extensible;  /* members that are not known need no warning */
        Text path;        /* "apps[1].app.user" */
        bool milli_cores; /* acVersion before 0.7.0: resource/cpu counts milli-cores */
        bool oom;
} Parser;

void parser_done(Parser *p);
#define _cleanup_parser_ _cleanup_(parser_done)
/* Descend one level in the document; the result is to be passed to parser_leave(). */
size_t parser_enter_key(Parser *p, const char *key);
size_t parser_enter_index(Parser *p, size_t i);
void parser_leave(Parser *p, size_t mark);
/* Records an error at the current path. */
void parser_finding(Parser *p, const char *format, ...) _printf_(2, 3);
/* The same for the member KEY of the current object. */
void parser_finding_at(Parser *p, const char *key, const char *message);
/* Records that the member KEY of the current object is unknown. */
void parser_warning(Parser *p, const char *message); /* a defect that is accepted */
void parser_unknown_key(Parser *p, const char *key);
/* Records the content of an error object, which is released. */
void parser_finding_error(Parser *p, Error *e);
void parser_wrong_type(Parser *p, const char *expected, json_object *v);
/* Reports elements of a list (structures whose first member is the name) that have the name of an earlier
 * one. */
void parser_check_unique(Parser *p, const void *items, size_t n, size_t item_size);
/* The result for the caller of the parser: 0, or -EINVAL with the first finding, counted from FIRST, in the
 * error. */
int parser_conclude(Parser *p, const char *what, size_t first, Error *e);

/* As json_parse_strict(), but string values may contain "\u0000": the caller checks them by json_string_has_nul() before it uses
 * them as C strings. */
int json_parse_with_nul(const char *text, size_t size, json_object **ret, Findings *findings, Error *e);
bool json_string_has_nul(json_object *string);

int findings_add(Findings *f, const char *path, const char *message);
/* An untrusted string for a message: in quotes, escaped, truncated if it is long. */
char *quote_value(const char *s);
/* "VALUE" WHY, as -EINVAL. */
int error_value(Error *e, const char *value, const char *why);

typedef struct Type Type;

typedef struct Field {
        const char *name; /* NULL ends the table */
        const Type *type;
        size_t offset;
        unsigned flags;
} Field;

#define FIELD_REQUIRED (1U << 0)
#define FIELD_NULL_COUNTS (1U << 1) /* null is a value, not the absence of one */

struct Type {
        /* Parses V into TARGET, which is zeroed. Errors are added to the findings. */
        void (*parse)(Parser *p, const Type *t, json_object *v, void *target);
        /* Returns 1 and the value, or 0 if it is absent from the document. */
        int (*format)(const Type *t, const void *source, json_object **ret);
        /* Needed for types that are part of an app. NULL: copy SIZE plain bytes. TARGET is zeroed, and may
         * be incomplete on failure; done() cleans it up. */
        int (*copy)(const Type *t, const void *source, void *target);
        void (*done)(const Type *t, void *target); /* NULL: nothing to free */
        size_t size;

        /* Objects. */
        const Field *fields;
        void (*init)(void *target);              /* defaults, before the fields; or NULL */
        void (*finish)(Parser *p, void *target); /* checks across fields, called if each field is valid; or
                                                  * NULL */
        /* Lists and pointers. */
        const Type *item;
        bool growable, keep_empty;
        /* Strings: either a check, or a conversion to the stored form. */
        int (*check)(const char *s, Error *e);
        int (*convert)(const char *s, char **ret, Error *e);
        bool empty_is_absent;
        /* Documents: strings may contain NUL, which is an error only where the type has a string. */
        bool nul_is_parsed;
        bool extensible;      /* have members for others, of which no warning is given */
        bool not_empty;       /* lists of strings */
        const char *constant; /* the only value */
        /* Integers. */
        int64_t min, max;
        /* Quantities: stored units per 1. */
        uint64_t scale;
};

/* --- table.c ------------------------------------------------------------------------------------------- */

void object_parse(Parser *p, const Type *t, json_object *v, void *target);
int object_format(const Type *t, const void *source, json_object **ret);
int object_copy(const Type *t, const void *source, void *target);
void object_done(const Type *t, void *target);
#define OBJECT_OPS .parse = object_parse, .format = object_format, .copy = object_copy, .done = object_done

/* Lists: the common beginning of all list structures in schema.h. LIST_FIELD() checks at compile time that
 * the number follows the items. */
typedef struct List {
        void *items;
        size_t n;
        size_t allocated; /* growable lists only */
} List;

void list_parse(Parser *p, const Type *t, json_object *v, void *target);
int list_format(const Type *t, const void *source, json_object **ret);
int list_copy(const Type *t, const void *source, void *target);
void list_done(const Type *t, void *target);
#define LIST_OPS .parse = list_parse, .format = list_format, .copy = list_copy, .done = list_done

/* A pointer to an object of its own, NULL if absent. */
void pointer_parse(Parser *p, const Type *t, json_object *v, void *target);
int pointer_format(const Type *t, const void *source, json_object **ret);
int pointer_copy(const Type *t, const void *source, void *target);
void pointer_done(const Type *t, void *target);
#define POINTER_OPS                                                                                         \
        .parse = pointer_parse, .format = pointer_format, .copy = pointer_copy, .done = pointer_done

/* --- scalars.c ----------------------------------------------------------------------------------------- */

void string_parse(Parser *p, const Type *t, json_object *v, void *target);
int string_format(const Type *t, const void *source, json_object **ret);
int string_copy(const Type *t, const void *source, void *target);
void string_done(const Type *t, void *target);
#define STRING_OPS .parse = string_parse, .format = string_format, .copy = string_copy, .done = string_done

/* A list of strings that is a NULL-terminated array. */
void strings_parse(Parser *p, const Type *t, json_object *v, void *target);
int strings_format(const Type *t, const void *source, json_object **ret);
int strings_copy(const Type *t, const void *source, void *target);
void strings_done(const Type *t, void *target);
#define STRINGS_OPS                                                                                         \
        .parse = strings_parse, .format = strings_format, .copy = strings_copy, .done = strings_done

/* Reads V if it is an integer from MIN to MAX, or adds a finding. */
bool parse_integer(Parser *p, json_object *v, int64_t min, int64_t max, int64_t *ret);
void u32_parse(Parser *p, const Type *t, json_object *v, void *target);
int u32_format(const Type *t, const void *source, json_object **ret);
#define U32_OPS .parse = u32_parse, .format = u32_format, .size = sizeof(uint32_t)

extern const Type type_string, type_string_required, type_ac_name, type_ac_identifier, type_ac_version,
                type_image_id;
extern const Type type_bool;          /* bool; false is not written */
extern const Type type_optional_bool; /* two bools, the first tells whether the second was given */
extern const Type type_strings, type_uid, type_port_number;
extern const Type type_absolute_path;

/* A member with only one possible value, which is not stored in the structure. */
void constant_parse(Parser *p, const Type *t, json_object *v, void *target);
int constant_format(const Type *t, const void *source, json_object **ret);
#define CONSTANT_OPS .parse = constant_parse, .format = constant_format

/* --- Types for parts of manifests
 * ----------------------------------------------------------------------- */

extern const Type type_labels, type_annotations, type_environment, type_user_map; /* pairs.c */
extern const Type type_isolators;                                                 /* isolator.c */
extern const Type type_app_pointer, type_port_pointer;                            /* app.c */
extern const Type type_volume, type_volume_pointer;                               /* volume.c */
extern const Type type_mount_path;                                                /* app.c */

#define NUMBER_FOLLOWS(Struct, list_items, number)                                                          \
        (offsetof(Struct, number) == offsetof(Struct, list_items) + sizeof(void *))
#define LIST_FIELD(key, Struct, list_items, number, list_type, field_flags)                                 \
        {                                                                                                   \
                .name = (key), .type = (list_type), .flags = (field_flags),                                 \
                .offset = offsetof(Struct, list_items) +                                                    \
                          0 * sizeof(char[NUMBER_FOLLOWS(Struct, list_items, number) ? 1 : -1]),            \
        }

/* --- Values of isolators (isolator-resource.c; the rest is in isolator.c) ------------------------------ */

void isolator_bandwidth_parse(Parser *p, json_object *v, Isolator *i);
void isolator_memory_parse(Parser *p, json_object *v, Isolator *i);
void isolator_cpu_parse(Parser *p, json_object *v, Isolator *i);
void isolator_tasks_parse(Parser *p, json_object *v, Isolator *i);

/* --- Helpers of single types --------------------------------------------------------------------------- */

/* Parses a whole manifest: size, text, object. Returns as image_manifest_parse() does. */
int manifest_parse(const char *text, size_t size, const char *what, const Type *t, void *target,
                   Findings *findings, Error *e);
int manifest_format(const Type *t, const void *source, char **ret);
/* Whether version A.B of S (an AC Version) is below MAJOR.MINOR. */
bool ac_version_before(const char *s, uint64_t major, uint64_t minor);
/* Limits of what is read and written, besides MANIFEST_SIZE_MAX. */
#define JSON_VALUES_MAX (256U * 1024U)
#define JSON_CONTAINERS_MAX (64U * 1024U)
/* A JSON tree as canonical text. -EFBIG: json_parse_strict() would refuse it. */
int json_format(json_object *o, char **ret);
