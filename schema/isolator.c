/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Isolators (spec: ace.md, "Isolators"): a name and any JSON value, whose form depends on the name.
 *
 * Those of the specification and its reference implementation are checked and parsed here; all others are
 * kept unchanged, since an executor may ignore unknown isolators but must be able to report them. The
 * original value is also kept, and is what is written.
 *
 * Where a value could become part of a unit file or of a path under /proc/sys, characters that no valid
 * value contains are refused, although the reference accepts them.
 */

#include "schema/schema-internal.h"

typedef struct Kind {
        const char *name;
        void (*parse)(Parser *p, json_object *v, Isolator *i);
        bool single;           /* only one per list */
        IsolatorType excludes; /* type that must not be in the same list; or ISOLATOR_UNKNOWN */
} Kind;

void isolator_done(Isolator *i)
{
        free(i->name);
        if (i->value)
                json_object_put(i->value);
        strv_free(i->set);
        free(i->errno_name);
        free(i->text);
        pair_list_done(&i->sysctl);
        pair_list_done(&i->cgroup);
        *i = (Isolator){};
}

void isolator_list_done(IsolatorList *l)
{
        for (size_t i = 0; i < l->n; i++)
                isolator_done(l->items + i);
        free(l->items);
        *l = (IsolatorList){};
}

Isolator *isolator_list_find(const IsolatorList *l, IsolatorType type)
{
        for (size_t i = l->n; i > 0; i--)
                if (l->items[i - 1].type == type)
                        return &l->items[i - 1];
        return NULL;
}

/* --- Sets ---------------------------------------------------------------------------------------------- */

#define CGROUP_NUMBER_MAX 8191U /* of processors and nodes of memory */
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool made_of(const char *s, const char *characters)
{
        return *s && !s[strspn(s, characters)];
}

/* "CAP_NET_ADMIN"; the prefix is optional and the case is ignored. The set of capabilities depends on the
 * kernel, so unknown names are accepted here and handled when they are applied. */
static int capability_convert(const char *s, char **ret, Error *e)
{
        char *name;

        if (!made_of(s, LOWER UPPER DIGITS "_"))
                return error_value(e, s, "is not the name of a capability as in CAP_NET_ADMIN");
        if (xasprintf(&name, "%s%s", strncasecmp(s, "CAP_", 4) == 0 ? "" : "CAP_", s) < 0)
                return error_oom(e);
        for (char *c = name; *c; c++)
                *c = to_upper(*c);
        *ret = name;
        return 0;
}

static int syscall_check(const char *s, Error *e)
{
        if (made_of(s, LOWER UPPER DIGITS "_") || (*s == '@' && made_of(s + 1, LOWER UPPER DIGITS "-._~/")))
                return 0;
        return error_value(e, s, "is neither the name of a system call nor a set as in @appc.io/all");
}

static int errno_check(const char *s, Error *e)
{
        if (*s == 'E' && made_of(s, UPPER DIGITS))
                return 0;
        return error_value(e, s, "is not the name of an error as in EPERM");
}

static const Type type_capability = {.parse = string_parse, .convert = capability_convert};
static const Type type_capabilities = {.parse = strings_parse, .item = &type_capability, .not_empty = true};
static const Type type_syscall = {.parse = string_parse, .check = syscall_check};
static const Type type_syscalls = {.parse = strings_parse, .item = &type_syscall, .not_empty = true};
static const Type type_errno = {.parse = string_parse, .check = errno_check, .empty_is_absent = true};

static const Field capabilities_fields[] = {
                {"set", &type_capabilities, offsetof(Isolator, set), FIELD_REQUIRED},
                {},
};
static const Type type_capabilities_value = {.fields = capabilities_fields};

static const Field seccomp_fields[] = {
                {"set", &type_syscalls, offsetof(Isolator, set), FIELD_REQUIRED},
                {"errno", &type_errno, offsetof(Isolator, errno_name)},
                {},
};
static const Type type_seccomp_value = {.fields = seccomp_fields};

static void capabilities_parse(Parser *p, json_object *v, Isolator *i)
{
        object_parse(p, &type_capabilities_value, v, i);
}

