/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From rules by name to a program: expands systemd's groups, and maps calls to their numbers on each
 * architecture.
 *
 * A kernel runs programs of more than one architecture, with other numbers for the same calls; the rules
 * hold for all of them. Where an architecture has multiplexed calls (socketcall and ipc of 32-bit x86), the
 * individual calls are distinguished by the first argument. A call from an architecture that is not in the
 * tables, or from x32, counts as a number without a name.
 */

#include "stage1/seccomp-rules.h"

#include "seccomp-tables.h"

#define GROUP "@systemd/"
#define SUBCALLS_MAX 24U

typedef struct Subcall {
        uint32_t number;
        const char *name;
} Subcall;

static const struct {
        const char *name;
        uint32_t mask; /* bits of the first argument that select the call */
        Subcall subcalls[SUBCALLS_MAX];
} multiplexers[] = {
                {"socketcall",
                 0,
                 {
                                 {1, "socket"},    {2, "bind"},        {3, "connect"},     {4, "listen"},
                                 {5, "accept"},    {6, "getsockname"}, {7, "getpeername"}, {8, "socketpair"},
                                 {9, "send"},      {10, "recv"},       {11, "sendto"},     {12, "recvfrom"},
                                 {13, "shutdown"}, {14, "setsockopt"}, {15, "getsockopt"}, {16, "sendmsg"},
                                 {17, "recvmsg"},  {18, "accept4"},    {19, "recvmmsg"},   {20, "sendmmsg"},
                 }},
                {"ipc",
                 0xffff,
                 {
                                 {1, "semop"},
                                 {2, "semget"},
                                 {3, "semctl"},
                                 {4, "semtimedop"},
                                 {11, "msgsnd"},
                                 {12, "msgrcv"},
                                 {13, "msgget"},
                                 {14, "msgctl"},
                                 {21, "shmat"},
                                 {22, "shmdt"},
                                 {23, "shmget"},
                                 {24, "shmctl"},
                 }},
};

/* One architecture's table while the program is assembled. */
typedef struct Architecture {
        SeccompEntry entries[SECCOMP_N_CALLS + 1];
        SeccompEntry sub_entries[ELEMENTSOF(multiplexers)][SUBCALLS_MAX];
        SeccompTable sub_tables[ELEMENTSOF(multiplexers)];
        SeccompTable table;
} Architecture;

void seccomp_rules_done(SeccompRules *r)
{
        free(r->items);
        *r = (SeccompRules){};
}

int seccomp_rules_init(SeccompRules *r, uint32_t action)
{
        SeccompRule *items = calloc(SECCOMP_N_CALLS, sizeof(SeccompRule));

        if (!items)
                return -ENOMEM;
        for (size_t i = 0; i < SECCOMP_N_CALLS; i++)
                items[i].action = action;
        *r = (SeccompRules){.items = items, .otherwise = action};
        return 0;
}

static int compare_name(const void *name, const void *call)
{
        const __typeof__(seccomp_calls[0]) *c = call;

        return strcmp(name, c->name);
}

static int call_find(const char *name)
{
        const __typeof__(seccomp_calls[0]) *c = bsearch(name, seccomp_calls, SECCOMP_N_CALLS,
                                                        sizeof(seccomp_calls[0]), compare_name);

        return c ? (int) (c - seccomp_calls) : -ENOENT;
}

/* NAME is without the prefix here. */
static int group_find(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(seccomp_groups); i++)
                if (streq(seccomp_groups[i].name, name))
                        return (int) i;
        return -ENOENT;
}

bool seccomp_name_is_known(const char *name)
{
        const char *group = startswith(name, GROUP);

        return (group ? group_find(group) : call_find(name)) >= 0;
}

int seccomp_rules_set(SeccompRules *r, const char *name, SeccompRule rule)
{
        const char *group = startswith(name, GROUP);
        int i = group ? group_find(group) : call_find(name);

        if (i < 0)
                return i;
        if (!group)
                r->items[i] = rule;
        else
                for (size_t k = 0; k < seccomp_groups[i].n; k++)
                        r->items[seccomp_groups[i].calls[k]] = rule;
        return 0;
}

static bool allows(const SeccompRule *rule)
{
        return rule->action == SECCOMP_RET_ALLOW;
}

bool seccomp_rules_allow(const SeccompRules *r, const char *call)
{
        int i = call_find(call);

        return i >= 0 && allows(&r->items[i]);
}

static bool is_missing(const SeccompRule *rule)
{
        return rule->action == SECCOMP_ERRNO(ENOSYS);
}

void seccomp_rules_allow_as(SeccompRules *r, const SeccompRules *from)
{
        for (size_t i = 0; i < SECCOMP_N_CALLS; i++)
                if ((allows(&from->items[i]) || is_missing(&from->items[i])) && !allows(&r->items[i]))
                        r->items[i] = from->items[i];
        r->otherwise = from->otherwise;
}

void seccomp_rules_limit(SeccompRules *r, const SeccompRules *limit)
{
        for (size_t i = 0; i < SECCOMP_N_CALLS; i++)
                if (allows(&r->items[i]))
                        r->items[i] = limit->items[i];
}

static bool refuses(const SeccompRule *rule)
{
        return !rule->check && !allows(rule) && !is_missing(rule);
}

