/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Image archives made byte by byte, so that tests can make wrong ones as well.
 *
 *     _cleanup_text_ Text t = {};
 *     aci_manifest(&t, ACI_MANIFEST("example.com/app", ""));
 *     aci_dir(&t, "rootfs");
 *     aci_file(&t, "rootfs/x", "content");
 *     aci_end(&t);
 *
 * aci_entry() takes the whole of a header. PAX records for the next entry come before it by aci_pax().
 */

#include <archive.h>
#include <archive_entry.h>
#include <sys/mman.h>

#include "basic/basic.h"
#include "prepare/pods/pods-internal.h"
#include "prepare/prepare.h"
#include "prepare/unpack/unpack.h"

typedef struct AciEntry {
        const char *name;
        char type; /* '0' file, '1' hard link, '2' symlink, '3' char, '4' block, '5' dir, '6' fifo */
        uint32_t mode, uid, gid;
        uint64_t mtime;
        const char *link;
        uint32_t major, minor;
        const void *content;
        size_t size;
        bool no_content; /* state the size, but leave the content out */
} AciEntry;

#define ACI_MANIFEST(name, more)                                                                            \
        "{\"acKind\":\"ImageManifest\",\"acVersion\":\"0.8.11\",\"name\":\"" name "\"" more "}"
#define ACI_VERSION(v) ",\"labels\":[{\"name\":\"version\",\"value\":\"" v "\"}]"

static inline void aci_pad(Text *t)
{
        static const char zeros[512];

        text_add_bytes(t, zeros, (512 - t->size % 512) % 512);
}

static inline void aci_checksum(unsigned char *h)
{
        unsigned sum = 0;

        memset(h + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
                sum += h[i];
        snprintf((char *) h + 148, 8, "%06o", sum);
}

static inline void aci_entry(Text *t, AciEntry x)
{
        unsigned char h[512] = {};

        memcpy(h, x.name, MIN(strlen(x.name), (size_t) 100));
        snprintf((char *) h + 100, 8, "%07o", x.mode & 07777U);
        snprintf((char *) h + 108, 8, "%07o", x.uid);
        snprintf((char *) h + 116, 8, "%07o", x.gid);
        snprintf((char *) h + 124, 12, "%011llo", (unsigned long long) x.size);
        snprintf((char *) h + 136, 12, "%011llo", (unsigned long long) x.mtime);
        h[156] = (unsigned char) x.type;
        if (x.link)
                memcpy(h + 157, x.link, MIN(strlen(x.link), (size_t) 100));
        memcpy(h + 257,
               "ustar\0"
               "00",
               8);
        snprintf((char *) h + 329, 8, "%07o", x.major);
        snprintf((char *) h + 337, 8, "%07o", x.minor);
        aci_checksum(h);
        text_add_bytes(t, h, sizeof(h));
        if (x.size > 0 && !x.no_content) {
                text_add_bytes(t, x.content, x.size);
                aci_pad(t);
        }
}

/* Attributes of the next entry: "path=…", "SCHILY.xattr.user.x=…". */
static inline void aci_pax(Text *t, const char *const *records)
{
        _cleanup_text_ Text body = {};

        for (; *records; records++) {
                /* The number counts itself. */
                size_t n = strlen(*records) + 2, total = n + 1;
                while (total != n + (size_t) snprintf(NULL, 0, "%zu", total))
                        total = n + (size_t) snprintf(NULL, 0, "%zu", total);
                text_addf(&body, "%zu %s\n", total, *records);
        }
        aci_entry(t, (AciEntry){.name = "PaxHeader",
                                .type = 'x',
                                .mode = 0644,
                                .content = body.data,
                                .size = body.size});
}
#define ACI_PAX(t, ...) aci_pax((t), (const char *const[]){__VA_ARGS__, NULL})

static inline void aci_file(Text *t, const char *name, const char *content)
{
        aci_entry(t, (AciEntry){.name = name,
                                .type = '0',
                                .mode = 0644,
                                .content = content,
                                .size = strlen(content)});
}

static inline void aci_manifest(Text *t, const char *manifest)
{
        aci_file(t, "manifest", manifest);
}

static inline void aci_dir(Text *t, const char *name)
{
        aci_entry(t, (AciEntry){.name = name, .type = '5', .mode = 0755});
}

static inline void aci_symlink(Text *t, const char *name, const char *target)
{
        aci_entry(t, (AciEntry){.name = name, .type = '2', .mode = 0777, .link = target});
}

static inline void aci_hard_link(Text *t, const char *name, const char *target)
{
        aci_entry(t, (AciEntry){.name = name, .type = '1', .mode = 0644, .link = target});
}

/* A manifest and an empty rootfs: the beginning of most archives here. */
static inline void aci_begin(Text *t)
{
        aci_manifest(t, ACI_MANIFEST("example.com/app", ACI_VERSION("1.0")));
        aci_dir(t, "rootfs");
}

static inline void aci_end(Text *t)
{
        static const char zeros[1024];

        text_add_bytes(t, zeros, sizeof(zeros));
}

static inline int aci_fd(const void *p, size_t n)
{
        int fd = memfd_create("aci", MFD_CLOEXEC);

        if (fd >= 0 && (loop_write(fd, p, n) < 0 || lseek(fd, 0, SEEK_SET) < 0))
                fd = safe_close(fd);
        return fd;
}

static inline int aci_import(Store *s, const Text *t, Image **ret, Error *e)
{
        _cleanup_close_ int fd = aci_fd(t->data, t->size);

        return fd < 0 ? -errno : image_import(s, fd, "test.aci", ret, e);
}

/* Imports an image made of a manifest and of files ("path" "content" …, NULL at the end), which are below
 * rootfs. */
static inline int aci_import_files(Store *s, const char *manifest, const char *const *files, Image **ret,
                                   Error *e)
{
        _cleanup_text_ Text t = {};

        aci_manifest(&t, manifest);
        aci_dir(&t, "rootfs");
        for (; files && *files; files += 2)
                aci_file(&t, files[0], files[1]);
        aci_end(&t);
        return aci_import(s, &t, ret, e);
}

/* Compresses with one of libarchive's filters: ARCHIVE_FILTER_GZIP, … */
static inline int aci_compress(const Text *t, int filter, Text *ret)
{
        _cleanup_free_ char *buffer = malloc(t->size + (1U << 20));
        struct archive *a = archive_write_new();
        struct archive_entry *entry = archive_entry_new();
        size_t used = 0;

        archive_write_add_filter(a, filter);
        archive_write_set_format_raw(a);
        archive_write_set_bytes_in_last_block(a, 1);
        archive_write_open_memory(a, buffer, t->size + (1U << 20), &used);
        archive_entry_set_pathname(entry, "x");
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_write_header(a, entry);
        archive_write_data(a, t->data, t->size);
        int r = archive_write_close(a);
        archive_write_free(a);
        archive_entry_free(entry);
        text_add_bytes(ret, buffer, used);
        return r == ARCHIVE_OK && used > 0 ? 0 : -EIO;
}