static void seccomp_parse(Parser *p, json_object *v, Isolator *i)
{
        object_parse(p, &type_seccomp_value, v, i);
}

/* --- Other isolators
 * ------------------------------------------------------------------------------------------ */

static void no_new_privileges_parse(Parser *p, json_object *v, Isolator *i)
{
        type_bool.parse(p, &type_bool, v, &i->enabled);
}

static void oom_score_adj_parse(Parser *p, json_object *v, Isolator *i)
{
        (void) parse_integer(p, v, -1000, 1000, &i->number);
}

static void cpu_shares_parse(Parser *p, json_object *v, Isolator *i)
{
        (void) parse_integer(p, v, 2, 262144, &i->number);
}

static bool is_one_word(const char *s)
{
        for (const unsigned char *c = (const unsigned char *) s; *c; c++)
                if (*c <= 0x20 || *c == 0x7f)
                        return false;
        return *s;
}

static int selinux_part_check(const char *s, Error *e)
{
        if (is_one_word(s) && !strchr(s, ':'))
                return 0;
        return error_value(e, s, "is not a part of an SELinux context: it must be one word without \":\"");
}

static int one_word_check(const char *s, Error *e)
{
        return is_one_word(s) ? 0 : error_value(e, s, "is not one word");
}

typedef struct Context {
        char *user, *role, *type, *level;
} Context;

static const Type type_selinux_part = {STRING_OPS, .check = selinux_part_check};
static const Type type_one_word = {STRING_OPS, .check = one_word_check};

static const Field selinux_fields[] = {
                {"user", &type_selinux_part, offsetof(Context, user), FIELD_REQUIRED},
                {"role", &type_selinux_part, offsetof(Context, role), FIELD_REQUIRED},
                {"type", &type_selinux_part, offsetof(Context, type), FIELD_REQUIRED},
                {"level", &type_one_word, offsetof(Context, level), FIELD_REQUIRED},
                {},
};
static const Type type_selinux = {.fields = selinux_fields};

static void selinux_parse(Parser *p, json_object *v, Isolator *i)
{
        Context c = {};

        object_parse(p, &type_selinux, v, &c);
        if (c.user && c.role && c.type && c.level &&
            xasprintf(&i->text, "%s:%s:%s:%s", c.user, c.role, c.type, c.level) < 0)
                p->oom = true;
        object_done(&type_selinux, &c);
}

/* Not in the specification, which mentions AppArmor only briefly: the name of a profile that is loaded on
 * the host. */
static void apparmor_parse(Parser *p, json_object *v, Isolator *i)
{
        string_parse(p, &type_one_word, v, &i->text);
}

/* Names become paths below /proc/sys, with "." or "/" between the components. Which ones may be set is
 * decided when they are applied. */
static bool sysctl_name_valid(const char *s)
{
        static const char *const bad[] = {"..", "//", "/.", "./"};

        if (!is_one_word(s) || strchr("./", *s) || strchr("./", s[strlen(s) - 1]))
                return false;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (strstr(s, bad[i]))
                        return false;
        return true;
}

static void sysctl_parse(Parser *p, json_object *v, Isolator *i)
{
        type_user_map.parse(p, &type_user_map, v, &i->sysctl);
        for (size_t k = 0; k < i->sysctl.n; k++)
                if (!sysctl_name_valid(i->sysctl.items[k].name))
                        parser_finding_at(p, i->sysctl.items[k].name,
                                          "is not the name of a kernel parameter");
}

/* The pod's systemd ignores a line with another value, and with it the limit. */
static bool is_amount(const char *s)
{
        uint64_t value;

        return streq(s, "max") || (made_of(s, DIGITS) && parse_u64(s, &value) >= 0 && value < UINT64_MAX);
}

static bool is_positive_amount(const char *s)
{
        return is_amount(s) && strspn(s, "0") < strlen(s);
}

/* Reads a number of at most CGROUP_NUMBER_MAX. */
static bool read_number(const char **s, unsigned *ret)
{
        const char *begin = *s;

        for (*ret = 0; is_digit(**s); (*s)++) {
                *ret = *ret * 10 + (unsigned) (**s - '0');
                if (*ret > CGROUP_NUMBER_MAX)
                        return false;
        }
        return *s > begin;
}

