/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The isolators os/linux/seccomp-retain-set and os/linux/seccomp-remove-set (spec: ace.md, "Linux
 * Isolators").
 *
 * A retain set replaces the default filter: the calls that it names are allowed, whatever the arguments, and
 * so is systemd's @default, the calls that a process needs to start and to exit. All others fail, or kill
 * the app. A remove set is added to the default filter, whose own refusals keep their errors, so that no
 * process is killed for a call that the isolator does not name. Besides names of calls both accept:
 *
 *     @appc.io/all        retain: no filter at all, whatever else is in the set
 *     @appc.io/empty      remove: the default filter alone, whatever else is in the set
 *     @acnspawn/default   retain: what the default filter allows; remove: what it refuses, which is refused
 * anyway
 *     @acnspawn/within-default
 *                         retain: of what the rest of the set names only what the default filter allows, with
 *                         its checks of arguments; with @appc.io/all that is the default filter
 *     @systemd/GROUP      the group of that name of systemd's (see systemd-analyze syscall-filter)
 *
 * and the names by which images written for rkt refer to its defaults, which are treated as
 * @acnspawn/default.
 *
 * A set of an image gets @acnspawn/within-default when a pod is made, unless the operator has granted the
 * image more. What that removes are the image's requests beyond the default filter: no filter, or calls that
 * it names and that the filter refuses. A group of systemd's that is part of @system-service and of which
 * the filter allows something is understood as "the usual calls of this kind" and is no such request.
 */

#include "stage1/seccomp-rules.h"
#include "stage1/seccomp-filter.h"

#define LIFE_CYCLE "@systemd/default"
#define USUAL "@systemd/system-service"
#define ERRNO_MAX 4095

typedef enum NameKind {
        NAME_UNKNOWN,
        NAME_CALLS,   /* a call, or a group of systemd's */
        NAME_DEFAULT, /* @acnspawn/default */
        NAME_OLD,     /* the same, by rkt's name */
        NAME_MASK,    /* overrides all other names in the set */
        NAME_WITHIN,  /* bounds the set by the default filter */
} NameKind;

static const struct {
        const char *name;
        IsolatorType type;
        NameKind kind;
} wildcards[] = {
                {"@appc.io/all", ISOLATOR_SECCOMP_RETAIN_SET, NAME_MASK},
                {"@appc.io/empty", ISOLATOR_SECCOMP_REMOVE_SET, NAME_MASK},
                {SECCOMP_WITHIN_DEFAULT, ISOLATOR_SECCOMP_RETAIN_SET, NAME_WITHIN},
                {"@acnspawn/default", ISOLATOR_SECCOMP_RETAIN_SET, NAME_DEFAULT},
                {"@acnspawn/default", ISOLATOR_SECCOMP_REMOVE_SET, NAME_DEFAULT},
                {"@docker/default-whitelist", ISOLATOR_SECCOMP_RETAIN_SET, NAME_OLD},
                {"@docker/default-blacklist", ISOLATOR_SECCOMP_REMOVE_SET, NAME_OLD},
                {"@rkt/default-whitelist", ISOLATOR_SECCOMP_RETAIN_SET, NAME_OLD},
                {"@rkt/default-blacklist", ISOLATOR_SECCOMP_REMOVE_SET, NAME_OLD},
};

static NameKind classify(const Isolator *i, const char *name)
{
        for (size_t k = 0; k < ELEMENTSOF(wildcards); k++)
                if (wildcards[k].type == i->type && streq(wildcards[k].name, name))
                        return wildcards[k].kind;
        return seccomp_name_is_known(name) ? NAME_CALLS : NAME_UNKNOWN;
}

static bool has_kind(const Isolator *i, NameKind kind)
{
        STRV_FOREACH (name, i->set)
                if (classify(i, *name) == kind)
                        return true;
        return false;
}

static bool is_masked(const Isolator *i)
{
        return has_kind(i, NAME_MASK);
}

static bool disables_filter(const Isolator *i)
{
        return i->type == ISOLATOR_SECCOMP_RETAIN_SET && is_masked(i) && !has_kind(i, NAME_WITHIN);
}

/* --- Errors of blocked calls
 * ---------------------------------------------------------------------------- */

/* Aliases: the C library knows these numbers by another name. */
static const struct {
        const char *name;
        int number;
} errno_aliases[] = {
                {"EWOULDBLOCK", EWOULDBLOCK},
                {"EDEADLOCK", EDEADLOCK},
                {"ENOTSUP", ENOTSUP},
                {"EOPNOTSUPP", EOPNOTSUPP},
};

static int errno_from_name(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(errno_aliases); i++)
                if (streq(errno_aliases[i].name, name))
                        return errno_aliases[i].number;
        for (int n = 1; n <= ERRNO_MAX; n++)
                if (streq_ptr(strerrorname_np(n), name))
                        return n;
        return -ENOENT;
}

