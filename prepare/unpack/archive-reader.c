/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses a tar archive, entry by entry, while the pipeline reads, decompresses and hashes it.
 *
 * libarchive's tar reader runs in the C locale, whatever the program's is: it would otherwise translate
 * names, and even in UTF-8 replace them by a canonical form. Names that it cannot translate are left
 * unchanged, byte for byte, with a warning that is expected here; every other warning means that data of the
 * archive would be lost, and is an error. The locale is the thread's, so a reader belongs to the thread that
 * made it.
 *
 * The bytes that libarchive parses as the headers of an entry are checked once more (tar-headers.c). They
 * are checked in place; only headers that span two blocks are copied.
 */

#include <locale.h>

#include "library/libarchive.h"
#include "prepare/unpack/unpack-internal.h"

#define TAR_BLOCK 512U

struct ArchiveReader {
        Pipeline *pipeline;
        bool lenient;
        struct archive *archive;
        const void *block; /* the current one */
        size_t block_size;
        uint64_t fed;     /* bytes passed to the tar reader */
        uint64_t fed_max; /* limit while it reads headers */
        bool in_headers;  /* the tar reader is parsing the headers of an entry */
        uint64_t start;   /* their offset in the archive */
        Text headers;     /* those from earlier blocks */
        uint64_t n_entries;
        uint64_t skipped;   /* bytes that are charged to nothing else */
        uint64_t skip_from; /* offset where skipping the current content began; UINT64_MAX: it has not */
        Recipe *recipe;     /* the caller's, or NULL */
        Error error;        /* of feeding it */
        locale_t locale, locale_before;
};

ArchiveReader *archive_reader_free(ArchiveReader *r)
{
        if (!r)
                return NULL;
        if (r->archive)
                (void) archive_read_free(r->archive);
        (void) pipeline_free(r->pipeline);
        error_done(&r->error);
        text_done(&r->headers);
        if (r->locale_before)
                (void) uselocale(r->locale_before);
        if (r->locale)
                freelocale(r->locale);
        free(r);
        return NULL;
}

void archive_reader_set_recipe(ArchiveReader *r, Recipe *recipe)
{
        r->recipe = recipe;
        /* The format detection of the tar reader has consumed the first block already. */
        if (recipe && r->block)
                recipe_begin_block(recipe, r->block, r->block_size);
}

/* Adds the part of the block that belongs to the headers, which end at END. */
static void add_headers(ArchiveReader *r, uint64_t end)
{
        uint64_t from = r->fed - r->block_size, begin = MAX(r->start, from);

        if (r->block && begin < end)
                text_add_bytes(&r->headers, (const char *) r->block + (begin - from), end - begin);
}

/* This releases the previous block, so the recipe must have processed it. */
static ssize_t next_block(ArchiveReader *r, const void **ret, Error *e)
{
        if (r->in_headers)
                add_headers(r, r->fed);
        int k = r->recipe ? recipe_end_block(r->recipe, e) : 0;
        ssize_t n = k < 0 ? k : pipeline_next(r->pipeline, ret, e);

        r->block = n > 0 ? *ret : NULL;
        r->block_size = n > 0 ? (size_t) n : 0;
        if (r->recipe && n > 0)
                recipe_begin_block(r->recipe, r->block, r->block_size);
        return n;
}

/* N bytes were decompressed and parsed that are not content of a file, which is charged when it is unpacked:
 * headers, and content that is skipped. They compress to almost nothing. */
static int check_skipped(ArchiveReader *r, uint64_t n, Error *e)
{
        uint64_t all = r->skipped + n;

        if (all <= SKIPPED_MAX ||
            (all - SKIPPED_MAX) / SKIPPED_PER_BYTE <= pipeline_compressed_size(r->pipeline))
                return 0;
        return error_set(e, -E2BIG,
                         "The archive has more than %llu MiB that belong to no file: headers, and content "
                         "of entries that cannot have any",
                         SKIPPED_MAX >> 20);
}

