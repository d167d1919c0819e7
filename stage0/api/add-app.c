/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Adding apps to a running pod, and removing them. */

#include "stage0/api/api-internal.h"

/* Strings of secrets are freed with the call; the supervisor gets them over its socket alone. */
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

/* The app as Q has it, without credentials: their content is not part of a definition. */
static int add_definition(json_object *o, const PodRequest *q, Error *e)
{
        AppOverrides app = q->apps[0];
        PodRequest request = *q;
        json_object *definition = NULL;

        app.credentials = (CredentialList){};
        request.apps = &app;
        request.credentials = (CredentialList){};
        int r = app_request_format(&request, &definition, e);
        if (r < 0)
                return r;
        return json_member_add(o, "definition", definition) < 0 ? error_oom(e) : 0;
}

static int make_request(const PodRequest *q, const char *image_id, json_object **ret, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *credentials = json_object_new_array();

        if (json_member_add(o, "credentials", credentials) < 0 ||
            add_credentials(credentials, &q->apps[0].credentials) < 0 ||
            add_credentials(credentials, &q->credentials) < 0 ||
            (image_id && json_member_add_text(o, "imageID", image_id) < 0))
                return error_oom(e);
        int r = add_definition(o, q, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(o);
        return 0;
}

static int read_answer(json_object *o, char **ret_name, char ***ret_warnings)
{
        json_object *list = json_object_object_get(o, "warnings");
        const char *name = acn_text(o, "app");

        if (!name)
                return -EBADMSG;
        for (size_t i = 0;
             list && json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++)
                if (strv_extend(ret_warnings,
                                json_object_get_string(json_object_array_get_idx(list, i)) ?: "") < 0)
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
        r = acn_call(a, &c, &reply, e);
        if (r < 0)
                return r;
        r = read_answer(reply.parameters, ret_name, &warnings);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the answer of the supervisor of pod %s",
                                       pod_display_name(a->pod));
        *ret_warnings = TAKE_PTR(warnings);
        return 0;
}

/* That what is gone is removed succeeds for the supervisor; a name that was mistyped is to be reported. */
int acn_remove_app(AcnPod *a, const char *app, Error *e)
{
        _cleanup_(acn_description_done) AcnDescription d = {};
        bool known = false;

        int r = pod_check_running(a->pod, e);
        if (r >= 0)
                r = acn_describe(a, &d, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < d.n_apps; i++)
                known |= streq(d.apps[i].name, app);
        if (!known)
                return acn_no_such_app(a->pod, app, &d, e);
        return acn_call(a,
                        &(AcnCall){.method = "RemoveApp",
                                   .what = "remove",
                                   .app = app,
                                   .timeout_usec = UINT64_MAX},
                        NULL, e);
}
