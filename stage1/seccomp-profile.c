/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters by a profile in the form of OCI.
 *
 * What the form leaves open is as with libseccomp and runc, which profiles are written for: names that are unknown have no
 * effect; of several rules for a call one without arguments decides, the first of them; the others are tried in their
 * order, and where none matches the default action holds; a rule that names an argument twice is one rule for each of its
 * arguments. Programs of other architectures are killed. Calls that are newer than this build fail with ENOSYS if the
 * default is an error, so that programs fall back on older ones.
 *
 * The comparisons of a call are tables that lead to each other: for a 64-bit argument one for either half, then the next
 * argument, and in the end the action, or, where something does not match, the next rule. */

#include <linux/audit.h>
#include <linux/capability.h>
#include <sys/utsname.h>

#include "stage1/seccomp-profile.h"
#include "stage1/seccomp-rules.h"

#define COMPARISONS_MAX 64U /* of one call: this bounds recursion, too */

/* The order is that of their numbers. */
static const char *const capability_names[] = {
                "CAP_CHOWN",
                "CAP_DAC_OVERRIDE",
                "CAP_DAC_READ_SEARCH",
                "CAP_FOWNER",
                "CAP_FSETID",
                "CAP_KILL",
                "CAP_SETGID",
                "CAP_SETUID",
                "CAP_SETPCAP",
                "CAP_LINUX_IMMUTABLE",
                "CAP_NET_BIND_SERVICE",
                "CAP_NET_BROADCAST",
                "CAP_NET_ADMIN",
                "CAP_NET_RAW",
                "CAP_IPC_LOCK",
                "CAP_IPC_OWNER",
                "CAP_SYS_MODULE",
                "CAP_SYS_RAWIO",
                "CAP_SYS_CHROOT",
                "CAP_SYS_PTRACE",
                "CAP_SYS_PACCT",
                "CAP_SYS_ADMIN",
                "CAP_SYS_BOOT",
                "CAP_SYS_NICE",
                "CAP_SYS_RESOURCE",
                "CAP_SYS_TIME",
                "CAP_SYS_TTY_CONFIG",
                "CAP_MKNOD",
                "CAP_LEASE",
                "CAP_AUDIT_WRITE",
                "CAP_AUDIT_CONTROL",
                "CAP_SETFCAP",
                "CAP_MAC_OVERRIDE",
                "CAP_MAC_ADMIN",
                "CAP_SYSLOG",
                "CAP_WAKE_ALARM",
                "CAP_BLOCK_SUSPEND",
                "CAP_AUDIT_READ",
                "CAP_PERFMON",
                "CAP_BPF",
                "CAP_CHECKPOINT_RESTORE",
};

static const struct {
        uint32_t number;
        const char *name, *go_name; /* as libseccomp calls it, and as Go does */
} architectures[] = {
                {AUDIT_ARCH_X86_64, "SCMP_ARCH_X86_64", "amd64"},
                {AUDIT_ARCH_I386, "SCMP_ARCH_X86", "386"},
                {AUDIT_ARCH_AARCH64, "SCMP_ARCH_AARCH64", "arm64"},
                {AUDIT_ARCH_ARM, "SCMP_ARCH_ARM", "arm"},
                {AUDIT_ARCH_PPC64LE, "SCMP_ARCH_PPC64LE", "ppc64le"},
                {AUDIT_ARCH_RISCV64, "SCMP_ARCH_RISCV64", "riscv64"},
                {AUDIT_ARCH_S390X, "SCMP_ARCH_S390X", "s390x"},
#ifdef AUDIT_ARCH_LOONGARCH64
                {AUDIT_ARCH_LOONGARCH64, "SCMP_ARCH_LOONGARCH64", "loong64"},
#endif
};

static size_t find_architecture(uint32_t number)
{
        size_t i = 0;

        while (i < ELEMENTSOF(architectures) && architectures[i].number != number)
                i++;
        return i;
}