static la_ssize_t feed(struct archive *a, void *userdata, const void **ret)
{
        static const char padding[TAR_BLOCK];
        ArchiveReader *r = userdata;

        if (r->fed > r->fed_max) {
                error_set(&r->error, -E2BIG, "An entry of the archive has more than %u bytes of headers",
                          ENTRY_HEADERS_MAX);
                archive_set_error(a, E2BIG, "headers too large");
                return -1;
        }
        if (r->fed > r->skip_from && check_skipped(r, r->fed - r->skip_from, &r->error) < 0) {
                archive_set_error(a, E2BIG, "skipped too much");
                return -1;
        }
        ssize_t n = next_block(r, ret, &r->error);
        if (n < 0) {
                archive_set_error(a, EIO, "no more data");
                return -1;
        }
        if (n == 0 && r->lenient && r->fed % TAR_BLOCK != 0) {
                /* Some tools leave out the padding of the last file. */
                *ret = padding;
                n = (ssize_t) (TAR_BLOCK - r->fed % TAR_BLOCK);
        }
        r->fed += (uint64_t) n;
        return n;
}

int archive_reader_error(ArchiveReader *r, Error *e)
{
        int code = r->error.code;

        if (code == 0) {
                const char *why = archive_error_string(r->archive);
                if (why && startswith(why, "Unrecognized archive format"))
                        return error_hint(
                                        e,
                                        error_set(e, -EBADMSG,
                                                  "The file is not an image: it is not a tar archive"),
                                        "Images are tar archives, plain or compressed with gzip, bzip2, xz "
                                        "or zstd.");
                return error_set(e, -EBADMSG, "The archive is damaged: %s", why ?: "unknown error");
        }
        (void) error_move(e, &r->error);
        return code;
}

static bool warning_is_expected(ArchiveReader *r)
{
        const char *why = archive_error_string(r->archive);

        return why && strstr(why, "can't be converted from");
}

static int check_headers(ArchiveReader *r, struct archive_entry *entry, Error *e)
{
        uint64_t end = (uint64_t) archive_filter_bytes(r->archive, 0), from = r->fed - r->block_size;
        const char *path = archive_entry_pathname(entry) ?: "";

        if (r->block && r->start >= from && end <= r->fed)
                return tar_headers_check((const char *) r->block + (r->start - from), end - r->start, path,
                                         e);
        /* If the tar reader has read ahead, the copy extends beyond the headers. */
        add_headers(r, MIN(end, r->fed));
        if (r->headers.failed)
                return error_oom(e);
        return tar_headers_check(r->headers.data ?: "", MIN(r->headers.size, end - r->start), path, e);
}

/* 1: an entry; 0: the end. */
static int next_entry(ArchiveReader *r, struct archive_entry **ret, Error *e)
{
        r->fed_max = r->fed + ENTRY_HEADERS_MAX;
        r->start = (uint64_t) archive_filter_bytes(r->archive, 0);
        r->headers.size = 0;
        r->in_headers = true;
        int a = archive_read_next_header(r->archive, ret);
        r->in_headers = false;
        r->fed_max = UINT64_MAX;
        if (a == ARCHIVE_EOF)
                return 0;
        if (a != ARCHIVE_OK && !(a == ARCHIVE_WARN && warning_is_expected(r)))
                return archive_reader_error(r, e);
        int k = check_headers(r, *ret, e);
        return k < 0 ? k : 1;
}