/* "0-3,7" */
static bool is_list_of_numbers(const char *s)
{
        unsigned first, last;

        for (;; s++) {
                if (!read_number(&s, &first))
                        return false;
                last = first;
                if (*s == '-' && (s++, !read_number(&s, &last)))
                        return false;
                if (last < first || (*s && *s != ','))
                        return false;
                if (!*s)
                        return true;
        }
}

/* "hugetlb.2MB.max", by the size of the pages */
static bool is_hugetlb_limit(const char *s)
{
        static const char *const units[] = {"KB.max", "MB.max", "GB.max"};
        const char *size = startswith(s, "hugetlb.");
        size_t n = size ? strspn(size, DIGITS) : 0;

        for (size_t i = 0; i < ELEMENTSOF(units); i++)
                if (n > 0 && n < 8 && streq(size + n, units[i]))
                        return true;
        return false;
}

static bool is_switch(const char *s)
{
        return streq(s, "0") || streq(s, "1");
}

/* Attributes of cgroups of version 2 for which there is no isolator of their own. */
static const struct {
        const char *name;
        bool (*valid)(const char *s);
        const char *expected;
} cgroup_attributes[] = {
                {"hugetlb.", is_amount, "must be a number of bytes, or max"},
                {"cpuset.cpus", is_list_of_numbers, "must be a list of numbers as 0-3,7"},
                {"cpuset.mems", is_list_of_numbers, "must be a list of numbers as 0-3,7"},
                {"memory.high", is_positive_amount, "must be a number of bytes, or max"},
                {"memory.low", is_amount, "must be a number of bytes, or max"},
                {"memory.min", is_amount, "must be a number of bytes, or max"},
                {"memory.oom.group", is_switch, "must be 0 or 1"},
                {"memory.swap.max", is_amount, "must be a number of bytes, or max"},
};

static void cgroup_parse(Parser *p, json_object *v, Isolator *i)
{
        type_user_map.parse(p, &type_user_map, v, &i->cgroup);
        for (size_t k = 0; k < i->cgroup.n; k++) {
                const Pair *a = &i->cgroup.items[k];
                size_t n = 0;

                while (n < ELEMENTSOF(cgroup_attributes) &&
                       !(n == 0 ? is_hugetlb_limit(a->name) : streq(cgroup_attributes[n].name, a->name)))
                        n++;
                if (n == ELEMENTSOF(cgroup_attributes))
                        parser_finding_at(p, a->name, "is not a supported attribute of cgroups");
                else if (!cgroup_attributes[n].valid(a->value))
                        parser_finding_at(p, a->name, cgroup_attributes[n].expected);
        }
}

/* --- Isolators by name
 * ------------------------------------------------------------------------------------------- */

static const Kind kinds[_ISOLATOR_TYPE_MAX] = {
                [ISOLATOR_RESOURCE_BLOCK_BANDWIDTH] = {"resource/block-bandwidth", isolator_bandwidth_parse},
                [ISOLATOR_RESOURCE_BLOCK_IOPS] = {"resource/block-iops", isolator_bandwidth_parse},
                [ISOLATOR_RESOURCE_CPU] = {"resource/cpu", isolator_cpu_parse},
                [ISOLATOR_RESOURCE_MEMORY] = {"resource/memory", isolator_memory_parse},
                [ISOLATOR_RESOURCE_NETWORK_BANDWIDTH] = {"resource/network-bandwidth",
                                                         isolator_bandwidth_parse},
                [ISOLATOR_RESOURCE_TASKS] = {"resource/tasks", isolator_tasks_parse, true},
                /* According to the specification the two exclude each other; the reference does not
                 * check. */
                [ISOLATOR_CAPABILITIES_RETAIN_SET] = {"os/linux/capabilities-retain-set", capabilities_parse,
                                                      false, ISOLATOR_CAPABILITIES_REMOVE_SET},
                [ISOLATOR_CAPABILITIES_REMOVE_SET] = {"os/linux/capabilities-remove-set", capabilities_parse,
                                                      false, ISOLATOR_CAPABILITIES_RETAIN_SET},
                [ISOLATOR_SECCOMP_RETAIN_SET] = {"os/linux/seccomp-retain-set", seccomp_parse, true,
                                                 ISOLATOR_SECCOMP_REMOVE_SET},
                [ISOLATOR_SECCOMP_REMOVE_SET] = {"os/linux/seccomp-remove-set", seccomp_parse, true,
                                                 ISOLATOR_SECCOMP_RETAIN_SET},
                [ISOLATOR_NO_NEW_PRIVILEGES] = {"os/linux/no-new-privileges", no_new_privileges_parse},
                [ISOLATOR_SELINUX_CONTEXT] = {"os/linux/selinux-context", selinux_parse, true},
                [ISOLATOR_APPARMOR_PROFILE] = {"os/linux/apparmor-profile", apparmor_parse, true},
                [ISOLATOR_OOM_SCORE_ADJ] = {"os/linux/oom-score-adj", oom_score_adj_parse, true},
                [ISOLATOR_CPU_SHARES] = {"os/linux/cpu-shares", cpu_shares_parse, true},
                [ISOLATOR_SYSCTL] = {"os/unix/sysctl", sysctl_parse, true},
                [ISOLATOR_CGROUP] = {"os/linux/cgroup", cgroup_parse, true},
};

