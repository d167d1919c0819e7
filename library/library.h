/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* library/: shared libraries that are loaded when they are needed for the first time.
 *
 * Half of what acnspawn can do needs none of them, and to load and relocate them (libcurl alone brings thirty
 * others) would take longer than that half itself. For each there is a header that stands in for its own:
 * code that includes library/libcurl.h calls curl's functions as always. What is in the table of functions of
 * that header can be called, anything else does not link.
 */

#include "basic/basic.h"

/* One function: its name in the library, and where its address goes. */
typedef struct LibraryFunction {
        const char *name;
        void *slot;
} LibraryFunction;

typedef struct Library {
        const char *file;    /* "libcurl.so.4" */
        const char *package; /* of Debian, for messages */
        const char *purpose; /* "downloads" */
        const LibraryFunction *functions;
        size_t n_functions;
        int loaded; /* atomic; set once all functions are there */
} Library;

/* Loads the library, unless that has been done. Any number of threads may do it. -ENOENT, -ELIBACC, with a
 * message that names the file and the package: for the beginning of an operation, so that it fails in order. */
int library_load(Library *l, Error *e);
/* The same for the middle of one, where nobody has asked first: without the library, the program ends with
 * the message. */
void library_need(Library *l);

#define LIBRARY_MEMBER(function) __typeof__(function) *function;
#define LIBRARY_ENTRY(function) {#function, &LIBRARY_TABLE.function},
