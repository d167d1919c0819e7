/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writing tar.
 *
 * An image's ID is the digest of its tar archive, so its headers must depend only on the files: not on the
 * process, the clock, the locale, names of users, nor on the version of a library. Hence a dedicated writer,
 * for the basic format that every reader supports. Numbers and names that do not fit, attributes and ACLs
 * are written to an extended header before the entry (pax), in a fixed order.
 */

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "library/libcrypto.h"
#include "prepare/pack/pack-internal.h"

#define RECORD_SIZE 512U
#define OCTAL_MAX_7 07777777ULL      /* owners, devices */
#define OCTAL_MAX_11 077777777777ULL /* sizes, times */
#define EXTENDED_NAME "PaxHeaders/entry"

struct TarWriter {
        Compressor *compressor;
        EVP_MD_CTX *digest;
        uint64_t size;
        uint64_t missing; /* remaining bytes of content of the entry */
};

typedef struct Header {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
        char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
} Header;

_Static_assert(sizeof(Header) == RECORD_SIZE, "a header is one record");

int tar_writer_new(Compressor *c, TarWriter **ret, Error *e)
{
        _cleanup_(tar_writer_freep) TarWriter *w = NULL;

        int r = library_load(&crypto_library, e);
        if (r < 0)
                return r;
        w = calloc(1, sizeof(TarWriter));
        if (!w)
                return error_oom(e);
        *w = (TarWriter){.compressor = c, .digest = EVP_MD_CTX_new()};
        if (!w->digest || EVP_DigestInit_ex(w->digest, EVP_sha512(), NULL) != 1)
                return error_oom(e);
        *ret = TAKE_PTR(w);
        return 0;
}

const Operation *tar_writer_operation(const TarWriter *w)
{
        return compressor_operation(w->compressor);
}

TarWriter *tar_writer_free(TarWriter *w)
{
        if (!w)
                return NULL;
        EVP_MD_CTX_free(w->digest);
        free(w);
        return NULL;
}

static int put(TarWriter *w, const void *p, size_t size, Error *e)
{
        if (EVP_DigestUpdate(w->digest, p, size) != 1)
                return error_set(e, -EIO, "Cannot hash the image");
        w->size += size;
        return compressor_write(w->compressor, p, size, e);
}

static int put_padding(TarWriter *w, Error *e)
{
        static const char zeros[RECORD_SIZE];
        size_t n = (size_t) (RECORD_SIZE - w->size % RECORD_SIZE) % RECORD_SIZE;

        return n > 0 ? put(w, zeros, n, e) : 0;
}

/* --- Extended headers ---------------------------------------------------------------------------------- */

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static void add_record(Text *t, const char *key, const void *value, size_t size)
{
        size_t n = strlen(key) + size + 3, total = n + 1;
        char number[24];

        while (total != n + (size_t) snprintf(number, sizeof(number), "%zu", total))
                total = n + strlen(number);
        text_addf(t, "%s %s=", number, key);
        text_add_bytes(t, value, size);
        text_add(t, "\n");
}

static void add_record_text(Text *t, const char *key, const char *value)
{
        add_record(t, key, value, strlen(value));
}

static void add_record_number(Text *t, const char *key, int64_t number)
{
        char value[24];

        snprintf(value, sizeof(value), "%" PRId64, number);
        add_record_text(t, key, value);
}

static int add_xattrs(Text *t, const TarEntry *x, Error *e)
{
        for (size_t i = 0; i < x->n_xattrs; i++) {
                _cleanup_free_ char *key = NULL;

                if (strpbrk(x->xattrs[i].name, "=\n"))
                        return pack_error(e, -ENOTSUP, x->path,
                                          "the name of its attribute %s cannot be written to an archive",
                                          x->xattrs[i].name);
                if (xasprintf(&key, "SCHILY.xattr.%s", x->xattrs[i].name) < 0)
                        return error_oom(e);
                add_record(t, key, x->xattrs[i].value, x->xattrs[i].size);
        }
        return 0;
}

