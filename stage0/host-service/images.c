/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls about images, and garbage collection. Each runs in a separate process (job.c), and uses the same
 * operations as the verb of its name. */

#include "stage0/host-service/service-internal.h"
#include "stage0/verbs/image-json.h"

static int add_time(json_object *o, const char *key, uint64_t usec)
{
        return usec > 0 ? json_member_add(o, key, json_object_new_uint64(usec)) : 0;
}

static json_object *image_to_json(const Image *i)
{
        const char *version = pair_list_get(&i->manifest->labels, "version");
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "id", i->id) < 0 ||
            json_member_add_text(o, "name", i->manifest->name) < 0 ||
            (version && json_member_add_text(o, "version", version) < 0) ||
            json_member_add(o, "labels", pairs_to_json(&i->manifest->labels)) < 0 ||
            json_member_add(o, "size", json_object_new_uint64(i->size)) < 0 ||
            add_time(o, "imported", i->import_time) < 0 || add_time(o, "lastUsed", i->last_used) < 0)
                return NULL;
        return TAKE_PTR(o);
}

static json_object *reply_with_image(const Image *i)
{
        json_object *o = json_object_new_object();

        if (json_member_add(o, "image", image_to_json(i)) >= 0)
                return o;
        json_object_put(o);
        return NULL;
}

/* Images that cannot be read are left out. */
int job_list_images(HostJob *j, Error *e)
{
        size_t n = 0, n_damaged = 0;
        Image **images = NULL;

        int r = j->store ? image_list_readable(j->store, &images, &n, &n_damaged, e) : 0;
        for (size_t i = 0; r >= 0 && i < n; i++) {
                json_object *o = reply_with_image(images[i]);
                r = i + 1 < n ? job_reply_continues(j, o) : job_reply(j, o);
        }
        image_list_free(images, n);
        return r < 0 || n > 0 ? r : job_reply(j, json_object_new_object());
}

/* 1: *RET is the ID. */
static int find_image(HostJob *j, char **ret, Error *e)
{
        const char *name = job_text(j, "image");
        int r = j->store ? fetch_find_id(j->store, name, j->options->config_dirs, ret, e)
                         : error_set(e, -ENOENT, "There is no store at '%s'", j->options->dir);

        return r < 0 ? job_refuse_image(j, r, name, e) : 1;
}

static int add_text(json_object *o, const char *key, const char *s)
{
        return s ? json_member_add_text(o, key, s) : 0;
}

static int add_details(json_object *o, const Image *i)
{
        json_object *signer = NULL, *manifest = NULL;

        int r = json_parse_strict(i->manifest_text, i->manifest_size, &manifest, NULL, NULL);
        if (r >= 0)
                r = json_member_add(o, "manifest", manifest);
        if (r >= 0)
                r = json_member_add_text(o, "kind", image_kind_to_string(i->info.kind));
        if (r >= 0)
                r = add_text(o, "origin", i->info.origin);
        if (r >= 0)
                r = add_text(o, "reference", i->info.reference);
        if (r >= 0)
                r = signer_to_json(&i->info, &signer);
        return r < 0 || !signer ? r : json_member_add(o, "signer", signer);
}

int job_describe_image(HostJob *j, Error *e)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_free_ char *id = NULL;

        int r = find_image(j, &id, e);
        if (r <= 0)
                return r;
        r = image_open(j->store, id, &image, e);
        if (r < 0)
                return r;
        json_object *o = reply_with_image(image);
        if (add_details(o, image) >= 0)
                return job_reply(j, o);
        json_object_put(o);
        return error_oom(e);
}

/* --- Fetching ------------------------------------------------------------------------------------------ */

static int fetch(HostJob *j, const FetchOptions *o, const char *reference, Error *e)
{
        _cleanup_(fetcher_freep) Fetcher *fetcher = NULL;
        _cleanup_(image_freep) Image *image = NULL;

        j->tells_progress = j->more;
        int r = fetcher_new(j->store, o, &fetcher, e);
        if (r >= 0)
                r = fetcher_fetch(fetcher, reference, &image, e);
        j->tells_progress = false;
        if (r < 0)
                return job_refuse_image(j, r, reference, e);
        return job_reply(j, reply_with_image(image));
}

int job_fetch_image(HostJob *j, Error *e)
{
        json_object *options = json_object_object_get(j->parameters, "options");
        const char *reference = job_text(j, "image");
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_free_ char *field = NULL;

        pod_arguments_init(&a);
        int r = host_reference_check(reference, e);
        if (r < 0)
                return r == -EINVAL ? job_refuse_field(j, "image", e) : r;
        r = host_fetch_options_parse(options, &a, &field, e);
        if (r < 0)
                return field && r == -EINVAL ? job_refuse_field(j, field, e) : r;
        a.fetch.config_dirs = j->options->config_dirs;
        a.fetch.no_dependencies = job_flag(j, "noDependencies");
        return fetch(j, &a.fetch, reference, e);
}

/* --- Removing ------------------------------------------------------------------------------------------ */

int job_remove_image(HostJob *j, Error *e)
{
        json_object *o = json_object_new_object();
        _cleanup_free_ char *id = NULL;

        int r = find_image(j, &id, e);
        if (r <= 0)
                return r;
        r = image_remove(j->store, id, NULL, e);
        if (r < 0)
                return job_refuse_image(j, r, job_text(j, "image"), e);
        if (json_member_add_text(o, "id", id) < 0)
                return error_oom(e);
        return job_reply(j, o);
}

static void add_removed(const GcItem *item, void *userdata)
{
        json_object *list = userdata, *o = json_object_new_object();

        if (json_member_add_text(o, "kind", item->kind) < 0 || json_member_add_text(o, "id", item->id) < 0 ||
            add_text(o, "name", item->name) < 0 ||
            json_member_add(o, "size", json_object_new_uint64(item->size)) < 0)
                json_object_put(o);
        else
                (void) json_list_append(list, o);
}

int job_collect_garbage(HostJob *j, Error *e)
{
        json_object *o = json_object_new_object(), *list = json_object_new_array();
        const char *const *dirs = j->options->config_dirs;
        _cleanup_kept_pods_ KeptPods kept = {};
        _cleanup_error_ Error unknown = ERROR_NULL;
        GcOptions options = GC_OPTIONS_DEFAULT;

        if (json_member_add(o, "removed", list) < 0)
                return error_oom(e);
        if (job_usec(j, "gracePeriodUSec", options.grace_usec, &options.grace_usec) < 0)
                return job_reply_invalid_parameter(j, "gracePeriodUSec");
        options.dry_run = job_flag(j, "dryRun");
        options.removed = add_removed;
        options.release = pod_release;
        options.userdata = list;
        options.kept = &kept;
        int k = j->store ? pods_of_units(dirs ? dirs[0] : NULL, &kept.names, &unknown) : 0;
        kept.all = k < 0; /* the other things are collected all the same */
        int r = j->store ? store_gc(j->store, &options, e) : 0;
        if (r >= 0 && k < 0)
                r = error_move(e, &unknown);
        return r < 0 ? r : job_reply(j, o);
}
