/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks the headers of a tar entry for errors that the tar reader ignores silently.
 *
 * libarchive parses the leading digits of a number and ignores the rest: a size of "12x4" is parsed as 10,
 * one of "none" as 0, and the data that follows is then misinterpreted or skipped. GNU tar and the tar
 * readers of container tools refuse such headers, and so does this check, which gets exactly the bytes that
 * libarchive has consumed for an entry: headers that only precede another one (PAX records, long names) with
 * their content, the header itself, and the maps of sparse files.
 *
 * The numbers of a header are octal digits between spaces and NULs, or binary (GNU: the first byte is 0x80,
 * or 0xff for a negative number). Those of PAX records are decimal. Global PAX records, which libarchive
 * ignores, are refused if they would affect how an entry is unpacked.
 */

#include "prepare/unpack/unpack-internal.h"

#define HEADER_SIZE 512U
#define RECORD_VALUE_SHOWN 32U

/* What is accepted besides a plain number. */
enum {
        NUMBER_BLANK = 1 << 0,    /* missing: spaces and NULs only */
        NUMBER_NEGATIVE = 1 << 1, /* less than zero */
};

typedef struct Field {
        const char *name;
        size_t offset, size;
        unsigned flags;
} Field;

static const Field fields[] = {
                {"mode", 100, 8, NUMBER_BLANK},
                {"owner", 108, 8, NUMBER_BLANK},
                {"group", 116, 8, NUMBER_BLANK},
                {"modification time", 136, 12, NUMBER_BLANK | NUMBER_NEGATIVE},
                {"checksum", 148, 8, 0},
};

static const Field size_field = {"size", 124, 12, NUMBER_BLANK};

static const Field device_fields[] = {
                {"device's major number", 329, 8, NUMBER_BLANK},
                {"device's minor number", 337, 8, NUMBER_BLANK},
};

/* --- Numbers of headers -------------------------------------------------------------------------------- */

static bool is_blank(unsigned char c)
{
        return c == 0 || c == ' ';
}

/* Two's complement in network byte order; the first byte only says that it is one. */
static bool parse_binary(const unsigned char *p, size_t n, int64_t *ret)
{
        bool negative = p[0] == 0xff;
        uint64_t x = negative ? UINT64_MAX : 0;

        if (!negative && p[0] != 0x80)
                return false;
        for (size_t i = 1; i < n; i++) {
                if (x >> 55 != (negative ? UINT64_MAX >> 55 : 0)) /* the next shift would overflow */
                        return false;
                x = x << 8 | p[i];
        }
        *ret = (int64_t) x;
        return (*ret < 0) == negative;
}

static bool parse_digits(const unsigned char *p, size_t n, int64_t *ret)
{
        uint64_t x = 0;
        size_t i = 0;

        while (i < n && p[i] == ' ')
                i++;
        if (i == n || p[i] < '0' || p[i] > '7')
                return false;
        for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
                x = x << 3 | (uint64_t) (p[i] - '0'); /* at most 12 digits */
        while (i < n && is_blank(p[i]))
                i++;
        *ret = (int64_t) x;
        return i == n;
}

static bool parse_number(const unsigned char *p, size_t n, unsigned flags, int64_t *ret)
{
        size_t blank = 0;

        if (p[0] & 0x80)
                return parse_binary(p, n, ret) && (*ret >= 0 || (flags & NUMBER_NEGATIVE));
        while (blank < n && is_blank(p[blank]))
                blank++;
        if (blank < n)
                return parse_digits(p, n, ret);
        *ret = 0;
        return flags & NUMBER_BLANK;
}

static int check_field(const unsigned char *header, const Field *f, const char *path, int64_t *ret, Error *e)
{
        const unsigned char *p = header + f->offset;
        _cleanup_free_ char *text = NULL, *shown = NULL;
        int64_t x;

        if (parse_number(p, f->size, f->flags, ret ?: &x))
                return 0;
        if (parse_binary(p, f->size, &x))
                return unpack_error(e, -EBADMSG, path, "the %s in its header is negative (%" PRId64 ")",
                                    f->name, x);
        if (p[0] & 0x80)
                return unpack_error(e, -EBADMSG, path, "the %s in its header is out of range", f->name);
        text = strndup((const char *) p, f->size);
        shown = text ? text_escape_for_terminal(text) : NULL;
        return unpack_error(e, -EBADMSG, path, "the %s in its header is not a number ('%s')", f->name,
                            shown ?: "?");
}

/* --- Kinds of headers ---------------------------------------------------------------------------------- */

/* Such a header describes the entry after it. */
static bool is_prefix(char type)
{
        return memchr("xXgLKAV", type, 7);
}

