/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The short forms of isolators on the command line of prepare and run: a table maps each option to an
 * isolator and the shape of its JSON value. Values are validated by the parser of manifests.
 */

#include "stage0/arguments/pod-values.h"

typedef enum Shape {
        SHAPE_LIMIT,  /* {"limit": "VALUE"} */
        SHAPE_RATE,   /* {"default": true, "limit": "VALUE"} */
        SHAPE_TASKS,  /* the same as a limit, or "infinity" */
        SHAPE_NUMBER, /* VALUE */
        SHAPE_STRING, /* "VALUE" */
        SHAPE_TRUE,   /* true: the option has no value */
} Shape;

static const struct {
        const char *option;
        IsolatorType type;
        Shape shape;
} forms[] = {
                {"apparmor-profile", ISOLATOR_APPARMOR_PROFILE, SHAPE_STRING},
                {"block-bandwidth", ISOLATOR_RESOURCE_BLOCK_BANDWIDTH, SHAPE_RATE},
                {"block-iops", ISOLATOR_RESOURCE_BLOCK_IOPS, SHAPE_RATE},
                {"cpu", ISOLATOR_RESOURCE_CPU, SHAPE_LIMIT},
                {"cpu-shares", ISOLATOR_CPU_SHARES, SHAPE_NUMBER},
                {"memory", ISOLATOR_RESOURCE_MEMORY, SHAPE_LIMIT},
                {"no-new-privileges", ISOLATOR_NO_NEW_PRIVILEGES, SHAPE_TRUE},
                {"oom-score-adj", ISOLATOR_OOM_SCORE_ADJ, SHAPE_NUMBER},
                {"tasks-max", ISOLATOR_RESOURCE_TASKS, SHAPE_TASKS},
};

static json_object *make_object(Shape shape, const char *value)
{
        json_object *o = json_object_new_object();

        if (json_member_add_text(o, "limit", value) >= 0 &&
            (shape != SHAPE_RATE || json_member_add(o, "default", json_object_new_boolean(true)) >= 0))
                return o;
        json_object_put(o);
        return NULL;
}

static json_object *make_value(Shape shape, const char *value, int64_t number)
{
        switch (shape) {
        case SHAPE_NUMBER:
                return json_object_new_int64(number);
        case SHAPE_STRING:
                return json_new_string_lossy(value);
        case SHAPE_TRUE:
                return json_object_new_boolean(true);
        default:
                return make_object(shape, value);
        }
}

/* The maximum of pid_max, which means no limit. */
#define TASKS_INFINITY "4194304"

static int check_tasks(const Option *o, const char *value, Error *e)
{
        uint32_t n;

        if (streq(value, "infinity") || (parse_u32(value, &n) >= 0 && n > 0))
                return 0;
        int r = option_invalid(o, value, e, "must be a whole number, or infinity");
        char label[OPTION_LABEL_MAX];
        option_label(o, label);
        return streq(value, "0") || streq(value, "-1") || streq(value, "unlimited") || streq(value, "max")
                               ? error_hint(e, r, "For no limit: %s%sinfinity", label, o->label ? "" : "=")
                               : r;
}

