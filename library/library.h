/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* library/: shared libraries that are loaded when they are needed for the first time.
 *
 * Half of acnspawn's verbs need none of them, and loading and relocating them (libcurl alone depends on
 * thirty others) would take longer than those verbs themselves. For each there is a header that replaces the
 * library's own: code that includes library/libcurl.h calls curl's functions as usual. Functions in the
 * table of that header can be called, others do not link.
 */

#include "basic/basic.h"

/* A function: its name in the library, and where its address is stored. */
typedef struct LibraryFunction {
        const char *name;
        void *slot;
} LibraryFunction;

typedef struct Library {
        const char *file;    /* "libcurl.so.4" */
        const char *package; /* Debian package, for messages */
        const char *purpose; /* "downloads" */
        const LibraryFunction *functions;
        size_t n_functions;
        void (*wrap)(void); /* called once all functions are resolved; or NULL */
        int loaded;         /* atomic; set after that */
} Library;

/* Loads the library, unless that has been done. Any number of threads may do it. -ELIBACC, with a message that
 * names the file and the package. To be called at the beginning of each operation that needs the library, so
 * that the operation fails cleanly and its caller gets the error. */
int library_load(Library *l, Error *e);
/* Whether functions of the library can be called, which is looked up before each call. A call without a previous
 * library_load() is an error of the program: in developers' builds (sanitized ones) it fails an assertion that names the
 * library, so that tests find it. In others the library is loaded here; if that fails, so does the call, see below. */
bool library_is_ready(Library *l);

/* Calls a function of the library. If the library is not available, the call fails: its value is NULL or -ELIBACC, which
 * is an error, or "different", by the conventions of each of these libraries. */
#define LIBRARY_CALL(library, function, ...)                                                                \
        (library_is_ready(&(library)) ? (function) (__VA_ARGS__) : LIBRARY_FAILURE((function) (__VA_ARGS__)))

/* CALL is not evaluated, only its type matters: void, a pointer (of class 5) or a number. */
#define LIBRARY_FAILURE(call)                                                                               \
        ((__typeof__(call)) (intptr_t) (__builtin_classify_type(__builtin_choose_expr(                      \
                                                        __builtin_types_compatible_p(__typeof__(call),      \
                                                                                     void),                 \
                                                        0, call)) == 5                                      \
                                                        ? 0                                                 \
                                                        : -ELIBACC))

/* An ELF note that lists the libraries that a file loads (the specification "dlopen metadata for ELF files"
 * of the UAPI group): packaging tools derive the dependencies of a package from it. */
typedef struct LibraryNote {
        uint32_t name_size, text_size, type;
        char name[4];
        char text[256];
} LibraryNote;

#define LIBRARY_NOTE_TYPE 0x407c0c0aU
#define LIBRARY_REQUIRED "required"       /* no pod can run without it */
#define LIBRARY_RECOMMENDED "recommended" /* some operations fail without it, with a message */

/* The library LIBRARY, a Library: FILE, PACKAGE, PURPOSE as there; LIST is the table of its functions, and
 * LIBRARY_TABLE, to be defined before, is where their addresses are stored. */
#define DEFINE_LIBRARY(library, list, priority, file_, package_, purpose_)                                  \
        static const LibraryFunction functions[] = {list(LIBRARY_ENTRY)};                                   \
        Library library = {                                                                                 \
                        .file = (file_),                                                                    \
                        .package = (package_),                                                              \
                        .purpose = (purpose_),                                                              \
                        .functions = functions,                                                             \
                        .n_functions = ELEMENTSOF(functions),                                               \
        };                                                                                                  \
        __attribute__((used, section(".note.dlopen"), aligned(4))) static const LibraryNote note = {        \
                        .name_size = sizeof(note.name),                                                     \
                        .text_size = sizeof(note.text),                                                     \
                        .type = LIBRARY_NOTE_TYPE,                                                          \
                        .name = "FDO",                                                                      \
                        .text = "[{\"feature\":\"" package_ "\",\"description\":\"" purpose_                \
                                "\",\"priority\":\"" priority "\",\"soname\":[\"" file_ "\"]}]",            \
        }

#define LIBRARY_MEMBER(function) __typeof__(function) *function;
#define LIBRARY_ENTRY(function) {#function, &LIBRARY_TABLE.function},
