/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Finding libraries below a root as the loader would, and collecting what was found. */

#include <limits.h>

#include "stage1/elf-file.h"
#include "stage1/ld-cache.h"

/* A file that was found. */
typedef struct Object {
        char *path;       /* absolute, below the root */
        const char *name; /* its last component */
        ElfFile elf;
        size_t loader; /* index of the object that it was found for, or NO_LOADER */
} Object;

#define NO_LOADER SIZE_MAX

/* Objects, none of them twice, all for the same machine as the first. What an object points to stays where
 * it is; the array does not. */
typedef struct Closure {
        int root_fd; /* not owned */
        Object *objects;
        size_t n_objects, objects_allocated;
        bool cache_needed; /* some library was found by the loader's cache, and would not be without */
        /* The rest is the search's own. */
        const char **common;
        size_t n_common, common_allocated;
        LdCache *cache;
        bool cache_tried;
        unsigned n_probes;
} Closure;

#define LD_CACHE_PATH "/etc/ld.so.cache"

void closure_done(Closure *c);
#define _cleanup_closure_ _cleanup_(closure_done)

/* Adds the file of that absolute name. 1: it is there, and now (or already) among the objects; 0: nothing
 * there that fits. */
int closure_add_path(Closure *c, const char *path, size_t loader, Error *e);
/* Adds the library NAME that the object LOADER asks for, and returns the same. NAME must live as long as the
 * closure. */
int closure_add_library(Closure *c, const char *name, size_t loader, Error *e);
