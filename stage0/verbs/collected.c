/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The objects that a verb removed, or would remove, as a table with the disk space of each. The sum is
 * written to standard error, so that standard output has one object per line.
 */

#include "stage0/verbs/collected.h"

#define SHORT_ID_LENGTH 12U

static const TableColumn columns[] = {
                {.header = "KIND", .key = "kind"},
                {.header = "ID", .key = "id"},
                {.header = "NAME", .key = "name", .shrink_to = 12, .middle = true},
                {.header = "SIZE", .key = "size", .right = true},
};

static const TableColumn columns_with_states[] = {
                {.header = "KIND", .key = "kind"},
                {.header = "ID", .key = "id"},
                {.header = "NAME", .key = "name", .shrink_to = 12, .middle = true},
                {.header = "STATE", .key = "state"},
                {.header = "SIZE", .key = "size", .right = true},
};

int collected_init(Collected *t, bool states)
{
        *t = (Collected){.states = states, .full = !isatty(STDOUT_FILENO)};
        t->table = states ? table_new(columns_with_states, ELEMENTSOF(columns_with_states))
                          : table_new(columns, ELEMENTSOF(columns));
        return t->table ? 0 : -ENOMEM;
}

void collected_done(Collected *t)
{
        t->table = table_free(t->table);
        t->objects = strv_free(t->objects);
}

/* Hashes are shortened; UUIDs and origins of images are not. */
static void add_id(Collected *t, const char *id)
{
        const char *hex = startswith(id, "sha512-") ?: startswith(id, LAYER_ID_UNPACKED) ?: startswith(id, LAYER_ID_MADE) ?: id;
        char shown[SHORT_ID_LENGTH + 1];

        if (t->full || strspn(hex, "0123456789abcdef") < 64) {
                table_add_text(t->table, id);
                return;
        }
        memcpy(shown, hex, SHORT_ID_LENGTH);
        shown[SHORT_ID_LENGTH] = 0;
        table_add_text_as(t->table, id, shown);
}

void collected_add(const GcItem *item, void *userdata)
{
        Collected *t = userdata;
        _cleanup_free_ char *size = item->size > 0 ? format_size(item->size) : NULL;

        (void) strv_extendf(&t->objects, "%s %s", item->kind, item->id); /* without memory it stays */
        table_add_text(t->table, item->kind);
        add_id(t, item->id);
        table_add_text(t->table, item->name);
        if (t->states)
                table_add_text(t->table, item->state);
        table_add_number_as(t->table, (int64_t) item->size, size ?: "-");
        t->size += item->size;
}

void collected_sort(Collected *t)
{
        strv_sort(t->objects);
}

static int compare_objects(const void *a, const void *b)
{
        return strcmp(a, *(char *const *) b);
}

bool collected_select(const char *kind, const char *id, void *userdata)
{
        const Collected *t = userdata, *shown = t->shown;
        _cleanup_free_ char *object = NULL;

        return !shown || (shown->objects && xasprintf(&object, "%s %s", kind, id) >= 0 &&
                          bsearch(object, shown->objects, strv_length(shown->objects), sizeof(char *),
                                  compare_objects));
}

static int show(Context *c, const Collected *t, bool dry_run)
{
        _cleanup_free_ char *size = format_size(t->size);

        if (c->json != JSON_OFF)
                return context_show_table(c, t->table, NULL);
        if (table_n_rows(t->table) == 0) {
                log_info("Nothing to remove.");
                return 0;
        }
        int r = context_show_table(c, t->table, NULL);
        if (r >= 0)
                r = context_flush(c);
        if (r >= 0 && size)
                log_info(dry_run ? "This would free %s of disk space." : "This freed %s of disk space.",
                         size);
        return r;
}

int collected_show(Context *c, const Collected *t, bool dry_run, int r, Error *e)
{
        int k = r >= 0 || c->json != JSON_OFF || table_n_rows(t->table) > 0 ? show(c, t, dry_run) : 0;

        if (r >= 0)
                return k;
        (void) error_move(&c->error, e);
        return r;
}
