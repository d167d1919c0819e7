/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn image show: shows details of an image, as text or JSON from the same document. */

#include <json-c/json.h>

#include "stage0/verbs/image-json.h"
#include "stage0/verbs/verb.h"

/* --- The document -------------------------------------------------------------------------------------- */

static int put_number(json_object *o, const char *name, uint64_t n)
{
        return json_member_add(o, name, json_object_new_int64((int64_t) n));
}

static int put_list(json_object *o, const char *name, char *const *l)
{
        return json_member_add(o, name, json_new_string_list(l));
}

static int put_pairs(json_object *o, const char *name, const PairList *l)
{
        return json_member_add(o, name, pairs_to_json(l));
}

/* --- Its parts ----------------------------------------------------------------------------------------- */

/* The image that a dependency resolves to; NULL: none in the store. */
static const Image *resolve(const Dependency *d, Image **list, size_t n)
{
        for (size_t i = 0; d->image_id && i < n; i++)
                if (streq(list[i]->id, d->image_id))
                        return list[i];
        return d->image_id ? NULL : image_list_best(list, n, d->image_name, &d->labels);
}

static json_object *dependency_to_json(const Dependency *d, const Image *found)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *name = NULL;

        if (!o || image_name_format(d->image_name, &d->labels, &name) < 0 ||
            json_member_add_text(o, "name", name) < 0 ||
            json_member_add_text(o, "imageID", d->image_id) < 0 ||
            json_member_add_text(o, "image", found ? found->id : NULL) < 0)
                return NULL;
        return TAKE_PTR(o);
}

static int put_dependencies(Context *c, json_object *o, const Image *i)
{
        _cleanup_json_ json_object *a = json_object_new_array();
        size_t n = 0, n_damaged;
        Image **list = NULL;

        int r = a ? image_list_readable(c->store, &list, &n, &n_damaged, &c->error) : -ENOMEM;
        for (size_t k = 0; k < i->manifest->n_dependencies && r >= 0; k++) {
                const Dependency *d = &i->manifest->dependencies[k];
                r = json_list_append(a, dependency_to_json(d, resolve(d, list, n)));
        }
        image_list_free(list, n);
        return r < 0 ? r : json_member_add(o, "dependencies", TAKE_PTR(a));
}

/* With all of its layers, including shared ones. */
static int put_disk_size(Context *c, json_object *o, const Image *i)
{
        _cleanup_strv_free_ char **paths = NULL;
        uint64_t bytes = 0;

        int r = strv_extendf(&paths, "images/%s", i->id);
        STRV_FOREACH (l, i->layer_ids)
                if (r >= 0)
                        r = strv_extendf(&paths, "layers/%s", *l);
        STRV_FOREACH (p, paths)
                bytes += disk_usage_at(store_fd(c->store), *p, store_operation(c->store));
        return r < 0 ? r : put_number(o, "diskSize", bytes);
}

/* With the reason why its signature is not valid any more. */
static int put_signer(Context *c, json_object *o, const Image *i)
{
        _cleanup_error_ Error e = ERROR_NULL;
        json_object *v;

        int r = image_check_signer(i, context_config_dirs(c), c->operation, &e);
        if (r == -ENOMEM || signer_to_json(&i->info, &v) < 0)
                return -ENOMEM;
        if (json_member_add_nullable(o, "signer", v) < 0)
                return -ENOMEM;
        return json_member_add_text(o, "signerProblem", r < 0 ? e.message : NULL);
}

/* The app of the manifest. */
static int put_app(json_object *o, const Image *i)
{
        json_object *m = NULL, *app;

        int r = json_parse_strict(i->manifest_text, i->manifest_size, &m, NULL, NULL);
        if (r >= 0)
                r = json_member_add_nullable(o, "app",
                                             json_object_object_get_ex(m, "app", &app) ? json_object_get(app)
                                                                                       : NULL);
        json_object_put(m);
        return r;
}

