/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn config: what acnspawn.conf and its drop-ins set, and where. Values are checked by the handlers of the
 * options that they are for. */

#include "stage0/arguments/pod-arguments.h"
#include "stage0/arguments/run-arguments.h"
#include "stage0/verbs/pod-words.h"

static const TableColumn columns[] = {
                {.header = "SECTION", .key = "section"},
                {.header = "KEY", .key = "key"},
                {.header = "VALUE", .key = "value", .shrink_to = 12},
                {.header = "ORIGIN", .key = "origin", .shrink_to = 16, .middle = true},
};

typedef struct Arguments {
        bool cat;
} Arguments;

static const Option options[] = {
                {"Options", "cat", 0, NULL, false, "Show the files that were read, one after the other",
                 NULL, option_true, offsetof(Arguments, cat)},
                OPTION_END,
};

/* --- Checking ------------------------------------------------------------------------------------------ */

typedef struct RunValues {
        DetachKeys keys;
        uint64_t ready_timeout_usec;
} RunValues;

static const Option run_keys[] = {
                {NULL, "detach-keys", 0, "KEY[,…]", false, NULL, NULL, option_detach_keys,
                 offsetof(RunValues, keys)},
                {NULL, "ready-timeout", 0, "TIME", false, NULL, NULL, option_usec,
                 offsetof(RunValues, ready_timeout_usec)},
                OPTION_END,
};

/* One key alone, so that each wrong value is found. */
static int check_key(Context *c, size_t key)
{
        _cleanup_pod_arguments_ PodArguments a;
        AppOverrides app = {};
        RunValues run = {};
        const char *dir = NULL;
        Conf one = {};

        pod_arguments_init(&a);
        one.values[key] = c->conf.values[key];
        const struct {
                const char *section;
                OptionSet set;
        } sets[] = {
                        {"Pod", {.options = pod_options, .data = &a}},
                        {"Image", {.options = image_options, .data = &a}},
                        {"App", {.options = app_options, .data = &app}},
                        {"Run", {.options = run_keys, .data = &run}},
        };
        int r = conf_store_directory(&one, &dir, &c->error);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(sets); i++)
                r = conf_apply(&one, "run", sets[i].section, &sets[i].set, &c->error);
        app_overrides_done(&app);
        return r;
}

static int check_values(Context *c)
{
        int status = EXIT_SUCCESS;

        for (size_t i = 0; i < N_CONF_KEYS; i++) {
                int r = check_key(c, i);
                if (r >= 0)
                        continue;
                error_print(&c->error, r);
                error_done(&c->error);
                status = EXIT_STATUS_FAILURE;
        }
        return status;
}

/* --- Showing ------------------------------------------------------------------------------------------- */

static int add_key(Context *c, Table *t, size_t key)
{
        const ConfKey *k = &conf_keys[key];
        const ConfValue *v = &c->conf.values[key];
        const char *dir = streq(k->option, "dir") ? c->dir : NULL, *variable = getenv("ACNSPAWN_DIR");
        _cleanup_free_ char *place = NULL;

        if (v->value && xasprintf(&place, "%s:%u", v->file, v->line) < 0)
                return -ENOMEM;
        table_add_text(t, k->section);
        table_add_text(t, k->key);
        table_add_text(t, dir ?: v->value ?: k->usual);
        table_add_text(t, dir == variable && dir ? "ACNSPAWN_DIR" : dir ? "--dir" : place ?: "default");
        return 0;
}

static int show_table(Context *c)
{
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));

        for (size_t i = 0; t && i < N_CONF_KEYS; i++)
                if (add_key(c, t, i) < 0)
                        return error_oom(&c->error);
        return t ? context_show_table(c, t, NULL) : error_oom(&c->error);
}

static int show_files(Context *c)
{
        const char *separator = "";

        STRV_FOREACH (file, c->conf.files) {
                _cleanup_free_ char *text = NULL;
                size_t size = 0;

                int r = read_file_at(AT_FDCWD, *file, CONF_FILE_MAX, &text, &size);
                if (r < 0)
                        return error_set_errno(&c->error, r, "Cannot read '%s'", *file);
                printf("%s# %s\n", separator, *file);
                r = context_show_document(c, text, size);
                if (r < 0)
                        return r;
                separator = "\n";
        }
        if (!c->conf.files)
                log_info("There is no acnspawn.conf, nor a file in acnspawn.conf.d.");
        return 0;
}

static int run(Context *c, int argc, char **argv)
{
        Arguments a = {};

        int r = context_parse(c, options, &a, argc, argv, NULL);
        if (r > 0)
                r = context_read_conf(c);
        if (r < 0 || c->help || c->version)
                return r;
        if (a.cat)
                return show_files(c);
        r = show_table(c);
        if (r >= 0)
                r = context_flush(c);
        return r < 0 ? r : check_values(c);
}

const Verb verb_config = {
                .name = "config",
                .page = "acnspawn-config",
                .synopsis = "[OPTIONS…]",
                .summary = "Show the configuration in force",
                .text = "Shows the values of acnspawn.conf and its drop-ins that are in force, and where "
                        "each comes from: file and line, an option, the environment, or the default. Checks "
                        "all values.",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};
