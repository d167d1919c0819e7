/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of apps as tar archives, read and written.
 *
 * Files are packed like images, by a child that sees the owners that the app sees. An archive to unpack is
 * untrusted: it is unpacked into the store first, by the code and within the limits of images, and its files
 * are copied from there.
 */

#include "library/libarchive.h"
#include "stage0/files/files-internal.h"

/* --- Packing ------------------------------------------------------------------------------------------- */

typedef struct Packing {
        const Source *source;
        const CopyOptions *options;
        int out_fd;
} Packing;

static int pack(void *data, int *ret_fd, char **ret_text, Error *e)
{
        const Packing *p = data;
        _cleanup_(compressor_freep) Compressor *c = NULL;
        _cleanup_(tar_writer_freep) TarWriter *w = NULL;
        const TreeOptions o = {.leave_out = files_leave_out, .userdata = (void *) &p->options->notes};

        int r = compressor_new(COMPRESSION_NONE, p->out_fd, "the archive", p->options->operation, &c, e);
        if (r >= 0)
                r = tar_writer_new(c, &w, e);
        if (r >= 0)
                r = tar_writer_add_file(w, p->source->fd, p->source->name ?: ".", &o, e);
        return r < 0 ? r : tar_writer_finish(w, NULL, NULL, e);
}

int files_pack(const CopySide *side, const CopyOptions *o, int out_fd, Error *e)
{
        _cleanup_(source_done) Source s = SOURCE_NULL;
        Packing p = {.source = &s, .options = o, .out_fd = out_fd};

        int r = source_open(side, o->follow, &s, e);
        return r < 0 ? r
                     : pod_view_call(side->root->pod, o->operation, pack, &p, "pack files of an app", NULL,
                                     e);
}

/* --- Unpacking ----------------------------------------------------------------------------------------- */

static int take_entry(struct archive *a, struct archive_entry *entry, void *userdata, Error *e)
{
        const char *name = archive_entry_pathname(entry);
        _cleanup_free_ char *inside = NULL, *path = NULL;

        if (isempty(name))
                return error_set(e, -EBADMSG, "The archive has an entry without a name");
        if (xasprintf(&inside, "rootfs/%s", name) < 0)
                return error_oom(e);
        int r = unpack_normalize_path(inside, &path, e);
        return r < 0 ? r : unpack_entry(userdata, path, a, entry, e);
}

static int unpack(int in_fd, Unpack *u, const Operation *operation, Error *e)
{
        _cleanup_(archive_reader_freep) ArchiveReader *reader = NULL;
        PipelineOptions o = {.lenient = true, .hooks.operation = operation};
        PipelineResult result = {};

        if (__builtin_add_overflow(u->budget, STREAM_SLACK, &o.size_max))
                o.size_max = UINT64_MAX;
        int r = archive_reader_new(in_fd, &o, &reader, e);
        if (r >= 0)
                r = archive_reader_run(reader, take_entry, u, &result, e);
        if (r >= 0)
                r = unpack_finish(u, e);
        free(result.id);
        return r;
}

static int copy_unpacked(int dir_fd, const CopySide *target, const CopyOptions *o, Error *e)
{
        _cleanup_(source_done) Source s = {.fd = openat(dir_fd, "rootfs", O_PATH | O_DIRECTORY | O_CLOEXEC),
                                           .content = true};

        if (s.fd < 0 || fstat(s.fd, &s.st) < 0)
                return error_set_errno(e, -errno, "Cannot open the unpacked files");
        return source_copy(&s, &(CopySide){.path = "-"}, "the archive", target, o, e);
}

static int check_target(const CopySide *target, Error *e)
{
        _cleanup_(target_done) Target t = TARGET_NULL;

        int r = target_open(target, &t, e);
        return r >= 0 && t.name ? side_error(e, -ENOTDIR, target,
                                             "is not a directory, which an archive requires")
                                : r;
}

int files_unpack(Store *s, int in_fd, const CopySide *target, const CopyOptions *o, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        Unpack u = UNPACK_NULL;

        int r = check_target(target, e);
        if (r >= 0)
                r = store_temporary_new(s, &t, e);
        if (r < 0)
                return r;
        r = unpack_layer_init(&u, t.dir_fd, false, e);
        if (r >= 0)
                r = unpack(in_fd, &u, s->operation, e);
        unpack_done(&u);
        return r < 0 ? r : copy_unpacked(t.dir_fd, target, o, e);
}
