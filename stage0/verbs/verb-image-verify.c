/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn image verify: checks whether images are unchanged since they were imported. */

#include <json-c/json.h>

#include "stage0/verbs/verb.h"

#define SHOWN_MAX 100U /* per image; all are counted */
#define PROGRESS_USEC 200000U

static const TableColumn columns[] = {
                {"IMAGE", "id", false, 0},
                {"PATH", "path", false, 20},
                {"DIFFERENCE", "difference", false, 0},
                {"EXPECTED", "expected", false, 10},
                {"FOUND", "found", false, 10},
};

typedef struct Verify {
        Context *context;
        Table *table;
        json_object *json;
        const char *shown; /* the image's ID, short */
        uint64_t last;     /* time when progress was last shown */
        bool drawn;
        size_t n_found, n_left_out, n_good;
} Verify;

/* --- Progress ------------------------------------------------------------------------------------------ */

static void clear_progress(Verify *v)
{
        if (v->drawn)
                fputs("\r\033[K", stderr);
        v->drawn = false;
}

static int show_progress(uint64_t done, uint64_t total, void *userdata)
{
        Verify *v = userdata;
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (now - v->last < PROGRESS_USEC)
                return 0;
        fprintf(stderr, "\rVerifying %s… %u%%\033[K", v->shown,
                total > 0 ? (unsigned) (done * 100 / total) : 0);
        v->last = now;
        v->drawn = true;
        return 0;
}

/* --- Results ------------------------------------------------------------------------------------------- */

static json_object *difference_to_json(const Difference *d)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "path", d->path) < 0 ||
            json_member_add_text(o, "difference", difference_kind_to_string(d->kind)) < 0 ||
            json_member_add_text(o, "expected", d->expected) < 0 ||
            json_member_add_text(o, "found", d->found) < 0)
                return NULL;
        return TAKE_PTR(o);
}

static json_object *differences_to_json(const RecordCheck *check)
{
        _cleanup_json_ json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < check->n_kept; i++)
                if (json_list_append(list, difference_to_json(&check->differences[i])) < 0)
                        return NULL;
        return TAKE_PTR(list);
}

static int add_json(Verify *v, const char *id, const RecordCheck *check)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "id", id) < 0 ||
            json_member_add(o, "good", json_object_new_boolean(check->n_found == 0)) < 0 ||
            json_member_add(o, "entries", json_object_new_int64((int64_t) check->n_entries)) < 0 ||
            json_member_add(o, "bytes", json_object_new_int64((int64_t) check->n_bytes)) < 0 ||
            json_member_add(o, "nDifferences", json_object_new_int64((int64_t) check->n_found)) < 0 ||
            json_member_add(o, "differences", differences_to_json(check)) < 0 ||
            json_list_append(v->json, TAKE_PTR(o)) < 0)
                return error_oom(&v->context->error);
        return 0;
}

static void add_rows(Verify *v, const char *id, const RecordCheck *check)
{
        for (size_t i = 0; i < check->n_kept; i++) {
                const Difference *d = &check->differences[i];
                table_add_text_as(v->table, id, v->shown);
                table_add_text(v->table, d->path);
                table_add_text(v->table, difference_kind_to_string(d->kind));
                table_set_color(v->table, COLOR_RED);
                table_add_text(v->table, d->expected);
                table_add_text(v->table, d->found);
        }
}

static int verify_one(Context *c, const char *id, void *userdata)
{
        _cleanup_record_check_ RecordCheck check = {.n_max = SHOWN_MAX};
        _cleanup_free_ char *shown = strndup(id, strlen(IMAGE_ID_PREFIX) + 12);
        Verify *v = userdata;

        if (!shown)
                return error_oom(&c->error);
        v->shown = shown;
        if (!c->quiet && isatty(STDERR_FILENO)) {
                check.progress = show_progress;
                check.userdata = v;
        }
        int r = image_verify(c->store, id, true, &check, &c->error);
        if (r >= 0)
                r = oci_image_verify(c->store, id, &check, &c->error);
        clear_progress(v);
        if (r < 0)
                return r;
        v->n_found += check.n_found;
        v->n_left_out += check.n_found - check.n_kept;
        v->n_good += check.n_found == 0;
        add_rows(v, id, &check);
        r = add_json(v, id, &check);
        return r < 0 ? r : check.n_found > 0;
}

static int show(Context *c, Verify *v)
{
        if (c->json != JSON_OFF)
                return context_show_json(c, v->json);
        int r = table_n_rows(v->table) > 0 ? context_show_table(c, v->table, NULL) : 0;
        if (r >= 0 && v->n_left_out > 0)
                log_warning("%zu more differences are not shown (%zu in all).", v->n_left_out, v->n_found);
        if (r >= 0 && v->n_good > 0 && !c->quiet)
                log_info("%zu image%s verified: nothing was altered.", v->n_good, v->n_good > 1 ? "s" : "");
        return r;
}

/* --- The images ---------------------------------------------------------------------------------------- */

static int resolve(Context *c, const Words *words, char ***ret, int *ret_status)
{
        _cleanup_strv_free_ char **ids = NULL;
        bool all = words->n == 0 || (words->n == 1 && streq(words->list[0], "all"));
        int r = all ? image_list_ids(c->store, IMAGE_ID_PREFIX, &ids, &c->error) : 0;

        for (size_t i = 0; !all && r >= 0 && i < words->n; i++) {
                char *id = NULL;
                int k = fetch_find_id(c->store, words->list[i], context_config_dirs(c), &id, &c->error);
                if (k < 0) {
                        error_print(&c->error, k);
                        error_done(&c->error);
                        *ret_status = EXIT_STATUS_FAILURE;
                        continue;
                }
                r = strv_consume(&ids, id);
        }
        if (r == -ENOMEM)
                return error_oom(&c->error);
        *ret = TAKE_PTR(ids);
        return r;
}

static int verify_all(Context *c, char **ids, int status)
{
        Verify v = {.context = c,
                    .table = table_new(columns, ELEMENTSOF(columns)),
                    .json = json_object_new_array()};
        const Words list = {.list = (const char **) ids, .n = strv_length(ids)};

        int r = v.table && v.json ? context_for_each(c, &list, verify_one, &v) : error_oom(&c->error);
        if (r >= 0) {
                int k = show(c, &v);
                status = status ?: r;
                r = k;
        }
        (void) table_free(v.table);
        json_object_put(v.json);
        return r < 0 ? r : status;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.max = SIZE_MAX, .what = "an image"};
        _cleanup_strv_free_ char **ids = NULL;
        int status = EXIT_SUCCESS;

        int r = context_parse_for_store(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        (void) interrupt_catch(c->operation);
        r = resolve(c, &words, &ids, &status);
        return r < 0 ? r : verify_all(c, ids, status);
}

const Verb verb_image_verify = {
                .name = "image verify",
                .page = "acnspawn-image",
                .synopsis = "[OPTIONS…] [IMAGE…|all]",
                .brief = "[IMAGE…|all]",
                .summary = "Find altered files in stored images",
                .text = "Compares every file of images and their layers with its original state: content, "
                        "owner, mode, attributes, type and target of links, missing and added files; "
                        "and checks that the archive still has the image's ID. Prints all differences; "
                        "exits with 1 if there are any.",
                .words = "image",
                .run = run,
};
