/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn build: builds an image from a layout, and prints its ID. Needs neither root nor a store. */

#include "prepare/build/build.h"
#include "stage0/verbs/archive-options.h"
#include "stage0/verbs/verb.h"

typedef struct Arguments {
        BuildOptions options;
        const char *output;
} Arguments;

static int option_sign(const Option *o, const char *value, void *target, Error *e)
{
        BuildOptions *options = target;

        if (value && !value[0])
                return option_invalid(o, value, e, "it is a fingerprint or an address");
        options->sign = true;
        options->key = value;
        return 0;
}

static const Option options[] = {
                {"Options", "output", 'o', "FILE.aci", false,
                 "Write the image to FILE.aci; '-': standard output (default: a file in this directory, "
                 "named by the manifest)",
                 "file", option_word, offsetof(Arguments, output)},
                {NULL, "compression", 0, "KIND", false, "One of " COMPRESSION_NAMES " (default: gzip)",
                 "none|gzip|bzip2|xz|zstd", option_compression,
                 offsetof(Arguments, options.pack.compression)},
                {NULL, "owner-root", 0, NULL, false, "Everything in the image belongs to user and group 0",
                 NULL, option_true, offsetof(Arguments, options.pack.tree.owner_root)},
                {NULL, "one-file-system", 0, NULL, false, "Leave out file systems mounted below the rootfs",
                 NULL, option_true, offsetof(Arguments, options.pack.tree.one_file_system)},
                {NULL, "sign", 0, "KEY", true,
                 "Also write a signature, by this key (default: gpg's default key)", NULL, option_sign,
                 offsetof(Arguments, options)},
                {NULL, "encrypt", 0, "FILE", false, "Encrypt the image with the passphrase in FILE", "file",
                 option_word, offsetof(Arguments, options.passphrase_file)},
                {NULL, "force", 'f', NULL, false, "Replace FILE.aci and its signature if they exist", NULL,
                 option_true, offsetof(Arguments, options.replace)},
                OPTION_END,
};

static int check_standard_output(Context *c, const Arguments *a)
{
        if (a->options.sign)
                return context_usage(c, "With --sign the image needs a file: --output=FILE.aci");
        return context_check_archive_output(c, "acnspawn build DIR -o -");
}

/* Shows all findings of the manifest, before the error. */
static void show_findings(const char *dir, const Findings *findings)
{
        for (size_t i = 0; findings->n > 1 && i < findings->n; i++) {
                const Finding *f = &findings->items[i];
                _cleanup_free_ char *line = NULL, *shown = NULL;

                if (xasprintf(&line, "%s/manifest: %s%s%s", dir, f->path, f->path[0] ? ": " : "",
                              f->message) >= 0 &&
                    (shown = text_escape_for_terminal(line)))
                        log_error("%s", shown);
        }
}

static int show_result(Context *c, const Arguments *a, const char *file, const char *id)
{
        if (!file) {
                log_info("%s", id);
                return 0;
        }
        if (c->json == JSON_OFF) {
                printf("%s\n", id);
                if (!a->output && !c->quiet)
                        log_info("Written to '%s'", file);
                return 0;
        }
        return context_show_written(c, id, "file", file);
}

static int build(Context *c, const Arguments *a, const char *dir)
{
        bool to_stdout = a->output && streq(a->output, "-");
        _cleanup_(layout_freep) Layout *layout = NULL;
        _cleanup_free_ char *name = NULL, *id = NULL;
        _cleanup_findings_ Findings findings = {};

        int r = to_stdout ? check_standard_output(c, a) : 0;
        if (r < 0)
                return r;
        r = layout_open(dir, &layout, &findings, &c->error);
        if (r < 0) {
                show_findings(dir, &findings);
                return r;
        }
        if (!a->output)
                r = layout_file_name(layout, &name, &c->error);
        const char *file = a->output ?: name;
        if (r >= 0)
                r = to_stdout ? build_image(layout, &a->options, STDOUT_FILENO, &id, &c->error)
                              : build_image_file(layout, &a->options, file, &id, &c->error);
        return r < 0 ? r : show_result(c, a, to_stdout ? NULL : file, id);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = "an image layout: a directory"};
        Arguments a = {.options.pack.compression = COMPRESSION_GZIP,
                       .options.gnupghome = getenv("GNUPGHOME")};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = build_options_from_environment(&a.options, &c->error);
        if (r < 0)
                return r;
        (void) interrupt_catch(c->operation);
        a.options.pack.operation = c->operation;
        return build(c, &a, words.list[0]);
}

const Verb verb_build = {
                .name = "build",
                .page = "acnspawn-build",
                .synopsis = "[OPTIONS…] DIR",
                .brief = "DIR",
                .summary = "Build an image from a directory",
                .text = "Packs an image layout, that is a directory with the file 'manifest' and the "
                        "directory 'rootfs', into an image and prints its ID. The same layout always gives "
                        "the same image. With SOURCE_DATE_EPOCH in the environment no file of it is later "
                        "than that.",
                .words = "directory",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
