/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs while acnspawn is built: writes the header with the names, numbers and groups of system calls.
 *
 *     seccomp-generate CPU-FAMILY < output of "systemd-analyze syscall-filter" > seccomp-tables.h
 *
 * The groups are systemd's, the numbers libseccomp's; both are kept up to date with the kernel, and are
 * queried at build time so that neither is needed at run time: looking names up in these tables and
 * assembling a filter takes microseconds. Calls that are newer than the build's libseccomp come from a table
 * below; since Linux 5.1 a new call has the same number everywhere.
 */

#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 1024U
#define GROUPS_MAX 64U
#define ARCHITECTURES_MAX 2U
#define NUMBERS_MAX 1024U
/* The numbers of calls that only 32-bit ARM has. */
#define ARM_PRIVATE_FIRST 0x0f0000U
#define ARM_PRIVATE_LAST 0x0f00ffU

typedef struct Call {
        char *name;
        int number[ARCHITECTURES_MAX]; /* -1: does not exist there */
} Call;

typedef struct Group {
        char *name;
        bool member[CALLS_MAX];
        bool includes[GROUPS_MAX];
} Group;

/* The architectures whose programs a kernel of this family runs, in libseccomp's words; the first is its
 * own. */
static const struct {
        const char *cpu_family;
        const char *names[ARCHITECTURES_MAX];
} families[] = {
                {"x86_64", {"x86_64", "x86"}},
                {"x86", {"x86"}},
                {"aarch64", {"aarch64", "arm"}},
                {"arm", {"arm"}},
                {"ppc64", {"ppc64le"}},
                {"riscv64", {"riscv64"}},
                {"s390x", {"s390x"}},
                {"loongarch64", {"loongarch64"}},
};

static const struct {
        const char *name;
        int number;
        const char *architecture; /* NULL: everywhere */
} newer[] = {
                {"uretprobe", 335, "x86_64"},
                {"uprobe", 336, "x86_64"},
                {"process_mrelease", 448},
                {"futex_waitv", 449},
                {"set_mempolicy_home_node", 450},
                {"cachestat", 451},
                {"fchmodat2", 452},
                {"map_shadow_stack", 453},
                {"futex_wake", 454},
                {"futex_wait", 455},
                {"futex_requeue", 456},
                {"statmount", 457},
                {"listmount", 458},
                {"lsm_get_self_attr", 459},
                {"lsm_set_self_attr", 460},
                {"lsm_list_modules", 461},
                {"mseal", 462},
                {"setxattrat", 463},
                {"getxattrat", 464},
                {"listxattrat", 465},
                {"removexattrat", 466},
                {"open_tree_attr", 467},
                {"file_getattr", 468},
                {"file_setattr", 469},
};

static Call calls[CALLS_MAX];
static size_t n_calls;
static Group groups[GROUPS_MAX];
static size_t n_groups;
static const char *architectures[ARCHITECTURES_MAX];
static uint32_t tokens[ARCHITECTURES_MAX];
static size_t n_architectures;

static _Noreturn void fail(const char *what, const char *which)
{
        fprintf(stderr, "seccomp-generate: %s: %s\n", what, which);
        exit(EXIT_FAILURE);
}

static char *copy(const char *s)
{
        char *c = strdup(s);

        if (!c)
                fail("Out of memory", s);
        return c;
}

static Call *call_get(const char *name)
{
        for (size_t i = 0; i < n_calls; i++)
                if (strcmp(calls[i].name, name) == 0)
                        return &calls[i];
        if (n_calls == CALLS_MAX)
                fail("Too many system calls", name);
        calls[n_calls] = (Call){.name = copy(name)};
        for (size_t a = 0; a < ARCHITECTURES_MAX; a++)
                calls[n_calls].number[a] = -1;
        return &calls[n_calls++];
}

static size_t group_get(const char *name)
{
        for (size_t i = 0; i < n_groups; i++)
                if (strcmp(groups[i].name, name) == 0)
                        return i;
        if (n_groups == GROUPS_MAX)
                fail("Too many groups", name);
        groups[n_groups].name = copy(name);
        return n_groups++;
}

static void choose_architectures(const char *cpu_family)
{
        for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
                if (strcmp(families[i].cpu_family, cpu_family) != 0)
                        continue;
                for (; n_architectures < ARCHITECTURES_MAX && families[i].names[n_architectures];
                     n_architectures++) {
                        architectures[n_architectures] = families[i].names[n_architectures];
                        tokens[n_architectures] = seccomp_arch_resolve_name(architectures[n_architectures]);
                        if (tokens[n_architectures] == 0)
                                fail("libseccomp does not know the architecture",
                                     architectures[n_architectures]);
                }
                return;
        }
        fail("No list of system calls for this kind of CPU", cpu_family);
}