int archive_reader_new(int fd, const PipelineOptions *o, ArchiveReader **ret, Error *e)
{
        _cleanup_(archive_reader_freep) ArchiveReader *r = NULL;

        int k = library_load(&archive_library, e);
        if (k < 0)
                return k;
        r = calloc(1, sizeof(ArchiveReader));
        if (!r)
                return error_oom(e);
        r->lenient = o->lenient;
        k = pipeline_new(fd, o, &r->pipeline, e);
        if (k < 0)
                return k;
        r->locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
        if (!r->locale)
                return error_oom(e);
        r->locale_before = uselocale(r->locale);
        r->archive = archive_read_new();
        if (!r->archive || archive_read_support_format_tar(r->archive) != ARCHIVE_OK ||
            (r->lenient && archive_read_support_format_empty(r->archive) != ARCHIVE_OK))
                return error_oom(e);
        r->fed_max = r->skip_from = UINT64_MAX;
        if (archive_read_open(r->archive, r, NULL, feed, NULL) != ARCHIVE_OK)
                return archive_reader_error(r, e);
        *ret = TAKE_PTR(r);
        return 0;
}

/* Data that was not read, such as the content of a hard link, and the padding. */
static int skip_content(ArchiveReader *r, uint64_t n_headers, Error *e)
{
        uint64_t from = (uint64_t) archive_filter_bytes(r->archive, 0);

        r->skip_from = from;
        int a = archive_read_data_skip(r->archive);
        r->skip_from = UINT64_MAX;
        if (a != ARCHIVE_OK)
                return archive_reader_error(r, e);
        uint64_t n = n_headers + ((uint64_t) archive_filter_bytes(r->archive, 0) - from);
        n -= MIN(n, (uint64_t) ENTRY_COST);
        int k = check_skipped(r, n, e);
        r->skipped += n;
        return k;
}

static int read_entries(ArchiveReader *r, ArchiveEntryFunction function, void *userdata, Error *e)
{
        struct archive_entry *entry;

        for (;;) {
                int64_t before = archive_filter_bytes(r->archive, 0);
                int k = next_entry(r, &entry, e);
                if (k < 0)
                        return k;
                if (k == 0) {
                        /* The tar reader treats the end of the stream between two entries as the end of the
                         * archive. */
                        if (!r->lenient && archive_filter_bytes(r->archive, 0) - before < TAR_BLOCK)
                                return error_set(e, -EBADMSG,
                                                 "The archive has no end mark: it is truncated");
                        return 0;
                }
                /* Some functions ignore entries, which are not counted anywhere else then. */
                if (++r->n_entries > ENTRIES_MAX)
                        return error_set(e, -E2BIG, "The archive has more than %u entries", ENTRIES_MAX);
                uint64_t n_headers = (uint64_t) (archive_filter_bytes(r->archive, 0) - before);
                k = function(r->archive, entry, userdata, e);
                if (k < 0)
                        return r->error.code < 0 ? archive_reader_error(r, e) : k;
                k = skip_content(r, n_headers, e);
                if (k < 0)
                        return k;
        }
}

/* Reads the rest of the stream after the end of the archive, which must be zeros. */
static int read_rest(ArchiveReader *r, PipelineResult *ret, Error *e)
{
        uint64_t end = (uint64_t) archive_filter_bytes(r->archive, 0);
        PipelineResult result;
        const void *block;
        ssize_t n;

        while ((n = next_block(r, &block, e)) > 0) {
                r->fed += (uint64_t) n;
                if (r->fed - end > PADDING_MAX)
                        return error_set(e, -EBADMSG, "The archive is padded with more than %llu bytes",
                                         PADDING_MAX);
        }
        if (n < 0)
                return (int) n;
        int k = pipeline_finish(r->pipeline, &result, e);
        if (k < 0)
                return k;
        if (result.data_size > end) {
                free(result.id);
                return error_set(e, -EBADMSG,
                                 "Data follows the end of the archive (%" PRIu64 " of %" PRIu64
                                 " are the archive)",
                                 end, result.size);
        }
        *ret = result;
        return 0;
}

int archive_reader_run(ArchiveReader *r, ArchiveEntryFunction function, void *userdata, PipelineResult *ret,
                       Error *e)
{
        int k = read_entries(r, function, userdata, e);

        return k < 0 ? k : read_rest(r, ret, e);
}
