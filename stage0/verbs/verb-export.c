/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn export: writes the root of an app, with the app's changes, as an image. */

#include "prepare/build/build.h"
#include "stage0/verbs/archive-options.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        ExportOptions export;
        const char *app, *output;
        bool force;
} Arguments;

static int option_name(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_(image_name_done) ImageName name = {};
        _cleanup_error_ Error reason = ERROR_NULL;

        if (image_name_parse(value, &name, &reason) >= 0)
                return option_string(o, value, target, e);
        int r = option_invalid_because(o, value, e, &reason);
        return error_hint(e, r, "A valid one is --name=example.com/web:1.2,arch=amd64.");
}

static const Option options[] = {
                {"Options", "app", 'a', "APP", false, "The app, if the pod has several", "app", option_word,
                 offsetof(Arguments, app)},
                {NULL, "output", 'o', "FILE", false, "Write to FILE (default: standard output)", "file",
                 option_word, offsetof(Arguments, output)},
                {NULL, "name", 0, "NAME[:VERSION][,LABEL=VALUE…]", false,
                 "Name of the image, and labels to be set (default: those of the app's image)", NULL,
                 option_name, offsetof(Arguments, export.name)},
                {NULL, "compression", 0, "KIND", false, "One of " COMPRESSION_NAMES " (default: none)",
                 "none|gzip|bzip2|xz|zstd", option_compression,
                 offsetof(Arguments, export.pack.compression)},
                {NULL, "force", 'f', NULL, false, "Replace FILE if it exists", NULL, option_true,
                 offsetof(Arguments, force)},
                OPTION_END,
};

static void show_note(const char *path, const char *why, void *userdata)
{
        log_warning("'%s' is left out: %s", path, why);
}

static int write_image(Context *c, const AppRoot *root, const Arguments *a, char **ret_id)
{
        _cleanup_(output_done) Output o = OUTPUT_NULL;
        _cleanup_free_ char *what = NULL;

        if (!a->output || streq(a->output, "-"))
                return files_export(root, &a->export, STDOUT_FILENO, "standard output", ret_id, &c->error);
        int r = output_open(a->output, a->force, &o, &c->error);
        if (r >= 0 && xasprintf(&what, "'%s'", o.path) < 0)
                r = error_oom(&c->error);
        if (r >= 0)
                r = files_export(root, &a->export, o.fd, what, ret_id, &c->error);
        return r < 0 ? r : output_publish(&o, a->force, &c->error);
}

static int show_id(Context *c, const Arguments *a, const char *id)
{
        if (!a->output || streq(a->output, "-")) {
                log_info("%s", id);
                return 0;
        }
        if (c->json == JSON_OFF) {
                printf("%s\n", id);
                return 0;
        }
        return context_show_written(c, id, "file", a->output);
}

static int export_app(Context *c, const char *word, const Arguments *a)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        _cleanup_app_root_ AppRoot root = APP_ROOT_NULL;
        _cleanup_free_ char *id = NULL;

        int r = context_find_pod(c, word, &p);
        if (r >= 0)
                r = app_root_open(p, a->app, APP_ROOT_FILES, &root, &c->error);
        if (r < 0)
                return r;
        if (root.changing && !pod_is_paused(p) && !c->quiet)
                log_info("Pod %s is running: files that app %s writes meanwhile may be in the image or not.",
                         pod_display_name(p), root.app->name);
        (void) interrupt_catch(c->operation);
        r = write_image(c, &root, a, &id);
        return r < 0 ? r : show_id(c, a, id);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = A_POD};
        Arguments a = {.export.pack.compression = COMPRESSION_NONE, .export.notes.note = show_note};
        BuildOptions build = {};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        a.export.pack.operation = c->operation;
        if (!a.output || streq(a.output, "-"))
                r = context_check_archive_output(c, "acnspawn export POD");
        if (r >= 0)
                r = build_options_from_environment(&build, &c->error);
        if (r >= 0)
                r = context_open_existing_store_as_root(c);
        if (r < 0)
                return r;
        a.export.pack.tree = build.pack.tree;
        return export_app(c, words.list[0], &a);
}

const Verb verb_export = {
                .name = "export",
                .page = "acnspawn-cp",
                .synopsis = "[OPTIONS…] POD [-o FILE.aci]",
                .brief = "POD",
                .summary = "Create an image from an app's root",
                .text = "Writes the files of the app's image with the app's changes to its root, "
                        "without volumes, as an image of its own, which depends on no other. The pod may be "
                        "prepared, run, or have ended; owners are those that the app sees.",
                .words = "pod -",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
