/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The assembler of filters: for all tables, the decisions of programs are those of the tables. The programs
 * are run by an interpreter; test-seccomp-filter shows that the kernel accepts such programs. */

#include "tests/unit/filter-machine.h"
#include "tests/unit/test.h"

#define ACTION(n) SECCOMP_RET_ERRNO + (uint32_t) (n)
#define NR ((uint32_t) offsetof(struct seccomp_data, nr))

static uint32_t word_at(const struct seccomp_data *data, uint32_t offset)
{
        uint32_t w;

        memcpy(&w, (const char *) data + offset, sizeof(w));
        return w;
}

/* What a table says, without any assembler. */
static uint32_t table_says(const SeccompTable *t, const struct seccomp_data *data)
{
        for (;;) {
                uint32_t word = word_at(data, t->offset) & (t->mask ? t->mask : UINT32_MAX);
                const SeccompEntry *hit = NULL;
                for (size_t i = 0; i < t->n; i++)
                        if (word >= t->entries[i].first && word <= t->entries[i].last)
                                hit = &t->entries[i];
                if (!hit)
                        return t->otherwise;
                if (!hit->table)
                        return hit->action;
                t = hit->table;
        }
}

static uint32_t random_state = 1;

static uint32_t next_random(uint32_t below)
{
        random_state = random_state * 1664525U + 1013904223U;
        return (random_state >> 8) % below;
}

static bool agree_on(const SeccompTable *t, const SeccompProgram *p, uint32_t nr, uint64_t argument)
{
        struct seccomp_data data = {.nr = (int) nr, .args = {argument, argument >> 3}};

        return filter_run(p, &data) == table_says(t, &data);
}

/* At the bounds of every entry, one more and one less, and with all kinds of arguments. */
static bool agree(const SeccompTable *t, const SeccompProgram *p)
{
        static const uint64_t arguments[] = {0, 1, 2, 40, 0x10000000, UINT64_MAX, UINT64_C(1) << 32};

        for (size_t k = 0; k < ELEMENTSOF(arguments); k++) {
                if (!agree_on(t, p, 0, arguments[k]) || !agree_on(t, p, UINT32_MAX, arguments[k]))
                        return false;
                for (size_t i = 0; i < t->n; i++)
                        for (uint32_t d = 0; d < 3; d++)
                                if (!agree_on(t, p, t->entries[i].first + d - 1, arguments[k]) ||
                                    !agree_on(t, p, t->entries[i].last + d - 1, arguments[k]))
                                        return false;
        }
        return true;
}

TEST(nothing)
{
        SeccompTable t = {NR, 0, ACTION(1), NULL, 0};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(seccomp_program_assemble(&t, &p));
        ASSERT_EQ(p.n, 1);
        ASSERT_TRUE(agree(&t, &p));
}

TEST(neighbours_share_a_range)
{
        SeccompEntry entries[400];
        SeccompTable t = {NR, 0, ACTION(1), entries, ELEMENTSOF(entries)};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        for (uint32_t i = 0; i < ELEMENTSOF(entries); i++)
                entries[i] = (SeccompEntry){i, i, SECCOMP_RET_ALLOW, NULL};
        ASSERT_OK(seccomp_program_assemble(&t, &p));
        ASSERT_EQ(p.n, 4); /* load, compare, and the two actions */
        ASSERT_TRUE(agree(&t, &p));
}

TEST(whole_range)
{
        SeccompEntry entries[] = {{0, UINT32_MAX, ACTION(2), NULL}};
        SeccompTable t = {NR, 0, ACTION(1), entries, 1};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(seccomp_program_assemble(&t, &p));
        ASSERT_EQ(p.n, 1);
        ASSERT_TRUE(agree(&t, &p));
}