static int extended_records(Text *t, const TarEntry *x, const char *long_path, const char *long_link,
                            Error *e)
{
        if ((long_path && !utf8_is_valid(long_path, strlen(long_path))) ||
            (long_link && !utf8_is_valid(long_link, strlen(long_link))))
                add_record_text(t, "hdrcharset", "BINARY");
        if (long_path)
                add_record_text(t, "path", long_path);
        if (long_link)
                add_record_text(t, "linkpath", long_link);
        if (x->size > OCTAL_MAX_11)
                add_record_number(t, "size", (int64_t) x->size);
        if (x->uid > OCTAL_MAX_7)
                add_record_number(t, "uid", x->uid);
        if (x->gid > OCTAL_MAX_7)
                add_record_number(t, "gid", x->gid);
        if (x->mtime < 0 || x->mtime > (int64_t) OCTAL_MAX_11)
                add_record_number(t, "mtime", x->mtime);
        if (x->acl_access)
                add_record_text(t, "SCHILY.acl.access", x->acl_access);
        if (x->acl_default)
                add_record_text(t, "SCHILY.acl.default", x->acl_default);
        return add_xattrs(t, x, e);
}

/* --- Headers ------------------------------------------------------------------------------------------- */

/* A value that does not fit is in the extended header, and is 0 here. */
static void set_octal(char *field, size_t size, uint64_t value)
{
        char text[24];

        snprintf(text, sizeof(text), "%0*" PRIo64, (int) size - 1, value >> (3 * (size - 1)) ? 0 : value);
        memcpy(field, text, size);
}

/* Names of up to 255 bytes fit if there is a slash at a suitable position. */
static bool set_name(Header *h, const char *path)
{
        size_t n = strlen(path);

        if (n <= sizeof(h->name)) {
                memcpy(h->name, path, n);
                return true;
        }
        for (const char *p = path + MIN(n, sizeof(h->prefix)); p > path; p--) {
                size_t rest = n - (size_t) (p - path) - 1;
                if (*p != '/' || rest == 0)
                        continue;
                if (rest > sizeof(h->name))
                        break;
                memcpy(h->prefix, path, (size_t) (p - path));
                memcpy(h->name, p + 1, rest);
                return true;
        }
        memcpy(h->name, path, sizeof(h->name));
        return false;
}

static void set_checksum(Header *h)
{
        const unsigned char *p = (const unsigned char *) h;
        unsigned sum = 0;

        memset(h->checksum, ' ', sizeof(h->checksum));
        for (size_t i = 0; i < sizeof(*h); i++)
                sum += p[i];
        set_octal(h->checksum, sizeof(h->checksum) - 1, sum);
}

static void set_numbers(Header *h, const TarEntry *x)
{
        bool is_device = S_ISCHR(x->mode) || S_ISBLK(x->mode);

        set_octal(h->mode, sizeof(h->mode), x->mode & 07777);
        set_octal(h->uid, sizeof(h->uid), x->uid);
        set_octal(h->gid, sizeof(h->gid), x->gid);
        set_octal(h->size, sizeof(h->size), h->type == '0' || h->type == 'x' ? x->size : 0);
        set_octal(h->mtime, sizeof(h->mtime), x->mtime < 0 ? 0 : (uint64_t) x->mtime);
        memcpy(h->magic, "ustar", sizeof(h->magic));
        memcpy(h->version, "00", sizeof(h->version));
        set_octal(h->major, sizeof(h->major), is_device ? major(x->device) : 0);
        set_octal(h->minor, sizeof(h->minor), is_device ? minor(x->device) : 0);
}

static int put_extended(TarWriter *w, const Text *records, Error *e)
{
        const TarEntry x = {.mode = S_IFREG | 0644, .size = records->size};
        Header h = {.name = EXTENDED_NAME, .type = 'x'};

        set_numbers(&h, &x);
        set_checksum(&h);
        int r = put(w, &h, sizeof(h), e);
        if (r >= 0)
                r = put(w, records->data, records->size, e);
        return r < 0 ? r : put_padding(w, e);
}

