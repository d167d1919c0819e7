/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn image list, rm, cat-manifest: images in the store. */

#include "stage0/cli/filter.h"
#include "stage0/verbs/image-json.h"
#include "stage0/verbs/verb.h"

/* --- list ---------------------------------------------------------------------------------------------- */

#define SHORT_ID_LENGTH 12 /* digits */

/* Fits into 80 columns. */
static const TableColumn short_columns[] = {
                {.header = "ID", .key = "id"},
                {.header = "NAME", .key = "name", .shrink_to = 20, .middle = true},
                {.header = "VERSION", .key = "version", .shrink_to = 10, .middle = true},
                {.header = "SIZE", .key = "size", .right = true},
                {.header = "IMPORTED", .key = "imported"},
};

static const TableColumn columns[] = {
                {.header = "ID", .key = "id"},
                {.header = "NAME", .key = "name"},
                {.header = "VERSION", .key = "version"},
                {.header = "LABELS", .key = "labels"},
                {.header = "SIZE", .key = "size", .right = true},
                {.header = "IMPORTED", .key = "imported"},
                {.header = "USED", .key = "lastUsed"},
};

typedef struct ListArguments {
        bool full;
        Filters filters;
        TableFormat format;
} ListArguments;

/* By name, name:version, or ID. */
static bool name_matches(const void *object, const char *value)
{
        const Image *i = object;
        const char *version = pair_list_get(&i->manifest->labels, "version");
        _cleanup_free_ char *full = NULL;

        if (filter_glob(value, i->manifest->name) || filter_glob(value, i->id))
                return true;
        return version && xasprintf(&full, "%s:%s", i->manifest->name, version) >= 0 &&
               filter_glob(value, full);
}

static bool label_matches(const void *object, const char *value)
{
        return filter_pair(value, &((const Image *) object)->manifest->labels);
}

static bool annotation_matches(const void *object, const char *value)
{
        return filter_pair(value, &((const Image *) object)->manifest->annotations);
}

static const FilterKey filter_keys[] = {
                {"name", false, NULL, name_matches},
                {"label", true, NULL, label_matches},
                {"annotation", true, NULL, annotation_matches},
                FILTER_KEY_END,
};

static const Option list_options[] = {
                {"Options", "full", 'l', NULL, false,
                 "Show everything in full, with labels and times of use", NULL, option_true,
                 offsetof(ListArguments, full)},
                {NULL, "filter", 'f', "KEY=VALUE", false,
                 "Only images with this name (a pattern), label or annotation",
                 "name=|label=|annotation=", option_filter, offsetof(ListArguments, filters)},
                {NULL, "format", 0, "FIELD[,…]|TEXT", false,
                 "Show these columns, or for each image a text with fields in braces: '{name}\\t{size}'",
                 "id|name|version|labels|size|imported|lastUsed", option_table_format,
                 offsetof(ListArguments, format)},
                OPTION_END,
};

/* The hexadecimal digits alone, which are a valid reference to the image. */
static int add_short_id(Table *t, const char *id)
{
        _cleanup_free_ char *shown = strndup(startswith(id, "sha512-") ?: id, SHORT_ID_LENGTH);

        if (!shown)
                return -ENOMEM;
        table_add_text_as(t, id, shown);
        return 0;
}

static int add_image(Table *t, const Image *i, bool short_id, bool all)
{
        int r = 0;

        if (short_id)
                r = add_short_id(t, i->id);
        else
                table_add_text(t, i->id);
        table_add_text(t, i->manifest->name);
        table_add_text(t, pair_list_get(&i->manifest->labels, "version"));
        if (all && r >= 0)
                r = table_add_pairs(t, &i->manifest->labels, "version"); /* which has a column of its own */
        table_add_size(t, i->size);
        table_add_time(t, i->import_time);
        if (all)
                table_add_time(t, i->last_used);
        return r;
}

static int show_images(Context *c, Image **images, size_t n, const ListArguments *a)
{
        bool given = table_format_given(&a->format), all = a->full || given || c->json != JSON_OFF,
             short_id = !a->full && isatty(STDOUT_FILENO);
        _cleanup_(table_freep) Table *t = all ? table_new(columns, ELEMENTSOF(columns))
                                              : table_new(short_columns, ELEMENTSOF(short_columns));

        for (size_t i = 0; t && i < n; i++)
                if (filters_match(&a->filters, images[i]) && add_image(t, images[i], short_id, all) < 0)
                        return error_oom(&c->error);
        if (!t)
                return error_oom(&c->error);
        const char *what = a->filters.n > 0 ? "such images" : "images";
        return given ? context_show_table_as(c, t, &a->format, NULL, what) : context_show_table(c, t, what);
}