static json_object *privilege_to_json(const Privilege *p)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *grant = NULL;

        if (p->grantable && xasprintf(&grant, "--grant=%s", p->name) < 0)
                return NULL;
        if (json_member_add_text(o, "name", p->name) < 0 || json_member_add_text(o, "text", p->text) < 0 ||
            json_member_add_text(o, "isolator", isolator_type_to_string(p->type)) < 0 ||
            json_member_add_text(o, "option", grant ?: p->option) < 0)
                return NULL;
        return TAKE_PTR(o);
}

/* Privileges that the app requests beyond the defaults, with the option that grants them. */
static int put_privileges(json_object *o, const Image *i)
{
        _cleanup_json_ json_object *a = json_object_new_array();
        _cleanup_(privilege_list_done) PrivilegeList l = {};

        int r = !a ? -ENOMEM : i->manifest->app ? stage1_privileges(&i->manifest->app->isolators, &l) : 0;
        for (size_t k = 0; k < l.n && r >= 0; k++)
                r = json_list_append(a, privilege_to_json(&l.items[k]));
        return r < 0 ? r : json_member_add(o, "privileges", TAKE_PTR(a));
}

static int put_layers(Context *c, json_object *o, const Image *i)
{
        _cleanup_strv_free_ char **layers = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        /* Rendering may fail for lack of images, which the dependencies show. */
        if (image_layers(c->store, i, &layers, &e) == -ENOMEM)
                return -ENOMEM;
        return put_list(o, "layers", layers);
}

static int put_known(Context *c, json_object *o, const Image *i)
{
        int r = json_member_add_text(o, "kind", image_kind_to_string(i->info.kind));

        if (r >= 0)
                r = put_number(o, "imported", i->import_time);
        if (r >= 0)
                r = put_number(o, "lastUsed", i->last_used);
        if (r >= 0)
                r = put_number(o, "size", i->size);
        if (r >= 0)
                r = put_number(o, "archiveSize", i->info.archive_size);
        if (r >= 0)
                r = json_member_add_text(o, "origin", i->info.origin);
        if (r >= 0)
                r = json_member_add_text(o, "reference", i->info.reference);
        if (r >= 0)
                r = json_member_add_text(o, "configDigest", i->info.config_digest);
        if (r >= 0)
                r = json_member_add_text(o, "manifestDigest", i->info.manifest_digest);
        return r < 0 ? r : put_signer(c, o, i);
}

static int put_pods(Context *c, json_object *o, const Image *i)
{
        _cleanup_strv_free_ char **pods = NULL;

        int r = image_users(c->store, i->id, &pods, &c->error);
        return r < 0 ? r : put_list(o, "pods", pods);
}

static json_object *make_document(Context *c, const Image *i)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = o ? json_member_add_text(o, "id", i->id) : -ENOMEM;
        if (r >= 0)
                r = json_member_add_text(o, "name", i->manifest->name);
        if (r >= 0)
                r = put_pairs(o, "labels", &i->manifest->labels);
        if (r >= 0)
                r = put_pairs(o, "annotations", &i->manifest->annotations);
        if (r >= 0)
                r = put_known(c, o, i);
        if (r >= 0)
                r = put_disk_size(c, o, i);
        if (r >= 0)
                r = put_dependencies(c, o, i);
        if (r >= 0)
                r = put_layers(c, o, i);
        if (r >= 0)
                r = put_app(o, i);
        if (r >= 0)
                r = put_privileges(o, i);
        if (r >= 0)
                r = put_pods(c, o, i);
        if (r < 0 && c->error.code == 0)
                (void) error_oom(&c->error);
        return r < 0 ? NULL : TAKE_PTR(o);
}

/* --- Text ---------------------------------------------------------------------------------------------- */

static char *time_text(json_object *v)
{
        uint64_t t = (uint64_t) json_object_get_int64(v);

        return t == 0 ? NULL : format_timestamp(t);
}

