/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn volume list, show, rm, prune: named volumes of the store. */

#include "stage0/arguments/pod-declared.h"
#include "stage0/cli/filter.h"
#include "stage0/verbs/collected.h"
#include "stage0/verbs/image-json.h"
#include "stage0/verbs/verb.h"

/* --- list ---------------------------------------------------------------------------------------------- */

static const TableColumn columns[] = {
                {.header = "NAME", .key = "name"},
                {.header = "SIZE", .key = "size", .right = true},
                {.header = "QUOTA", .key = "quota", .right = true},
                {.header = "USED BY", .key = "pods", .shrink_to = 20},
                {.header = "CREATED", .key = "created"},
                {.header = "LABELS", .key = "labels", .shrink_to = 20},
};

static const char *const usual[] = {"name", "quota", "pods", "created", NULL};
static const char *const usual_with_sizes[] = {"name", "size", "quota", "pods", "created", NULL};

typedef struct ListArguments {
        bool size;
        Filters filters;
        TableFormat format;
} ListArguments;

/* What filters look at. */
typedef struct Listed {
        NamedVolume volume;
        char **pods;
} Listed;

static void listed_done(Listed *l)
{
        named_volume_done(&l->volume);
        strv_free(l->pods);
}

static bool name_matches(const void *object, const char *value)
{
        return filter_glob(value, ((const Listed *) object)->volume.name);
}

static bool label_matches(const void *object, const char *value)
{
        return filter_pair(value, &((const Listed *) object)->volume.labels);
}

static bool pod_matches(const void *object, const char *value)
{
        return filter_glob_any(value, ((const Listed *) object)->pods);
}

static int check_used(const char *value, Error *e)
{
        return streq(value, "yes") || streq(value, "no")
                               ? 0
                               : error_set(e, -EINVAL, "must be used=yes or used=no");
}

static bool used_matches(const void *object, const char *value)
{
        return (((const Listed *) object)->pods != NULL) == streq(value, "yes");
}

static const FilterKey filter_keys[] = {
                {"name", false, NULL, name_matches},
                {"label", true, NULL, label_matches},
                {"pod", false, NULL, pod_matches},
                {"used", false, check_used, used_matches},
                FILTER_KEY_END,
};

static const Option list_options[] = {
                {"Options", "size", 's', NULL, false,
                 "Show how much disk space each uses; that takes a while", NULL, option_true,
                 offsetof(ListArguments, size)},
                {NULL, "filter", 'f', "KEY=VALUE", false,
                 "Only volumes with this name or pod (as patterns) or label, or used=yes or used=no",
                 "name=|label=|pod=|used=", option_filter, offsetof(ListArguments, filters)},
                {NULL, "format", 0, "FIELD[,…]|TEXT", false,
                 "Show these columns, or for each volume a text with fields in braces: '{name}\\t{size}'",
                 "name|size|quota|pods|created|labels", option_table_format,
                 offsetof(ListArguments, format)},
                OPTION_END,
};

static int add_row(Context *c, Table *t, const char *name, const VolumeUsers *users, const ListArguments *a)
{
        _cleanup_(listed_done) Listed l = {};
        _cleanup_error_ Error damaged = ERROR_NULL;

        /* A volume that is removed meanwhile is left out, a damaged one has no time. */
        if (named_volume_read(c->store, name, &l.volume, &damaged) == -ENOENT)
                return 0;
        if (!l.volume.name)
                l.volume.name = strdup(name);
        if (!l.volume.name || volume_users_of(users, name, &l.pods) < 0)
                return error_oom(&c->error);
        if (!filters_match(&a->filters, &l))
                return 0;
        table_add_text(t, name);
        if (a->size || table_format_has(&a->format, "size"))
                table_add_size(t, named_volume_size(c->store, name));
        else
                table_add_none(t);
        if (l.volume.quota > 0)
                table_add_size(t, l.volume.quota);
        else
                table_add_none(t);
        table_add_list(t, l.pods);
        table_add_time(t, l.volume.created_usec);
        return table_add_pairs(t, &l.volume.labels, NULL) < 0 ? error_oom(&c->error) : 0;
}

static int list_volumes(Context *c, const ListArguments *a)
{
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));
        _cleanup_volume_users_ VolumeUsers users = {};
        _cleanup_strv_free_ char **names = NULL;

        if (!t)
                return error_oom(&c->error);
        int r = context_open_store_if_there(c);
        if (r > 0)
                r = named_volume_list(c->store, &names, &c->error);
        if (r >= 0 && names)
                r = volume_users_read(c->store, &users, &c->error);
        if (r < 0)
                return r;
        STRV_FOREACH (name, names) {
                r = add_row(c, t, *name, &users, a);
                if (r < 0)
                        return r;
        }
        return context_show_table_as(c, t, &a->format, a->size ? usual_with_sizes : usual,
                                     a->filters.n > 0 ? "such volumes" : "volumes");
}

