/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn image export: writes an image as an archive, the same bytes that were imported.
 *
 * A file gets its name only when it is complete and verified.
 */

#include <sys/stat.h>

#include "prepare/build/build.h"
#include "prepare/pack/pack.h"
#include "stage0/verbs/archive-options.h"
#include "stage0/verbs/verb.h"

typedef struct ExportArguments {
        const char *output;
        Compression compression;
        bool force;
} ExportArguments;

static const Option options[] = {
                {"Options", "output", 'o', "FILE", false, "Write to FILE (default: standard output)", "file",
                 option_word, offsetof(ExportArguments, output)},
                {NULL, "compression", 0, "KIND", false, "One of " COMPRESSION_NAMES " (default: none)",
                 "none|gzip|bzip2|xz|zstd", option_compression, offsetof(ExportArguments, compression)},
                {NULL, "force", 'f', NULL, false, "Replace FILE if it exists", NULL, option_true,
                 offsetof(ExportArguments, force)},
                OPTION_END,
};

/* --- The archive --------------------------------------------------------------------------------------- */

static int write_part(const void *p, size_t n, void *userdata, Error *e)
{
        return compressor_write(userdata, p, n, e);
}

static int pack_tree(Context *c, const Image *i, int root_fd, Compressor *out)
{
        _cleanup_(tar_writer_freep) TarWriter *w = NULL;
        const TreeOptions o = {};

        int r = tar_writer_new(out, &w, &c->error);
        if (r >= 0)
                r = tar_writer_add_text(w, "manifest", i->manifest_text, i->manifest_size, &c->error);
        if (r >= 0)
                r = tar_writer_add_tree(w, root_fd, "rootfs", &o, &c->error);
        return r < 0 ? r : tar_writer_finish(w, NULL, NULL, &c->error);
}

/* Images of other kinds have no original App Container archive: their layers are merged, and packed
 * reproducibly. */
static int export_merged(Context *c, const Image *i, Compressor *out)
{
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_close_ int fd = -EBADF, lock = -EBADF;

        int r = store_lock_shared(c->store, &lock, &c->error);
        if (r >= 0)
                r = store_temporary_new(c->store, &t, &c->error);
        if (r < 0)
                return r;
        if (mkdirat(t.dir_fd, "rootfs", 0755) < 0 ||
            (fd = openat(t.dir_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
                return error_set_errno(&c->error, errno, "Cannot create a directory in the store");
        r = image_render(c->store, i, fd, RENDER_ARCHIVE | RENDER_TOP, &c->error);
        return r < 0 ? r : pack_tree(c, i, fd, out);
}

static int write_archive(Context *c, const Image *i, Compression compression, int fd, const char *what)
{
        _cleanup_(compressor_freep) Compressor *out = NULL;

        int r = compressor_new(compression, fd, what, store_operation(c->store), &out, &c->error);
        if (r < 0)
                return r;
        if (i->info.kind != IMAGE_KIND_ACI)
                return export_merged(c, i, out);
        r = image_export(i, store_operation(c->store), write_part, out, &c->error);
        return r < 0 ? r : compressor_finish(out, &c->error);
}

static int export_to_stdout(Context *c, const Image *i, Compression compression)
{
        int r = context_check_archive_output(c, "acnspawn image export IMAGE");
        return r < 0 ? r : write_archive(c, i, compression, STDOUT_FILENO, "standard output");
}

static int export_image(Context *c, const Image *i, const ExportArguments *a)
{
        _cleanup_(output_done) Output o = OUTPUT_NULL;

        if (!a->output || streq(a->output, "-"))
                return export_to_stdout(c, i, a->compression);
        int r = output_open(a->output, a->force, &o, &c->error);
        if (r >= 0)
                r = write_archive(c, i, a->compression, o.fd, o.path);
        if (r >= 0)
                r = output_publish(&o, a->force, &c->error);
        return r < 0 || c->json == JSON_OFF ? r : context_show_written(c, i->id, "file", a->output);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {
                        .min = 1, .max = 1, .what = "an image: its ID, a prefix of it, or its name"};
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_free_ char *id = NULL;
        ExportArguments a = {.compression = COMPRESSION_NONE};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store(c);
        if (r >= 0)
                r = fetch_find_id(c->store, words.list[0], context_config_dirs(c), &id, &c->error);
        if (r >= 0)
                r = image_open(c->store, id, &image, &c->error);
        if (r < 0)
                return r;
        (void) interrupt_catch(c->operation);
        return export_image(c, image, &a);
}

const Verb verb_image_export = {
                .name = "image export",
                .page = "acnspawn-image",
                .synopsis = "[OPTIONS…] IMAGE [-o FILE]",
                .brief = "IMAGE",
                .summary = "Write an image as an archive",
                .text = "Writes the archive that the image was imported from, byte for byte before "
                        "compression, so that it has the same ID; uncompressed, a signature of it as such "
                        "stays valid. An image that was altered in the store is refused. An OCI image is "
                        "written as an App Container image of one layer.",
                .words = "image",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
