/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Importing an image archive: read once, checked, unpacked and hashed on the way (spec: aci.md, "Image
 * Archives").
 *
 * The pipeline delivers the uncompressed bytes, libarchive's tar reader takes them apart, unpack.c makes the
 * files below a temporary directory of the store. Only when the stream has been read to its end, and
 * everything in it was as it has to be, is the directory made durable and renamed to the image's ID. On any
 * failure the directory is removed; if we are killed, the flock on it dies with us, and the next collection
 * takes it away.
 *
 * The tar reader runs in the C locale, whatever the program's is: it would otherwise translate names, and
 * even in UTF-8 replace them by a canonical form. What it cannot translate it leaves as it is, byte for
 * byte, with a warning that is expected here; every other warning means that something of the archive would
 * be lost, and is an error.
 */

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <sys/stat.h>

#include "prepare/unpack/unpack.h"
#include "prepare/images/images.h"

typedef struct Import {
        Store *store;
        StoreTemporary temporary;
        Unpack unpack;
        Pipeline *pipeline;
        struct archive *archive;
        uint64_t fed;     /* bytes that the tar reader was given */
        uint64_t fed_max; /* more than that while it reads headers: refused */
        Error error;      /* of feeding it */
        char *manifest;
        size_t manifest_size;
        PipelineResult result;
        ImageManifest *parsed;
        ImageInfo info;
        locale_t locale, locale_before;
} Import;

static void import_done(Import *i)
{
        if (i->archive)
                (void) archive_read_free(i->archive);
        i->pipeline = pipeline_free(i->pipeline);
        unpack_done(&i->unpack);
        store_temporary_done(&i->temporary);
        error_done(&i->error);
        free(i->manifest);
        free(i->result.id);
        (void) image_manifest_free(i->parsed);
        image_info_done(&i->info);
        if (i->locale_before)
                (void) uselocale(i->locale_before);
        if (i->locale)
                freelocale(i->locale);
}

/* --- The tar reader ------------------------------------------------------------------------------------ */

static la_ssize_t feed(struct archive *a, void *userdata, const void **ret)
{
        Import *i = userdata;

        if (i->fed > i->fed_max) {
                error_set(&i->error, -E2BIG, "An entry of the archive has more than %u bytes of headers",
                          ENTRY_HEADERS_MAX);
                archive_set_error(a, E2BIG, "headers too large");
                return -1;
        }
        ssize_t n = pipeline_next(i->pipeline, ret, &i->error);
        if (n < 0) {
                archive_set_error(a, EIO, "no more data");
                return -1;
        }
        i->fed += (uint64_t) n;
        return n;
}

/* What went wrong in the tar reader: our own error if feeding it failed, else what it says itself. */
static int reader_error(Import *i, Error *e)
{
        int code = i->error.code;

        if (code == 0) {
                const char *why = archive_error_string(i->archive);
                if (why && startswith(why, "Unrecognized archive format"))
                        return error_hint(
                                        e,
                                        error_set(e, -EBADMSG, "The file is no image: it is no tar archive"),
                                        "Images are tar archives, plain or compressed with gzip, bzip2, xz "
                                        "or zstd.");
                return error_set(e, -EBADMSG, "The archive is damaged: %s", why ?: "unknown error");
        }
        if (e) {
                error_done(e);
                *e = TAKE_GENERIC(i->error, Error, ERROR_NULL);
        }
        return code;
}

static bool warning_is_expected(Import *i)
{
        const char *why = archive_error_string(i->archive);

        return why && strstr(why, "can't be converted from");
}

/* 1: an entry; 0: the end. */
static int next_entry(Import *i, struct archive_entry **ret, Error *e)
{
        i->fed_max = i->fed + ENTRY_HEADERS_MAX;
        int a = archive_read_next_header(i->archive, ret);
        i->fed_max = UINT64_MAX;
        if (a == ARCHIVE_EOF)
                return 0;
        if (a == ARCHIVE_OK || (a == ARCHIVE_WARN && warning_is_expected(i)))
                return 1;
        return reader_error(i, e);
}

static int open_reader(Import *i, Error *e)
{
        i->locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
        if (!i->locale)
                return error_oom(e);
        i->locale_before = uselocale(i->locale);
        i->archive = archive_read_new();
        if (!i->archive || archive_read_support_format_tar(i->archive) != ARCHIVE_OK)
                return error_oom(e);
        i->fed_max = UINT64_MAX;
        if (archive_read_open(i->archive, i, NULL, feed, NULL) != ARCHIVE_OK)
                return reader_error(i, e);
        return 0;
}

/* --- The archive's layout ------------------------------------------------------------------------------ */

static int read_manifest(Import *i, struct archive_entry *entry, Error *e)
{
        size_t n = 0;

        if (i->manifest)
                return error_set(e, -EBADMSG, "The archive has two manifests");
        if (archive_entry_hardlink(entry) || archive_entry_filetype(entry) != AE_IFREG)
                return error_set(e, -EBADMSG, "The archive's manifest is no regular file");
        if (archive_entry_size(entry) > (int64_t) MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The archive's manifest is longer than %u bytes (%" PRId64 ")",
                                 MANIFEST_SIZE_MAX, (int64_t) archive_entry_size(entry));
        i->manifest = malloc(MANIFEST_SIZE_MAX + 1);
        if (!i->manifest)
                return error_oom(e);
        while (n <= MANIFEST_SIZE_MAX) {
                la_ssize_t k = archive_read_data(i->archive, i->manifest + n, MANIFEST_SIZE_MAX + 1 - n);
                if (k < 0)
                        return reader_error(i, e);
                if (k == 0)
                        break;
                n += (size_t) k;
        }
        if (n > MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The archive's manifest is longer than %u bytes",
                                 MANIFEST_SIZE_MAX);
        i->manifest[n] = 0;
        i->manifest_size = n;
        return 0;
}

static int read_entry(Import *i, struct archive_entry *entry, Error *e)
{
        _cleanup_free_ char *path = NULL;
        const char *name = archive_entry_pathname(entry);

        int r = unpack_normalize_path(name, &path, e);
        if (r < 0)
                return r;
        if (streq(path, "manifest"))
                return read_manifest(i, entry, e);
        if (streq(path, "rootfs") || startswith(path, "rootfs/"))
                return unpack_entry(&i->unpack, path, i->archive, entry, e);
        if (streq(path, "") && archive_entry_filetype(entry) == AE_IFDIR && !archive_entry_hardlink(entry))
                return 0;
        r = unpack_error(e, -EBADMSG, name, "it is neither the manifest nor below rootfs");
        return error_hint(e, r,
                          "An image archive holds the file 'manifest' and the directory 'rootfs', and "
                          "nothing else.");
}

static int read_entries(Import *i, Error *e)
{
        struct archive_entry *entry;

        for (;;) {
                int64_t before = archive_filter_bytes(i->archive, 0);
                int r = next_entry(i, &entry, e);
                if (r < 0)
                        return r;
                if (r == 0) {
                        /* The reader takes the end of the stream between two entries for the end of the
                         * archive. */
                        if (archive_filter_bytes(i->archive, 0) - before < 512)
                                return error_set(e, -EBADMSG,
                                                 "The archive has no end mark: it is truncated");
                        return 0;
                }
                r = read_entry(i, entry, e);
                if (r < 0)
                        return i->error.code < 0 ? reader_error(i, e) : r;
                /* What was not asked for, such as the content of a hard link, and the padding. */
                if (archive_read_data_skip(i->archive) != ARCHIVE_OK)
                        return reader_error(i, e);
        }
}

/* Reads what is behind the end of the archive: zeros, or else the archive was not all there is. */
static int read_rest(Import *i, Error *e)
{
        uint64_t end = (uint64_t) archive_filter_bytes(i->archive, 0);
        const void *block;
        ssize_t n;

        while ((n = pipeline_next(i->pipeline, &block, e)) > 0) {
                i->fed += (uint64_t) n;
                if (i->fed - end > PADDING_MAX)
                        return error_set(e, -EBADMSG, "The archive is padded with more than %llu bytes",
                                         PADDING_MAX);
        }
        if (n < 0)
                return (int) n;
        int r = pipeline_finish(i->pipeline, &i->result, e);
        if (r < 0)
                return r;
        if (i->result.data_size > end)
                return error_set(e, -EBADMSG,
                                 "There are bytes after the end of the archive (%" PRIu64 " of %" PRIu64
                                 " are the archive)",
                                 end, i->result.size);
        return 0;
}

static int check_content(Import *i, Error *e)
{
        if (!i->manifest)
                return error_set(e, -EBADMSG, "The archive has no manifest");
        if (!i->unpack.has_rootfs)
                return error_set(e, -EBADMSG, "The archive has no rootfs");
        int r = image_manifest_parse(i->manifest, i->manifest_size, &i->parsed, NULL, e);
        return r < 0 ? error_prefix(e, r, "The manifest is not valid") : 0;
}

/* --- Import -------------------------------------------------------------------------------------------- */

static int write_files(Import *i, Error *e)
{
        int r = write_file_new_at(i->temporary.dir_fd, "manifest", i->manifest, i->manifest_size, 0644);
        if (r >= 0)
                r = write_file_new_at(i->temporary.dir_fd, "used", "", 0, 0644);
        if (r < 0)
                return error_set_errno(e, r, "Cannot write the image's files to the store");
        return image_info_write(i->temporary.dir_fd, &i->info, false, e);
}

static int fill_info(Import *i, const char *origin, Error *e)
{
        i->info = (ImageInfo){
                        .import_time = now_usec(CLOCK_REALTIME),
                        .size = i->result.size,
                        .archive_size = i->result.compressed_size,
                        .kind = IMAGE_KIND_ACI,
                        .origin = strdup(origin ?: ""),
        };
        return i->info.origin ? 0 : error_oom(e);
}

static int start_pipeline(Import *i, int fd, const ImportOptions *o, Error *e)
{
        PipelineOptions p = {
                        .hooks = {.size_max = o->size_max,
                                  .observe = o->observe,
                                  .progress = o->progress,
                                  .userdata = o->userdata},
        };

        if (__builtin_add_overflow(i->unpack.budget, STREAM_SLACK, &p.size_max))
                p.size_max = UINT64_MAX;
        return pipeline_new(fd, &p, &i->pipeline, e);
}

static int read_archive(Import *i, int fd, const ImportOptions *o, Error *e)
{
        int r = store_temporary_new(i->store, &i->temporary, e);
        if (r < 0)
                return r;
        r = unpack_init(&i->unpack, i->temporary.dir_fd, i->store->flags & STORE_UNPRIVILEGED, e);
        if (r >= 0)
                r = start_pipeline(i, fd, o, e);
        if (r >= 0)
                r = open_reader(i, e);
        if (r >= 0)
                r = read_entries(i, e);
        if (r >= 0)
                r = read_rest(i, e);
        return r;
}

static int import(Import *i, int fd, const ImportOptions *o, Error *e)
{
        int r = read_archive(i, fd, o, e);
        if (r >= 0)
                r = check_content(i, e);
        if (r >= 0)
                r = fill_info(i, o->origin, e);
        if (r >= 0 && o->approve)
                r = o->approve(i->result.id, i->parsed, &i->info, o->userdata, e);
        if (r >= 0)
                r = unpack_finish(&i->unpack, e);
        if (r >= 0)
                r = write_files(i, e);
        return r;
}

int image_import_with(Store *s, int fd, const ImportOptions *o, Image **ret, Error *e)
{
        _cleanup_(import_done) Import i = {
                        .store = s,
                        .temporary = STORE_TEMPORARY_NULL,
                        .unpack = UNPACK_NULL,
        };
        _cleanup_free_ char *path = NULL, *shown = text_escape_for_terminal(o->origin ?: "image");
        _cleanup_(image_freep) Image *image = NULL;

        int r = import(&i, fd, o, e);
        if (r >= 0 && xasprintf(&path, "images/%s", i.result.id) < 0)
                r = error_oom(e);
        if (r >= 0)
                r = store_temporary_publish(&i.temporary, path, e);
        bool was_there = r == 0;
        if (r >= 0)
                r = image_open(s, i.result.id, &image, e);
        if (r >= 0 && was_there)
                r = image_info_update(image, &i.info, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot import %s", shown ?: "the image");
        *ret = TAKE_PTR(image);
        return 0;
}

int image_import(Store *s, int fd, const char *origin, Image **ret, Error *e)
{
        const ImportOptions o = {.origin = origin};

        return image_import_with(s, fd, &o, ret, e);
}