/* The error of the first damaged image; the others were shown. */
static int tell_damaged(Context *c)
{
        Image **images = NULL;
        size_t n = 0;

        int r = image_list(c->store, &images, &n, &c->error);
        image_list_free(images, n);
        return r;
}

static int list_images(Context *c, const ListArguments *a)
{
        Image **images = NULL;
        size_t n = 0, n_damaged = 0;

        int r = context_open_store_if_there(c);
        if (r > 0)
                r = image_list_readable(c->store, &images, &n, &n_damaged, &c->error);
        if (r >= 0 && (n > 0 || n_damaged == 0 || c->json != JSON_OFF))
                r = show_images(c, images, n, a);
        image_list_free(images, n);
        return r >= 0 && n_damaged > 0 ? tell_damaged(c) : r;
}

static int list(Context *c, int argc, char **argv)
{
        ListArguments a = {.filters.keys = filter_keys,
                           .format = {.fields = columns, .n_fields = ELEMENTSOF(columns)}};

        int r = context_parse(c, list_options, &a, argc, argv, NULL);
        if (r > 0 && context_check_format(c, &a.format) < 0)
                r = -EINVAL;
        if (r > 0)
                r = list_images(c, &a);
        table_format_done(&a.format);
        return r;
}

const Verb verb_image_list = {
                .name = "image list",
                .page = "acnspawn-image",
                .synopsis = "[OPTIONS…]",
                .summary = "List the images in the store",
                .text = "Lists the images in the store, by name and version. On a terminal IDs are "
                        "shortened; a prefix is enough wherever an image is named.",
                .options = (const Option *const[]){list_options, NULL},
                .run = list,
};

/* --- rm ------------------------------------------------------------------------------------------------ */

static const TableColumn removed_columns[] = {{"ID", "id", false, 0}};

static int remove_one(Context *c, const char *reference, void *userdata)
{
        _cleanup_free_ char *id = NULL;

        int r = fetch_find_id(c->store, reference, context_config_dirs(c), &id, &c->error);
        if (r >= 0)
                r = image_remove(c->store, id, NULL, &c->error);
        if (r >= 0)
                context_add_removed(c, userdata, id);
        return r;
}

static int remove_all(Context *c, const Words *words)
{
        _cleanup_(table_freep) Table *t = table_new(removed_columns, ELEMENTSOF(removed_columns));

        if (!t)
                return error_oom(&c->error);
        return context_show_removed(c, t, context_for_each(c, words, remove_one, t));
}

static int rm(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {
                        .min = 1, .max = SIZE_MAX, .what = "an image: its ID, a prefix of it, or its name"};
        int r = context_parse_for_store(c, NULL, NULL, argc, argv, &words);
        return r <= 0 ? r : remove_all(c, &words);
}

const Verb verb_image_rm = {
                .name = "image rm",
                .page = "acnspawn-image",
                .synopsis = "[OPTIONS…] IMAGE…",
                .brief = "IMAGE…",
                .summary = "Remove images from the store",
                .text = "Removes images and prints their IDs. An image that a prepared or running pod "
                        "needs, or that another image depends on, is kept, with a message that names what "
                        "needs it.",
                .words = "image",
                .run = rm,
};

/* --- cat-manifest -------------------------------------------------------------------------------------- */

static int cat_manifest(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = 1, .what = "an image"};
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_free_ char *id = NULL;
        int r = context_parse_for_store(c, NULL, NULL, argc, argv, &words);

        if (r <= 0)
                return r;
        r = fetch_find_id(c->store, words.list[0], context_config_dirs(c), &id, &c->error);
        if (r >= 0)
                r = image_open(c->store, id, &image, &c->error);
        if (r < 0)
                return r;
        return context_show_document(c, image->manifest_text, image->manifest_size);
}

const Verb verb_image_cat_manifest = {
                .name = "image cat-manifest",
                .page = "acnspawn-image",
                .synopsis = "[OPTIONS…] IMAGE",
                .brief = "IMAGE",
                .summary = "Show the manifest of an image",
                .text = "Shows the image's manifest, byte for byte as it is in the archive.",
                .words = "image",
                .run = cat_manifest,
};