static char *size_text(json_object *v)
{
        return format_size((uint64_t) json_object_get_int64(v));
}

static char *plain_text(json_object *v)
{
        return text_escape_for_terminal(json_object_get_string(v));
}

static char *list_text(json_object *v)
{
        Text t = {};
        char *s;

        for (size_t i = 0; i < json_object_array_length(v); i++) {
                _cleanup_free_ char *x = text_escape_for_terminal(
                                json_object_get_string(json_object_array_get_idx(v, i)));
                text_addf(&t, "%s%s", i > 0 ? "\n" : "", x ?: "?");
        }
        return text_take(&t, &s, NULL) < 0 ? NULL : s;
}

static char *pairs_text(json_object *v)
{
        Text t = {};
        char *s;

        json_object_object_foreach (v, name, value) {
                _cleanup_free_ char *x = text_escape_for_terminal(json_object_get_string(value) ?: "");
                text_addf(&t, "%s%s=%s", t.size > 0 ? "\n" : "", name, x ?: "?");
        }
        return text_take(&t, &s, NULL) < 0 ? NULL : s;
}

static uint64_t get_time(json_object *o, const char *name)
{
        return (uint64_t) json_object_get_int64(json_object_object_get(o, name));
}

static void add_time(Text *t, const char *label, uint64_t usec)
{
        _cleanup_free_ char *when = usec > 0 ? format_timestamp(usec) : NULL;
        _cleanup_free_ char *since = when ? format_relative(usec, now_usec(CLOCK_REALTIME)) : NULL;

        if (since)
                text_addf(t, "\n%s %s; %s", label, when, since);
}

static char *signer_text(json_object *v)
{
        const char *user = json_object_get_string(json_object_object_get(v, "userID"));
        const char *prefix = json_object_get_string(json_object_object_get(v, "prefix"));
        bool offered = json_object_get_boolean(json_object_object_get(v, "offered"));
        _cleanup_free_ char *shown = text_escape_for_terminal(user ?: "");
        _cleanup_text_ Text t = {};
        char *s;

        text_addf(&t, "%s\n%s", json_object_get_string(json_object_object_get(v, "fingerprint")),
                  shown ?: "");
        text_addf(&t, " (%s%s)",
                  offered           ? "an offered key, accepted once"
                  : isempty(prefix) ? "a key for any name"
                                    : "a key for ",
                  offered ? "" : prefix ?: "");
        add_time(&t, "signed", get_time(v, "signed"));
        add_time(&t, "good until", get_time(v, "expires"));
        add_time(&t, "key good until", get_time(v, "keyExpires"));
        return text_take(&t, &s, NULL) < 0 ? NULL : s;
}

static char *dependencies_text(json_object *v)
{
        Text t = {};
        char *s;

        for (size_t i = 0; i < json_object_array_length(v); i++) {
                json_object *d = json_object_array_get_idx(v, i);
                const char *image = json_object_get_string(json_object_object_get(d, "image"));
                text_addf(&t, "%s%s (%.19s)", i > 0 ? "\n" : "",
                          json_object_get_string(json_object_object_get(d, "name")), image ?: "missing");
        }
        return text_take(&t, &s, NULL) < 0 ? NULL : s;
}

static char *app_text(json_object *v)
{
        json_object *exec = json_object_object_get(v, "exec");
        const char *s = json_print(exec);

        return s && exec ? text_escape_for_terminal(s) : NULL;
}

static char *privileges_text(json_object *v)
{
        _cleanup_text_ Text t = {};
        char *s;

        for (size_t i = 0; i < json_object_array_length(v); i++) {
                json_object *p = json_object_array_get_idx(v, i);
                _cleanup_free_ char *text = plain_text(json_object_object_get(p, "text"));
                json_object *option = json_object_object_get(p, "option");
                _cleanup_free_ char *by = option ? plain_text(option) : strdup("cannot be granted");
                if (!text || !by)
                        return NULL;
                text_addf(&t, "%s%s (%s)", i > 0 ? "\n" : "", text, by);
        }
        return t.size == 0 || text_take(&t, &s, NULL) < 0 ? NULL : s;
}

