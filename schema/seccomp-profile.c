/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads profiles of system calls.
 *
 * Members that are unknown are ignored, as container engines do. What would be a weaker or another filter than the profile
 * says is refused: actions that need a program that listens, and flags. Numbers and sizes are bounded; the reader of JSON
 * bounds depth and number of values. */

#include <linux/seccomp.h>

#include "schema/seccomp-profile.h"

#define DEPTH_MAX 8U
#define VALUES_MAX 65536U
#define ERRNO_MAX 4095
#define LIST_MAX 4096U
#define OF " of the profile"

static void condition_done(SeccompCondition *c)
{
        strv_free(c->capabilities);
        strv_free(c->architectures);
}

SeccompProfile *seccomp_profile_free(SeccompProfile *p)
{
        if (!p)
                return NULL;
        for (size_t i = 0; i < p->n_rules; i++) {
                strv_free(p->rules[i].names);
                condition_done(&p->rules[i].includes);
                condition_done(&p->rules[i].excludes);
        }
        for (size_t i = 0; i < p->n_map; i++) {
                free(p->map[i].architecture);
                strv_free(p->map[i].below);
        }
        free(p->rules);
        free(p->map);
        strv_free(p->architectures);
        free(p);
        return NULL;
}

/* --- Members ------------------------------------------------------------------------------------------- */

static int read_strings(json_object *o, const char *key, char ***ret, Error *e)
{
        json_object *list;
        size_t n;

        int r = json_member_read_list(o, key, OF, LIST_MAX, &list, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                json_object *s = json_object_array_get_idx(list, i);
                if (!json_object_is_type(s, json_type_string))
                        return error_set(e, -EINVAL, "\"%s\" of the profile is not a list of strings", key);
                if (strv_extend(ret, json_object_get_string(s)) < 0)
                        return error_oom(e);
        }
        return r;
}

/* 64 bits, as arguments have. *RET stays if there is no such member. */
static int read_number(json_object *o, const char *key, uint64_t max, uint64_t *ret, Error *e)
{
        json_object *value;

        int r = json_member_read(o, key, json_type_int, OF, &value, e);
        if (r < 0 || !value)
                return r;
        /* One of the two functions does not return the bounds of its type. */
        if (json_object_get_int64(value) < 0 || json_object_get_uint64(value) > max)
                return error_set(e, -EINVAL, "\"%s\" of the profile is not a number from 0 to %llu", key,
                                 (unsigned long long) max);
        *ret = json_object_get_uint64(value);
        return 0;
}

/* --- Rules --------------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        uint32_t action;
        bool has_data;
} actions[] = {
                {"SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW, false},
                {"SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO, true},
                {"SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD, false},
                {"SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS, false},
                {"SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD, false},
                {"SCMP_ACT_LOG", SECCOMP_RET_LOG, false},
                {"SCMP_ACT_TRACE", SECCOMP_RET_TRACE, true},
                {"SCMP_ACT_TRAP", SECCOMP_RET_TRAP, false},
};

static int read_action(json_object *o, const char *key, const char *errno_key, uint32_t *ret, Error *e)
{
        uint64_t data = EPERM;
        const char *name;

        int r = json_member_read_text(o, key, OF, &name, e);
        if (r >= 0)
                r = read_number(o, errno_key, ERRNO_MAX, &data, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(actions); i++)
                if (streq_ptr(actions[i].name, name)) {
                        *ret = actions[i].action | (actions[i].has_data ? (uint32_t) data : 0);
                        return 0;
                }
        return error_set(e, -EINVAL, "The profile has the %s '%s', which is not supported", key, name ?: "");
}

static int read_argument(json_object *o, SeccompArgument *ret, Error *e)
{
        static const char *const operators[_SECCOMP_OPERATOR_MAX] = {[SECCOMP_NE] = "SCMP_CMP_NE",
                                                                     [SECCOMP_LT] = "SCMP_CMP_LT",
                                                                     [SECCOMP_LE] = "SCMP_CMP_LE",
                                                                     [SECCOMP_EQ] = "SCMP_CMP_EQ",
                                                                     [SECCOMP_GE] = "SCMP_CMP_GE",
                                                                     [SECCOMP_GT] = "SCMP_CMP_GT",
                                                                     [SECCOMP_MASKED_EQ] =
                                                                                     "SCMP_CMP_MASKED_EQ"};
        SeccompArgument a = {};
        uint64_t index = 0;
        const char *op;

        int r = read_number(o, "index", SECCOMP_PROFILE_ARGUMENTS_MAX - 1, &index, e);
        if (r >= 0)
                r = read_number(o, "value", UINT64_MAX, &a.value, e);
        if (r >= 0)
                r = read_number(o, "valueTwo", UINT64_MAX, &a.value_two, e);
        if (r >= 0)
                r = json_member_read_text(o, "op", OF, &op, e);
        if (r < 0)
                return r;
        int found = word_index(operators, ELEMENTSOF(operators), op);
        if (found < 0)
                return error_set(e, -EINVAL, "The profile has the op '%s', which is not known", op ?: "");
        a.op = (SeccompOperator) found;
        a.index = (unsigned) index;
        *ret = a;
        return 0;
}

static int read_arguments(json_object *o, SeccompProfileRule *rule, Error *e)
{
        json_object *list;

        int r = json_member_read(o, "args", json_type_array, OF, &list, e);
        if (r < 0 || !list)
                return r;
        if (json_object_array_length(list) > SECCOMP_PROFILE_ARGUMENTS_MAX)
                return error_set(e, -EINVAL, "The profile has more than %u \"args\" of one rule",
                                 SECCOMP_PROFILE_ARGUMENTS_MAX);
        for (; r >= 0 && rule->n_arguments < json_object_array_length(list); rule->n_arguments++)
                r = read_argument(json_object_array_get_idx(list, rule->n_arguments),
                                  &rule->arguments[rule->n_arguments], e);
        return r;
}

/* "4.8" */
static int read_kernel(json_object *o, SeccompCondition *c, Error *e)
{
        char end;
        const char *text;

        int r = json_member_read_text(o, "minKernel", OF, &text, e);
        if (r < 0 || isempty(text))
                return r;
        if (sscanf(text, "%4u.%4u%c", &c->kernel_major, &c->kernel_minor, &end) != 2)
                return error_set(e, -EINVAL, "The profile has the minKernel '%s', which is not like 4.8",
                                 text);
        return 0;
}

