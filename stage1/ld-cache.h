/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The loader's cache of libraries, /etc/ld.so.cache. */

#include "basic/basic.h"

typedef struct LdCache LdCache;

/* DATA is the content of the file; the cache takes ownership and frees it, on failure at once. -EBADMSG: not
 * a cache of this machine's byte order, or damaged. */
int ld_cache_new(char *data, size_t size, LdCache **ret);
LdCache *ld_cache_free(LdCache *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(LdCache *, ld_cache_free);

/* Calls FOUND for each path that is recorded for NAME, in the loader's order of preference, until it returns
 * a value other than 0, and returns that; 0 if there is none. There is more than one where libraries for
 * several machines are installed. */
int ld_cache_lookup(const LdCache *c, const char *name, int (*found)(const char *path, void *userdata),
                    void *userdata);
