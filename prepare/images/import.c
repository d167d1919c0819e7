/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Importing an image archive: read once, checked, unpacked and hashed on the way (spec: aci.md, "Image
 * Archives").
 *
 * The archive reader parses the stream and hashes it, unpack.c creates the files below a temporary directory
 * of the store. Only when the stream has been read to its end, and everything in it is valid, is the
 * directory made durable and renamed to the image's ID. On any failure the directory is removed; if the
 * process is killed, the flock on it is released, and the next collection removes it.
 */

#include "library/libarchive.h"
#include "prepare/images/aci.h"
#include "prepare/images/images-internal.h"

typedef struct Import {
        Store *store;
        StoreTemporary temporary;
        Unpack unpack;
        AciReader aci;
        Recipe *recipe;
        PipelineResult result;
        ImageManifest *parsed;
        ImageInfo info;
} Import;

static void import_done(Import *i)
{
        aci_reader_done(&i->aci);
        (void) recipe_free(i->recipe);
        unpack_done(&i->unpack);
        store_temporary_done(&i->temporary);
        free(i->result.id);
        (void) image_manifest_free(i->parsed);
        image_info_done(&i->info);
}

/* --- Import -------------------------------------------------------------------------------------------- */

static int read_file(const char *path, struct archive *a, struct archive_entry *entry, void *userdata,
                     Error *e)
{
        Import *i = userdata;
        int r = 0;

        if (archive_entry_filetype(entry) == AE_IFREG && !archive_entry_hardlink(entry) &&
            archive_entry_sparse_count(entry) == 0 && archive_entry_size(entry) > 0)
                r = recipe_content(i->recipe, (uint64_t) archive_filter_bytes(a, 0),
                                   (uint64_t) archive_entry_size(entry), path, e);
        return r < 0 ? r : unpack_entry(&i->unpack, path, a, entry, e);
}

static int write_files(Import *i, Error *e)
{
        int r = write_file_new_at(i->temporary.dir_fd, "manifest", i->aci.manifest, i->aci.manifest_size,
                                  0644);
        if (r >= 0)
                r = write_file_new_at(i->temporary.dir_fd, "used", "", 0, 0644);
        if (r >= 0)
                r = implied_write(i->temporary.dir_fd, &i->unpack.implied);
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

static int open_reader(Import *i, int fd, const ImportOptions *o, Error *e)
{
        PipelineOptions p = {
                        .hooks = {.size_max = o->size_max,
                                  .observe = o->observe,
                                  .progress = o->progress,
                                  .userdata = o->userdata,
                                  .operation = i->store->operation},
        };

        if (__builtin_add_overflow(i->unpack.budget, STREAM_SLACK, &p.size_max))
                p.size_max = UINT64_MAX;
        return archive_reader_new(fd, &p, &i->aci.reader, e);
}

static int read_archive(Import *i, int fd, const ImportOptions *o, Error *e)
{
        int r = store_temporary_new(i->store, &i->temporary, e);
        if (r < 0)
                return r;
        r = unpack_init(&i->unpack, i->temporary.dir_fd, i->store->flags & STORE_UNPRIVILEGED, e);
        if (r >= 0)
                r = open_reader(i, fd, o, e);
        if (r >= 0)
                r = recipe_new(&i->unpack, &i->recipe, e);
        if (r < 0)
                return r;
        archive_reader_set_recipe(i->aci.reader, i->recipe);
        r = archive_reader_run(i->aci.reader, aci_reader_entry, &i->aci, &i->result, e);
        return r < 0 ? r : recipe_finish(i->recipe, e);
}

static int import(Import *i, int fd, const ImportOptions *o, Error *e)
{
        int r = read_archive(i, fd, o, e);
        if (r >= 0)
                r = aci_reader_finish(&i->aci, i->unpack.has_rootfs, &i->parsed, NULL, e);
        if (r >= 0)
                r = fill_info(i, o->origin, e);
        if (r >= 0 && o->approve)
                r = o->approve(i->result.id, i->parsed, &i->info, o->userdata, e);
        if (r >= 0)
                r = unpack_finish(&i->unpack, e);
        if (r >= 0)
                unpack_report(&i->unpack, i->store->operation);
        if (r >= 0)
                r = write_files(i, e);
        if (r >= 0)
                r = record_write(i->temporary.dir_fd, i->unpack.digests, i->store->operation, e);
        return r;
}

int image_import_with(Store *s, int fd, const ImportOptions *o, Image **ret, Error *e)
{
        _cleanup_(import_done) Import i = {
                        .store = s,
                        .temporary = STORE_TEMPORARY_NULL,
                        .unpack = UNPACK_NULL,
                        .aci = {.entry = read_file, .userdata = &i},
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
                image_touch(image); /* mark it as used, so that it is not collected */
        if (r >= 0 && was_there)
                r = image_info_update(image, &i.info, e);
        if (o->ret_unexpected_entry)
                *o->ret_unexpected_entry = TAKE_PTR(i.aci.unexpected_entry);
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