static int list(Context *c, int argc, char **argv)
{
        ListArguments a = {.filters.keys = filter_keys,
                           .format = {.fields = columns, .n_fields = ELEMENTSOF(columns)}};

        int r = context_parse(c, list_options, &a, argc, argv, NULL);
        if (r > 0 && context_check_format(c, &a.format) < 0)
                r = -EINVAL;
        if (r > 0)
                r = list_volumes(c, &a);
        table_format_done(&a.format);
        return r;
}

const Verb verb_volume_list = {
                .name = "volume list",
                .page = "acnspawn-volume",
                .synopsis = "[OPTIONS…]",
                .summary = "List the named volumes",
                .text = "Lists the named volumes of the store, with the pods that use them: those that are "
                        "prepared, run, or have ended.",
                .options = (const Option *const[]){list_options, NULL},
                .run = list,
};

/* --- show ---------------------------------------------------------------------------------------------- */

/* Its quota, and whether that is in force. */
static int add_quota(Context *c, json_object *o, const NamedVolume *v)
{
        if (v->quota == 0)
                return json_member_add_nullable(o, "quota", NULL);
        int r = json_member_add(o, "quota", json_object_new_int64((int64_t) v->quota));
        return r < 0 ? r
                     : json_member_add(o, "quotaInForce",
                                       json_object_new_boolean(named_volume_quota_in_force(c->store, v)));
}

static json_object *make_document(Context *c, const NamedVolume *v, const VolumeUsers *users)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_strv_free_ char **pods = NULL;
        _cleanup_free_ char *path = NULL;
        char mode[8];

        snprintf(mode, sizeof(mode), "%04o", v->mode);
        if (volume_users_of(users, v->name, &pods) < 0 ||
            xasprintf(&path, "%s/volumes/%s/data", store_path(c->store), v->name) < 0 ||
            json_member_add_text(o, "name", v->name) < 0 ||
            json_member_add(o, "created", json_object_new_int64((int64_t) v->created_usec)) < 0 ||
            json_member_add(o, "labels", pairs_to_json(&v->labels)) < 0 ||
            json_member_add_text(o, "mode", mode) < 0 ||
            json_member_add(o, "uid", json_object_new_int64(v->uid)) < 0 ||
            json_member_add(o, "gid", json_object_new_int64(v->gid)) < 0 ||
            json_member_add_text(o, "path", path) < 0 ||
            json_member_add(o, "size",
                            json_object_new_int64((int64_t) named_volume_size(c->store, v->name))) < 0 ||
            add_quota(c, o, v) < 0 || json_member_add(o, "pods", json_new_string_list(pods)) < 0)
                return NULL;
        return TAKE_PTR(o);
}

static const char *text_of(json_object *o, const char *key)
{
        return json_object_get_string(json_object_object_get(o, key));
}

static int64_t number_of(json_object *o, const char *key)
{
        return json_object_get_int64(json_object_object_get(o, key));
}

static void add_line(Text *t, const char *label, const char *value)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(value);

        text_addf(t, "%9s%s %s\n", label, *label ? ":" : " ", shown ?: "?");
}

static void format_quota(Text *t, json_object *o)
{
        _cleanup_free_ char *quota = format_size((uint64_t) number_of(o, "quota"));
        bool in_force = json_object_get_boolean(json_object_object_get(o, "quotaInForce"));

        if (number_of(o, "quota") > 0)
                text_addf(t, "%9s: %s%s\n", "Quota", quota ?: "?",
                          in_force ? "" : " (not in force: the file system has no limit for it)");
}

static void format_volume(Text *t, json_object *o)
{
        _cleanup_free_ char *created = format_timestamp((uint64_t) number_of(o, "created"));
        _cleanup_free_ char *size = format_size((uint64_t) number_of(o, "size"));
        json_object *pods = json_object_object_get(o, "pods");
        const char *label = "Labels";

        add_line(t, "Name", text_of(o, "name"));
        add_line(t, "Created", created ?: "?");
        json_object_object_foreach (json_object_object_get(o, "labels"), key, value) {
                _cleanup_free_ char *pair = NULL;
                if (xasprintf(&pair, "%s=%s", key, json_object_get_string(value)) >= 0)
                        add_line(t, label, pair);
                label = "";
        }
        add_line(t, "Mode", text_of(o, "mode"));
        text_addf(t, "%9s: %" PRIi64 ":%" PRIi64 "\n", "Owner", number_of(o, "uid"), number_of(o, "gid"));
        add_line(t, "Path", text_of(o, "path"));
        add_line(t, "On Disk", size ?: "?");
        format_quota(t, o);
        for (size_t i = 0; i < json_object_array_length(pods); i++)
                add_line(t, i == 0 ? "Pods" : "",
                         json_object_get_string(json_object_array_get_idx(pods, i)));
}

typedef struct Shown {
        json_object *all;
        VolumeUsers users;
} Shown;