static const char *native_go_name(void)
{
        size_t i = find_architecture(seccomp_native_architecture());

        return i < ELEMENTSOF(architectures) ? architectures[i].go_name : "";
}

/* The kernel's own is covered in any case. */
static bool is_covered(uint32_t number, const void *userdata)
{
        const SeccompProfile *p = userdata;
        size_t i = find_architecture(number), native = find_architecture(seccomp_native_architecture());

        if (number == seccomp_native_architecture())
                return true;
        if (i == ELEMENTSOF(architectures))
                return false;
        for (size_t k = 0; k < p->n_map; k++)
                if (native < ELEMENTSOF(architectures) &&
                    streq(p->map[k].architecture, architectures[native].name) &&
                    strv_contains(p->map[k].below, architectures[i].name))
                        return true;
        return strv_contains(p->architectures, architectures[i].name);
}

/* --- Conditions ---------------------------------------------------------------------------------------- */

static bool has_capability(uint64_t capabilities, const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(capability_names); i++)
                if (strcasecmp(capability_names[i], name) == 0)
                        return capabilities & UINT64_C(1) << i;
        return false;
}

static bool kernel_is_at_least(unsigned major, unsigned minor)
{
        struct utsname u;
        unsigned a = 0, b = 0;

        if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &a, &b) != 2)
                return false;
        return a > major || (a == major && b >= minor);
}

static bool has_kernel(const SeccompCondition *c)
{
        return c->kernel_major > 0 || c->kernel_minor > 0;
}

/* Everything that is to hold holds, and nothing of what must not. */
bool seccomp_profile_rule_applies(const SeccompProfileRule *rule, uint64_t capabilities)
{
        const SeccompCondition *in = &rule->includes, *out = &rule->excludes;

        if (strv_length(in->architectures) > 0 && !strv_contains(in->architectures, native_go_name()))
                return false;
        if (strv_contains(out->architectures, native_go_name()))
                return false;
        STRV_FOREACH (name, in->capabilities)
                if (!has_capability(capabilities, *name))
                        return false;
        STRV_FOREACH (name, out->capabilities)
                if (has_capability(capabilities, *name))
                        return false;
        if (has_kernel(in) && !kernel_is_at_least(in->kernel_major, in->kernel_minor))
                return false;
        return !has_kernel(out) || !kernel_is_at_least(out->kernel_major, out->kernel_minor);
}

/* --- Comparisons --------------------------------------------------------------------------------------- */

/* Where a comparison leads to. */
typedef struct Target {
        uint32_t action;
        const SeccompTable *table;
} Target;

typedef struct Node {
        struct Node *next;
        SeccompTable table;
        SeccompEntry entries[3];
} Node;

/* The rules with arguments of one call. */
typedef struct Chain {
        unsigned n; /* comparisons */
        bool there, allows;
        Target target; /* of the first */
} Chain;

typedef struct Compiler {
        uint64_t capabilities;
        SeccompRules rules;
        Chain *chains; /* of each call */
        Node *nodes;
} Compiler;

static void compiler_done(Compiler *c)
{
        for (Node *n = c->nodes, *next; n; n = next) {
                next = n->next;
                free(n);
        }
        free(c->chains);
        seccomp_rules_done(&c->rules);
}

static void add_entry(Node *n, uint64_t first, uint64_t last, Target t)
{
        if (first <= last)
                n->entries[n->table.n++] =
                                (SeccompEntry){(uint32_t) first, (uint32_t) last, t.action, t.table};
}

/* One word, compared with VALUE. */
static int compare_word(Compiler *c, uint32_t offset, uint32_t mask, uint32_t value, Target below,
                        Target equal, Target above, Target *ret)
{
        Node *n = calloc(1, sizeof(Node));

        if (!n)
                return -ENOMEM;
        n->next = c->nodes;
        c->nodes = n;
        n->table = (SeccompTable){.offset = offset, .mask = mask, .entries = n->entries, .shared = true};
        if (value > 0)
                add_entry(n, 0, (uint64_t) value - 1, below);
        add_entry(n, value, value, equal);
        if (value < UINT32_MAX)
                add_entry(n, (uint64_t) value + 1, UINT32_MAX, above);
        *ret = (Target){.table = &n->table};
        return 0;
}

