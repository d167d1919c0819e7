/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A line of the record: a path and the file there.
 *
 *     rootfs/bin/sh       f 755 0 0 125688 - 6cd2…
 *     rootfs/bin/bash     f 755 0 0 125688 - =4711      another name of the file of the line at byte 4711
 *     rootfs/swap         f 600 0 0 1073741824 - ~90ab… a file with holes (see content-hash.c)
 *     rootfs/tmp          d 1777 0 0 - -
 *     rootfs/lib          l 777 0 0 - - usr/lib
 *     rootfs/dev/null     c 666 0 0 1:3 -
 *
 * After the path: type, mode, owner, group, size or device number, hash of the attributes, content. In paths
 * every special byte is escaped as % and two hex digits, so that a line can be split at its spaces.
 */

#include <inttypes.h>
#include <sys/sysmacros.h>

#include "prepare/unpack/record.h"

static const struct {
        mode_t type;
        char letter;
} types[] = {
                {S_IFREG, 'f'}, {S_IFDIR, 'd'}, {S_IFLNK, 'l'},  {S_IFCHR, 'c'},
                {S_IFBLK, 'b'}, {S_IFIFO, 'p'}, {S_IFSOCK, 's'},
};

static void add_escaped(Text *t, const char *s)
{
        const char *start = s;

        for (; *s; s++) {
                unsigned char c = (unsigned char) *s;
                if (c > ' ' && c != '%' && c != 0x7f)
                        continue;
                text_add_bytes(t, start, (size_t) (s - start));
                text_addf(t, "%%%02x", c);
                start = s + 1;
        }
        text_add_bytes(t, start, (size_t) (s - start));
}

static void add_number(Text *t, const RecordEntry *x)
{
        if (S_ISREG(x->mode))
                text_addf(t, "%" PRIu64, x->size);
        else if (S_ISCHR(x->mode) || S_ISBLK(x->mode))
                text_addf(t, "%u:%u", major(x->device), minor(x->device));
        else
                text_add(t, "-");
}

static void add_content(Text *t, const RecordEntry *x)
{
        if (S_ISLNK(x->mode)) {
                text_add(t, " ");
                add_escaped(t, x->link);
        } else if (x->first > 0)
                text_addf(t, " =%" PRIu64, x->first);
        else if (x->hash)
                text_addf(t, " %s%s", x->sparse ? "~" : "", x->hash);
        else if (x->inode > 0)
                text_addf(t, " #%" PRIu64, (uint64_t) x->inode);
}

void record_line_format(Text *t, const RecordEntry *x)
{
        char letter = '?';

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (types[i].type == (x->mode & S_IFMT))
                        letter = types[i].letter;
        add_escaped(t, x->path);
        text_addf(t, " %c %o %u %u ", letter, x->mode & 07777U, (unsigned) x->uid, (unsigned) x->gid);
        add_number(t, x);
        text_addf(t, " %s", x->xattrs ?: "-");
        add_content(t, x);
        text_add(t, "\n");
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int unescape(char *s)
{
        char *to = s;

        for (; *s; s++, to++) {
                if (*s != '%') {
                        *to = *s;
                        continue;
                }
                const char digits[] = {s[1], s[1] ? s[2] : 0, 0};
                if (hex_decode(digits, 1, to) < 0 || !*to)
                        return -EBADMSG;
                s += 2;
        }
        *to = 0;
        return 0;
}

static bool is_hash(const char *s)
{
        return strlen(s) == HASH_HEX_SIZE && strspn(s, "0123456789abcdef") == HASH_HEX_SIZE;
}

static int parse_type(const char *s, RecordEntry *x)
{
        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (s[0] == types[i].letter && !s[1]) {
                        x->mode |= types[i].type;
                        return 0;
                }
        return -EBADMSG;
}

static int parse_number(char *s, RecordEntry *x)
{
        uint32_t maj, min;

        if (S_ISREG(x->mode))
                return parse_u64(s, &x->size);
        if (!S_ISCHR(x->mode) && !S_ISBLK(x->mode))
                return streq(s, "-") ? 0 : -EBADMSG;
        char *colon = strchr(s, ':');
        if (!colon)
                return -EBADMSG;
        *colon = 0;
        int r = parse_u32(s, &maj);
        if (r >= 0)
                r = parse_u32(colon + 1, &min);
        if (r >= 0)
                x->device = makedev(maj, min);
        return r;
}

static int parse_content(char *s, RecordEntry *x)
{
        uint64_t inode = 0;

        if (S_ISLNK(x->mode)) {
                x->link = s;
                return s ? unescape(s) : -EBADMSG;
        }
        if (!s)
                return 0;
        if (!S_ISREG(x->mode))
                return -EBADMSG;
        if (s[0] == '=')
                return parse_u64(s + 1, &x->first);
        if (s[0] == '#') {
                int r = parse_u64(s + 1, &inode);
                x->inode = inode;
                return r;
        }
        x->sparse = s[0] == '~';
        x->hash = x->sparse ? s + 1 : s;
        return is_hash(x->hash) ? 0 : -EBADMSG;
}

enum {
        FIELD_PATH,
        FIELD_TYPE,
        FIELD_MODE,
        FIELD_UID,
        FIELD_GID,
        FIELD_NUMBER,
        FIELD_XATTRS,
        FIELD_CONTENT,
        _FIELD_MAX
};

int record_line_parse(char *line, RecordEntry *ret)
{
        char *fields[_FIELD_MAX] = {};
        RecordEntry x = {};
        uint32_t mode, uid, gid;
        size_t n = 0;

        for (char *p = line; p && n < _FIELD_MAX;)
                fields[n++] = strsep(&p, " ");
        if (n < FIELD_CONTENT || isempty(fields[FIELD_PATH]) || parse_octal(fields[FIELD_MODE], &mode) < 0 ||
            mode > 07777U || parse_u32(fields[FIELD_UID], &uid) < 0 ||
            parse_u32(fields[FIELD_GID], &gid) < 0)
                return -EBADMSG;
        x.mode = mode;
        x.uid = uid;
        x.gid = gid;
        x.path = fields[FIELD_PATH];
        if (unescape(fields[FIELD_PATH]) < 0 || parse_type(fields[FIELD_TYPE], &x) < 0 ||
            parse_number(fields[FIELD_NUMBER], &x) < 0 || parse_content(fields[FIELD_CONTENT], &x) < 0)
                return -EBADMSG;
        if (!streq(fields[FIELD_XATTRS], "-")) {
                if (!is_hash(fields[FIELD_XATTRS]))
                        return -EBADMSG;
                x.xattrs = fields[FIELD_XATTRS];
        }
        *ret = x;
        return 0;
}

/* --- Order --------------------------------------------------------------------------------------------- */

static int rank(unsigned char c)
{
        return c <= ' ' ? 0 : c == '/' ? 1 : c + 1;
}

int record_line_compare(const char *a, const char *b)
{
        while (*a == *b && rank((unsigned char) *a) > 0)
                a++, b++;
        return rank((unsigned char) *a) - rank((unsigned char) *b);
}
