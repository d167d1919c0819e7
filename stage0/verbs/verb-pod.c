/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn pod verify, list, cat: the files that declare pods. */

#include "stage0/arguments/pod-declared.h"
#include "stage0/arguments/pod-values.h"
#include "stage0/verbs/pod-words.h"
#include "stage0/pods/pods.h"

static int find_dirs(Context *c, char ***ret)
{
        return declared_find_dirs(c->config_dirs[0], ret, &c->error);
}

/* --- verify -------------------------------------------------------------------------------------------- */

static const TableColumn finding_columns[] = {
                {"FILE", "file", false, 0},         {"LINE", "line", true, 0},
                {"MESSAGE", "message", false, 0},   {"HINT", "hint", false, 0},
                {"SEVERITY", "severity", false, 0},
};

typedef struct Verification {
        Table *table;
        char **dirs;
        bool images; /* as well */
} Verification;

static void show_finding(Context *c, Table *t, const DeclaredFinding *f)
{
        const char *severity = f->error ? "error" : "warning";

        table_add_text(t, f->place.file);
        if (f->place.line > 0)
                table_add_number(t, f->place.line);
        else
                table_add_none(t);
        table_add_text(t, f->text);
        table_add_text(t, f->hint);
        table_add_text(t, severity);
        if (c->json != JSON_OFF)
                return;
        _cleanup_free_ char *text = text_escape_for_terminal(f->text);
        _cleanup_free_ char *file = text_escape_for_terminal(f->place.file);
        printf("%s:", file ?: "?");
        if (f->place.line > 0)
                printf("%u:", f->place.line);
        printf(" %s: %s%s%s\n", severity, text ?: "?", f->hint ? ". " : "", f->hint ?: "");
}

static bool is_path(const char *word)
{
        return strchr(word, '/') || endswith(word, DECLARED_SUFFIX);
}

static int load_word(Context *c, char *const *dirs, const char *word, Declared **ret)
{
        return is_path(word) ? declared_load_file(word, ret, &c->error)
                             : declared_load(dirs, word, ret, &c->error);
}

static int verify_one(Context *c, const char *word, void *userdata)
{
        _cleanup_(declared_freep) Declared *d = NULL;
        _cleanup_run_arguments_ RunArguments run;
        _cleanup_pod_arguments_ PodArguments a;
        Verification *v = userdata;

        run_arguments_init(&run);
        pod_arguments_init(&a);
        int r = load_word(c, v->dirs, word, &d);
        if (r >= 0)
                r = declared_apply(d, &a, &run, &c->error);
        if (r >= 0)
                r = context_verify_declared_images(c, d, &a, &run, v->images);
        if (r >= 0 && (declared_check_units(d) < 0 || declared_check_sockets(d) < 0))
                r = error_oom(&c->error);
        if (r < 0)
                return r;
        for (size_t i = 0; i < d->n_findings; i++)
                show_finding(c, v->table, &d->findings[i]);
        if (d->n_more_findings > 0)
                log_info("There are %zu more.", d->n_more_findings);
        if (!d->has_errors && c->json == JSON_OFF && !c->quiet)
                printf("%s: valid\n", d->files[0]);
        return d->has_errors;
}

static int verify(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {
                        .min = 1, .max = SIZE_MAX, .what = "a declared pod: its name, or a file"};
        Verification v = {.images = geteuid() == 0}; /* the store is root's */

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = v.images ? context_open_store_if_there(c) : 0;
        if (r >= 0)
                r = find_dirs(c, &v.dirs);
        if (r < 0)
                return r;
        v.table = table_new(finding_columns, ELEMENTSOF(finding_columns));
        int status = v.table ? context_for_each(c, &words, verify_one, &v) : error_oom(&c->error);
        if (v.table && c->json != JSON_OFF)
                r = context_show_table(c, v.table, NULL);
        table_free(v.table);
        strv_free(v.dirs);
        return r < 0 ? r : status;
}

const Verb verb_pod_verify = {
                .name = "pod verify",
                .page = "acnspawn-pod",
                .synopsis = "[OPTIONS…] FILE|NAME…",
                .brief = "FILE|NAME…",
                .summary = "Check files that declare pods",
                .text = "Checks what declares pods, with drop-ins, and shows all mistakes and warnings with "
                        "file and line. Secrets and other files that are named there are read. If all "
                        "images are in the store, what 'acnspawn prepare --dry-run' finds is shown, too. "
                        "Exits with 0 if there are no mistakes, 1 if there are.",
                .words = "declared",
                .run = verify,
};

/* --- list ---------------------------------------------------------------------------------------------- */

