/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn gc: removes what nobody needs any more, and prints what it removed. */

#include "stage0/verb.h"

#define DEFAULT_GRACE_USEC (30 * 60 * 1000000ULL)
#define DEFAULT_EXPIRE_USEC (24 * 3600 * 1000000ULL)
#define DEFAULT_EXPIRE_DOWNLOADS_USEC (7 * 24 * 3600 * 1000000ULL)

static const Option options[] = {
                {"Options", "grace-period", 0, "TIME", false,
                 "Keep pods that ended less than TIME ago (default: 30min)", NULL, option_usec,
                 offsetof(GcOptions, grace_usec)},
                {NULL, "expire-prepared", 0, "TIME", false,
                 "Remove pods that were prepared more than TIME ago and never run (default: 24h; infinity: "
                 "never)",
                 NULL, option_usec, offsetof(GcOptions, expire_prepared_usec)},
                {NULL, "expire-downloads", 0, "TIME", false,
                 "Remove what is there of downloads that were broken off more than TIME ago (default: 7d; "
                 "infinity: never)",
                 NULL, option_usec, offsetof(GcOptions, expire_downloads_usec)},
                {NULL, "dry-run", 'n', NULL, false, "Only show what would be removed", NULL, option_true,
                 offsetof(GcOptions, dry_run)},
                OPTION_END,
};

static const TableColumn columns[] = {
                {"KIND", "kind", false, 0},
                {"ID", "id", false, 0},
                {"NAME", "name", false, 12},
                {"STATE", "state", false, 0},
};

static void removed(const GcItem *item, void *userdata)
{
        table_add_text(userdata, item->kind);
        table_add_text(userdata, item->id);
        table_add_text(userdata, item->name);
        table_add_text(userdata, item->state);
}

/* What went before a failure is shown as well. */
static int collect(Context *c, GcOptions *o, Table *t)
{
        _cleanup_error_ Error e = ERROR_NULL;

        o->removed = removed;
        o->release = pod_release;
        o->userdata = t;
        int r = c->store ? store_gc(c->store, o, &e) : 0, k;
        if (c->json != JSON_OFF || table_n_rows(t) > 0)
                k = context_show_table(c, t, NULL);
        else
                k = 0;
        if (r >= 0)
                return k;
        error_done(&c->error);
        c->error = e;
        e = ERROR_NULL;
        return r;
}

static int run(Context *c, int argc, char **argv)
{
        GcOptions o = {.grace_usec = DEFAULT_GRACE_USEC,
                       .expire_prepared_usec = DEFAULT_EXPIRE_USEC,
                       .expire_downloads_usec = DEFAULT_EXPIRE_DOWNLOADS_USEC};
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));

        int r = context_parse(c, options, &o, argc, argv, NULL);
        if (r <= 0)
                return r;
        if (!t)
                return error_oom(&c->error);
        r = context_open_store_if_there(c);
        if (r < 0)
                return r;
        /* One thing per line, as programs like it; what was removed needs no header. */
        c->no_legend = true;
        return collect(c, &o, t);
}

const Verb verb_gc = {
                .name = "gc",
                .synopsis = "[OPTIONS…]",
                .summary = "Remove what nobody needs any more",
                .text = "Removes pods that have ended, preparations that were given up, unpacked halves "
                        "of images, and downloads that nobody went on with, and prints what it removed. "
                        "What is in use is left alone; it may be run at any time.",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