static const struct {
        mode_t type;
        char tar;
} types[] = {
                {S_IFREG, '0'}, {S_IFLNK, '2'}, {S_IFCHR, '3'},
                {S_IFBLK, '4'}, {S_IFDIR, '5'}, {S_IFIFO, '6'},
};

static char entry_type(const TarEntry *x)
{
        if (x->link && !S_ISLNK(x->mode))
                return '1';
        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (types[i].type == (x->mode & S_IFMT))
                        return types[i].tar;
        return 0;
}

static int put_header(TarWriter *w, const TarEntry *x, const char *path, Error *e)
{
        size_t n = x->link ? strlen(x->link) : 0;
        Header h = {.type = entry_type(x)};
        _cleanup_text_ Text records = {};

        if (h.type == 0)
                return pack_error(e, -ENOTSUP, x->path, "it is of a kind that images cannot contain");
        bool short_path = set_name(&h, path), short_link = n <= sizeof(h.link);
        if (n > 0)
                memcpy(h.link, x->link, MIN(n, sizeof(h.link)));
        int r = extended_records(&records, x, short_path ? NULL : path, short_link ? NULL : x->link, e);
        if (r < 0)
                return r;
        if (records.failed)
                return error_oom(e);
        if (records.size > 0)
                r = put_extended(w, &records, e);
        if (r < 0)
                return r;
        set_numbers(&h, x);
        set_checksum(&h);
        return put(w, &h, sizeof(h), e);
}

int tar_writer_add(TarWriter *w, const TarEntry *x, Error *e)
{
        _cleanup_free_ char *path = NULL;

        if (w->missing > 0)
                return error_set(e, -EINVAL, "The content of the entry before '%s' is not complete",
                                 x->path);
        if (xasprintf(&path, "%s%s", x->path, S_ISDIR(x->mode) ? "/" : "") < 0)
                return error_oom(e);
        int r = put_header(w, x, path, e);
        if (r < 0)
                return r;
        w->missing = S_ISREG(x->mode) && !x->link ? x->size : 0;
        return 0;
}

int tar_writer_add_content(TarWriter *w, const void *p, size_t size, Error *e)
{
        if (size > w->missing)
                return error_set(e, -EINVAL, "The content of an entry is longer than its header says");
        int r = put(w, p, size, e);
        if (r < 0)
                return r;
        w->missing -= size;
        return w->missing == 0 ? put_padding(w, e) : 0;
}

int tar_writer_add_text(TarWriter *w, const char *path, const char *text, size_t size, Error *e)
{
        const TarEntry x = {.path = path, .mode = S_IFREG | 0644, .size = size};
        int r = tar_writer_add(w, &x, e);

        return r < 0 ? r : tar_writer_add_content(w, text, size, e);
}

int tar_writer_finish(TarWriter *w, char **ret_id, uint64_t *ret_size, Error *e)
{
        static const char zeros[2 * RECORD_SIZE];
        unsigned char hash[EVP_MAX_MD_SIZE];
        _cleanup_free_ char *hex = NULL, *id = NULL;
        unsigned n = 0;

        if (w->missing > 0)
                return error_set(e, -EINVAL, "The content of the last entry is not complete");
        int r = put(w, zeros, sizeof(zeros), e);
        if (r >= 0)
                r = compressor_finish(w->compressor, e);
        if (r < 0)
                return r;
        if (EVP_DigestFinal_ex(w->digest, hash, &n) != 1)
                return error_set(e, -EIO, "Cannot hash the image");
        hex = hex_encode(hash, n);
        if (!hex || xasprintf(&id, IMAGE_ID_PREFIX "%s", hex) < 0)
                return error_oom(e);
        if (ret_id)
                *ret_id = TAKE_PTR(id);
        if (ret_size)
                *ret_size = w->size;
        return 0;
}
