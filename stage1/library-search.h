/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Finds libraries below a root as the loader would, and collects them. */

#include <limits.h>

#include "stage1/elf-file.h"
#include "stage1/ld-cache.h"

/* A file that was found. */
typedef struct Object {
        char *path;       /* absolute, below the root */
        const char *name; /* last component of path */
        ElfFile elf;
        size_t loader; /* index of the object that it was found for, or NO_LOADER */
} Object;

#define NO_LOADER SIZE_MAX

/* Objects without duplicates, all for the same machine as the first. The strings that an object points to do
 * not move; the array may. */
typedef struct Closure {
        int root_fd; /* not owned */
        Object *objects;
        size_t n_objects, objects_allocated;
        bool cache_needed; /* some library was found only by the loader's cache */
        /* The rest is internal to the search. */
        const char **common;
        size_t n_common, common_allocated;
        LdCache *cache;
        bool cache_tried;
        unsigned n_probes;
} Closure;

#define LD_CACHE_PATH "/etc/ld.so.cache"

void closure_done(Closure *c);
#define _cleanup_closure_ _cleanup_(closure_done)

/* Adds the file with that absolute path. 1: it exists and is now (or was already) among the objects; 0:
 * there is no suitable file. */
int closure_add_path(Closure *c, const char *path, size_t loader, Error *e);
/* Adds the library NAME that the object LOADER needs; same return values. NAME must live as long as the
 * closure. */
int closure_add_library(Closure *c, const char *name, size_t loader, Error *e);