/* The same with those bits alone; without any the result is known. */
static int compare_bits(Compiler *c, uint32_t offset, uint32_t mask, uint32_t value, Target yes, Target no,
                        Target *ret)
{
        if (mask == 0 || (value & ~mask) != 0) {
                *ret = value == 0 ? yes : no;
                return 0;
        }
        return compare_word(c, offset, mask, value, no, yes, no, ret);
}

static int compare_masked(Compiler *c, const SeccompArgument *a, uint32_t low, uint32_t high, Target yes,
                          Target no, Target *ret)
{
        Target inner;
        int r = compare_bits(c, low, (uint32_t) a->value, (uint32_t) a->value_two, yes, no, &inner);

        return r < 0 ? r
                     : compare_bits(c, high, (uint32_t) (a->value >> 32), (uint32_t) (a->value_two >> 32),
                                    inner, no, ret);
}

/* The upper half decides unless it is equal. */
static int compare_argument(Compiler *c, const SeccompArgument *a, Target yes, Target no, Target *ret)
{
        /* The results for arguments below, equal to, and above the value. */
        static const bool results[_SECCOMP_OPERATOR_MAX][3] = {
                        [SECCOMP_NE] = {true, false, true}, [SECCOMP_LT] = {true, false, false},
                        [SECCOMP_LE] = {true, true, false}, [SECCOMP_EQ] = {false, true, false},
                        [SECCOMP_GE] = {false, true, true}, [SECCOMP_GT] = {false, false, true},
        };
        const bool *is = results[a->op];
        uint32_t low = SECCOMP_ARGUMENT(a->index), high = low ^ 4U;
        Target below = is[0] ? yes : no, equal = is[1] ? yes : no, above = is[2] ? yes : no, inner;

        if (a->op == SECCOMP_MASKED_EQ)
                return compare_masked(c, a, low, high, yes, no, ret);
        int r = compare_word(c, low, 0, (uint32_t) a->value, below, equal, above, &inner);
        return r < 0 ? r : compare_word(c, high, 0, (uint32_t) (a->value >> 32), below, inner, above, ret);
}

/* --- Rules --------------------------------------------------------------------------------------------- */

/* Puts N arguments of RULE, all of which have to match, in front of what is there for the call. */
static int add_comparisons(Compiler *c, Chain *chain, const SeccompProfileRule *rule,
                           const SeccompArgument *arguments, size_t n)
{
        const Target no = chain->target;
        Target next = {.action = rule->action};

        for (size_t i = n; i > 0; i--) {
                int r = compare_argument(c, &arguments[i - 1], next, no, &next);
                if (r < 0)
                        return r;
        }
        chain->target = next;
        chain->there = true;
        chain->allows = chain->allows || rule->action == SECCOMP_RET_ALLOW;
        return 0;
}

static bool names_one_twice(const SeccompProfileRule *rule)
{
        for (size_t i = 0; i < rule->n_arguments; i++)
                for (size_t k = 0; k < i; k++)
                        if (rule->arguments[i].index == rule->arguments[k].index)
                                return true;
        return false;
}

static int add_conditional(Compiler *c, const SeccompProfile *p, const SeccompProfileRule *rule,
                           const char *name, Error *e)
{
        SeccompRule *call = seccomp_rules_find(&c->rules, name);
        int r = 0;

        if (!call || call->named)
                return 0;
        Chain *chain = &c->chains[call - c->rules.items];
        if (!chain->there)
                chain->target = (Target){.action = p->default_action};
        chain->n += (unsigned) rule->n_arguments;
        if (chain->n > COMPARISONS_MAX)
                return error_set(e, -E2BIG,
                                 "The profile of system calls compares more than %u arguments of %s",
                                 COMPARISONS_MAX, name);
        if (!names_one_twice(rule))
                r = add_comparisons(c, chain, rule, rule->arguments, rule->n_arguments);
        else
                for (size_t i = rule->n_arguments; r >= 0 && i > 0; i--)
                        r = add_comparisons(c, chain, rule, &rule->arguments[i - 1], 1);
        return r < 0 ? error_oom(e) : 0;
}