static int blocked_action(const Isolator *i, uint32_t *ret, Error *e)
{
        if (!i->errno_name) {
                *ret = SECCOMP_RET_KILL_PROCESS;
                return 0;
        }
        int n = errno_from_name(i->errno_name);
        if (n < 0)
                return error_set(e, -EINVAL, "Isolator %s: this system has no error code %s", i->name,
                                 i->errno_name);
        *ret = SECCOMP_ERRNO(n);
        return 0;
}

/* --- The isolators ------------------------------------------------------------------------------------- */

static void apply_set(const Isolator *i, const SeccompRules *defaults, uint32_t action, SeccompRules *r)
{
        STRV_FOREACH (name, i->set) {
                NameKind kind = classify(i, *name);
                if (kind == NAME_CALLS)
                        (void) seccomp_rules_set(r, *name, (SeccompRule){action, NULL, true});
                else if ((kind == NAME_DEFAULT || kind == NAME_OLD) &&
                         i->type == ISOLATOR_SECCOMP_RETAIN_SET)
                        seccomp_rules_allow_as(r, defaults);
        }
}

static int retain_rules(const Isolator *i, const SeccompRules *defaults, uint32_t blocked, SeccompRules *ret)
{
        int r = seccomp_rules_init(ret, blocked);

        if (r < 0)
                return r;
        (void) seccomp_rules_set(ret, LIFE_CYCLE, (SeccompRule){SECCOMP_RET_ALLOW, NULL, false});
        apply_set(i, defaults, SECCOMP_RET_ALLOW, ret);
        if (has_kind(i, NAME_WITHIN))
                seccomp_rules_limit(ret, defaults);
        return 0;
}

static const Isolator *find_seccomp_isolator(const IsolatorList *l)
{
        for (size_t i = l->n; i > 0; i--)
                if (l->items[i - 1].type == ISOLATOR_SECCOMP_RETAIN_SET ||
                    l->items[i - 1].type == ISOLATOR_SECCOMP_REMOVE_SET)
                        return &l->items[i - 1];
        return NULL;
}

/* Applies the isolator to the rules of the default filter. */
static int apply_isolator(const Isolator *i, SeccompRules *rules, Error *e)
{
        _cleanup_seccomp_rules_ SeccompRules retained = {};
        uint32_t blocked = 0;

        int r = seccomp_isolator_check(i, NULL, e);
        if (r < 0 || is_masked(i))
                return r;
        r = blocked_action(i, &blocked, e);
        if (r < 0)
                return r;
        if (i->type == ISOLATOR_SECCOMP_REMOVE_SET) {
                apply_set(i, rules, blocked, rules);
                return 0;
        }
        if (retain_rules(i, rules, blocked, &retained) < 0)
                return error_oom(e);
        SeccompRules t = *rules;
        *rules = retained;
        retained = t;
        return 0;
}

int seccomp_compile(const IsolatorList *isolators, uint64_t capabilities, SeccompProgram *ret, Error *e)
{
        _cleanup_seccomp_rules_ SeccompRules rules = {};
        const Isolator *i = find_seccomp_isolator(isolators);

        if (seccomp_rules_init_default(&rules, capabilities) < 0)
                return error_oom(e);
        if (i) {
                int r = apply_isolator(i, &rules, e);
                if (r < 0)
                        return r;
                if (disables_filter(i)) {
                        *ret = (SeccompProgram){};
                        return 0;
                }
        }
        int r = seccomp_rules_assemble(&rules, ret);
        if (r == -E2BIG)
                return error_set(e, r, "The system call filter is longer than the kernel accepts");
        return r < 0 ? error_oom(e) : 0;
}

bool seccomp_allows(const IsolatorList *isolators, uint64_t capabilities, const char *call)
{
        _cleanup_seccomp_rules_ SeccompRules rules = {};
        const Isolator *i = find_seccomp_isolator(isolators);

        if (i && disables_filter(i))
                return true;
        return seccomp_rules_init_default(&rules, capabilities) >= 0 &&
               (!i || apply_isolator(i, &rules, NULL) >= 0) && seccomp_rules_allow(&rules, call);
}

static int make_rules(const IsolatorList *l, uint64_t capabilities, SeccompRules *ret, Error *e)
{
        const Isolator *i = find_seccomp_isolator(l);

        if (seccomp_rules_init_default(ret, capabilities) < 0)
                return error_oom(e);
        return i ? apply_isolator(i, ret, e) : 0;
}

int seccomp_beyond(const IsolatorList *l, uint64_t capabilities, const IsolatorList *limit,
                   uint64_t limit_capabilities, char ***ret, Error *e)
{
        _cleanup_seccomp_rules_ SeccompRules own = {}, bound = {};

        int r = make_rules(l, capabilities, &own, e);
        if (r >= 0)
                r = make_rules(limit, limit_capabilities, &bound, e);
        if (r < 0)
                return r;
        return seccomp_rules_wider(&own, &bound, ret) < 0 ? error_oom(e) : 0;
}