static int read_condition(json_object *rule, const char *key, SeccompCondition *c, Error *e)
{
        json_object *o;

        int r = json_member_read(rule, key, json_type_object, OF, &o, e);
        if (r < 0 || !o)
                return r;
        r = read_strings(o, "caps", &c->capabilities, e);
        if (r >= 0)
                r = read_strings(o, "arches", &c->architectures, e);
        return r < 0 ? r : read_kernel(o, c, e);
}

/* Older profiles have one name. */
static int read_names(json_object *o, char ***ret, Error *e)
{
        const char *name;

        int r = read_strings(o, "names", ret, e);
        if (r >= 0)
                r = json_member_read_text(o, "name", OF, &name, e);
        if (r >= 0 && !isempty(name) && strv_extend(ret, name) < 0)
                r = error_oom(e);
        return r < 0 || *ret ? r : error_set(e, -EINVAL, "The profile has a rule without \"names\"");
}

static int read_rule(json_object *o, SeccompProfileRule *rule, Error *e)
{
        int r = read_names(o, &rule->names, e);

        if (r >= 0)
                r = read_action(o, "action", "errnoRet", &rule->action, e);
        if (r >= 0)
                r = read_arguments(o, rule, e);
        if (r >= 0)
                r = read_condition(o, "includes", &rule->includes, e);
        return r < 0 ? r : read_condition(o, "excludes", &rule->excludes, e);
}

static int read_rules(json_object *o, SeccompProfile *p, Error *e)
{
        json_object *list;

        int r = json_member_read(o, "syscalls", json_type_array, OF, &list, e);
        size_t n = r >= 0 && list ? json_object_array_length(list) : 0;
        if (r < 0)
                return r;
        if (n > LIST_MAX)
                return error_set(e, -EINVAL, "The profile has more than %u rules", LIST_MAX);
        p->rules = calloc(n + 1, sizeof(SeccompProfileRule));
        if (!p->rules)
                return error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                p->n_rules++;
                r = read_rule(json_object_array_get_idx(list, i), &p->rules[i], e);
        }
        return r;
}

/* --- The whole ----------------------------------------------------------------------------------------- */

static int read_map(json_object *o, SeccompProfile *p, Error *e)
{
        json_object *list;

        int r = json_member_read(o, "archMap", json_type_array, OF, &list, e);
        size_t n = r >= 0 && list ? json_object_array_length(list) : 0;
        if (r < 0 || n == 0)
                return r;
        if (n > LIST_MAX)
                return error_set(e, -EINVAL, "\"archMap\" of the profile has more than %u entries",
                                 LIST_MAX);
        p->map = calloc(n, sizeof(SeccompArchitectures));
        if (!p->map)
                return error_oom(e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                json_object *item = json_object_array_get_idx(list, i);
                const char *name = NULL;
                r = json_member_read_text(item, "architecture", OF, &name, e);
                if (r >= 0 && !(p->map[i].architecture = strdup(name ?: "")))
                        r = error_oom(e);
                p->n_map++;
                if (r >= 0)
                        r = read_strings(item, "subArchitectures", &p->map[i].below, e);
        }
        return r;
}

/* Threads are none yet when the filter is installed. */
static int check_flags(json_object *o, Error *e)
{
        _cleanup_strv_free_ char **flags = NULL;
        const char *listener;

        int r = read_strings(o, "flags", &flags, e);
        if (r >= 0)
                r = json_member_read_text(o, "listenerPath", OF, &listener, e);
        if (r < 0)
                return r;
        STRV_FOREACH (flag, flags)
                if (!streq(*flag, "SECCOMP_FILTER_FLAG_TSYNC"))
                        return error_set(e, -EINVAL, "The profile has the flag '%s', which is not supported",
                                         *flag);
        return isempty(listener) ? 0
                                 : error_set(e, -EINVAL,
                                             "The profile has a \"listenerPath\", which is not supported");
}

int seccomp_profile_parse(const char *text, size_t size, SeccompProfile **ret, Error *e)
{
        _cleanup_(seccomp_profile_freep) SeccompProfile *p = calloc(1, sizeof(SeccompProfile));
        _cleanup_json_ json_object *o = NULL;

        if (!p)
                return error_oom(e);
        if (size > SECCOMP_PROFILE_SIZE_MAX)
                return error_set(e, -EFBIG, "The profile is larger than %u bytes", SECCOMP_PROFILE_SIZE_MAX);
        int r = json_parse_bounded(text, size, DEPTH_MAX, VALUES_MAX, &o, NULL, e);
        if (r >= 0)
                r = read_action(o, "defaultAction", "defaultErrnoRet", &p->default_action, e);
        if (r >= 0)
                r = read_strings(o, "architectures", &p->architectures, e);
        if (r >= 0)
                r = read_map(o, p, e);
        if (r >= 0)
                r = read_rules(o, p, e);
        if (r >= 0)
                r = check_flags(o, e);
        if (r >= 0)
                *ret = TAKE_PTR(p);
        return r;
}
