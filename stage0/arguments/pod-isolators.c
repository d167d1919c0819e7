/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options of prepare and run that become isolators.
 *
 * The short forms (pod-isolators-short.c has the rest of them) build the JSON value that a manifest would
 * have, and all of them go through the parser of manifests: limits and sets follow the same rules in
 * manifests and options.
 */

#include "library/libcapng.h"
#include "stage0/arguments/pod-values.h"

/* The message of the option names the isolator already. */
static int refuse_value(const Option *o, const char *value, const Error *reason, Error *e)
{
        const char *text =
                        reason->message ? startswith(reason->message, "Invalid value of isolator ") : NULL;
        const char *colon = text ? strstr(text, ": ") : NULL;

        return colon ? option_invalid(o, value, e, "%s", colon + 2)
                     : option_invalid_because(o, value, e, reason);
}

/* Of two of the same name the later one is used. */
int option_add_isolator(const Option *o, const char *value, const char *name, const char *json,
                        IsolatorList *l, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        Isolator isolator = {};

        int r = isolator_parse(name, json, &isolator, &reason);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return refuse_value(o, value, &reason, e);
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name)) {
                        isolator_done(&l->items[i]);
                        l->items[i] = isolator;
                        return 0;
                }
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0) {
                isolator_done(&isolator);
                return error_oom(e);
        }
        l->items[l->n++] = isolator;
        return 0;
}

int option_isolator(const Option *o, const char *value, void *target, Error *e)
{
        const char *equals = strchr(value, '=');
        _cleanup_free_ char *name = NULL;

        if (!equals || equals == value)
                return option_invalid(o, value, e,
                                      "must be NAME=JSON, such as resource/memory={\"limit\":\"64Mi\"}");
        name = strndup(value, (size_t) (equals - value));
        if (!name)
                return error_oom(e);
        return option_add_isolator(o, value, name, equals + 1, target, e);
}

/* {"KEY": …} around a value, which is taken. */
static int add_object_isolator(const Option *o, const char *value, IsolatorType type, const char *key,
                               json_object *member, IsolatorList *l, Error *e)
{
        _cleanup_json_ json_object *object = json_object_new_object();
        const char *text = NULL;

        if (json_member_add(object, key, member) < 0)
                return error_oom(e);
        text = json_print(object);
        return text ? option_add_isolator(o, value, isolator_type_to_string(type), text, l, e)
                    : error_oom(e);
}

/* Normalizes the name of a capability: "net_bind_service" is accepted, too. In a manifest an unknown one may
 * be of a newer kernel; on the command line it is an error. */
static int add_capability(const Option *o, const char *value, const char *word, json_object *set, Error *e)
{
        const char *bare = strncasecmp(word, "CAP_", 4) == 0 ? word + 4 : word;
        _cleanup_free_ char *name = NULL;

        int r = library_load(&capng_library, e);
        if (r < 0)
                return r;
        if (capng_name_to_capability(bare) < 0)
                return option_invalid(o, value, e, "there is no capability '%s'", word);
        if (xasprintf(&name, "CAP_%s", bare) < 0)
                return error_oom(e);
        for (char *p = name; *p; p++)
                *p = to_upper(*p);
        return json_list_append(set, json_new_string_lossy(name)) < 0 ? error_oom(e) : 0;
}

/* "all" is expanded to all known capabilities. */
static int add_all_capabilities(json_object *set, Error *e)
{
        char name[STAGE1_CAPABILITY_NAME_SIZE];

        int r = library_load(&capng_library, e);
        if (r < 0)
                return r;
        for (unsigned cap = 0; stage1_capability_name(cap, name); cap++)
                if (json_list_append(set, json_new_string_lossy(name)) < 0)
                        return error_oom(e);
        return 0;
}

static int add_capabilities(const Option *o, const char *value, IsolatorType type, IsolatorList *l, Error *e)
{
        _cleanup_json_ json_object *set = json_object_new_array();
        _cleanup_strv_free_ char **words = NULL;

        if (!set || strv_split(value, ", ", &words) < 0)
                return error_oom(e);
        STRV_FOREACH (s, words) {
                bool all = type == ISOLATOR_CAPABILITIES_REMOVE_SET && strcasecmp(*s, "all") == 0;
                int r = all ? add_all_capabilities(set, e) : add_capability(o, value, *s, set, e);
                if (r < 0)
                        return r;
        }
        return add_object_isolator(o, value, type, "set", TAKE_PTR(set), l, e);
}

int option_caps_retain(const Option *o, const char *value, void *target, Error *e)
{
        return add_capabilities(o, value, ISOLATOR_CAPABILITIES_RETAIN_SET, target, e);
}

int option_caps_remove(const Option *o, const char *value, void *target, Error *e)
{
        return add_capabilities(o, value, ISOLATOR_CAPABILITIES_REMOVE_SET, target, e);
}