bool seccomp_has_filter(const IsolatorList *isolators)
{
        const Isolator *i = find_seccomp_isolator(isolators);

        return !i || !disables_filter(i);
}

/* LIMITED: everything that the default filter removes or restricts, also what is in the set only through a
 * group of usual calls. */
static int compare_to_default(const Isolator *i, uint64_t capabilities, bool limited, char ***ret)
{
        _cleanup_seccomp_rules_ SeccompRules defaults = {}, wanted = {};
        _cleanup_strv_free_ char **calls = NULL;

        if (i->type != ISOLATOR_SECCOMP_RETAIN_SET)
                return 0;
        if (seccomp_rules_init_default(&defaults, capabilities) < 0 ||
            seccomp_rules_init(&wanted, SECCOMP_RET_KILL_PROCESS) < 0)
                return -ENOMEM;
        STRV_FOREACH (name, i->set)
                if (classify(i, *name) == NAME_CALLS &&
                    (limited || (*name)[0] != '@' || !seccomp_group_is_common(*name, USUAL, &defaults)))
                        (void) seccomp_rules_set(&wanted, *name, (SeccompRule){.action = SECCOMP_RET_ALLOW});
        int r = seccomp_rules_beyond(&wanted, &defaults, limited, &calls);
        if (r >= 0)
                *ret = TAKE_PTR(calls);
        return r;
}

int seccomp_beyond_default(const Isolator *i, uint64_t capabilities, char ***ret)
{
        return compare_to_default(i, capabilities, false, ret);
}

int seccomp_limited_by_default(const Isolator *i, uint64_t capabilities, char ***ret)
{
        return compare_to_default(i, capabilities, true, ret);
}

bool seccomp_is_within_default(const Isolator *i)
{
        return has_kind(i, NAME_WITHIN);
}

bool seccomp_names_all(const Isolator *i)
{
        return i->type == ISOLATOR_SECCOMP_RETAIN_SET && is_masked(i);
}

bool seccomp_names_life_cycle(const Isolator *i)
{
        STRV_FOREACH (name, i->set) {
                NameKind kind = classify(i, *name);
                if (kind == NAME_MASK || kind == NAME_DEFAULT || kind == NAME_OLD ||
                    streq(*name, LIFE_CYCLE) || streq(*name, USUAL))
                        return true;
        }
        return false;
}

/* The launcher's own last call is subject to the filter. */
static int check_start(const Isolator *i, Error *e)
{
        _cleanup_seccomp_rules_ SeccompRules rules = {};

        if (i->type != ISOLATOR_SECCOMP_REMOVE_SET)
                return 0;
        if (seccomp_rules_init(&rules, SECCOMP_RET_ALLOW) < 0)
                return error_oom(e);
        apply_set(i, NULL, SECCOMP_RET_KILL_PROCESS, &rules);
        if (seccomp_rules_allow(&rules, "execve"))
                return 0;
        (void) error_set(e, -EINVAL, "Isolator %s blocks execve, without which no app can be started",
                         i->name);
        return error_hint(e, -EINVAL, "Leave execve, and groups that have it, out of the set.");
}

static int all_unknown(const Isolator *i, Error *e)
{
        _cleanup_free_ char *names = strv_join(i->set, ", ");

        (void) error_set(e, -EINVAL, "Isolator %s names no system call that is known here: %s", i->name,
                         names ?: "");
        return error_hint(e, -EINVAL,
                          "Names are those of the kernel, as in 'openat'; @systemd/GROUP and "
                          "@acnspawn/default work as well.");
}

static int check_names(const Isolator *i, char ***ret_different, Error *e)
{
        _cleanup_strv_free_ char **different = NULL;
        size_t known = 0;

        STRV_FOREACH (name, i->set) {
                NameKind kind = classify(i, *name);
                known += kind != NAME_UNKNOWN;
                if (kind != NAME_UNKNOWN && kind != NAME_OLD)
                        continue;
                if (strv_extend(&different, *name) < 0)
                        return error_oom(e);
        }
        if (known == 0)
                return all_unknown(i, e);
        *ret_different = TAKE_PTR(different);
        return 0;
}

int seccomp_isolator_check(const Isolator *i, char ***ret_different, Error *e)
{
        _cleanup_strv_free_ char **different = NULL;
        uint32_t action;

        int r = blocked_action(i, &action, e);
        if (r < 0)
                return r;
        if (!is_masked(i)) {
                r = check_names(i, &different, e);
                if (r < 0)
                        return r;
                r = check_start(i, e);
                if (r < 0)
                        return r;
        }
        if (ret_different)
                *ret_different = TAKE_PTR(different);
        return 0;
}
