/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads the loader's cache, in the format that glibc's ldconfig writes ("glibc-ld.so.cache1.1").
 *
 * It is a header, a table of entries, and strings; an entry has the offsets of a library's name and of its
 * path. The table is sorted by name, in descending order, numbers in names compared as numbers, so that a
 * name is found by bisection. A table in an older format may come first, for old loaders; it is skipped.
 * Entries for particular processors (glibc-hwcaps) are ignored: there is always a generic one as well.
 *
 * Offsets are checked when they are used, and strings must end inside of the file; so nothing has to be
 * checked when the cache is opened, and opening it takes no time.
 */

#include "stage1/ld-cache.h"

#define OLD_MAGIC "ld.so-1.7.0"
#define OLD_HEADER_SIZE 16U
#define OLD_ENTRY_SIZE 12U
#define MAGIC "glibc-ld.so.cache1.1"
#define ENTRIES_MAX (1024U * 1024U)

/* In the header's flags: the byte order, or 0 if written by a version that did not set it. */
#define BYTE_ORDER_MASK 3U
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BYTE_ORDER_NATIVE 2U
#else
#define BYTE_ORDER_NATIVE 3U
#endif

typedef struct Header {
        char magic[sizeof(MAGIC) - 1];
        uint32_t n_entries, strings_size;
        uint8_t flags, padding[3];
        uint32_t extension_offset, unused[3];
} Header;

typedef struct Entry {
        int32_t flags;
        uint32_t name, path; /* offsets from the header on */
        uint32_t os_version;
        uint64_t hwcap;
} Entry;

_Static_assert(sizeof(Header) == 48 && sizeof(Entry) == 24, "layout of the cache");

struct LdCache {
        char *data;       /* as it was read */
        const char *base; /* the header, in data */
        size_t size;      /* size from there on */
        size_t n_entries;
};

LdCache *ld_cache_free(LdCache *c)
{
        if (c) {
                free(c->data);
                free(c);
        }
        return NULL;
}

/* The offset of the header: after the old table, if there is one. */
static size_t header_offset(const char *data, size_t size)
{
        uint32_t n;

        if (size < OLD_HEADER_SIZE || memcmp(data, OLD_MAGIC, strlen(OLD_MAGIC)) != 0)
                return 0;
        memcpy(&n, data + OLD_HEADER_SIZE - sizeof(n), sizeof(n));
        if (n > ENTRIES_MAX)
                return SIZE_MAX;
        return (OLD_HEADER_SIZE + (size_t) n * OLD_ENTRY_SIZE + 7) / 8 * 8;
}

static int open_cache(LdCache *c, size_t size)
{
        size_t offset = header_offset(c->data, size);
        Header h;

        if (offset > size || size - offset < sizeof(h))
                return -EBADMSG;
        c->base = c->data + offset;
        c->size = size - offset;
        memcpy(&h, c->base, sizeof(h));
        if (memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0)
                return -EBADMSG;
        if ((h.flags & BYTE_ORDER_MASK) != 0 && (h.flags & BYTE_ORDER_MASK) != BYTE_ORDER_NATIVE)
                return -EBADMSG;
        if (h.n_entries > ENTRIES_MAX || h.n_entries > (c->size - sizeof(h)) / sizeof(Entry))
                return -EBADMSG;
        c->n_entries = h.n_entries;
        return 0;
}

int ld_cache_new(char *data, size_t size, LdCache **ret)
{
        _cleanup_(ld_cache_freep) LdCache *c = calloc(1, sizeof(*c));

        if (!c) {
                free(data);
                return -ENOMEM;
        }
        c->data = data;
        int r = open_cache(c, size);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

static Entry entry_at(const LdCache *c, size_t i)
{
        Entry e;

        memcpy(&e, c->base + sizeof(Header) + i * sizeof(e), sizeof(e));
        return e;
}

/* The string at OFFSET; NULL if it begins or ends outside of the file. */
static const char *string_at(const LdCache *c, uint32_t offset)
{
        if (offset >= c->size || !memchr(c->base + offset, 0, c->size - offset))
                return NULL;
        return c->base + offset;
}

/* Compares the numbers that begin at *A and *B, and advances past them. They may exceed any integer type. */
static int compare_numbers(const char **a, const char **b)
{
        *a += strspn(*a, "0");
        *b += strspn(*b, "0");
        size_t n = strspn(*a, "0123456789"), m = strspn(*b, "0123456789");
        int k = n == m ? memcmp(*a, *b, n) : n < m ? -1 : 1;
        *a += n;
        *b += m;
        return k;
}

/* The order of the table: digits after all other characters, numbers by value, other characters by code. */
static int compare_names(const char *a, const char *b)
{
        while (*a) {
                if (is_digit(*a) && is_digit(*b)) {
                        int k = compare_numbers(&a, &b);
                        if (k != 0)
                                return k;
                } else if (is_digit(*a) != is_digit(*b))
                        return is_digit(*a) ? 1 : -1;
                else if (*a != *b)
                        return *a < *b ? -1 : 1; /* as plain char, like ldconfig */
                else
                        a++, b++;
        }
        return *b ? -1 : 0;
}

/* The first entry whose name does not come before NAME; -EBADMSG if the bisection reaches an invalid one. */
static int find_first(const LdCache *c, const char *name, size_t *ret)
{
        size_t low = 0, high = c->n_entries;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                const char *s = string_at(c, entry_at(c, middle).name);
                if (!s)
                        return -EBADMSG;
                if (compare_names(s, name) > 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret = low;
        return 0;
}

int ld_cache_lookup(const LdCache *c, const char *name, int (*found)(const char *path, void *userdata),
                    void *userdata)
{
        size_t i;
        int r = find_first(c, name, &i);

        if (r < 0)
                return r;
        for (; i < c->n_entries; i++) {
                Entry e = entry_at(c, i);
                const char *s = string_at(c, e.name), *path = string_at(c, e.path);
                if (!s || compare_names(s, name) != 0)
                        break;
                if (!streq(s, name) || !path || path[0] != '/' || e.hwcap != 0)
                        continue;
                r = found(path, userdata);
                if (r != 0)
                        return r;
        }
        return 0;
}
