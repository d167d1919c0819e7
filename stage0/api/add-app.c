/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Adding apps to a running pod, replacing and removing them. */

#include "stage0/api/api-internal.h"

/* Frees the strings of secrets with the call: they are passed to the supervisor only over its socket. */
static int add_credentials(json_object *list, const CredentialList *l)
{
        for (size_t i = 0; i < l->n; i++) {
                _cleanup_free_ char *hex = hex_encode(l->items[i].data, l->items[i].size);
                json_object *o = hex ? json_object_new_object() : NULL;
                if (json_list_append(list, o) < 0 || json_member_add_text(o, "name", l->items[i].name) < 0 ||
                    json_member_add_text(o, "data", hex) < 0)
                        return -ENOMEM;
                explicit_bzero(hex, strlen(hex));
        }
        return 0;
}

static int add_all_credentials(json_object *o, const PodRequest *q)
{
        json_object *list = json_object_new_array();

        int r = json_member_add(o, "credentials", list);
        if (r >= 0)
                r = add_credentials(list, &q->apps[0].credentials);
        return r < 0 ? r : add_credentials(list, &q->credentials);
}

/* The app according to Q. A definition contains only the names and sources of its credentials. */
static int add_definition(json_object *o, const PodRequest *q, Error *e)
{
        AppOverrides app = q->apps[0];
        PodRequest request = *q;
        _cleanup_free_ char *hex = NULL;
        json_object *definition = NULL;

        request.apps = &app;
        request.credentials = (CredentialList){};
        int r = app_request_format(&request, &definition, e);
        if (r < 0)
                return r;
        hex = app.owner_data.data ? hex_encode(app.owner_data.data, app.owner_data.size) : NULL;
        if (app.owner_data.data && json_member_add_text(o, "ownerData", hex) < 0) {
                json_object_put(definition);
                return error_oom(e);
        }
        return json_member_add(o, "definition", definition) < 0 ? error_oom(e) : 0;
}

static int make_request(const PodRequest *q, const char *image_id, json_object **ret, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (add_all_credentials(o, q) < 0 || (image_id && json_member_add_text(o, "imageID", image_id) < 0))
                return error_oom(e);
        if (q->apps[0].parent && json_member_add_text(o, "parent", q->apps[0].parent) < 0)
                return error_oom(e);
        int r = add_definition(o, q, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(o);
        return 0;
}

/* --- Supervisors of earlier versions ------------------------------------------------------------------- */

static void forget_origins(json_object *definition)
{
        json_object *apps = json_object_object_get(definition, "apps");

        for (size_t i = 0; apps && i < json_object_array_length(apps); i++) {
                json_object *l = json_object_object_get(json_object_array_get_idx(apps, i), "isolators");
                for (size_t k = 0; l && k < json_object_array_length(l); k++)
                        json_object_object_del(json_object_array_get_idx(l, k), "configured");
        }
}

/* Some do not know the member of a definition that says which isolators are of acnspawn.conf. They refuse it before they change
 * anything; without it they say that these are of the command line. */
static int call_with_definition(AcnPod *a, const AcnCall *c, VarlinkReply *ret, Error *e)
{
        json_object *group = json_object_object_get(c->parameters, "apps");

        int r = acn_call(a, c, ret, e);
        if (r >= 0 || !e || !e->message || !strstr(e->message, "unknown member 'configured'"))
                return r;
        error_done(e);
        forget_origins(json_object_object_get(c->parameters, "definition"));
        for (size_t i = 0; group && i < json_object_array_length(group); i++)
                forget_origins(json_object_object_get(json_object_array_get_idx(group, i), "definition"));
        return acn_call(a, c, ret, e);
}

static int read_texts(json_object *o, const char *key, char ***ret)
{
        json_object *list = json_object_object_get(o, key);

        for (size_t i = 0;
             list && json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++)
                if (strv_extend(ret, json_object_get_string(json_object_array_get_idx(list, i)) ?: "") < 0)
                        return -ENOMEM;
        return 0;
}

static int read_warnings(json_object *o, char ***ret)
{
        return read_texts(o, "warnings", ret);
}

static int read_answer(json_object *o, char **ret_name, char ***ret_warnings)
{
        const char *name = acn_text(o, "app");

        if (!name)
                return -EBADMSG;
        if (read_warnings(o, ret_warnings) < 0)
                return -ENOMEM;
        *ret_name = strdup(name);
        return *ret_name ? 0 : -ENOMEM;
}

int acn_add_app(AcnPod *a, const PodRequest *q, const char *image_id, char **ret_name, char ***ret_warnings,
                Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        _cleanup_json_ json_object *parameters = NULL;
        _cleanup_strv_free_ char **warnings = NULL;

        int r = pod_check_running(a->pod, e);
        if (r >= 0)
                r = make_request(q, image_id, &parameters, e);
        if (r < 0)
                return r;
        const AcnCall c = {.method = "AddApp",
                           .what = "add an app to",
                           .parameters = parameters,
                           .timeout_usec = UINT64_MAX};
        r = call_with_definition(a, &c, &reply, e);
        if (r < 0)
                return r;
        r = read_answer(reply.parameters, ret_name, &warnings);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the answer of the supervisor of pod %s",
                                       pod_display_name(a->pod));
        *ret_warnings = TAKE_PTR(warnings);
        return 0;
}

