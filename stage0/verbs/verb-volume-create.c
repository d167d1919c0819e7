/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn volume create, import, export: named volumes made empty or of an archive, and written as one. */

#include "prepare/build/build.h"
#include "schema/settings.h"
#include "stage0/arguments/pod-fields.h"
#include "stage0/arguments/pod-values.h"

typedef struct Arguments {
        NamedVolume volume;
        bool has_mode, has_owner, has_quota;
} Arguments;

static void arguments_done(Arguments *a)
{
        named_volume_done(&a->volume);
}

static int option_mode(const Option *o, const char *value, void *target, Error *e)
{
        Arguments *a = target;

        if (parse_octal(value, &a->volume.mode) < 0 || a->volume.mode > 07777)
                return option_invalid(o, value, e, "must be an octal mode up to 7777");
        a->has_mode = true;
        return 0;
}

static int option_owner(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_free_ char *uid = strndup(value, strcspn(value, ":"));
        const char *gid = strchr(value, ':');
        Arguments *a = target;

        if (!uid)
                return error_oom(e);
        a->volume.gid = 0;
        if (parse_u32(uid, &a->volume.uid) < 0 || a->volume.uid >= UID_RANGE_SIZE ||
            (gid && (parse_u32(gid + 1, &a->volume.gid) < 0 || a->volume.gid >= UID_RANGE_SIZE)))
                return option_invalid(o, value, e, "must be UID or UID:GID, numbers below 65536");
        a->has_owner = true;
        return 0;
}

static int option_quota(const Option *o, const char *value, void *target, Error *e)
{
        Arguments *a = target;

        a->has_quota = true;
        a->volume.quota = 0;
        if (streq(value, "none"))
                return 0;
        return volume_quota_parse(value, &a->volume.quota) < 0
                               ? option_invalid(o, value, e, VOLUME_QUOTA_EXPECTED ", or none")
                               : 0;
}

static const Option create_options[] = {
                {"Options", "mode", 0, "MODE", false, "Mode of its directory, octal (default: 0755)", NULL,
                 option_mode, 0},
                {NULL, "owner", 0, "UID[:GID]", false,
                 "Owner of its directory, as a user and a group of pods (default: 0:0)", NULL, option_owner,
                 0},
                {NULL, "quota", 0, "BYTES", false,
                 "Limit what its files may use of the disk, as 10G; needs ext4 or XFS mounted with prjquota",
                 NULL, option_quota, 0},
                {NULL, "label", 0, "NAME=VALUE", false, "Add a label", NULL, option_pair,
                 offsetof(Arguments, volume.labels)},
                OPTION_END,
};

/* The name of a volume that was made. */
static int show_name(Context *c, const char *name)
{
        _cleanup_json_ json_object *o = NULL;

        if (c->json == JSON_OFF) {
                printf("%s\n", name);
                return 0;
        }
        o = json_object_new_object();
        if (json_member_add_text(o, "name", name) < 0)
                return error_oom(&c->error);
        return context_show_json(c, o);
}

static int set_name(Context *c, Arguments *a, const char *name)
{
        a->volume.name = strdup(name);
        return a->volume.name ? 0 : error_oom(&c->error);
}

/* The words of the command line, of which the first is the name. 0: nothing more to do. */
static int parse_words(Context *c, Arguments *a, int argc, char **argv, Words *words)
{
        int r = context_parse(c, create_options, a, argc, argv, words);

        if (r <= 0)
                return r;
        r = volume_name_check(words->list[0], &c->error);
        return r < 0 ? context_usage_error(c, r) : 1;
}

/* --- create -------------------------------------------------------------------------------------------- */

static int create_volume(Context *c, Arguments *a, const char *name)
{
        int r = set_name(c, a, name);

        if (r >= 0)
                r = named_volume_create(c->store, &a->volume, &c->error);
        if (r == 0)
                return error_set(&c->error, -EEXIST, "There is a volume '%s' already", name);
        return r < 0 ? r : show_name(c, name);
}

static int create(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = "the name of the volume"};
        _cleanup_(arguments_done) Arguments a = {.volume.mode = 0755};

        int r = parse_words(c, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_store_as_root(c);
        return r < 0 ? r : create_volume(c, &a, words.list[0]);
}

const Verb verb_volume_create = {
                .name = "volume create",
                .page = "acnspawn-volume",
                .synopsis = "[OPTIONS…] NAME",
                .brief = "NAME",
                .summary = "Make a named volume",
                .text = "Makes an empty volume of that name, and prints the name. 'acnspawn run "
                        "--volume=NAME:PATH' makes one that does not exist as well.",
                .options = (const Option *const[]){create_options, NULL},
                .run = create,
};