static int show_one(Context *c, const char *name, void *userdata)
{
        _cleanup_named_volume_ NamedVolume v = {};
        Shown *s = userdata;

        int r = named_volume_read(c->store, name, &v, &c->error);
        if (r < 0)
                return r;
        r = json_list_append(s->all, make_document(c, &v, &s->users));
        return r < 0 ? error_oom(&c->error) : 0;
}

static int show_text(Context *c, json_object *all)
{
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < json_object_array_length(all); i++) {
                if (i > 0)
                        text_add(&t, "\n");
                format_volume(&t, json_object_array_get_idx(all, i));
        }
        if (t.failed)
                return error_oom(&c->error);
        return t.size > 0 ? context_show_text(c, t.data) : 0;
}

static int show_all(Context *c, const Words *words)
{
        _cleanup_json_ json_object *all = json_object_new_array();
        Shown s = {.all = all};

        if (!all)
                return error_oom(&c->error);
        int r = volume_users_read(c->store, &s.users, &c->error);
        if (r < 0)
                return r;
        int status = context_for_each(c, words, show_one, &s);
        volume_users_done(&s.users);
        r = c->json != JSON_OFF ? context_show_json(c, all) : show_text(c, all);
        return r < 0 ? r : status;
}

static int show(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = "the name of a volume"};

        int r = context_parse_for_store(c, NULL, NULL, argc, argv, &words);
        return r <= 0 ? r : show_all(c, &words);
}

const Verb verb_volume_show = {
                .name = "volume show",
                .page = "acnspawn-volume",
                .synopsis = "[OPTIONS…] NAME…",
                .brief = "NAME…",
                .summary = "Show details of named volumes",
                .text = "Shows when a volume was made, its labels, the mode and owner of its directory, "
                        "where that is on the host, how much disk space it uses and may use, and the pods "
                        "that use it.",
                .words = "named-volume",
                .run = show,
};

/* --- rm ------------------------------------------------------------------------------------------------ */

static const TableColumn removed_columns[] = {{.header = "NAME", .key = "name"}};

static int remove_one(Context *c, const char *name, void *userdata)
{
        int r = named_volume_remove(c->store, name, &c->error);

        if (r >= 0)
                context_add_removed(c, userdata, name);
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
        _cleanup_words_ Words words = {.min = 1, .max = SIZE_MAX, .what = "the name of a volume"};

        int r = context_parse_for_store(c, NULL, NULL, argc, argv, &words);
        return r <= 0 ? r : remove_all(c, &words);
}

const Verb verb_volume_rm = {
                .name = "volume rm",
                .page = "acnspawn-volume",
                .synopsis = "[OPTIONS…] NAME…",
                .brief = "NAME…",
                .summary = "Remove named volumes",
                .text = "Removes named volumes with their files, and prints their names. A volume that a "
                        "pod uses, whether that is prepared, runs or has ended, is kept, with a message "
                        "that names the pod.",
                .words = "named-volume",
                .run = rm,
};

/* --- prune --------------------------------------------------------------------------------------------- */

static const TableColumn pruned_columns[] = {
                {.header = "NAME", .key = "name"},
                {.header = "SIZE", .key = "size", .right = true},
};

typedef struct PruneArguments {
        bool dry_run;
} PruneArguments;

static const Option prune_options[] = {
                {"Options", "dry-run", 'n', NULL, false, "Only show what would be removed", NULL,
                 option_true, offsetof(PruneArguments, dry_run)},
                OPTION_END,
};

static void add_pruned(const char *name, uint64_t size, void *userdata)
{
        Collected *t = userdata;

        table_add_text(t->table, name);
        table_add_size(t->table, size);
        t->size += size;
}

static int prune_all(Context *c, Collected *t, bool dry_run)
{
        _cleanup_strv_free_ char **kept = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = c->store ? context_declared_volumes(c, &kept) : 0;
        if (r < 0)
                return r;
        const VolumePrune o = {.kept = kept, .dry_run = dry_run, .removed = add_pruned, .userdata = t};
        r = c->store ? named_volumes_prune(c->store, &o, &e) : 0;
        return collected_show(c, t, dry_run, r, &e);
}

static int prune(Context *c, int argc, char **argv)
{
        PruneArguments a = {};
        _cleanup_(collected_done) Collected t = {};

        int r = context_parse(c, prune_options, &a, argc, argv, NULL);
        if (r <= 0)
                return r;
        r = context_open_store_if_there(c);
        if (r < 0)
                return r;
        t.table = table_new(pruned_columns, ELEMENTSOF(pruned_columns));
        return t.table ? prune_all(c, &t, a.dry_run) : error_oom(&c->error);
}

const Verb verb_volume_prune = {
                .name = "volume prune",
                .page = "acnspawn-volume",
                .synopsis = "[OPTIONS…]",
                .summary = "Remove named volumes that no pod uses",
                .text = "Removes all named volumes that no pod, declared ones included, uses, with their files, and prints their "
                        "names and how much disk space that freed. Nothing else removes volumes that were "
                        "not named: neither 'acnspawn rm' nor 'acnspawn gc'.",
                .options = (const Option *const[]){prune_options, NULL},
                .run = prune,
};
