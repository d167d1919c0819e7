/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The assembler of system call filters.
 *
 * A table becomes: load a word, then a binary search over ranges of it. Calls of neighbouring numbers mostly
 * have the same action, so that the default filter has three hundred instructions for two architectures, of
 * which about twelve run for a call. The length matters where a program is installed: the kernel checks it,
 * translates it and tries it on every call number, for each process that is started in an app.
 *
 * Jumps of filters only go forward, so the program is assembled from its end: the target of a jump is known
 * by then, and an existing action instruction within reach is used again. Positions are counted from the end
 * until the whole program is reversed.
 *
 * Recursion is bounded: by the nesting of tables, which this project's own code writes, or bounds (a table of a
 * profile may lead to one of the next condition), and by the logarithm of their length.
 *
 * libseccomp is not used for this, only for the numbers of calls (seccomp-generate.c). Version 2.5.4 was
 * compared, with the rules of the default filter for x86-64 and 32-bit x86; the second column is with its
 * binary tree (SCMP_FLTATR_CTL_OPTIMIZE=2):
 *
 *                                               libseccomp    here
 *     instructions                             1055    1265    296
 *     building it, once per app prepared, ms     33      60    0.1    (preparing a small pod: 7)
 *     installing it, once per process, ms       0.9     0.3    0.1    (starting one more app: 4)
 *     an allowed call, ns                       125     125    125    (the kernel remembers the decision)
 *     a refused call, ns                        185     130    120
 *
 * A cache could save most of the time of building. But the filter would also be weaker or different, since
 * rules of libseccomp cannot express it:
 *   - For 32-bit x86 a rule for socket() is applied to socketcall() as well, without its check of the
 *     arguments: a rule that allows AF_UNIX allows all families there, also to 64-bit programs, which can
 *     make 32-bit calls. There is no way to limit the rule to the one or to the other call.
 *   - Arguments for which there is no rule get the action of unknown calls, and a rule compares an argument
 *     only once: "all other personalities fail with EPERM" cannot be said.
 *   - There can be no rule for the number by which a debugger cancels a call, so that a filter that kills
 *     would kill the program then, nor one for a 32-bit call that is newer than the library.
 */

#include "stage1/seccomp-program.h"

#define JUMP_MAX 255U /* of a conditional jump */

typedef struct Range {
        uint32_t first;
        uint32_t action;
        const SeccompTable *table;
} Range;

void seccomp_program_done(SeccompProgram *p)
{
        free(p->items);
        free(p->places);
        *p = (SeccompProgram){};
}

/* Adds an instruction in front of the existing ones; returns its position. */
static int add(SeccompProgram *p, struct sock_filter instruction)
{
        if (GREEDY_REALLOC(p->items, p->allocated, p->n + 1) < 0)
                return -ENOMEM;
        p->items[p->n++] = instruction;
        return (int) p->n - 1;
}

/* Values without an entry get a range as well, and adjacent ranges of the same action are merged. */
static void add_range(Range *ranges, size_t *n, uint32_t first, uint32_t action, const SeccompTable *table)
{
        if (*n > 0 && !table && !ranges[*n - 1].table && ranges[*n - 1].action == action)
                return;
        ranges[(*n)++] = (Range){first, action, table};
}

static int ranges_of_table(const SeccompTable *t, Range **ret, size_t *ret_n)
{
        Range *ranges = calloc(2 * t->n + 1, sizeof(Range));
        uint64_t next = 0;
        size_t n = 0;

        if (!ranges)
                return -ENOMEM;
        for (size_t i = 0; i < t->n; i++) {
                if (t->entries[i].first > next)
                        add_range(ranges, &n, (uint32_t) next, t->otherwise, NULL);
                add_range(ranges, &n, t->entries[i].first, t->entries[i].action, t->entries[i].table);
                next = (uint64_t) t->entries[i].last + 1;
        }
        if (next <= UINT32_MAX)
                add_range(ranges, &n, (uint32_t) next, t->otherwise, NULL);
        *ret = ranges;
        *ret_n = n;
        return 0;
}

