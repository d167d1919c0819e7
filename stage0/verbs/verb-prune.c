/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn prune: removes what is not used, without a grace period. On a terminal it shows what would be removed
 * and asks, and then removes that and nothing else; elsewhere it has to be told not to ask. */

#include "stage0/arguments/pod-declared.h"
#include "stage0/verbs/collected.h"

typedef struct Arguments {
        bool dry_run, force;
        unsigned parts;
} Arguments;

#define ALL_PARTS (PRUNE_IMAGES | PRUNE_PODS | PRUNE_DOWNLOADS)
#define PARTS "images|pods|volumes|downloads|all"

static const struct {
        const char *word;
        unsigned parts;
} parts[] = {
                {"images", PRUNE_IMAGES},       {"pods", PRUNE_PODS}, {"volumes", PRUNE_VOLUMES},
                {"downloads", PRUNE_DOWNLOADS}, {"all", ALL_PARTS},
};

static const Option options[] = {
                {"Options", "dry-run", 'n', NULL, false, "Only show what would be removed", NULL,
                 option_true, offsetof(Arguments, dry_run)},
                {NULL, "force", 'f', NULL, false, "Do not ask", NULL, option_true,
                 offsetof(Arguments, force)},
                OPTION_END,
};

static int take_word(Context *c, const char *word, Arguments *a)
{
        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                if (streq(parts[i].word, word)) {
                        a->parts |= parts[i].parts;
                        return 0;
                }
        _cleanup_free_ char *shown = text_escape_for_terminal(word);
        return context_usage(c,
                             "'%s' cannot be pruned: there are images, pods, volumes, downloads and all "
                             "(all but volumes)",
                             shown ?: "");
}

/* What declared pods and units of the host need is read each time: a pod may have been declared since it was asked. */
static int read_kept(Context *c, const Arguments *a, PruneKept *ret)
{
        int r = a->parts & (PRUNE_PODS | PRUNE_IMAGES)
                                ? pods_of_units(c->config_dirs[0], &ret->pods.names, &c->error)
                                : 0;

        if (r >= 0 && a->parts & PRUNE_IMAGES)
                r = context_needed_images(c, &ret->pods, &ret->images);
        return r < 0 || !(a->parts & PRUNE_VOLUMES) ? r : context_declared_volumes(c, &ret->volumes);
}

static int prune(Context *c, const Arguments *a, bool dry_run, Collected *t)
{
        _cleanup_prune_kept_ PruneKept kept = {};
        _cleanup_error_ Error e = ERROR_NULL;

        int r = c->store ? read_kept(c, a, &kept) : 0;
        if (r < 0)
                return r;
        const PruneOptions o = {.parts = a->parts,
                                .kept = &kept,
                                .dry_run = dry_run,
                                .selected = collected_select,
                                .release = pod_release,
                                .removed = collected_add,
                                .userdata = t};
        r = c->store ? store_prune(c->store, &o, &e) : 0;
        return collected_show(c, t, dry_run, r, &e);
}

static int prune_once(Context *c, const Arguments *a, bool dry_run, const Collected *shown)
{
        _cleanup_(collected_done) Collected t = {};

        if (collected_init(&t, true) < 0)
                return error_oom(&c->error);
        t.shown = shown;
        return prune(c, a, dry_run, &t);
}

/* 1: yes. */
static int ask(void)
{
        char line[16] = {};

        (void) fputs("Remove all of that? [y/N] ", stderr);
        return fgets(line, sizeof(line), stdin) && (streq(line, "y\n") || streq(line, "yes\n"));
}

static int show_and_ask(Context *c, const Arguments *a)
{
        _cleanup_(collected_done) Collected shown = {};

        if (collected_init(&shown, true) < 0)
                return error_oom(&c->error);
        int r = prune(c, a, true, &shown);
        if (r < 0 || table_n_rows(shown.table) == 0)
                return r;
        collected_sort(&shown);
        if (ask())
                return prune_once(c, a, false, &shown);
        log_info("Nothing was removed.");
        return EXIT_STATUS_FAILURE;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.max = SIZE_MAX, .what = PARTS};
        Arguments a = {};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        for (size_t i = 0; i < words.n; i++) {
                r = take_word(c, words.list[i], &a);
                if (r < 0)
                        return r;
        }
        if (words.n == 0)
                a.parts = ALL_PARTS;
        bool asks = !a.force && !a.dry_run;
        if (asks && (!isatty(STDIN_FILENO) || c->json != JSON_OFF))
                return context_usage(
                                c, "'acnspawn prune' can only ask on a terminal: give --force to remove, or "
                                   "--dry-run to see what that would be");
        r = context_open_store_if_there(c);
        if (r < 0)
                return r;
        (void) interrupt_catch(c->operation);
        return asks ? show_and_ask(c, &a) : prune_once(c, &a, a.dry_run, NULL);
}

const Verb verb_prune = {
                .name = "prune",
                .page = "acnspawn-df",
                .synopsis = "[OPTIONS…] [images|pods|volumes|downloads|all…]",
                .brief = "[KIND…]",
                .summary = "Remove unused images, pods, downloads and volumes",
                .text = "Removes images that no pod, declared ones included, and no other image needs, pods that have ended, and "
                        "interrupted downloads, whatever their age; of named kinds only those. Named volumes that "
                        "no pod, declared ones included, uses are only removed if 'volumes' is given. Prints what it removed, and how much "
                        "disk space that freed. On a terminal it asks first.",
                .words = PARTS,
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
