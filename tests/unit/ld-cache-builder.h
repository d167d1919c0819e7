/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The loader's cache as ldconfig writes it, from names and paths that must be given in the cache's order. */

#include "basic/basic.h"

typedef struct CacheLine {
        const char *name, *path;
        uint64_t hwcap;
} CacheLine;

static inline void cache_put_u32(Text *t, uint32_t v)
{
        text_add_bytes(t, &v, sizeof(v));
}

static inline void cache_put_zeros(Text *t, size_t n)
{
        for (; n > 0; n--)
                text_add_bytes(t, "", 1);
}

/* With OLD, behind the table of loaders of long ago. */
static inline int cache_build(const CacheLine *lines, size_t n, bool old, char **ret, size_t *ret_size)
{
        uint32_t offset = (uint32_t) (48 + n * 24), strings_size = 0;
        unsigned char flags[4] = {__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 2 : 3};
        Text t = {};

        for (size_t i = 0; i < n; i++)
                strings_size += (uint32_t) (strlen(lines[i].name) + strlen(lines[i].path) + 2);
        if (old) {
                text_add_bytes(&t, "ld.so-1.7.0", 12);
                cache_put_u32(&t, 1);
                cache_put_zeros(&t, 12 + 4); /* one entry, and what aligns the rest */
        }
        text_add(&t, "glibc-ld.so.cache1.1");
        cache_put_u32(&t, (uint32_t) n);
        cache_put_u32(&t, strings_size);
        text_add_bytes(&t, flags, sizeof(flags));
        cache_put_zeros(&t, 4 + 12);
        for (size_t i = 0; i < n; i++) {
                cache_put_u32(&t, 0x303);
                cache_put_u32(&t, offset);
                offset += (uint32_t) strlen(lines[i].name) + 1;
                cache_put_u32(&t, offset);
                offset += (uint32_t) strlen(lines[i].path) + 1;
                cache_put_u32(&t, 0);
                text_add_bytes(&t, &lines[i].hwcap, sizeof(lines[i].hwcap));
        }
        for (size_t i = 0; i < n; i++) {
                text_add_bytes(&t, lines[i].name, strlen(lines[i].name) + 1);
                text_add_bytes(&t, lines[i].path, strlen(lines[i].path) + 1);
        }
        int r = text_take(&t, ret, ret_size);
        text_done(&t);
        return r;
}
