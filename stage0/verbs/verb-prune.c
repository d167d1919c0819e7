/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn prune: removes what is not used, without a grace period. On a terminal it shows what would be removed
 * and asks; elsewhere it has to be told not to ask. */

#include "stage0/arguments/pod-declared.h"
#include "stage0/verbs/collected.h"

typedef struct Arguments {
        bool dry_run, force;
        unsigned parts;
        char **kept; /* IDs of images of declared pods */
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

/* *RET_N: the number of objects. */
static int prune(Context *c, const Arguments *a, bool dry_run, size_t *ret_n)
{
        _cleanup_(collected_done) Collected t = {};
        _cleanup_error_ Error e = ERROR_NULL;

        if (collected_init(&t, true) < 0)
                return error_oom(&c->error);
        const PruneOptions o = {.parts = a->parts,
                                .kept = a->kept,
                                .dry_run = dry_run,
                                .release = pod_release,
                                .removed = collected_add,
                                .userdata = &t};
        int r = c->store ? store_prune(c->store, &o, &e) : 0;
        if (ret_n)
                *ret_n = table_n_rows(t.table);
        return collected_show(c, &t, dry_run, r, &e);
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
        size_t n = 0;

        int r = prune(c, a, true, &n);
        if (r < 0 || n == 0)
                return r;
        if (ask())
                return prune(c, a, false, NULL);
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
        r = context_declared_images(c, &a.kept);
        if (r >= 0)
                r = asks ? show_and_ask(c, &a) : prune(c, &a, a.dry_run, NULL);
        strv_free(a.kept);
        return r;
}

const Verb verb_prune = {
                .name = "prune",
                .page = "acnspawn-df",
                .synopsis = "[OPTIONS…] [images|pods|volumes|downloads|all…]",
                .brief = "[KIND…]",
                .summary = "Remove unused images, pods, downloads and volumes",
                .text = "Removes images that no pod, declared ones included, and no other image needs, pods that have ended, and "
                        "interrupted downloads, whatever their age; of named kinds only those. Named volumes that "
                        "no pod uses are only removed if 'volumes' is given. Prints what it removed, and how much "
                        "disk space that freed. On a terminal it asks first.",
                .words = PARTS,
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
