/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn image gc: removes images that nobody has used for a while. */

#include "stage0/verb.h"

#define DEFAULT_GRACE_USEC (24 * 3600 * 1000000ULL)

static const Option options[] = {
                {"Options", "grace-period", 0, "TIME", false,
                 "Keep images used less than TIME ago (default: 24h)", NULL, option_usec,
                 offsetof(ImageGcOptions, grace_usec)},
                {NULL, "dry-run", 'n', NULL, false, "Only show what would be removed", NULL, option_true,
                 offsetof(ImageGcOptions, dry_run)},
                OPTION_END,
};

static const TableColumn columns[] = {
                {"KIND", "kind", false, 0},
                {"ID", "id", false, 0},
                {"NAME", "name", false, 20},
};

static void removed(const char *kind, const char *id, const char *name, void *userdata)
{
        table_add_text(userdata, kind);
        table_add_text(userdata, id);
        table_add_text(userdata, name);
}

/* What went before a failure is shown as well. */
static int collect(Context *c, ImageGcOptions *o, Table *t)
{
        _cleanup_error_ Error e = ERROR_NULL;

        o->removed = removed;
        o->userdata = t;
        (void) interrupt_catch();
        int r = c->store ? image_gc(c->store, o, &e) : 0, k = 0;
        if (c->json != JSON_OFF || table_n_rows(t) > 0)
                k = context_show_table(c, t, NULL);
        if (r >= 0)
                return k;
        (void) error_move(&c->error, &e);
        return r;
}

static int run(Context *c, int argc, char **argv)
{
        ImageGcOptions o = {.grace_usec = DEFAULT_GRACE_USEC};

        int r = context_parse(c, options, &o, argc, argv, NULL);
        if (r <= 0)
                return r;
        r = context_open_store_if_there(c);
        if (r < 0)
                return r;
        Table *t = table_new(columns, ELEMENTSOF(columns));
        r = t ? collect(c, &o, t) : error_oom(&c->error);
        (void) table_free(t);
        return r;
}

const Verb verb_image_gc = {
                .name = "image gc",
                .synopsis = "[OPTIONS…]",
                .summary = "Remove images that are not used",
                .text = "Removes images that were used last longer ago than the grace period and that "
                        "neither a pod nor another image needs, layers that no image has, and rendered "
                        "trees of images that are gone. Prints what it removed.",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