/* Whether the data after the header has the stated size. */
static bool has_content(char type)
{
        return type == 0 || memchr("07SxXgLKA", type, 9);
}

static bool has_magic(const unsigned char *header)
{
        return memcmp(header + 257, "ustar", 5) == 0;
}

static int check_header(const unsigned char *header, const char *path, int64_t *ret_size, Error *e)
{
        char type = (char) header[156];
        Field size = size_field;
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(fields) && r >= 0; i++)
                r = check_field(header, &fields[i], path, NULL, e);
        if (r < 0)
                return r;
        if (has_content(type))
                size.flags = 0;
        r = check_field(header, &size, path, ret_size, e);
        if (r < 0)
                return r;
        if ((type != '3' && type != '4') || !has_magic(header))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(device_fields) && r >= 0; i++)
                r = check_field(header, &device_fields[i], path, NULL, e);
        return r;
}

/* --- Sparse files as GNU tar has them ------------------------------------------------------------------ */

/* N pairs of offset and size; the first one that is blank is the end. */
static int check_map(const unsigned char *p, size_t n, const char *path, Error *e)
{
        static const Field parts[] = {{"sparse map", 0, 12, 0}, {"sparse map", 12, 12, 0}};

        for (size_t i = 0; i < n && p[24 * i] != 0; i++)
                for (size_t k = 0; k < ELEMENTSOF(parts); k++) {
                        int r = check_field(p + 24 * i, &parts[k], path, NULL, e);
                        if (r < 0)
                                return r;
                }
        return 0;
}

/* Moves *OFFSET from the end of the header to the end of the extension blocks of its map. */
static int check_sparse(const unsigned char *p, size_t n, size_t *offset, const char *path, Error *e)
{
        static const Field real_size = {"whole size", 483, 12, 0};
        const unsigned char *header = p + *offset - HEADER_SIZE;
        bool more = header[482] != 0;

        int r = check_field(header, &real_size, path, NULL, e);
        if (r >= 0)
                r = check_map(header + 386, 4, path, e);
        while (r >= 0 && more) {
                if (n - *offset < HEADER_SIZE)
                        return unpack_error(e, -EBADMSG, path, "its sparse map is damaged");
                r = check_map(p + *offset, 21, path, e);
                more = p[*offset + 504] != 0;
                *offset += HEADER_SIZE;
        }
        return r;
}

/* --- PAX records --------------------------------------------------------------------------------------- */

typedef enum RecordKind {
        RECORD_NUMBER, /* digits */
        RECORD_TIME,   /* digits, perhaps with a sign and a fraction */
        RECORD_LIST,   /* digits and commas */
        RECORD_TEXT,
} RecordKind;

/* Those that affect unpacking. A key that ends in '.' is a prefix. */
static const struct {
        const char *key;
        RecordKind kind;
        bool harmless; /* may be global, which means that it is not applied */
} record_kinds[] = {
                {"size", RECORD_NUMBER},
                {"uid", RECORD_NUMBER},
                {"gid", RECORD_NUMBER},
                {"mtime", RECORD_TIME, true},
                {"atime", RECORD_TIME, true},
                {"ctime", RECORD_TIME, true},
                {"path", RECORD_TEXT},
                {"linkpath", RECORD_TEXT},
                {"SCHILY.devmajor", RECORD_NUMBER},
                {"SCHILY.devminor", RECORD_NUMBER},
                {"SCHILY.realsize", RECORD_NUMBER},
                {"SCHILY.xattr.", RECORD_TEXT},
                {"SCHILY.acl.", RECORD_TEXT},
                {"LIBARCHIVE.xattr.", RECORD_TEXT},
                {"GNU.sparse.map", RECORD_LIST},
                {"GNU.sparse.name", RECORD_TEXT},
                {"GNU.sparse.", RECORD_NUMBER},
};

static bool digits_are_valid(const char *p, size_t n)
{
        uint64_t x = 0;

        for (size_t i = 0; i < n; i++)
                if (!is_digit(p[i]) || __builtin_mul_overflow(x, 10U, &x) ||
                    __builtin_add_overflow(x, (uint64_t) (p[i] - '0'), &x))
                        return false;
        return n > 0 && x <= INT64_MAX;
}

static bool time_is_valid(const char *p, size_t n)
{
        if (n > 0 && p[0] == '-')
                p++, n--;
        const char *point = memchr(p, '.', n);
        size_t whole = point ? (size_t) (point - p) : n;
        for (size_t i = whole + 1; i < n; i++)
                if (!is_digit(p[i]))
                        return false;
        return digits_are_valid(p, whole);
}