/* --- Groups -------------------------------------------------------------------------------------------- */

static bool mounts_volume(const AppOverrides *app, const char *volume)
{
        for (size_t i = 0; i < app->n_mounts; i++)
                if (streq_ptr(app->mounts[i].volume, volume))
                        return true;
        return false;
}

/* The app that brings VOLUME into the pod: the first one that mounts it. */
static size_t volume_owner(const PodRequest *q, const char *volume)
{
        for (size_t i = 0; i < q->n_apps; i++)
                if (mounts_volume(&q->apps[i], volume))
                        return i;
        return 0;
}

static int add_group_app(json_object *list, const PodRequest *q, size_t index, const char *image_id,
                         Error *e)
{
        _cleanup_free_ Volume *volumes = calloc(q->n_volumes + 1, sizeof(Volume));
        PodRequest one = *q;
        json_object *o = NULL;

        if (!volumes)
                return error_oom(e);
        one.apps = &q->apps[index];
        one.n_apps = 1;
        one.volumes = volumes; /* their content is lent */
        one.n_volumes = 0;
        for (size_t i = 0; i < q->n_volumes; i++)
                if (volume_owner(q, q->volumes[i].name) == index)
                        volumes[one.n_volumes++] = q->volumes[i];
        int r = make_request(&one, image_id, &o, e);
        if (r < 0)
                return r;
        return json_list_append(list, o) < 0 ? error_oom(e) : 0;
}

static int read_names(json_object *o, char ***ret)
{
        json_object *list = json_object_object_get(o, "apps");

        if (!json_object_is_type(list, json_type_array))
                return -EBADMSG;
        for (size_t i = 0; i < json_object_array_length(list); i++)
                if (strv_extend(ret, json_object_get_string(json_object_array_get_idx(list, i)) ?: "") < 0)
                        return -ENOMEM;
        return 0;
}

int acn_launch_group(AcnPod *a, const PodRequest *q, const char *const *image_ids, char ***ret_names,
                     char ***ret_warnings, Error *e)
{
        _cleanup_json_ json_object *parameters = json_object_new_object();
        _cleanup_strv_free_ char **names = NULL, **warnings = NULL;
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        json_object *list = json_object_new_array();

        if (json_member_add(parameters, "apps", list) < 0)
                return error_oom(e);
        int r = pod_check_running(a->pod, e);
        for (size_t i = 0; r >= 0 && i < q->n_apps; i++)
                r = add_group_app(list, q, i, image_ids[i], e);
        if (r < 0)
                return r;
        const AcnCall c = {.method = "LaunchGroup",
                           .what = "launch a group of apps in",
                           .parameters = parameters,
                           .timeout_usec = UINT64_MAX};
        r = call_with_definition(a, &c, &reply, e);
        if (r < 0)
                return r;
        r = read_names(reply.parameters, &names);
        if (r >= 0)
                r = read_warnings(reply.parameters, &warnings);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the answer of the supervisor of pod %s",
                                       pod_display_name(a->pod));
        *ret_names = TAKE_PTR(names);
        *ret_warnings = TAKE_PTR(warnings);
        return 0;
}