int seccomp_rules_beyond(const SeccompRules *r, const SeccompRules *limit, bool limited, char ***ret)
{
        for (size_t i = 0; i < SECCOMP_N_CALLS; i++) {
                const SeccompRule *l = &limit->items[i];
                if (!allows(&r->items[i]) || (limited ? allows(l) && !l->check : !refuses(l)))
                        continue;
                if (strv_extend(ret, seccomp_calls[i].name) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int seccomp_rules_wider(const SeccompRules *r, const SeccompRules *limit, char ***ret)
{
        for (size_t i = 0; i < SECCOMP_N_CALLS; i++) {
                const SeccompRule *l = &limit->items[i], *own = &r->items[i];
                if (!allows(own) || (allows(l) && (!l->check || l->check == own->check)))
                        continue;
                if (strv_extend(ret, seccomp_calls[i].name) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static bool group_has(int group, uint16_t call)
{
        for (size_t i = 0; i < seccomp_groups[group].n; i++)
                if (seccomp_groups[group].calls[i] == call)
                        return true;
        return false;
}

bool seccomp_group_is_common(const char *group, const char *of, const SeccompRules *rules)
{
        int g = group_find(group + strlen(GROUP)), o = group_find(of + strlen(GROUP));
        bool some = false;

        for (size_t i = 0; g >= 0 && o >= 0 && i < seccomp_groups[g].n; i++) {
                uint16_t call = seccomp_groups[g].calls[i];
                if (!group_has(o, call))
                        return false;
                some = some || !refuses(&rules->items[call]);
        }
        return some;
}

/* The arguments are behind a pointer here, which no filter can follow: a call whose arguments would have to
 * be checked is refused with the error of kernels that were built without it. 64-bit programs can make
 * 32-bit calls as well, so that allowing it would bypass the check for all. */
static uint32_t subcall_action(const SeccompRules *r, const char *name, uint32_t otherwise)
{
        int i = call_find(name);

        if (i < 0)
                return otherwise;
        return r->items[i].check ? SECCOMP_ERRNO(ENOSYS) : r->items[i].action;
}

/* Where ENTRY is a multiplexed call whose individual calls have different actions: lets the first argument
 * decide. */
static void split_multiplexer(const SeccompRules *r, Architecture *a, const char *name, SeccompEntry *entry)
{
        size_t m = 0;

        while (m < ELEMENTSOF(multiplexers) && !streq(multiplexers[m].name, name))
                m++;
        if (m == ELEMENTSOF(multiplexers))
                return;

        SeccompTable *t = &a->sub_tables[m];
        bool same = true;

        *t = (SeccompTable){SECCOMP_ARGUMENT(0),
                            multiplexers[m].mask,
                            entry->action,
                            a->sub_entries[m],
                            0,
                            false};
        for (const Subcall *s = multiplexers[m].subcalls; t->n < SUBCALLS_MAX && s->name; s++) {
                uint32_t action = subcall_action(r, s->name, entry->action);
                a->sub_entries[m][t->n++] = (SeccompEntry){s->number, s->number, action, NULL};
                same = same && action == entry->action;
        }
        if (!same)
                entry->table = t;
}

static int compare_entries(const void *a, const void *b)
{
        const SeccompEntry *x = a, *y = b;

        return x->first < y->first ? -1 : x->first > y->first;
}

static void fill_architecture(const SeccompRules *r, size_t which, Architecture *a)
{
        size_t n = 0;

        for (size_t i = 0; i < SECCOMP_N_CALLS; i++) {
                const SeccompRule *rule = &r->items[i];
                int32_t number = seccomp_calls[i].number[which];
                if (number < 0)
                        continue;
                SeccompEntry *e = &a->entries[n++];
                *e = (SeccompEntry){(uint32_t) number, (uint32_t) number, rule->action, rule->check};
                if (!rule->named && !rule->check)
                        split_multiplexer(r, a, seccomp_calls[i].name, e);
        }
        /* A debugger cancels a call by setting this number; the kernel does nothing for it. */
        a->entries[n++] = (SeccompEntry){UINT32_MAX, UINT32_MAX, SECCOMP_RET_ALLOW, NULL};
        qsort(a->entries, n, sizeof(a->entries[0]), compare_entries);
        a->table = (SeccompTable){offsetof(struct seccomp_data, nr), 0, r->otherwise, a->entries, n, false};
}

SeccompRule *seccomp_rules_find(SeccompRules *r, const char *name)
{
        int i = call_find(name);

        return i < 0 ? NULL : &r->items[i];
}

size_t seccomp_rules_count(void)
{
        return SECCOMP_N_CALLS;
}

uint32_t seccomp_native_architecture(void)
{
        return seccomp_architectures[0];
}

int seccomp_rules_assemble(const SeccompRules *r, SeccompProgram *ret)
{
        return seccomp_rules_assemble_for(r, NULL, NULL, ret);
}

int seccomp_rules_assemble_for(const SeccompRules *r,
                               bool (*is_covered)(uint32_t architecture, const void *userdata),
                               const void *userdata, SeccompProgram *ret)
{
        _cleanup_free_ Architecture *architectures = calloc(SECCOMP_N_ARCHITECTURES, sizeof(Architecture));
        SeccompEntry entries[SECCOMP_N_ARCHITECTURES];

        if (!architectures)
                return -ENOMEM;
        for (size_t i = 0; i < SECCOMP_N_ARCHITECTURES; i++) {
                fill_architecture(r, i, &architectures[i]);
                entries[i] = (SeccompEntry){seccomp_architectures[i], seccomp_architectures[i], 0,
                                            &architectures[i].table};
                if (is_covered && !is_covered(seccomp_architectures[i], userdata)) {
                        entries[i].action = SECCOMP_RET_KILL_PROCESS;
                        entries[i].table = NULL;
                }
        }
        qsort(entries, ELEMENTSOF(entries), sizeof(entries[0]), compare_entries);
        SeccompTable root = {offsetof(struct seccomp_data, arch),
                             0,
                             is_covered ? SECCOMP_RET_KILL_PROCESS : r->otherwise,
                             entries,
                             ELEMENTSOF(entries),
                             false};
        return seccomp_program_assemble(&root, ret);
}