const char *isolator_type_to_string(IsolatorType t)
{
        return t > ISOLATOR_UNKNOWN && t < _ISOLATOR_TYPE_MAX ? kinds[t].name : NULL;
}

IsolatorType isolator_type_from_string(const char *s)
{
        for (unsigned t = ISOLATOR_UNKNOWN + 1; t < _ISOLATOR_TYPE_MAX; t++)
                if (streq(s, kinds[t].name))
                        return (IsolatorType) t;
        return ISOLATOR_UNKNOWN;
}

static void isolator_interpret(Parser *p, Isolator *i)
{
        i->type = isolator_type_from_string(i->name);
        if (i->type != ISOLATOR_UNKNOWN)
                kinds[i->type].parse(p, i->value, i);
}

/* --- In manifests -------------------------------------------------------------------------------------- */

/* Apps are copied from image manifests to pod manifests, where their isolators are nested deeper: with a
 * limit of its own, a readable value stays readable there. The reader has bounded the depth of this
 * recursion. */
#define VALUE_DEPTH_MAX 32U

static unsigned value_depth(json_object *v)
{
        unsigned deepest = 0;

        if (json_object_is_type(v, json_type_array)) {
                for (size_t i = 0; i < json_object_array_length(v); i++) {
                        unsigned depth = value_depth(json_object_array_get_idx(v, i));
                        deepest = MAX(deepest, depth);
                }
                return deepest + 1;
        }
        if (!json_object_is_type(v, json_type_object))
                return 0;
        json_object_object_foreach (v, key, member) {
                (void) key;
                unsigned depth = value_depth(member);
                deepest = MAX(deepest, depth);
        }
        return deepest + 1;
}

static void value_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        json_object **place = target;

        if (value_depth(v) > VALUE_DEPTH_MAX)
                parser_finding(p, "is nested deeper than %u levels", VALUE_DEPTH_MAX);
        else
                *place = json_object_get(v);
}

static int value_format(const Type *t, const void *source, json_object **ret)
{
        json_object *const *place = source;

        *ret = json_object_get(*place);
        return 1; /* null is also a value */
}

static const Type type_value = {.parse = value_parse, .format = value_format, .size = sizeof(json_object *)};

static const Field isolator_fields[] = {
                {"name", &type_ac_identifier, offsetof(Isolator, name), FIELD_REQUIRED},
                {"value", &type_value, offsetof(Isolator, value), FIELD_REQUIRED | FIELD_NULL_COUNTS},
                {},
};
static const Type type_isolator_object = {.fields = isolator_fields};

static void isolator_item_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        size_t before = p->findings->n;
        Isolator *i = target;

        object_parse(p, &type_isolator_object, v, i);
        if (p->findings->n > before || !i->name)
                return;
        size_t mark = parser_enter_key(p, "value");
        isolator_interpret(p, i);
        parser_leave(p, mark);
}