/* A different action for every call: nothing is shared, and jumps are long. */
TEST(long_jumps)
{
        SeccompEntry entries[1000];
        SeccompTable t = {NR, 0, SECCOMP_RET_ALLOW, entries, ELEMENTSOF(entries)};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        for (uint32_t i = 0; i < ELEMENTSOF(entries); i++)
                entries[i] = (SeccompEntry){i, i, ACTION(i), NULL};
        ASSERT_OK(seccomp_program_assemble(&t, &p));
        ASSERT_TRUE(agree(&t, &p));
}

TEST(too_long)
{
        SeccompEntry entries[3000];
        SeccompTable t = {NR, 0, SECCOMP_RET_ALLOW, entries, ELEMENTSOF(entries)};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        for (uint32_t i = 0; i < ELEMENTSOF(entries); i++)
                entries[i] = (SeccompEntry){i, i, ACTION(i), NULL};
        ASSERT_ERR(seccomp_program_assemble(&t, &p), -E2BIG);
        ASSERT_NULL(p.items);
}

TEST(masks_and_nesting)
{
        SeccompEntry none[] = {{0, 0, SECCOMP_RET_ALLOW, NULL}};
        SeccompTable flags = {SECCOMP_ARGUMENT(0), 0x10000002, ACTION(1), none, 1};
        SeccompTable constant = {SECCOMP_ARGUMENT(1), 0xff, ACTION(9), NULL, 0};
        SeccompEntry inner[] = {{0, 0, 0, &flags}, {40, 40, ACTION(4), NULL}, {41, 41, 0, &constant}};
        SeccompTable family = {SECCOMP_ARGUMENT(0), 0, ACTION(5), inner, ELEMENTSOF(inner)};
        SeccompEntry outer[] = {
                        {3, 3, 0, &flags}, {4, 4, 0, &flags}, {5, 5, 0, &family}, {7, 9, 0, &constant}};
        SeccompTable t = {NR, 0, ACTION(6), outer, ELEMENTSOF(outer)};
        _cleanup_seccomp_program_ SeccompProgram p = {};

        ASSERT_OK(seccomp_program_assemble(&t, &p));
        ASSERT_TRUE(agree(&t, &p));
}

/* The upper half of an argument is ignored: the kernel ignores it, too, for the calls in these tables. */
TEST(lower_half)
{
        struct seccomp_data data = {.args = {UINT64_C(0x0000000100000002)}};

        ASSERT_EQ(word_at(&data, SECCOMP_ARGUMENT(0)), 2);
}

static void fill(SeccompTable *t, SeccompEntry *entries, size_t max, uint32_t spread,
                 const SeccompTable *inner)
{
        uint32_t value = next_random(spread);

        t->entries = entries;
        for (t->n = 0; t->n < max; t->n++) {
                uint32_t last = value + next_random(3);
                bool nested = inner && next_random(8) == 0;
                entries[t->n] = (SeccompEntry){value, last, ACTION(next_random(4)), nested ? inner : NULL};
                value = last + 1 + next_random(spread);
        }
}

TEST(random_tables)
{
        SeccompEntry outer[600], inner[30];

        for (int round = 0; round < 300; round++) {
                SeccompTable small = {SECCOMP_ARGUMENT(0), next_random(2) ? 0xffff : 0,
                                      ACTION(next_random(4))};
                SeccompTable t = {NR, 0, ACTION(next_random(4))};
                _cleanup_seccomp_program_ SeccompProgram p = {};

                fill(&small, inner, next_random(ELEMENTSOF(inner)), 50, NULL);
                fill(&t, outer, next_random(round < 20 ? ELEMENTSOF(outer) : 40), 1 + next_random(4),
                     &small);
                int r = seccomp_program_assemble(&t, &p);
                if (r == -E2BIG)
                        continue;
                ASSERT_OK(r);
                ASSERT_TRUE(agree(&t, &p));
        }
}

int main(void)
{
        RUN(nothing);
        RUN(neighbours_share_a_range);
        RUN(whole_range);
        RUN(long_jumps);
        RUN(too_long);
        RUN(masks_and_nesting);
        RUN(lower_half);
        RUN(random_tables);
        return TEST_END();
}
