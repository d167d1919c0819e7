/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* progress: lines that fit. */

#include "stage0/cli/progress.h"
#include "tests/unit/test.h"

#define SECOND 1000000ULL
#define MIB (1ULL << 20)

static char *line(const char *what, uint64_t done, uint64_t total, uint64_t passed, size_t columns,
                  bool utf8)
{
        const Display d = {.terminal = true, .utf8 = utf8, .columns = columns};
        const ProgressItem i = {.what = (char *) what,
                                .phase = "downloading",
                                .done = done,
                                .total = total,
                                .started_usec = 1,
                                .phase_usec = 1};

        return progress_format(&i, &d, 1 + passed);
}

TEST(everything)
{
        _cleanup_free_ char *s = line("example.com/app", 50 * MIB, 100 * MIB, 10 * SECOND, 120, false);

        ASSERT_CONTAINS(s, "example.com/app ");
        ASSERT_CONTAINS(s, "downloading");
        ASSERT_CONTAINS(s, " 50%");
        ASSERT_CONTAINS(s, "############------------");
        ASSERT_CONTAINS(s, "50.0M/100.0M");
        ASSERT_CONTAINS(s, "5.0M/s");
        ASSERT_CONTAINS(s, "10s left");
}

TEST(nothing_known)
{
        _cleanup_free_ char *s = line("x", 0, 0, 0, 80, true), *t = line("x", 3 * MIB, 0, SECOND, 80, true);

        ASSERT_CONTAINS(s, "downloading");
        ASSERT_NOT_CONTAINS(s, "%");
        ASSERT_CONTAINS(t, "3.0M");
        ASSERT_CONTAINS(t, "3.0M/s");
        ASSERT_NOT_CONTAINS(t, "left");
}

TEST(odd_numbers)
{
        _cleanup_free_ char *s = line("x", 10, 5, SECOND, 80, true),
                            *t = line("x", UINT64_MAX, UINT64_MAX, 1, 80, true),
                            *u = line("x", 1, UINT64_MAX, UINT64_MAX / 2, 80, true);

        ASSERT_TRUE(s && t && u);
        ASSERT_NOT_CONTAINS(s, "%");
        ASSERT_CONTAINS(t, "100%");
}

TEST(every_width)
{
        static const char *const names[] = {"x", "example.com/a-name-that-is-longer-than-there-is-room-for",
                                            "\xe5\x83\x8f\xe5\x83\x8f\xe5\x83\x8f\xe5\x83\x8f\xe5\x83\x8f"};

        for (size_t n = 0; n < ELEMENTSOF(names); n++)
                for (size_t columns = 1; columns < 200; columns++) {
                        _cleanup_free_ char *s =
                                        line(names[n], 7 * MIB, 90 * MIB, 3 * SECOND, columns, n != 1);
                        ASSERT_NOT_NULL(s);
                        if (text_width(s) > columns)
                                TEST_FAIL("%zu columns for %zu: %s", text_width(s), columns, s);
                }
}

/* Bytes that are read again do not reduce the count; another phase has a separate count. */
TEST(counts_only_grow)
{
        _cleanup_(progress_freep) Progress *p = NULL;
        const uint64_t *done;

        ASSERT_OK(progress_new(STDERR_FILENO, true, &p));
        progress_update(p, "x", "downloading", 5 * MIB, 10 * MIB, false);
        done = progress_done(p, "x");
        ASSERT_EQ(*done, 5 * MIB);
        progress_update(p, "x", "downloading", 3 * MIB, 10 * MIB, false);
        ASSERT_EQ(*done, 5 * MIB);
        progress_update(p, "x", "unpacking", MIB, 10 * MIB, false);
        ASSERT_EQ(*done, MIB);
}

int main(void)
{
        RUN(everything);
        RUN(nothing_known);
        RUN(odd_numbers);
        RUN(every_width);
        RUN(counts_only_grow);
        return TEST_END();
}