/* Nothing would run with a limit of 0, which means no limit in other tools. */
static int check_limit(const Option *o, const char *value, Shape shape, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        uint64_t n;

        if (shape == SHAPE_TASKS)
                return check_tasks(o, value, e);
        if (shape != SHAPE_LIMIT && shape != SHAPE_RATE)
                return 0;
        if (quantity_parse(value, 1, &n, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        /* In other tools this suffix means millions. */
        if (endswith(value, "m") && !streq(o->name, "cpu")) {
                int r = option_invalid(o, value, e, "'m' are thousandths");
                return error_hint(e, r, "Did you mean '%.*sM', or '%.*sMi' of 1024 times 1024?",
                                  (int) strlen(value) - 1, value, (int) strlen(value) - 1, value);
        }
        return n > 0 ? 0
                     : option_invalid(o, value, e,
                                      "must be greater than 0; without the option there is no limit");
}

static int add_value(const Option *o, const char *value, IsolatorType type, json_object *json,
                     IsolatorList *l, Error *e)
{
        _cleanup_json_ _unused_ json_object *owned = json;
        const char *text = json ? json_print(json) : NULL;

        return text ? option_add_isolator(o, value, isolator_type_to_string(type), text, l, e)
                    : error_oom(e);
}

static int parse_number(const char *s, int64_t *ret)
{
        uint32_t n;
        int r = parse_u32(*s == '-' ? s + 1 : s, &n);

        if (r >= 0)
                *ret = *s == '-' ? -(int64_t) n : (int64_t) n;
        return r;
}

int option_isolator_short(const Option *o, const char *value, void *target, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                int64_t number = 0;
                if (!streq(forms[i].option, o->name))
                        continue;
                if (forms[i].shape == SHAPE_NUMBER && parse_number(value, &number) < 0)
                        return option_invalid(o, value, e, "must be a whole number");
                int r = check_limit(o, value, forms[i].shape, e);
                if (r < 0)
                        return r;
                bool unlimited = forms[i].shape == SHAPE_TASKS && streq(value, "infinity");
                return add_value(o, value ?: "", forms[i].type,
                                 make_value(forms[i].shape, unlimited ? TASKS_INFINITY : value, number),
                                 target, e);
        }
        return -EINVAL;
}

/* --- Isolators with several parts ---------------------------------------------------------------------- */

/* Adds to the parameters of earlier options. */
int option_sysctl(const Option *o, const char *value, void *target, Error *e)
{
        const char *equals = strchr(value, '='), *name = isolator_type_to_string(ISOLATOR_SYSCTL);
        _cleanup_free_ char *key = NULL;
        json_object *json = NULL;
        IsolatorList *l = target;

        if (!equals || equals == value)
                return option_invalid(o, value, e, "must be NAME=VALUE, such as net.ipv4.ip_forward=1");
        key = strndup(value, (size_t) (equals - value));
        for (size_t i = 0; key && i < l->n; i++)
                if (streq(l->items[i].name, name) &&
                    json_object_deep_copy(l->items[i].value, &json, NULL) < 0)
                        return error_oom(e);
        if (!json)
                json = json_object_new_object();
        if (!key || json_member_add_text(json, key, equals + 1) < 0) {
                json_object_put(json);
                return error_oom(e);
        }
        return add_value(o, value, ISOLATOR_SYSCTL, json, l, e);
}

int option_selinux_context(const Option *o, const char *value, void *target, Error *e)
{
        static const char *const keys[] = {"user", "role", "type", "level"};
        json_object *json = json_object_new_object();
        const char *rest = value;
        bool failed = !json;

        for (size_t i = 0; !failed && i < ELEMENTSOF(keys); i++) {
                size_t n = i + 1 < ELEMENTSOF(keys) ? strcspn(rest, ":") : strlen(rest);
                _cleanup_free_ char *part = strndup(rest, n);
                if (n == 0 || (i + 1 < ELEMENTSOF(keys) && !rest[n])) {
                        json_object_put(json);
                        return option_invalid(o, value, e, "must be USER:ROLE:TYPE:LEVEL");
                }
                failed = !part || json_member_add_text(json, keys[i], part) < 0;
                rest += n + 1;
        }
        if (failed) {
                json_object_put(json);
                return error_oom(e);
        }
        return add_value(o, value, ISOLATOR_SELINUX_CONTEXT, json, target, e);
}

/* --- System calls -------------------------------------------------------------------------------------- */

typedef struct SeccompWords {
        IsolatorType type;
        const char *errno_name;
        json_object *set;
} SeccompWords;

static int take_seccomp_word(const Option *o, const char *value, const char *word, SeccompWords *w, Error *e)
{
        const char *mode = startswith(word, "mode="), *name = startswith(word, "errno=");

        if (mode && !streq(mode, "retain") && !streq(mode, "remove"))
                return option_invalid(o, value, e, "the mode must be retain or remove");
        if (mode)
                w->type = streq(mode, "retain") ? ISOLATOR_SECCOMP_RETAIN_SET : ISOLATOR_SECCOMP_REMOVE_SET;
        else if (name)
                w->errno_name = name;
        else if (json_list_append(w->set, json_new_string_lossy(word)) < 0)
                return error_oom(e);
        return 0;
}

int option_seccomp(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_strv_free_ char **words = NULL;
        json_object *json = json_object_new_object();
        SeccompWords w = {.set = json_object_new_array()};
        int r = strv_split(value, ",", &words) < 0 || !json || !w.set ? error_oom(e) : 0;

        for (size_t i = 0; r >= 0 && words && words[i]; i++)
                r = take_seccomp_word(o, value, words[i], &w, e);
        if (r >= 0 && w.type == ISOLATOR_UNKNOWN)
                r = option_invalid(o, value, e, "must be mode=retain|remove[,errno=NAME],CALL[,…]");
        if (r >= 0 && w.errno_name && json_member_add_text(json, "errno", w.errno_name) < 0)
                r = error_oom(e);
        if (r < 0) {
                json_object_put(w.set);
                json_object_put(json);
                return r;
        }
        if (json_member_add(json, "set", w.set) < 0) {
                json_object_put(json);
                return error_oom(e);
        }
        return add_value(o, value, w.type, json, target, e);
}