/* --- Replacing ----------------------------------------------------------------------------------------- */

static int replace_request(const AcnReplaceOptions *o, json_object **ret, Error *e)
{
        _cleanup_json_ json_object *p = json_object_new_object();
        _cleanup_free_ char *absolute = NULL;
        uint64_t timeout = o->ready_timeout_usec;

        if (reference_make_absolute(o->reference, &absolute) < 0 ||
            json_member_add_text(p, "imageID", o->image_id) < 0 ||
            json_member_add_text(p, "image", absolute) < 0)
                return error_oom(e);
        if (timeout != UINT64_MAX &&
            json_member_add(p, "readyTimeoutUSec",
                            json_object_new_int64((int64_t) MIN(timeout, (uint64_t) INT64_MAX))) < 0)
                return error_oom(e);
        if (o->definition && add_all_credentials(p, o->definition) < 0)
                return error_oom(e);
        int r = o->definition ? add_definition(p, o->definition, e) : 0;
        if (r >= 0)
                *ret = TAKE_PTR(p);
        return r;
}

int acn_replace_app(AcnPod *a, const char *app, const AcnReplaceOptions *o, bool *ret_replaced,
                    char ***ret_warnings, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        _cleanup_json_ json_object *parameters = NULL;
        json_object *replaced = NULL;

        int r = pod_check_running(a->pod, e);
        if (r >= 0)
                r = replace_request(o, &parameters, e);
        if (r < 0)
                return r;
        const AcnCall c = {.method = "ReplaceApp",
                           .what = "replace",
                           .app = app,
                           .parameters = parameters,
                           .timeout_usec = UINT64_MAX};
        r = call_with_definition(a, &c, &reply, e);
        if (r < 0)
                return r;
        *ret_replaced = json_object_object_get_ex(reply.parameters, "replaced", &replaced) &&
                        json_object_get_boolean(replaced);
        return read_warnings(reply.parameters, ret_warnings) < 0 ? error_oom(e) : 0;
}

int acn_compare_credentials(AcnPod *a, const char *app, const CredentialList *l, char ***ret, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *list = json_object_new_array();

        if (json_member_add(o, "credentials", list) < 0 || add_credentials(list, l) < 0)
                return error_oom(e);
        const AcnCall c = {.method = "CompareCredentials",
                           .what = "compare credentials of",
                           .app = app,
                           .parameters = o};
        int r = acn_call(a, &c, &reply, e);
        if (r < 0)
                return r;
        return read_texts(reply.parameters, "different", ret) < 0 ? error_oom(e) : 0;
}

int acn_remove_app(AcnPod *a, const char *app, bool stop, uint64_t timeout_usec, Error *e)
{
        _cleanup_json_ json_object *o = stop ? json_object_new_object() : NULL;

        int r = stop ? json_member_add(o, "stop", json_object_new_boolean(true)) : 0;
        if (r >= 0 && stop && timeout_usec <= INT64_MAX)
                r = json_member_add(o, "timeoutUSec", json_object_new_int64((int64_t) timeout_usec));
        if (r < 0)
                return error_oom(e);
        r = acn_check_app(a, app, e);
        if (r < 0)
                return r;
        return acn_call(a,
                        &(AcnCall){.method = "RemoveApp",
                                   .what = "remove",
                                   .app = app,
                                   .parameters = o,
                                   .timeout_usec = UINT64_MAX},
                        NULL, e);
}