/* --- import -------------------------------------------------------------------------------------------- */

static int open_archive(Context *c, const char *path)
{
        if (path && !streq(path, "-")) {
                int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
                return fd < 0 ? error_set_errno(&c->error, -errno, "Cannot open '%s'", path) : fd;
        }
        if (isatty(STDIN_FILENO)) {
                int r = error_set(&c->error, -ENOTSUP, "An archive is not read from a terminal");
                return error_hint(&c->error, r,
                                  "Name a file, or redirect one: acnspawn volume import NAME "
                                  "<FILE.tar");
        }
        int fd = input_open("-", O_RDONLY);
        return fd < 0 ? error_set(&c->error, fd, "Cannot read standard input: %s", input_problem(fd)) : fd;
}

static int import_volume(Context *c, Arguments *a, const Words *words)
{
        _cleanup_close_ int fd = open_archive(c, words->n > 1 ? words->list[1] : NULL);

        if (fd < 0)
                return fd;
        int r = set_name(c, a, words->list[0]);
        if (r < 0)
                return r;
        const VolumeImport i = {.volume = &a->volume,
                                .has_mode = a->has_mode,
                                .has_owner = a->has_owner,
                                .has_quota = a->has_quota,
                                .fd = fd};
        (void) interrupt_catch(c->operation);
        r = named_volume_import(c->store, &i, &c->error);
        return r < 0 ? r : show_name(c, words->list[0]);
}

static int import(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 2, .what = "the name of the volume"};
        _cleanup_(arguments_done) Arguments a = {};

        int r = parse_words(c, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_store_as_root(c);
        return r < 0 ? r : import_volume(c, &a, &words);
}

const Verb verb_volume_import = {
                .name = "volume import",
                .page = "acnspawn-volume",
                .synopsis = "[OPTIONS…] NAME [FILE]",
                .brief = "NAME [FILE]",
                .summary = "Make a named volume of an archive",
                .text = "Makes a volume of that name with the files of a tar archive, compressed or not, "
                        "which is FILE or standard input, and prints the name. The archive is checked as "
                        "images are, and the volume appears when it is complete. Mode and owner of its "
                        "directory are those that the archive has for '.', and its quota is that of the "
                        "exported volume, unless options say otherwise.",
                .words = "- file",
                .options = (const Option *const[]){create_options, NULL},
                .run = import,
};

/* --- export -------------------------------------------------------------------------------------------- */

typedef struct ExportArguments {
        const char *output;
        bool force;
} ExportArguments;

static const Option export_options[] = {
                {"Options", "output", 'o', "FILE", false, "Write to FILE (default: standard output)", "file",
                 option_word, offsetof(ExportArguments, output)},
                {NULL, "force", 'f', NULL, false, "Replace FILE if it exists", NULL, option_true,
                 offsetof(ExportArguments, force)},
                OPTION_END,
};

static int check_output(Context *c)
{
        if (!isatty(STDOUT_FILENO))
                return 0;
        int r = error_set(&c->error, -ENOTSUP, "An archive is not written to a terminal");
        return error_hint(&c->error, r, "Redirect it: acnspawn volume export NAME >FILE.tar");
}

static int export_volume(Context *c, const char *name, const ExportArguments *a)
{
        _cleanup_(output_done) Output o = OUTPUT_NULL;

        (void) interrupt_catch(c->operation);
        if (!a->output)
                return named_volume_export(c->store, name, STDOUT_FILENO, &c->error);
        int r = output_open(a->output, a->force, &o, &c->error);
        if (r >= 0)
                r = named_volume_export(c->store, name, o.fd, &c->error);
        return r < 0 ? r : output_publish(&o, a->force, &c->error);
}

static int export(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = "the name of a volume"};
        ExportArguments a = {};

        int r = context_parse(c, export_options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        if (a.output && streq(a.output, "-"))
                a.output = NULL;
        r = a.output ? 0 : check_output(c);
        if (r >= 0)
                r = context_open_existing_store_as_root(c);
        return r < 0 ? r : export_volume(c, words.list[0], &a);
}

const Verb verb_volume_export = {
                .name = "volume export",
                .page = "acnspawn-volume",
                .synopsis = "[OPTIONS…] NAME [-o FILE]",
                .brief = "NAME",
                .summary = "Write a named volume as an archive",
                .text = "Writes the files of a volume as a tar archive, with the owners that apps see, to "
                        "FILE or standard output. Sockets and devices are left out.",
                .words = "named-volume -",
                .options = (const Option *const[]){export_options, NULL},
                .run = export,
};