static const struct {
        const char *key, *label;
        char *(*text)(json_object *v); /* NULL: out of memory, or nothing to show */
} lines[] = {
                {"id", "ID", plain_text},
                {"name", "Name", plain_text},
                {"labels", "Labels", pairs_text},
                {"annotations", "Annotations", pairs_text},
                {"kind", "Kind", plain_text},
                {"reference", "Reference", plain_text},
                {"origin", "Origin", plain_text},
                {"manifestDigest", "Manifest", plain_text},
                {"configDigest", "Config", plain_text},
                {"signer", "Signer", signer_text},
                {"signerProblem", "Refused", plain_text},
                {"imported", "Imported", time_text},
                {"lastUsed", "Used", time_text},
                {"size", "Size", size_text},
                {"archiveSize", "As Archive", size_text},
                {"diskSize", "On Disk", size_text},
                {"dependencies", "Dependencies", dependencies_text},
                {"layers", "Layers", list_text},
                {"app", "Exec", app_text},
                {"privileges", "Asks For", privileges_text},
                {"pods", "Pods", list_text},
};

/* One line for each line of VALUE, with the label before the first. */
static void add_lines(Text *t, const char *label, const char *value)
{
        for (bool first = true; *value; first = false) {
                size_t n = strcspn(value, "\n");
                text_addf(t, "%13s%s %.*s\n", first ? label : "", first ? ":" : " ", (int) n, value);
                value += n + (value[n] == '\n');
        }
}

static void format_image(Text *t, json_object *o)
{
        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                json_object *v = json_object_object_get(o, lines[i].key);
                _cleanup_free_ char *s = v ? lines[i].text(v) : NULL;
                if (s && *s)
                        add_lines(t, lines[i].label, s);
        }
}

/* --- The verb ------------------------------------------------------------------------------------------ */

static int show_one(Context *c, const char *reference, void *userdata)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_free_ char *id = NULL;

        int r = fetch_find_id(c->store, reference, context_config_dirs(c), &id, &c->error);
        if (r >= 0)
                r = image_open(c->store, id, &image, &c->error);
        if (r >= 0 && image->manifest->app)
                r = stage1_load_isolator_libraries(&image->manifest->app->isolators, &c->error);
        if (r < 0)
                return r;
        r = json_list_append(userdata, make_document(c, image));
        return r < 0 ? c->error.code ?: error_oom(&c->error) : 0;
}

static int show_text(Context *c, json_object *all)
{
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < json_object_array_length(all); i++) {
                if (i > 0)
                        text_add(&t, "\n");
                format_image(&t, json_object_array_get_idx(all, i));
        }
        if (t.failed)
                return error_oom(&c->error);
        return t.size > 0 ? context_show_text(c, t.data) : 0;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {
                        .min = 1, .max = SIZE_MAX, .what = "an image: its ID, a prefix of it, or its name"};
        _cleanup_json_ json_object *all = json_object_new_array();

        int r = context_parse(c, NULL, NULL, argc, argv, &words);
        if (r <= 0)
                return r;
        if (!all)
                return error_oom(&c->error);
        r = context_open_existing_store(c);
        if (r < 0)
                return r;
        int status = context_for_each(c, &words, show_one, all);
        r = c->json != JSON_OFF ? context_show_json(c, all) : show_text(c, all);
        return r < 0 ? r : status;
}

const Verb verb_image_show = {
                .name = "image show",
                .page = "acnspawn-image",
                .synopsis = "[OPTIONS…] IMAGE…",
                .brief = "IMAGE…",
                .summary = "Show details of images",
                .text = "Shows details of images: name, labels, origin, "
                        "signatures, sizes, dependencies, layers, privileges requested "
                        "beyond the defaults, and pods that use them.",
                .words = "image",
                .run = run,
};