static int isolator_item_format(const Type *t, const void *source, json_object **ret)
{
        return object_format(&type_isolator_object, source, ret);
}

static int isolator_item_copy(const Type *t, const void *source, void *target)
{
        const Isolator *from = source;
        Isolator *to = target;

        *to = *from;
        to->name = to->errno_name = to->text = NULL;
        to->value = NULL;
        to->set = NULL;
        to->sysctl = to->cgroup = (PairList){};
        if (from->value && json_object_deep_copy(from->value, &to->value, NULL) < 0)
                return -ENOMEM;
        int r = string_copy(&type_string, &from->name, &to->name);
        if (r >= 0)
                r = string_copy(&type_string, &from->errno_name, &to->errno_name);
        if (r >= 0)
                r = string_copy(&type_string, &from->text, &to->text);
        if (r >= 0)
                r = strings_copy(&type_strings, &from->set, &to->set);
        if (r >= 0)
                r = pair_list_copy(&from->sysctl, &to->sysctl);
        return r < 0 ? r : pair_list_copy(&from->cgroup, &to->cgroup);
}

static void isolator_item_done(const Type *t, void *target)
{
        isolator_done(target);
}

static void isolators_finish(Parser *p, void *target)
{
        const IsolatorList *l = target;
        bool seen[_ISOLATOR_TYPE_MAX] = {};

        for (size_t i = 0; i < l->n; i++) {
                IsolatorType t = l->items[i].type;
                const Kind *k = kinds + t;
                size_t mark = parser_enter_index(p, i);

                if (t != ISOLATOR_UNKNOWN && k->single && seen[t])
                        parser_finding(p, "%s must not appear more than once", k->name);
                if (t != ISOLATOR_UNKNOWN && k->excludes != ISOLATOR_UNKNOWN && seen[k->excludes])
                        parser_finding(p, "%s cannot be used together with %s", k->name,
                                       kinds[k->excludes].name);
                parser_leave(p, mark);
                seen[t] = true;
        }
}

static const Type type_isolator = {
                .parse = isolator_item_parse,
                .format = isolator_item_format,
                .copy = isolator_item_copy,
                .done = isolator_item_done,
                .size = sizeof(Isolator),
};
const Type type_isolators = {
                LIST_OPS,         .size = sizeof(IsolatorList), .item = &type_isolator,
                .growable = true, .finish = isolators_finish,
};

int isolator_parse(const char *name, const char *value_json, Isolator *ret, Error *e)
{
        _cleanup_findings_ Findings findings = {};
        _cleanup_parser_ Parser p = {.findings = &findings};
        _cleanup_(isolator_done) Isolator i = {};
        _cleanup_json_ json_object *value = NULL;
        _cleanup_free_ char *what = NULL;

        int r = ac_identifier_check(name, e);
        if (r < 0)
                return error_prefix(e, r, "Invalid name of an isolator");
        if (xasprintf(&what, "value of isolator %s", name) < 0)
                return error_oom(e);
        r = json_parse_strict(value_json, strlen(value_json), &value, NULL, e);
        if (r < 0)
                return error_prefix(e, r, "Invalid %s", what);
        i.name = strdup(name);
        if (!i.name)
                return error_oom(e);
        value_parse(&p, &type_value, value, &i.value);
        if (findings.n == 0)
                isolator_interpret(&p, &i);
        r = parser_conclude(&p, what, 0, e);
        if (r < 0)
                return r;
        *ret = i;
        i = (Isolator){};
        return 0;
}

int isolator_list_drop_attribute(IsolatorList *l, const char *attribute)
{
        Isolator *i = isolator_list_find(l, ISOLATOR_CGROUP), changed = {};
        _cleanup_json_ json_object *o = NULL;

        if (!i || !pair_list_get(&i->cgroup, attribute))
                return 0;
        if (json_object_deep_copy(i->value, &o, NULL) < 0)
                return -ENOMEM;
        json_object_object_del(o, attribute);
        const char *text = json_print(o);
        int r = text ? isolator_parse(i->name, text, &changed, NULL) : -ENOMEM;
        if (r < 0)
                return r;
        isolator_done(i);
        *i = changed;
        return 0;
}