static bool list_is_valid(const char *p, size_t n)
{
        while (n > 0) {
                const char *comma = memchr(p, ',', n);
                size_t k = comma ? (size_t) (comma - p) : n;
                if (!digits_are_valid(p, k))
                        return false;
                p += k + (comma != NULL);
                n -= k + (comma != NULL);
        }
        return true;
}

static bool value_is_valid(RecordKind kind, const char *p, size_t n)
{
        switch (kind) {
        case RECORD_NUMBER:
                return digits_are_valid(p, n);
        case RECORD_TIME:
                return time_is_valid(p, n);
        case RECORD_LIST:
                return list_is_valid(p, n);
        default:
                return true;
        }
}

static bool key_matches(const char *pattern, const char *key, size_t n)
{
        size_t m = strlen(pattern);

        return (n == m || (n > m && pattern[m - 1] == '.')) && memcmp(pattern, key, m) == 0;
}

static char *shown(const char *text, size_t size)
{
        _cleanup_free_ char *beginning = strndup(text, MIN(size, (size_t) RECORD_VALUE_SHOWN));

        return beginning ? text_escape_for_terminal(beginning) : NULL;
}

static int bad_value(const char *path, const char *key, size_t key_size, const char *value, size_t size,
                     Error *e)
{
        _cleanup_free_ char *name = shown(key, key_size), *text = shown(value, size);

        return unpack_error(e, -EBADMSG, path, "its PAX record %s is not a number ('%s')", name ?: "?",
                            text ?: "?");
}

static int check_record(const char *key, size_t key_size, const char *value, size_t size, bool global,
                        bool *ret_map, const char *path, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(record_kinds); i++) {
                if (!key_matches(record_kinds[i].key, key, key_size))
                        continue;
                if (global && !record_kinds[i].harmless)
                        return unpack_error(e, -EBADMSG, path,
                                            "the archive has a global PAX record %s, which is not supported",
                                            record_kinds[i].key);
                if (!value_is_valid(record_kinds[i].kind, value, size))
                        return bad_value(path, key, key_size, value, size, e);
                break;
        }
        if (key_matches("GNU.sparse.major", key, key_size) && size == 1 && value[0] == '1')
                *ret_map = true;
        return 0;
}

/* The records "LENGTH KEY=VALUE\n". *RET_MAP becomes true if a sparse map precedes the content. */
static int check_records(const char *p, size_t n, bool global, bool *ret_map, const char *path, Error *e)
{
        while (n > 0) {
                size_t digits = 0, length = 0;

                for (; digits < n && digits < 9 && is_digit(p[digits]); digits++)
                        length = length * 10 + (size_t) (p[digits] - '0');
                if (digits == 0 || digits >= n || p[digits] != ' ' || length > n || length < digits + 3 ||
                    p[length - 1] != '\n')
                        return unpack_error(e, -EBADMSG, path, "its PAX records are damaged");
                const char *key = p + digits + 1, *end = p + length - 1;
                const char *equals = memchr(key, '=', (size_t) (end - key));
                if (!equals || equals == key)
                        return unpack_error(e, -EBADMSG, path, "its PAX records are damaged");
                int r = check_record(key, (size_t) (equals - key), equals + 1, (size_t) (end - equals - 1),
                                     global, ret_map, path, e);
                if (r < 0)
                        return r;
                p += length;
                n -= length;
        }
        return 0;
}

/* --- All of them --------------------------------------------------------------------------------------- */

static int damaged(const char *path, Error *e)
{
        return unpack_error(e, -EBADMSG, path, "its headers are damaged");
}

int tar_headers_check(const void *headers, size_t n, const char *path, Error *e)
{
        const unsigned char *p = headers;
        bool has_map = false;
        size_t offset = 0;
        char type;

        do {
                int64_t size;

                if (n - offset < HEADER_SIZE)
                        return damaged(path, e);
                const unsigned char *header = p + offset;
                int r = check_header(header, path, &size, e);
                if (r < 0)
                        return r;
                offset += HEADER_SIZE;
                type = (char) header[156];
                if (!is_prefix(type) || type == 'V') /* a volume's label has no content */
                        continue;
                if ((uint64_t) size > n - offset ||
                    (n - offset) - (size_t) size < -(size_t) size % HEADER_SIZE)
                        return damaged(path, e);
                if (memchr("xXg", type, 3))
                        r = check_records((const char *) p + offset, (size_t) size, type == 'g', &has_map,
                                          path, e);
                if (r < 0)
                        return r;
                offset += (size_t) size + -(size_t) size % HEADER_SIZE;
        } while (is_prefix(type));

        if (type == 'S') {
                int r = check_sparse(p, n, &offset, path, e);
                if (r < 0)
                        return r;
        }
        /* Otherwise the tar reader and this check disagree about the offset of the content. */
        return offset == n || (has_map && offset < n) ? 0 : damaged(path, e);
}