static void read_number(size_t a, uint32_t number)
{
        char *name = seccomp_syscall_resolve_num_arch(tokens[a], (int) number);

        if (name)
                call_get(name)->number[a] = (int) number;
        free(name);
}

static void read_numbers(void)
{
        for (size_t a = 0; a < n_architectures; a++) {
                for (uint32_t i = 0; i < NUMBERS_MAX; i++)
                        read_number(a, i);
                for (uint32_t i = ARM_PRIVATE_FIRST;
                     strcmp(architectures[a], "arm") == 0 && i <= ARM_PRIVATE_LAST; i++)
                        read_number(a, i);
        }
}

static void add_newer(void)
{
        for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
                Call *c = call_get(newer[i].name);
                for (size_t a = 0; a < n_architectures; a++)
                        if (c->number[a] < 0 &&
                            (!newer[i].architecture || strcmp(newer[i].architecture, architectures[a]) == 0))
                                c->number[a] = newer[i].number;
        }
}

/* A group begins with an unindented "@name" line; its calls, and groups that it includes, are indented. */
static void read_groups(FILE *f)
{
        char line[256];
        Group *g = NULL;

        while (fgets(line, sizeof(line), f)) {
                char *word = line + strspn(line, " \t");
                word[strcspn(word, " \t\n")] = 0;
                if (!*word || *word == '#')
                        continue;
                if (*word == '@' && word == line)
                        g = &groups[group_get(word + 1)];
                else if (!g)
                        fail("The list of groups begins without a group", word);
                else if (*word == '@')
                        g->includes[group_get(word + 1)] = true;
                else
                        g->member[call_get(word) - calls] = true;
        }
        if (n_groups == 0)
                fail("There are no groups", "systemd-analyze syscall-filter printed none");
}

/* Adds the members of included groups until nothing changes any more; a group may be printed before those it
 * includes. */
static void merge_included(void)
{
        for (bool changed = true; changed;) {
                changed = false;
                for (size_t g = 0; g < n_groups; g++)
                        for (size_t i = 0; i < n_groups; i++)
                                for (size_t c = 0; groups[g].includes[i] && c < n_calls; c++)
                                        if (groups[i].member[c] && !groups[g].member[c])
                                                groups[g].member[c] = changed = true;
        }
}

static int compare_calls(const void *a, const void *b)
{
        return strcmp(calls[*(const size_t *) a].name, calls[*(const size_t *) b].name);
}

static void write_group(const Group *g, const size_t *order)
{
        size_t n = 0;

        printf("        {\"%s\", (const uint16_t[]){", g->name);
        for (size_t i = 0; i < n_calls; i++)
                if (g->member[order[i]])
                        printf("%s%zu", n++ > 0 ? ", " : "", i);
        printf("}, %zu},\n", n);
}

static void write_header(const size_t *order)
{
        printf("/* Generated by seccomp-generate.c. */\n#pragma once\n\n");
        printf("#define SECCOMP_N_CALLS %zuU\n#define SECCOMP_N_ARCHITECTURES %zuU\n\n", n_calls,
               n_architectures);
        printf("static const uint32_t seccomp_architectures[SECCOMP_N_ARCHITECTURES] = {");
        for (size_t a = 0; a < n_architectures; a++)
                printf("%s0x%08x", a > 0 ? ", " : "", tokens[a]);
        printf("};\n\nstatic const struct {\n        const char *name;\n        int32_t "
               "number[SECCOMP_N_ARCHITECTURES];\n"
               "} seccomp_calls[SECCOMP_N_CALLS] = {\n");
        for (size_t i = 0; i < n_calls; i++) {
                printf("        {\"%s\", {", calls[order[i]].name);
                for (size_t a = 0; a < n_architectures; a++)
                        printf("%s%d", a > 0 ? ", " : "", calls[order[i]].number[a]);
                printf("}},\n");
        }
        printf("};\n\nstatic const struct {\n        const char *name;\n        const uint16_t *calls;\n    "
               "    size_t n;\n"
               "} seccomp_groups[] = {\n");
        for (size_t g = 0; g < n_groups; g++)
                write_group(&groups[g], order);
        printf("};\n");
}

int main(int argc, char *argv[])
{
        static size_t order[CALLS_MAX];

        if (argc != 2)
                fail("Usage", "seccomp-generate CPU-FAMILY < groups > header");
        choose_architectures(argv[1]);
        read_numbers();
        read_groups(stdin);
        add_newer();
        merge_included();
        for (size_t i = 0; i < n_calls; i++)
                order[i] = i;
        qsort(order, n_calls, sizeof(order[0]), compare_calls);
        write_header(order);
        return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