static size_t distance(const SeccompProgram *p, int place)
{
        return p->n - 1 - (size_t) place;
}

static int add_action(SeccompProgram *p, uint32_t action)
{
        for (int i = (int) p->n - 1; i >= 0 && distance(p, i) < JUMP_MAX; i--)
                if (p->items[i].code == (BPF_RET | BPF_K) && p->items[i].k == action)
                        return i;
        return add(p, (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, action));
}

/* A position that continues at PLACE and that a jump can reach, even if one more instruction is inserted. */
static int bring_near(SeccompProgram *p, int place)
{
        if (distance(p, place) < JUMP_MAX)
                return place;
        if (p->items[place].code == (BPF_RET | BPF_K))
                return add(p, p->items[place]);
        return add(p, (struct sock_filter) BPF_STMT(BPF_JMP | BPF_JA, (uint32_t) distance(p, place)));
}

/* The same for code that continues into PLACE without a jump. */
static int bring_next(SeccompProgram *p, int place)
{
        if (distance(p, place) == 0)
                return place;
        return add(p, (struct sock_filter) BPF_STMT(BPF_JMP | BPF_JA, (uint32_t) distance(p, place)));
}

static int add_branch(SeccompProgram *p, uint32_t first, int below, int from)
{
        from = bring_near(p, from);
        if (from < 0)
                return from;
        below = bring_near(p, below);
        if (below < 0)
                return below;
        return add(p,
                   (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first,
                                                 (uint8_t) distance(p, from), (uint8_t) distance(p, below)));
}

static int add_table(SeccompProgram *p, const SeccompTable *t);

static int add_ranges(SeccompProgram *p, const Range *ranges, size_t n)
{
        if (n == 1)
                return ranges[0].table ? add_table(p, ranges[0].table) : add_action(p, ranges[0].action);

        size_t half = n / 2;
        int from = add_ranges(p, ranges + half, n - half);
        if (from < 0)
                return from;
        int below = add_ranges(p, ranges, half);
        return below < 0 ? below : add_branch(p, ranges[half].first, below, from);
}

static int add_new_table(SeccompProgram *p, const SeccompTable *t)
{
        _cleanup_free_ Range *ranges = NULL;
        size_t n;

        int r = ranges_of_table(t, &ranges, &n);
        if (r < 0)
                return r;
        r = add_ranges(p, ranges, n);
        if (r < 0 || n == 1)
                return r;
        r = bring_next(p, r);
        if (r < 0)
                return r;
        if (t->mask != 0) {
                r = add(p, (struct sock_filter) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, t->mask));
                if (r < 0)
                        return r;
        }
        return add(p, (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, t->offset));
}

static int add_table(SeccompProgram *p, const SeccompTable *t)
{
        for (size_t i = 0; t->shared && i < p->n_places; i++)
                if (p->places[i].table == t)
                        return p->places[i].place;
        int r = add_new_table(p, t);
        if (r < 0 || !t->shared)
                return r;
        if (p->n > BPF_MAXINSNS)
                return -E2BIG;
        if (GREEDY_REALLOC(p->places, p->places_allocated, p->n_places + 1) < 0)
                return -ENOMEM;
        p->places[p->n_places++] = (SeccompPlace){t, r};
        return r;
}

static void reverse_instructions(SeccompProgram *p)
{
        for (size_t i = 0, k = p->n; i + 1 < k; i++, k--) {
                struct sock_filter t = p->items[i];
                p->items[i] = p->items[k - 1];
                p->items[k - 1] = t;
        }
}

int seccomp_program_assemble(const SeccompTable *t, SeccompProgram *ret)
{
        _cleanup_seccomp_program_ SeccompProgram p = {};

        int r = add_table(&p, t);
        if (r < 0)
                return r;
        r = bring_next(&p, r);
        if (r < 0)
                return r;
        reverse_instructions(&p);
        if (p.n > BPF_MAXINSNS)
                return -E2BIG;
        *ret = p;
        p = (SeccompProgram){};
        return 0;
}
