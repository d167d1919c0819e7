/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses requests for pods and images into the structures that a command line is parsed into. The definition
 * is read as that of a pod that is run again; the options are those of the command line, by the same table
 * and handlers. So a value has the same meaning, and is checked by the same code. Values that depend on the
 * caller's directory, environment or standard input are refused. */

#include "stage0/host-service/host-service.h"

static int refuse(char **ret_field, const char *field, int r)
{
        free(*ret_field);
        *ret_field = strdup(field);
        return r;
}

/* --- Options ------------------------------------------------------------------------------------------- */

/* Converts the name of an option: "dnsSearch" is --dns-search. */
static char *option_name(const char *key)
{
        _cleanup_text_ Text t = {};
        char *name = NULL;

        for (const char *p = key; *p; p++) {
                char c = to_lower(*p);
                if (is_upper(*p))
                        text_add(&t, "-");
                text_add_bytes(&t, &c, 1);
        }
        return text_take(&t, &name, NULL) < 0 ? NULL : name;
}

static const Option *find_option(const Option *options, const char *name)
{
        while (!option_is_end(options) && !streq_ptr(options->name, name))
                options++;
        return option_is_end(options) ? NULL : options;
}

/* A boolean, a value, or an array of values. */
static int apply_value(const Option *o, json_object *v, void *data, Error *e)
{
        void *target = (char *) data + o->offset;

        if (json_object_is_type(v, json_type_boolean))
                return json_object_get_boolean(v) ? o->handler(o, NULL, target, e) : 0;
        if (json_object_is_type(v, json_type_string))
                return o->handler(o, json_object_get_string(v), target, e);
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                int r = apply_value(o, json_object_array_get_idx(v, i), data, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The members of O; WHERE is its place among the parameters. */
static int apply(const Option *options, void *data, const char *where, json_object *o, char **ret_field,
                 Error *e)
{
        if (!o)
                return 0;
        json_object_object_foreach (o, key, v) {
                _cleanup_free_ char *name = option_name(key), *field = NULL;
                if (!name || xasprintf(&field, "%s.%s", where, key) < 0)
                        return error_oom(e);
                if (!v)
                        continue;
                const Option *option = find_option(options, name);
                int r = option ? apply_value(option, v, data, e)
                               : error_set(e, -EINVAL, "There is no option '%s'", key);
                if (r < 0)
                        return refuse(ret_field, field, r);
        }
        return 0;
}

/* "strict" is an option of the verbs, not of their common table. */
static int take_strict(json_object *o, PodArguments *a)
{
        json_object *v = json_object_object_get(o, "strict");

        a->options.strict = json_object_get_boolean(v);
        if (v)
                json_object_object_del(o, "strict");
        return 0;
}

static int parse_options(json_object *o, PodArguments *a, char **ret_field, Error *e)
{
        const char *conflict;

        if (o)
                (void) take_strict(o, a);
        int r = apply(pod_options, a, "options", o, ret_field, e);
        if (r < 0)
                return r;
        if (a->options.replace && !a->options.name)
                return refuse(ret_field, "options.replace",
                              error_set(e, -EINVAL, "It needs the name of the pod to replace"));
        conflict = pod_arguments_conflict(a);
        return conflict ? refuse(ret_field, "options", error_set(e, -EINVAL, "%s", conflict)) : 0;
}

int host_fetch_options_parse(json_object *o, PodArguments *a, char **ret_field, Error *e)
{
        return apply(image_options, a, "options", o, ret_field, e);
}

/* --- The definition ------------------------------------------------------------------------------------ */

int host_reference_check(const char *reference, Error *e)
{
        _cleanup_free_ char *absolute = NULL;

        if (isempty(reference) || streq(reference, "-"))
                return error_set(e, -EINVAL, "The image has to be a name, a URL or an absolute path");
        if (reference_make_absolute(reference, &absolute) < 0)
                return error_oom(e);
        if (streq(absolute, reference))
                return 0;
        return error_set(e, -EINVAL, "The image '%s' is not an absolute path", reference);
}

static int check_app(const AppOverrides *a, size_t i, char **ret_field, Error *e)
{
        _cleanup_free_ char *field = NULL;

        int r = xasprintf(&field, "definition.apps[%zu]", i);
        if (r < 0)
                return error_oom(e);
        r = host_reference_check(a->reference, e);
        if (r >= 0 && a->credentials.n > 0)
                r = error_set(e, -EINVAL, "Credentials are a parameter of their own");
        return r < 0 ? refuse(ret_field, field, r) : 0;
}

static int parse_definition(json_object *o, PodArguments *a, char **ret_field, Error *e)
{
        PodDefinition d = {};
        int r = pod_request_parse(o, &d, e);

        a->request = d.request;
        d.request = (PodRequest){};
        pod_definition_done(&d);
        if (r < 0)
                return refuse(ret_field, "definition", r);
        for (size_t i = 0; i < a->request.n_apps; i++) {
                r = check_app(&a->request.apps[i], i, ret_field, e);
                if (r < 0)
                        return r;
        }
        if (a->request.credentials.n > 0)
                return refuse(ret_field, "definition",
                              error_set(e, -EINVAL, "Credentials are a parameter of their own"));
        return 0;
}

/* --- Credentials --------------------------------------------------------------------------------------- */

static CredentialList *credentials_of(PodRequest *q, const char *app)
{
        for (size_t i = 0; app && i < q->n_apps; i++)
                if (streq_ptr(q->apps[i].name, app))
                        return &q->apps[i].credentials;
        return app ? NULL : &q->credentials;
}

static int add_credential(json_object *o, PodRequest *q, Error *e)
{
        const char *name = json_object_get_string(json_object_object_get(o, "name")),
                   *hex = json_object_get_string(json_object_object_get(o, "data")),
                   *app = json_object_get_string(json_object_object_get(o, "app"));
        CredentialList *l = credentials_of(q, app);

        if (!l)
                return error_set(e, -EINVAL, "The definition names no app '%s'", app);
        int r = credential_list_add_hex(l, name, hex, e);
        return r == -ENOMEM ? r : r < 0 ? error_prefix(e, -EINVAL, "Credential '%s'", name) : 0;
}

static int parse_credentials(json_object *list, PodRequest *q, char **ret_field, Error *e)
{
        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                int r = add_credential(json_object_array_get_idx(list, i), q, e);
                if (r < 0)
                        return refuse(ret_field, "credentials", r);
        }
        return 0;
}

/* --- The whole ----------------------------------------------------------------------------------------- */

static int check_apps(const PodArguments *a, char **ret_field, Error *e)
{
        if (a->request.n_apps > 0 || a->request.template || exit_policy_is_open(a->options.exit_policy))
                return 0;
        return refuse(ret_field, "definition",
                      error_set(e, -EINVAL,
                                "It needs apps, or a pod manifest; or, for a pod without apps, the exit "
                                "policy never or tasks"));
}

int host_request_parse(json_object *parameters, PodArguments *a, char **ret_field, Error *e)
{
        int r = parse_definition(json_object_object_get(parameters, "definition"), a, ret_field, e);

        if (r >= 0)
                r = parse_options(json_object_object_get(parameters, "options"), a, ret_field, e);
        if (r >= 0)
                r = check_apps(a, ret_field, e);
        if (r >= 0)
                r = apply(image_options, a, "fetch", json_object_object_get(parameters, "fetch"), ret_field,
                          e);
        if (r >= 0)
                r = parse_credentials(json_object_object_get(parameters, "credentials"), &a->request,
                                      ret_field, e);
        return r < 0 ? r : pod_arguments_give_settings(a, e);
}