static void add_unconditional(Compiler *c, const SeccompProfileRule *rule, const char *name)
{
        SeccompRule *call = seccomp_rules_find(&c->rules, name);

        if (call && !call->named)
                *call = (SeccompRule){.action = rule->action, .named = true};
}

/* The last rule comes first, as each is put in front. */
static int add_rules(Compiler *c, const SeccompProfile *p, Error *e)
{
        int r = 0;

        for (size_t i = 0; i < p->n_rules; i++)
                if (p->rules[i].n_arguments == 0 &&
                    seccomp_profile_rule_applies(&p->rules[i], c->capabilities))
                        STRV_FOREACH (name, p->rules[i].names)
                                add_unconditional(c, &p->rules[i], *name);
        for (size_t i = p->n_rules; r >= 0 && i > 0; i--) {
                const SeccompProfileRule *rule = &p->rules[i - 1];
                if (rule->n_arguments == 0 || !seccomp_profile_rule_applies(rule, c->capabilities))
                        continue;
                STRV_FOREACH (name, rule->names)
                        if (r >= 0)
                                r = add_conditional(c, p, rule, *name, e);
        }
        return r;
}

static bool is_error(uint32_t action)
{
        return (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
}

static int compile(Compiler *c, const SeccompProfile *p, uint64_t capabilities, Error *e)
{
        c->capabilities = capabilities;
        if (seccomp_rules_init(&c->rules, p->default_action) < 0 ||
            !(c->chains = calloc(seccomp_rules_count(), sizeof(Chain))))
                return error_oom(e);
        if (is_error(p->default_action))
                c->rules.otherwise = SECCOMP_ERRNO(ENOSYS);
        int r = add_rules(c, p, e);
        for (size_t i = 0; r >= 0 && i < seccomp_rules_count(); i++) {
                const Chain *chain = &c->chains[i];
                if (chain->there)
                        c->rules.items[i] = (SeccompRule){.action = chain->target.table && chain->allows
                                                                                    ? SECCOMP_RET_ALLOW
                                                                                    : chain->target.action,
                                                          .check = chain->target.table};
        }
        return r;
}

/* The launcher's own last call is subject to the filter. */
static bool lets_start(Compiler *c)
{
        const SeccompRule *rule = seccomp_rules_find(&c->rules, "execve");

        return !rule || rule->check || rule->action == SECCOMP_RET_ALLOW ||
               rule->action == SECCOMP_RET_LOG ||
               (rule->action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_TRACE;
}

int seccomp_profile_compile(const SeccompProfile *p, uint64_t capabilities, SeccompProgram *ret, Error *e)
{
        _cleanup_(compiler_done) Compiler c = {};

        int r = compile(&c, p, capabilities, e);
        if (r < 0)
                return r;
        if (!lets_start(&c))
                return error_set(
                                e, -EINVAL,
                                "The profile of system calls blocks execve, without which no app can be started");
        r = seccomp_rules_assemble_for(&c.rules, is_covered, p, ret);
        if (r == -E2BIG)
                return error_set(
                                e, r,
                                "The profile of system calls makes a filter that is longer than the kernel accepts");
        return r < 0 ? error_oom(e) : 0;
}

bool seccomp_profile_allows(const SeccompProfile *p, uint64_t capabilities, const char *call)
{
        _cleanup_(compiler_done) Compiler c = {};

        return compile(&c, p, capabilities, NULL) < 0 || seccomp_rules_allow(&c.rules, call);
}
