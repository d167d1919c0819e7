/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn df: the disk space of the store, by what it is used for, and what "prune" would free of it. */

#include "stage0/arguments/pod-declared.h"

#define SHORT_ID_LENGTH 12U

static const TableColumn columns[] = {
                {.header = "KIND", .key = "kind"},
                {.header = "COUNT", .key = "count", .right = true},
                {.header = "SIZE", .key = "size", .right = true},
                {.header = "RECLAIMABLE", .key = "reclaimable", .right = true},
};

static const TableColumn verbose_columns[] = {
                {.header = "KIND", .key = "kind"},
                {.header = "ID", .key = "id"},
                {.header = "NAME", .key = "name", .shrink_to = 12, .middle = true},
                {.header = "SIZE", .key = "size", .right = true},
                {.header = "QUOTA", .key = "quota", .right = true},
                {.header = "RECLAIMABLE", .key = "reclaimable"},
};

typedef struct Arguments {
        bool verbose;
} Arguments;

static const Option options[] = {
                {"Options", "verbose", 'v', NULL, false, "Show each image, layer, pod, volume, …", NULL,
                 option_true, offsetof(Arguments, verbose)},
                OPTION_END,
};

static void add_sums(Table *t, const StoreUsage *u)
{
        for (StoreKind k = 0; k < _STORE_KIND_MAX; k++) {
                uint64_t size = 0, reclaimable = 0;
                int64_t count = 0;

                for (size_t i = 0; i < u->n; i++) {
                        if (u->items[i].kind != k)
                                continue;
                        count++;
                        size += u->items[i].size;
                        reclaimable += u->items[i].reclaimable ? u->items[i].size : 0;
                }
                table_add_text(t, store_kind_to_string(k));
                table_add_number(t, count);
                table_add_size(t, size);
                table_add_size(t, reclaimable);
        }
}

/* Hashes are shortened on a terminal; names and UUIDs are not. */
static int add_id(Table *t, const char *id, bool full)
{
        const char *hex = startswith(id, "sha512-") ?: startswith(id, LAYER_ID_UNPACKED) ?: startswith(id, LAYER_ID_MADE) ?: id;

        if (full || strspn(hex, "0123456789abcdef") < 64) {
                table_add_text(t, id);
                return 0;
        }
        _cleanup_free_ char *shown = strndup(hex, SHORT_ID_LENGTH);
        if (!shown)
                return -ENOMEM;
        table_add_text_as(t, id, shown);
        return 0;
}

static int add_objects(Table *t, const StoreUsage *u)
{
        bool full = !isatty(STDOUT_FILENO);
        int r = 0;

        for (StoreKind k = 0; k < _STORE_KIND_MAX; k++)
                for (size_t i = 0; r >= 0 && i < u->n; i++) {
                        const StoreObject *o = &u->items[i];

                        if (o->kind != k)
                                continue;
                        table_add_text(t, store_kind_to_string(k));
                        r = add_id(t, o->id, full);
                        table_add_text(t, o->name);
                        table_add_size(t, o->size);
                        if (o->quota > 0)
                                table_add_size(t, o->quota);
                        else
                                table_add_none(t);
                        table_add_json(t, json_object_new_boolean(o->reclaimable),
                                       o->reclaimable ? "yes" : "no");
                }
        return r;
}

/* One line for people: the sums of both columns. */
static void show_sum(const StoreUsage *u)
{
        uint64_t size = 0, reclaimable = 0;

        for (size_t i = 0; i < u->n; i++) {
                size += u->items[i].size;
                reclaimable += u->items[i].reclaimable ? u->items[i].size : 0;
        }
        _cleanup_free_ char *all = format_size(size), *some = format_size(reclaimable);
        if (all && some)
                log_info("%s of disk space, of which %s can be freed ('acnspawn prune').", all, some);
}

/* What cannot be found out is a warning: 'prune' removes none of these then, and the sizes can be seen all the same. */
static bool found_out(Context *c, int r)
{
        if (r < 0) {
                log_warning("%s", c->error.message ?: "");
                error_done(&c->error);
        }
        return r >= 0;
}

static void read_kept(Context *c, PruneKept *kept)
{
        kept->pods.all = !found_out(c, pods_of_units(c->config_dirs[0], &kept->pods.names, &c->error));
        kept->all_images = !found_out(c, context_needed_images(c, &kept->pods, &kept->images)) ||
                           kept->pods.all;
        kept->all_volumes = !found_out(c, context_declared_volumes(c, &kept->volumes));
}

static int show(Context *c, const Arguments *a)
{
        _cleanup_(table_freep) Table *t =
                        a->verbose ? table_new(verbose_columns, ELEMENTSOF(verbose_columns))
                                   : table_new(columns, ELEMENTSOF(columns));
        _cleanup_store_usage_ StoreUsage u = {};
        _cleanup_prune_kept_ PruneKept kept = {};

        (void) interrupt_catch(c->operation);
        if (c->store)
                read_kept(c, &kept);
        int r = c->store ? store_usage_read(c->store, &kept, &u, &c->error) : 0;
        if (r < 0)
                return r;
        if (!t || (a->verbose && add_objects(t, &u) < 0))
                return error_oom(&c->error);
        if (!a->verbose)
                add_sums(t, &u);
        r = context_show_table(c, t, "objects");
        if (r < 0 || c->json != JSON_OFF || u.n == 0)
                return r;
        r = context_flush(c);
        if (r >= 0)
                show_sum(&u);
        return r;
}

static int run(Context *c, int argc, char **argv)
{
        Arguments a = {};

        int r = context_parse(c, options, &a, argc, argv, NULL);
        if (r <= 0)
                return r;
        r = context_open_store_if_there(c);
        return r < 0 ? r : show(c, &a);
}

const Verb verb_df = {
                .name = "df",
                .page = "acnspawn-df",
                .synopsis = "[OPTIONS…]",
                .summary = "Show the disk space that the store uses",
                .text = "Shows how many images, layers, rendered trees, pods, logs of pods, named volumes and "
                        "interrupted downloads are in the store, the disk space they use, and how much of it "
                        "'acnspawn prune' would free now: volumes only if they are named there.",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