static const TableColumn list_columns[] = {
                {"NAME", "name", false, 0},  {"STATE", "state", false, 0},       {"UUID", "uuid", false, 0},
                {"FILE", "file", false, 20}, {"DROP-INS", "dropIns", false, 20},
};

static int add_row(Context *c, Table *t, char *const *dirs, const char *name)
{
        _cleanup_(declared_freep) Declared *d = NULL;
        _cleanup_error_ Error unreadable = ERROR_NULL;
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = declared_load(dirs, name, &d, &unreadable);
        if (r < 0) { /* as good as it gets */
                error_print(&unreadable, r);
                return 0;
        }
        if (c->store)
                (void) pod_open_by_name(c->store, name, &p, NULL);
        table_add_text(t, name);
        if (p) {
                table_add_text(t, pod_shown_state(p));
                table_set_color(t, pod_state_color(p->state, pod_end(p).exit_status));
                table_add_text(t, p->uuid);
        } else {
                table_add_none(t);
                table_add_none(t);
        }
        table_add_text(t, d->files[0]);
        table_add_list(t, d->files + 1);
        return 0;
}

static void warn_of_misnamed(char *const *dirs)
{
        _cleanup_strv_free_ char **files = NULL;

        if (declared_list_misnamed(dirs, &files, NULL) < 0)
                return;
        STRV_FOREACH (file, files) {
                _cleanup_free_ char *shown = text_escape_for_terminal(*file);
                log_warning("'%s' declares no pod: its name is that of the pod, in lower case letters, digits, '-' and '.', with the suffix '" DECLARED_SUFFIX
                            "'.",
                            shown ?: "?");
        }
}

static int list(Context *c, int argc, char **argv)
{
        _cleanup_(table_freep) Table *t = table_new(list_columns, ELEMENTSOF(list_columns));
        _cleanup_strv_free_ char **dirs = NULL, **names = NULL;

        if (!t)
                return error_oom(&c->error);
        int r = context_parse(c, NULL, NULL, argc, argv, NULL);
        if (r <= 0)
                return r;
        r = find_dirs(c, &dirs);
        if (r >= 0)
                r = declared_list(dirs, &names, &c->error);
        if (r >= 0)
                r = context_open_store_if_there(c);
        if (r < 0)
                return r;
        warn_of_misnamed(dirs);
        STRV_FOREACH (name, names) {
                r = add_row(c, t, dirs, *name);
                if (r < 0)
                        return r;
        }
        if (!names && c->json == JSON_OFF) {
                log_info("No pods are declared.");
                return 0;
        }
        return context_show_table(c, t, NULL);
}

const Verb verb_pod_list = {
                .name = "pod list",
                .page = "acnspawn-pod",
                .synopsis = "[OPTIONS…]",
                .summary = "List declared pods",
                .text = "Lists the pods that files declare, with their files, and the state of the pod that "
                        "has the name now, if there is one.",
                .run = list,
};

/* --- cat ----------------------------------------------------------------------------------------------- */

typedef struct Cat {
        char **dirs;
        bool any;
} Cat;

static int show_file(Context *c, Cat *cat, const char *path, const char *content)
{
        _cleanup_text_ Text t = {};
        size_t n = strlen(content);

        text_addf(&t, "%s# %s\n%s%s", cat->any ? "\n" : "", path, content,
                  n > 0 && content[n - 1] == '\n' ? "" : "\n");
        if (t.failed)
                return error_oom(&c->error);
        cat->any = true;
        return context_show_document(c, t.data, t.size);
}

static int cat_one(Context *c, const char *word, void *userdata)
{
        _cleanup_(declared_freep) Declared *d = NULL;
        Cat *cat = userdata;

        int r = load_word(c, cat->dirs, word, &d);
        for (size_t i = 0; r >= 0 && d->files[i]; i++)
                r = show_file(c, cat, d->files[i], d->texts[i]);
        return r;
}

static int cat(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {
                        .min = 1, .max = SIZE_MAX, .what = "a declared pod: its name, or a file"};
        Cat own = {};

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        r = find_dirs(c, &own.dirs);
        if (r >= 0)
                r = context_for_each(c, &words, cat_one, &own);
        strv_free(own.dirs);
        return r;
}

const Verb verb_pod_cat = {
                .name = "pod cat",
                .page = "acnspawn-pod",
                .synopsis = "[OPTIONS…] NAME…",
                .brief = "NAME…",
                .summary = "Show the files that declare pods",
                .text = "Shows the file that declares each pod and its drop-ins, in the order in which they "
                        "count, each after a comment with its path.",
                .words = "declared",
                .run = cat,
};
